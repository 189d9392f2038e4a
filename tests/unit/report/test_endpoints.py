"""A report as an endpoints benchmark would have written it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from msgspec.structs import replace

from telemetry.errors import UsageError
from telemetry.report.endpoints import PERCENTILES, render_summary, result_summary
from telemetry.wire import requests as words
from telemetry.wire.cells import cell, edge
from telemetry.wire.report import EarlyStop, Report, RequestFigures
from telemetry.wire.snapshot import CounterStat, Extent, MetricsSnapshot, SeriesStat

S = 1_000_000_000
FIELDS = [
    "version", "git_sha", "test_started_at", "n_samples_issued", "n_samples_completed", "n_samples_failed",
    "duration_ns", "state", "complete", "ttft", "tpot", "latency", "input_sequence_lengths",
    "output_sequence_lengths", "legacy_loadgen_window_duration_ns", "qps", "tps", "finish_reason_counts",
    "run_config",
]  # fmt: skip


def counter(word: str, value: int, kind: str = "request", **labels: str) -> CounterStat:
    return CounterStat(name=f"{kind}.{word}", labels=labels, unit="requests", value=value)


def series(word: str, values: list[int], extent: Extent | None = None, **labels: str) -> SeriesStat:
    kind, unit = words.INSTRUMENTS[word]
    assert kind == "series"
    ordered, mean = sorted(values), sum(values) / len(values)
    cells: dict[int, int] = {}
    for value in values:
        cells[cell(value)] = cells.get(cell(value), 0) + 1
    return SeriesStat(
        name=f"request.{word}",
        labels=labels,
        unit=unit,
        count=len(values),
        total=sum(values),
        min=ordered[0],
        max=ordered[-1],
        mean=mean,
        stddev=math.sqrt(sum((value - mean) ** 2 for value in values) / len(values)),
        percentiles={"50": ordered[(len(values) - 1) // 2], "99": ordered[-1], "99.99": ordered[-1]},
        exact=True,
        histogram=sorted(cells.items()),
        cell_unit=1.0,
        extent=extent,
    )


def report(counters: list[CounterStat], stats: list[SeriesStat] | None = None, **more: Any) -> Report:
    snapshot = MetricsSnapshot(
        run_id="r",
        name="bench",
        state=more.pop("state", "COMPLETE"),
        completeness=more.pop("completeness", "complete"),
        started_ns=17,
        counters=counters,
        series=stats or [],
        params=more.pop("params", {}),
    )
    return Report(snapshot=snapshot, source="file", **more)


LATENCIES = [S, 2 * S, 3 * S]
EXTENT = Extent(first_ns=0, last_ns=4 * S, last_done_ns=5 * S, end_ns=10 * S, inside=2)


def plain(**labels: str) -> Report:
    return report(
        [
            counter("issued", 6, **labels),
            counter("completed", 2, finish="stop", **labels),
            counter("completed", 1, finish="length", **labels),
            counter("failed", 1, reason="Timeout", **labels),
            counter("failed", 1, reason="Reset", **labels),
        ],
        [series("latency", LATENCIES, EXTENT, **labels), series("output_tokens", [10, 20, 30], **labels)],
        params={"rate": 5},
    )


@pytest.mark.parametrize("labels", [{}, {"window": "tracked"}])
def test_the_fields_have_their_names_and_order(labels: dict[str, str]) -> None:
    """And what they say is ours: failures are no completions."""
    summary = result_summary(plain(**labels))
    assert list(summary) == FIELDS
    assert (summary["n_samples_issued"], summary["n_samples_completed"], summary["n_samples_failed"]) == (6, 3, 2)
    assert summary["finish_reason_counts"] == {"stop": 2, "length": 1}
    assert (summary["state"], summary["complete"], summary["test_started_at"]) == ("complete", True, 17)
    assert summary["run_config"] == {"rate": 5}
    assert (summary["ttft"], summary["tpot"], summary["input_sequence_lengths"]) == ({}, {}, {})


def test_throughput_is_loadgens_unless_told_otherwise() -> None:
    """Requests and tokens always share their time."""
    legacy = result_summary(plain())
    assert legacy["legacy_loadgen_window_duration_ns"] == 5 * S
    assert (legacy["qps"], legacy["tps"], legacy["duration_ns"]) == ((3 - 1) / 5, 60 / 5, 10 * S)
    native = result_summary(plain(), legacy_window=False)
    assert native["legacy_loadgen_window_duration_ns"] is None
    assert (native["qps"], native["tps"]) == (3 / 10, 60 / 10)


def test_one_completion_makes_no_loadgen_rate() -> None:
    """Then both are of the whole duration; without an extent nothing is known."""
    one = report([counter("issued", 1), counter("completed", 1)], [series("latency", [S], EXTENT)])
    summary = result_summary(one)
    assert summary["legacy_loadgen_window_duration_ns"] is None
    assert (summary["qps"], summary["tps"]) == (0.1, None)
    unknown = result_summary(report([counter("issued", 1)]))
    assert (unknown["qps"], unknown["tps"], unknown["duration_ns"], unknown["latency"]) == (None, None, None, {})


def test_a_block_has_all_percentiles_of_theirs() -> None:
    """Those that the run was not asked for are null, and more of ours stay."""
    block = result_summary(plain())["latency"]
    assert (block["total"], block["min"], block["max"], block["median"]) == (6 * S, S, 3 * S, 2 * S)
    assert block["avg"] == 2 * S
    assert block["std_dev"] == pytest.approx(S)  # n − 1 in the denominator, as theirs
    assert list(block["percentiles"])[: len(PERCENTILES)] == [str(float(key)) for key in PERCENTILES]
    assert block["percentiles"]["99.0"] == 3 * S
    assert block["percentiles"]["99.9"] is None
    assert block["percentiles"]["99.99"] == 3 * S


def test_the_histogram_holds_every_value() -> None:
    """In buckets that are the same in every report."""
    histogram = result_summary(plain())["latency"]["histogram"]
    assert sum(histogram["counts"]) == 3
    for value in LATENCIES:
        assert [float(edge(cell(value))), float(edge(cell(value) + 1))] in histogram["buckets"]


def test_one_value_has_no_deviation() -> None:
    """Rather than none at all."""
    one = report([counter("issued", 1), counter("completed", 1)], [series("latency", [S], EXTENT)])
    assert result_summary(one)["latency"]["std_dev"] == 0.0


def test_only_what_was_tracked_counts() -> None:
    """One window, or several together without what was outside."""
    outside = [counter("issued", 5), counter("completed", 5)]
    before = series("latency", [9 * S] * 5, EXTENT)
    one = plain(window="tracked").snapshot
    both = report([*outside, *one.counters], [before, *one.series])
    assert result_summary(both)["n_samples_issued"] == 6
    assert result_summary(both)["latency"]["max"] == 3 * S
    assert result_summary(both, window="")["n_samples_issued"] == 5
    other = plain(window="second").snapshot
    later = Extent(first_ns=20 * S, last_ns=21 * S, last_done_ns=23 * S, end_ns=24 * S)
    moved = [replace(stat, extent=later if stat.extent else None) for stat in other.series]
    three = report([*outside, *one.counters, *other.counters], [before, *one.series, *moved])
    summary = result_summary(three)
    assert (summary["n_samples_issued"], summary["n_samples_completed"], summary["n_samples_failed"]) == (12, 6, 4)
    assert summary["finish_reason_counts"] == {"stop": 4, "length": 2}
    assert summary["latency"]["total"] == 12 * S
    assert summary["duration_ns"] == 10 * S + 4 * S
    assert summary["legacy_loadgen_window_duration_ns"] == 23 * S
    assert result_summary(three, window="second")["duration_ns"] == 4 * S
    with pytest.raises(UsageError, match="no tracking window"):
        result_summary(three, window="third")


def test_early_stopping_bounds_are_the_reports() -> None:
    """Under their keys, after the percentiles, and only where the report has them."""
    stops = {
        "latency": {"50": EarlyStop(bound=2.5 * S, needed=11), "99": EarlyStop(needed=662, missing=659)},
        "output_tokens": {"50": EarlyStop(bound=20, needed=11)},
    }
    figures = RequestFigures(kind="request", issued=6, early_stopping=stops)
    summary = result_summary(replace(plain(), requests=[figures]))
    assert summary["latency"]["early_stopping_percentiles"] == {"50.0": 2.5 * S, "99.0": None}
    keys = list(summary["latency"])
    assert keys.index("early_stopping_percentiles") == keys.index("percentiles") + 1
    assert "early_stopping_percentiles" not in summary["output_sequence_lengths"]
    assert "early_stopping_percentiles" not in result_summary(plain())["latency"]


def test_a_run_that_is_not_complete_says_so() -> None:
    """Whatever it lacks."""
    assert result_summary(report([counter("issued", 1)], state="INTERRUPTED"))["state"] == "interrupted"
    assert result_summary(report([counter("issued", 1)], completeness="lossy"))["complete"] is False


def test_which_requests_are_meant() -> None:
    """The only kind, the one that is called so, or the one that was named."""
    others = [counter("issued", 1, kind="embed"), counter("issued", 2, kind="chat")]
    assert result_summary(report(others), kind="chat")["n_samples_issued"] == 2
    assert result_summary(report(others[:1]))["n_samples_issued"] == 1
    assert result_summary(report([*others, counter("issued", 3)]))["n_samples_issued"] == 3
    with pytest.raises(UsageError, match="embed, chat"):
        result_summary(report(others))
    models = [counter("issued", number, kind="chat", model=model) for number, model in ((3, "a"), (4, "b"))]
    assert result_summary(report(models), kind="chat{model=b}")["n_samples_issued"] == 4
    with pytest.raises(UsageError, match=r"chat\{model=a\}, chat\{model=b\}"):
        result_summary(report(models), kind="chat")
    with pytest.raises(UsageError, match="no requests called 'x'"):
        result_summary(report(others), kind="x")
    with pytest.raises(UsageError, match="the run has no requests"):
        result_summary(report([]))


def test_rendered_it_is_strict_json() -> None:
    """What a script reads is what a program gets."""
    text = render_summary(plain())
    assert text.endswith("\n")
    assert json.loads(text, parse_constant=pytest.fail) == json.loads(json.dumps(result_summary(plain())))
