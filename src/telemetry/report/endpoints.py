"""A report in the form of an endpoints benchmark's `result_summary.json`, for scripts that read that form.

docs/ENDPOINTS.md has a table of the fields and their differences.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from telemetry.common.distribution import version
from telemetry.common.formatting import printable
from telemetry.common.headline_choice import shown_params
from telemetry.common.wording import instrument
from telemetry.errors import RunDirectoryError, UsageError
from telemetry.history.request_log import RequestLog
from telemetry.history.request_model import RequestCounts, joined, request_counts, together
from telemetry.statistics.early_stopping import bound_rank
from telemetry.statistics.hdr.percentiles import parse_percentile
from telemetry.store.run_directory import RunDirectory
from telemetry.wire import requests as words
from telemetry.wire.cells import edge
from telemetry.wire.feeds import ENDPOINTS_PERCENTILES
from telemetry.wire.report import EarlyRule, EarlyStop, Report, RequestFigures
from telemetry.wire.request_log import RequestEntry
from telemetry.wire.snapshot import Extent, SeriesStat
from telemetry.wire.units import TIME_NS

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
_OUR_RULE: Final = (
    "the request log lacks some of these requests: percentiles have the rank ceil(p · n) of reports, not the lower "
    "rank of a benchmark"
)


def result_summary(
    report: Report,
    *,
    kind: str = "",
    window: str | None = None,
    legacy_window: bool = True,
    directory: RunDirectory | None = None,
    say: Callable[[str], object] = lambda sentence: None,
) -> dict[str, Any]:
    """Return the summary of one kind of request.

    `kind` is its name, or name{label=value,…} as tables show it. The default is the only kind, or the one called
    `request`.

    The summary covers the requests in a tracking window; all windows if there are several; all requests if there is
    none. `window` selects one window. With `legacy_window`, qps and tps use LoadGen's definition if there is enough
    data. Percentiles are those of a benchmark, computed from the request log in `directory`, which is that of the
    report by default. If the log lacks some of the requests, they are those of the report, and `say` gets a
    sentence. Values are those of JSON; an unknown value is None. Blocks on the disk. Raises UsageError if the run
    has no such requests.
    """
    whole = _of_kind(report, kind)
    chosen = _tracked(whole, window)
    parts = chosen.windows or [chosen]
    extents = [part.series[words.LATENCY].extent for part in parts if words.LATENCY in part.series]
    stops = _early_stopping(report, whole, chosen)
    snapshot = report.snapshot
    latency = chosen.series.get(words.LATENCY)
    duration_ns = _duration_ns(extents)
    legacy_ns = _legacy_ns(latency, chosen.completed) if legacy_window else None
    logged = _logged(report, chosen, directory)
    values = {block: _all_values(chosen.series.get(word), logged.get(block)) for block, word in BLOCKS.items()}
    if any(values[block] is None and _has_values(chosen.series.get(word)) for block, word in BLOCKS.items()):
        say(_OUR_RULE)
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
        bounds = stops.get(word) if block in _BOUNDED else None
        summary[block] = _block(chosen.series.get(word), bounds, values[block], report.early_rule)
    summary["legacy_loadgen_window_duration_ns"] = legacy_ns
    summary |= _throughput(chosen, duration_ns, legacy_ns)
    summary["finish_reason_counts"] = dict(chosen.finishes)
    summary["run_config"] = shown_params(snapshot.params) or None
    return summary


def render_summary(report: Report, kind: str = "", **options: Any) -> str:
    """Return `result_summary` as strict JSON, ending with a newline; all its numbers are finite.

    `options` are those of `result_summary`. Raises UsageError.
    """
    summary = result_summary(report, kind=kind, **options)
    return msgspec.json.format(msgspec.json.encode(summary), indent=2).decode() + "\n"


# --- selection of requests -----------------------------------------------------------------------


def _of_kind(report: Report, kind: str) -> RequestCounts:
    kinds = request_counts(report.snapshot)
    wanted = kind or (_KIND if any(requests.kind == _KIND for requests in kinds) else "")
    exact = [requests for requests in kinds if kind == _shown(requests)]  # `request` beside `request{session=2}`
    fitting = exact or [requests for requests in kinds if wanted in ("", requests.kind, _shown(requests))]
    if len(fitting) == 1:
        return fitting[0]
    names = ", ".join(map(_shown, kinds))
    if not fitting:
        what = f"requests called {printable(kind)!r}" if kind else "requests"
        raise UsageError(f"the run has no {what}", hint=f"it has {names}" if names else "")
    raise UsageError(
        f"the run has {len(fitting)} kinds of requests, and a summary covers one: {names}",
        hint="choose one with --requests NAME or result_summary(report, kind=…)",
    )


def _shown(requests: RequestCounts) -> str:
    return instrument(requests.kind, requests.labels)


def _tracked(whole: RequestCounts, window: str | None) -> RequestCounts:
    """Return the requests that a benchmark would have tracked."""
    if window is not None:
        for part in whole.windows:
            if part.window == window:
                return part
        raise UsageError(f"the run has no tracking window {printable(window)!r}")
    tracked = [part for part in whole.windows if part.window]
    if len(tracked) == 1:
        return tracked[0]
    return _added(whole, tracked) if tracked and len(tracked) < len(whole.windows) else whole


def _added(whole: RequestCounts, tracked: Sequence[RequestCounts]) -> RequestCounts:
    """Return the sum of all windows, without requests outside of them."""
    names = dict.fromkeys(word for part in tracked for word in part.series)
    return replace(
        whole,
        issued=sum(part.issued for part in tracked),
        completed=sum(part.completed for part in tracked),
        failed=_sums([part.failed for part in tracked]),
        finishes=_sums([part.finishes for part in tracked]),
        series={word: together([part.series[word] for part in tracked if word in part.series]) for word in names},
        windows=tracked,
    )


def _sums(parts: Sequence[Mapping[str, int | float]]) -> dict[str, int | float]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: sum(part.get(name, 0) for part in parts) for name in names}


def _early_stopping(report: Report, whole: RequestCounts, chosen: RequestCounts) -> dict[str, dict[str, EarlyStop]]:
    """Return the bounds of early stopping from the report, if it has them for exactly these requests."""

    def is_it(figures: RequestFigures, counts: RequestCounts) -> bool:
        return (figures.kind, figures.labels) == (counts.kind, dict(counts.labels))

    figures = [entry for entry in report.requests if is_it(entry, whole)]
    parts = [part for entry in figures for part in (entry, *entry.windows) if part.window == chosen.window]
    if len(parts) != 1 or parts[0].issued != chosen.issued:
        return {}
    return parts[0].early_stopping


# --- percentiles from the request log ------------------------------------------------------------


def _logged(
    report: Report, chosen: RequestCounts, directory: RunDirectory | None
) -> Mapping[str, array[int] | array[float]]:
    """Return the values of each block, request by request. Empty for a time range, and without a request log."""
    if report.time_range is not None and report.time_range.found:
        return {}
    own, windows = dict(chosen.labels), {part.window for part in chosen.windows or [chosen]} - {None}
    values = {block: array("d" if block == "tpot" else "q") for block in BLOCKS}
    labels: Mapping[str, str] | None = None
    is_chosen = False
    try:
        if directory is None:
            if not report.directory:
                return {}
            directory = RunDirectory.open(Path(report.directory))
        for request in RequestLog(directory):
            if request.labels is not labels:
                labels = request.labels
                others = {key: value for key, value in labels.items() if key != words.WINDOW}
                is_tracked = not windows or labels.get(words.WINDOW, "") in windows
                is_chosen = request.kind == chosen.kind and others == own and is_tracked
            if is_chosen and request.entry.outcome == "completed":
                _add(values, request.entry)
    except (RunDirectoryError, OverflowError, TypeError):  # a damaged log, or tokens that are no whole numbers
        return {}
    return values


def _add(values: Mapping[str, array[Any]], entry: RequestEntry) -> None:
    """Append the figures of a completed request to the values of their series: latency, time to first token …"""
    values["latency"].append(entry.ended_ns - entry.issued_ns)
    tokens, first_ns = entry.output_tokens, entry.first_ns
    if first_ns is not None and first_ns >= entry.issued_ns:
        values["ttft"].append(first_ns - entry.issued_ns)
        later = (tokens or 0) - (1 if entry.first_tokens is None else entry.first_tokens)
        if later > 0 and first_ns <= entry.ended_ns:
            values["tpot"].append((entry.ended_ns - first_ns) / later)
    if entry.input_tokens is not None:
        values["input_sequence_lengths"].append(entry.input_tokens)
    if tokens is not None:
        values["output_sequence_lengths"].append(tokens)


def _all_values(stat: SeriesStat | None, logged: array[Any] | None) -> NDArray[Any] | None:
    """Return logged values in ascending order; None unless they are all values of the series."""
    if stat is None or not logged or len(logged) != stat.count:
        return None
    ns = TIME_NS.get(stat.unit, 1)
    values = np.sort(np.frombuffer(logged, logged.typecode))
    is_same = (values[0], values[-1]) == (_times(stat.min, ns), _times(stat.max, ns))
    return values if is_same else None


def _lower(values: NDArray[Any], keys: Iterable[str]) -> dict[str, int | float]:
    """Return percentiles of the lower rank, floor(p · (n − 1)) from 0, by key."""
    wanted = list(keys)
    percentiles = np.percentile(values, [float(key) for key in wanted], method="lower")
    return dict(zip(map(_key, wanted), percentiles.tolist(), strict=True))


def _bound(values: NDArray[Any], key: str, rule: EarlyRule) -> int | float | None:
    rank = bound_rank(parse_percentile(key), values.size, rule.confidence, rule.tolerance)
    return None if rank is None else values[rank - 1].item()


def _has_values(stat: SeriesStat | None) -> bool:
    return stat is not None and stat.count > 0


# --- their figures -------------------------------------------------------------------------------


def _duration_ns(extents: Sequence[Extent | None]) -> int | None:
    """Return the sum of the windows' durations, each from the first issue to the last completion."""
    if not extents or joined(extents) is None:
        return None
    return sum(extent.end_ns - extent.first_ns for extent in extents if extent is not None) or None


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
    is_complete = tokens is not None and tokens.count and tokens.count >= chosen.completed
    counted = chosen.completed - (legacy_ns is not None)
    return {
        "qps": counted / (spent_ns / 1e9),
        "tps": tokens.total / (spent_ns / 1e9) if tokens is not None and is_complete else None,
    }


