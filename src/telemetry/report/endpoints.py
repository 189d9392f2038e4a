"""A report in the form of an endpoints benchmark's `result_summary.json`, for scripts that read that form.

docs/ENDPOINTS.md has a table of the fields and their differences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from telemetry.distribution import version
from telemetry.errors import UsageError
from telemetry.formatting import printable
from telemetry.headline_choice import shown_params
from telemetry.request_model import RequestCounts, joined, request_counts, together
from telemetry.wire import requests as words
from telemetry.wire.cells import edge
from telemetry.wire.report import EarlyStop, Report, RequestFigures
from telemetry.wire.snapshot import Extent, SeriesStat
from telemetry.wire.units import TIME_NS
from telemetry.wording import instrument

PERCENTILES: Final = ("99.9", "99", "97", "95", "90", "80", "75", "50", "25", "10", "5", "1")
"""Percentiles that an endpoints benchmark reports. A percentile that the run did not compute is null."""
BLOCKS: Final = {
    "ttft": words.TTFT,
    "tpot": words.TPOT,
    "latency": words.LATENCY,
    "input_sequence_lengths": words.INPUT_TOKENS,
    "output_sequence_lengths": words.OUTPUT_TOKENS,
}
"""Map of block in the summary → word of a request metric."""
_BOUNDED: Final = frozenset({"ttft", "tpot", "latency"})
"""Blocks with the bounds of early stopping."""
_KIND: Final = "request"


def result_summary(
    report: Report, *, kind: str = "", window: str | None = None, legacy_window: bool = True
) -> dict[str, Any]:
    """Return the summary of one kind of request.

    `kind` is its name, or name{label=value,…} as tables show it. The default is the only kind, or the one called
    `request`.

    The summary covers the requests in a tracking window; all windows if there are several; all requests if there is
    none. `window` selects one window. With `legacy_window`, qps and tps use LoadGen's definition if there is enough
    data. Values are those of JSON; an unknown value is None. Raises UsageError if the run has no such requests.
    """
    whole = _of_kind(report, kind)
    chosen = _tracked(whole, window)
    parts = chosen.windows or [chosen]
    extents = [one.series[words.LATENCY].extent for one in parts if words.LATENCY in one.series]
    stops = _early_stopping(report, whole, chosen)
    snapshot = report.snapshot
    latency = chosen.series.get(words.LATENCY)
    duration_ns = _duration_ns(extents)
    legacy_ns = _legacy_ns(latency, chosen.completed) if legacy_window else None
    summary: dict[str, Any] = {
        "version": f"telemetry {version()}",
        "git_sha": None,
        "test_started_at": snapshot.started_ns,
        "n_samples_issued": chosen.issued,
        "n_samples_completed": chosen.completed,
        "n_samples_failed": chosen.failures,
        "duration_ns": duration_ns,
        "state": snapshot.state.lower(),
        "complete": snapshot.state == "COMPLETE" and snapshot.completeness == "complete",
    }
    for block, word in BLOCKS.items():
        summary[block] = _block(chosen.series.get(word), stops.get(word) if block in _BOUNDED else None)
    summary["legacy_loadgen_window_duration_ns"] = legacy_ns
    summary |= _throughput(chosen, duration_ns, legacy_ns)
    summary["finish_reason_counts"] = dict(chosen.finishes)
    summary["run_config"] = shown_params(snapshot.params) or None
    return summary


def render_summary(report: Report, kind: str = "") -> str:
    """Return `result_summary` as strict JSON, ending with a newline; all its numbers are finite.

    Raises UsageError.
    """
    return msgspec.json.format(msgspec.json.encode(result_summary(report, kind=kind)), indent=2).decode() + "\n"


# --- selection of requests -----------------------------------------------------------------------


def _of_kind(report: Report, kind: str) -> RequestCounts:
    found = request_counts(report.snapshot)
    wanted = kind or (_KIND if any(one.kind == _KIND for one in found) else "")
    exact = [one for one in found if kind == _shown(one)]  # `request` beside `request{session=2}`
    fitting = exact or [one for one in found if wanted in ("", one.kind, _shown(one))]
    if len(fitting) == 1:
        return fitting[0]
    names = ", ".join(map(_shown, found))
    if not fitting:
        what = f"requests called {printable(kind)!r}" if kind else "requests"
        raise UsageError(f"the run has no {what}", hint=f"it has {names}" if names else "")
    raise UsageError(
        f"the run has {len(fitting)} kinds of requests, and a summary covers one: {names}",
        hint="choose one with --requests NAME or result_summary(report, kind=…)",
    )


def _shown(one: RequestCounts) -> str:
    return instrument(one.kind, one.labels)


def _tracked(whole: RequestCounts, window: str | None) -> RequestCounts:
    """Return the requests that a benchmark would have tracked."""
    if window is not None:
        for one in whole.windows:
            if one.window == window:
                return one
        raise UsageError(f"the run has no tracking window {printable(window)!r}")
    tracked = [one for one in whole.windows if one.window]
    if len(tracked) == 1:
        return tracked[0]
    return _added(whole, tracked) if tracked and len(tracked) < len(whole.windows) else whole


def _added(whole: RequestCounts, tracked: Sequence[RequestCounts]) -> RequestCounts:
    """Return the sum of all windows, without requests outside of them."""
    known = dict.fromkeys(word for one in tracked for word in one.series)
    return replace(
        whole,
        issued=sum(one.issued for one in tracked),
        completed=sum(one.completed for one in tracked),
        failed=_sums([one.failed for one in tracked]),
        finishes=_sums([one.finishes for one in tracked]),
        series={word: together([one.series[word] for one in tracked if word in one.series]) for word in known},
        windows=tracked,
    )


def _sums(parts: Sequence[Mapping[str, int | float]]) -> dict[str, int | float]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: sum(part.get(name, 0) for part in parts) for name in names}


def _early_stopping(report: Report, whole: RequestCounts, chosen: RequestCounts) -> dict[str, dict[str, EarlyStop]]:
    """Return the bounds of early stopping from the report, if it has them for exactly these requests."""

    def is_it(figures: RequestFigures, counts: RequestCounts) -> bool:
        return (figures.kind, figures.labels) == (counts.kind, dict(counts.labels))

    figures = [one for one in report.requests if is_it(one, whole)]
    parts = [part for one in figures for part in (one, *one.windows) if part.window == chosen.window]
    if len(parts) != 1 or parts[0].issued != chosen.issued:
        return {}
    return parts[0].early_stopping


# --- their figures -------------------------------------------------------------------------------


def _duration_ns(extents: Sequence[Extent | None]) -> int | None:
    """Return the sum of the windows' durations, each from the first issue to the last completion."""
    if not extents or joined(extents) is None:
        return None
    return sum(one.end_ns - one.first_ns for one in extents if one is not None) or None


