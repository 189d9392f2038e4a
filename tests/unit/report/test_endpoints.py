"""A report as an endpoints benchmark would have written it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from telemetry.errors import UsageError
from telemetry.report.endpoints import render_summary, result_summary
from telemetry.store.request_log import RequestLogWriter
from telemetry.store.run_directory import RunDirectory
from telemetry.wire import requests as words
from telemetry.wire.cells import cell, edge
from telemetry.wire.feeds import ENDPOINTS_PERCENTILES
from telemetry.wire.report import EarlyStop, Report, RequestFigures
from telemetry.wire.request_log import EndedRequests, LoggedRecords, RequestEntry
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
    """The summary has the expected fields in order.

    The values follow our meaning, by which failed requests are not completed.
    """
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
    """Both rates are over the whole duration if one request completed. Without an extent they are unknown."""
    one = report([counter("issued", 1), counter("completed", 1)], [series("latency", [S], EXTENT)])
    summary = result_summary(one)
    assert summary["legacy_loadgen_window_duration_ns"] is None
    assert (summary["qps"], summary["tps"]) == (0.1, None)
    unknown = result_summary(report([counter("issued", 1)]))
    assert (unknown["qps"], unknown["tps"], unknown["duration_ns"], unknown["latency"]) == (None, None, None, {})


def test_a_block_has_all_percentiles_of_theirs() -> None:
    """A block has all percentiles of the other tool, and our further ones.

    A percentile that the run was not asked for is null.
    """
    block = result_summary(plain())["latency"]
    assert (block["total"], block["min"], block["max"], block["median"]) == (6 * S, S, 3 * S, 2 * S)
    assert block["avg"] == 2 * S
    assert block["std_dev"] == pytest.approx(S)  # n − 1 in the denominator, as theirs
    theirs = [str(float(key)) for key in ENDPOINTS_PERCENTILES]
    assert list(block["percentiles"])[: len(theirs)] == theirs
    assert block["percentiles"]["99.0"] == 3 * S
    assert block["percentiles"]["99.9"] is None
    assert block["percentiles"]["99.99"] == 3 * S


def test_the_histogram_holds_every_value() -> None:
    """The histogram counts every value, in buckets that are the same in every report."""
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
    """Bounds of early stopping follow the percentiles, under their keys, if the report has them."""
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
    """The summary of an interrupted or lossy run has that state or is marked as not complete."""
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


def logged(folder: Path, latencies: Sequence[int], **labels: str) -> RunDirectory:
    """Write the request log of a run in which each answer streams for half of its latency."""
    entries = [
        RequestEntry(number, issued_ns=S, ended_ns=S + ns, first_ns=S + ns // 2, first_tokens=None, output_tokens=3)
        for number, ns in enumerate(latencies)
    ]
    directory = RunDirectory(folder)
    log = RequestLogWriter(directory.requests, resume=True)
    records = [
        EndedRequests("request", labels, entries),
        EndedRequests("request", {"window": "other"}, entries[:1]),
        EndedRequests("request", labels, [RequestEntry(0, issued_ns=S, ended_ns=9 * S, outcome="failed")]),
    ]
    log.append([LoggedRecords("p", 0, 0, [Raw(msgspec.msgpack.encode(record)) for record in records])], 0)
    log.close()
    return directory


LADDER = [number * 1_000 for number in range(1, 251)]


def of_ladder() -> Report:
    tracked = {"window": "tracked"}
    stats = [series("latency", LADDER, EXTENT, **tracked), series("ttft", [ns // 2 for ns in LADDER], **tracked)]
    stats += [series("tpot", [ns // 4 for ns in LADDER], **tracked), series("output_tokens", [3] * 250, **tracked)]
    return report([counter("issued", 251, **tracked), counter("completed", 250, **tracked)], stats)


def test_percentiles_have_the_lower_rank_of_a_benchmark(tmp_path: Path) -> None:
    """All of theirs, from the request log: of 250 values, p99.9 is the one before the largest."""
    said: list[str] = []
    summary = result_summary(of_ladder(), directory=logged(tmp_path, LADDER, window="tracked"), say=said.append)
    wanted = {
        "99.9": 249, "99.0": 247, "97.0": 242, "95.0": 237, "90.0": 225, "80.0": 200, "75.0": 187, "50.0": 125,
        "25.0": 63, "10.0": 25, "5.0": 13, "1.0": 3,
    }  # fmt: skip
    found = summary["latency"]["percentiles"]
    assert {key: found[key] // 1_000 for key in wanted} == wanted
    assert (summary["latency"]["median"], summary["ttft"]["median"], summary["tpot"]["median"]) == (
        125_000,
        62_500,
        31_250,
    )
    assert summary["output_sequence_lengths"]["percentiles"]["99.9"] == 3
    assert said == []
    assert type(found["99.9"]) is int


def test_bounds_of_early_stopping_are_values_from_the_log(tmp_path: Path) -> None:
    """Bounds of early stopping are values from the log and not upper edges of buckets.

    With 250 values, the 140th is above the median with 99 % confidence.
    """
    stops = {"latency": {"50": EarlyStop(bound=150_111.0, needed=11), "99": EarlyStop(needed=662, missing=412)}}
    window = RequestFigures(kind="request", window="tracked", issued=251, early_stopping=stops)
    made = replace(of_ladder(), requests=[RequestFigures(kind="request", issued=251, windows=[window])])
    summary = result_summary(made, directory=logged(tmp_path, LADDER, window="tracked"))
    bounds = summary["latency"]["early_stopping_percentiles"]
    assert bounds["99.0"] is None
    assert bounds["50.0"] in LADDER
    assert 125_000 < bounds["50.0"] < 150_000


@pytest.mark.parametrize("kept", [LADDER[:-1], [*LADDER[:-1], 7], []])
def test_percentiles_of_the_report_stand_in(tmp_path: Path, kept: list[int]) -> None:
    """Percentiles come from the report if the log lacks requests or has others. A sentence says so."""
    said: list[str] = []
    directory = logged(tmp_path, kept, window="tracked")
    summary = result_summary(of_ladder(), directory=directory, say=said.append)
    assert summary["latency"]["percentiles"]["99.0"] == 250_000  # as `series` has it
    assert ["the request log lacks some of these requests" in line for line in said] == [True]


def test_rendered_it_is_strict_json() -> None:
    """The rendered summary is strict JSON with the same content as the dictionary for programs."""
    text = render_summary(plain())
    assert text.endswith("\n")
    assert json.loads(text, parse_constant=pytest.fail) == json.loads(json.dumps(result_summary(plain())))