def _block(
    stat: SeriesStat | None, stops: Mapping[str, EarlyStop] | None, values: NDArray[Any] | None, rule: EarlyRule
) -> dict[str, Any]:
    """Return the block of a series, with durations in nanoseconds. Empty without values.

    Percentiles and bounds are those of `values`, all values of the series in ascending order. Without them they are
    those of the report.
    """
    if stat is None or not stat.count:
        return {}
    ns = TIME_NS.get(stat.unit, 1)

    def scaled(value: int | float | None) -> int | float | None:
        return _times(value, ns)

    percentiles = {_key(key): scaled(value) for key, value in stat.percentiles.items()}
    if values is not None:
        percentiles |= _lower(values, [*ENDPOINTS_PERCENTILES, *stat.percentiles])
    grid = {_key(key): percentiles.get(_key(key)) for key in ENDPOINTS_PERCENTILES}
    cell = stat.cell_unit * ns
    block: dict[str, Any] = {
        "total": scaled(stat.total),
        "min": scaled(stat.min),
        "max": scaled(stat.max),
        "median": grid["50.0"],
        "avg": scaled(stat.mean),
        "std_dev": scaled(_sample_deviation(stat)),
        "percentiles": grid | percentiles,
    }
    if stops:
        block["early_stopping_percentiles"] = {
            _key(key): scaled(stop.bound) if values is None else _bound(values, key, rule)
            for key, stop in stops.items()
        }
    block["histogram"] = {
        "buckets": [[edge(index) * cell, edge(index + 1) * cell] for index, _ in stat.histogram],
        "counts": [count for _, count in stat.histogram],
    }
    return block


def _times(value: int | float | None, ns: int) -> int | float | None:
    return value if value is None or ns == 1 else value * ns


def _key(percentile: str) -> str:
    """Return the key that a benchmark uses: 99 is "99.0"."""
    return str(float(percentile))


def _sample_deviation(stat: SeriesStat) -> float | None:
    """Return the sample standard deviation. `stat.stddev` treats the values as the whole population."""
    if stat.stddev is None or stat.count < 2:
        return 0.0 if stat.count == 1 else None
    return stat.stddev * math.sqrt(stat.count / (stat.count - 1))