def _legacy_ns(latency: SeriesStat | None, completed: int | float) -> int | None:
    """Return LoadGen's duration: from the first issue to the completion of the request issued last.

    None for fewer than two completions, which make no rate.
    """
    extent = latency.extent if latency is not None else None
    if extent is None or completed < 2:
        return None
    spent_ns = extent.last_done_ns - extent.first_ns
    return spent_ns if spent_ns > 0 else None


def _throughput(chosen: RequestCounts, duration_ns: int | None, legacy_ns: int | None) -> dict[str, float | None]:
    """Return requests and tokens per second over the same duration."""
    spent_ns = legacy_ns or duration_ns
    if spent_ns is None:
        return {"qps": None, "tps": None}
    tokens = chosen.series.get(words.OUTPUT_TOKENS)
    known = tokens is not None and tokens.count and tokens.count >= chosen.completed
    counted = chosen.completed - (legacy_ns is not None)
    return {
        "qps": counted / (spent_ns / 1e9),
        "tps": tokens.total / (spent_ns / 1e9) if tokens is not None and known else None,
    }


def _block(stat: SeriesStat | None, stops: Mapping[str, EarlyStop] | None) -> dict[str, Any]:
    """Return the block of a series, with durations in nanoseconds. Empty without values."""
    if stat is None or not stat.count:
        return {}
    ns = TIME_NS.get(stat.unit, 1)

    def scaled(value: int | float | None) -> int | float | None:
        return value if value is None or ns == 1 else value * ns

    found = {_key(key): scaled(value) for key, value in stat.percentiles.items()}
    grid = {_key(key): found.get(_key(key)) for key in PERCENTILES}
    cell = stat.cell_unit * ns
    block: dict[str, Any] = {
        "total": scaled(stat.total),
        "min": scaled(stat.min),
        "max": scaled(stat.max),
        "median": grid["50.0"],
        "avg": scaled(stat.mean),
        "std_dev": scaled(_sample_deviation(stat)),
        "percentiles": grid | found,
    }
    if stops:
        block["early_stopping_percentiles"] = {_key(key): scaled(stop.bound) for key, stop in stops.items()}
    block["histogram"] = {
        "buckets": [[edge(index) * cell, edge(index + 1) * cell] for index, _ in stat.histogram],
        "counts": [count for _, count in stat.histogram],
    }
    return block


def _key(percentile: str) -> str:
    """Return the key that a benchmark uses: 99 is "99.0"."""
    return str(float(percentile))


def _sample_deviation(stat: SeriesStat) -> float | None:
    """Return the sample standard deviation. `stat.stddev` treats the values as the whole population."""
    if stat.stddev is None or stat.count < 2:
        return 0.0 if stat.count == 1 else None
    return stat.stddev * math.sqrt(stat.count / (stat.count - 1))
