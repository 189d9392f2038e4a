"""Figures for pictures of built runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.unit.history.runs import Making, Row

from telemetry.history.pictures import collector
from telemetry.history.run import open_run, with_history
from telemetry.history.time_range import TimeRangeChoice
from telemetry.wire.events import Define
from telemetry.wire.pictures import Pictures
from telemetry.wire.report import Report

DEFINITIONS = (
    Define(0, "delay", "series", "ms"),
    Define(1, "served", "counter"),
    Define(2, "load", "gauge", "%", {"core": "0"}),
    Define(3, "chat.issued", "counter", "requests"),
    Define(4, "chat.completed", "counter", "requests"),
    Define(5, "chat.failed", "counter", "requests", {"reason": "timeout"}),
    Define(6, "chat.expired", "counter", "requests"),
    Define(7, "chat.output_tokens", "series", "tokens", {"window": "measured"}),
    Define(8, "chat.good", "counter", "requests"),
    Define(9, "chat.latency", "series", "ns", {"window": "measured"}),
    Define(10, "span_self.work", "counter", "ms"),
    Define(11, "chat.completed", "counter", "requests", {"finish": "stop", "window": "measured"}),
    Define(12, "size", "series", "bytes"),
)


def seconds(number: int) -> list[Sequence[Row] | None]:
    """Five requests issued a second, of which three complete a second later, one fails and one stays."""
    rows: list[Sequence[Row] | None] = []
    for second in range(number):
        row: list[Row] = [(3, 5.0), (1, 2.0), (10, 1.0), *((0, 1.0 + at) for at in range(20)), (12, 4.0)]
        if second:
            row += [(4, 2.0), (11, 1.0), (5, 1.0), (7, 10.0), (7, 30.0), (8, 2.0), (9, 5e6)]
        if second % 2:
            row.append((2, float(second)))
        rows.append(row)
    return rows


def pictures(report: Report) -> Pictures:
    assert report.pictures is not None
    return report.pictures


def test_figures_over_time(tmp_path: Path) -> None:
    """Time steps are those of the series over time; each figure has one entry for each of them."""
    report = Making(tmp_path, DEFINITIONS).run(seconds(12)).report(pictures=True)
    found = pictures(report)
    assert found.edges_s == [float(second) for second in range(13)]
    points = report.over_time[0].points
    assert [point.start_s for point in points] == found.edges_s[:-1]
    [chat] = found.requests
    assert (chat.kind, chat.labels) == ("chat", {})
    assert chat.completed_per_s == [0.0, *(3.0 for _ in range(11))]
    assert chat.failed_per_s == [0.0, *(1.0 for _ in range(11))]
    assert chat.in_flight == [5.0 + second for second in range(12)]
    assert chat.output_tokens_per_s == [0.0, *(40.0 for _ in range(11))]
    assert chat.good_per_s == [0.0, *(2.0 for _ in range(11))]
    assert [(one.name, one.rates) for one in found.counters] == [("served", [2.0] * 12)]
    [gauge] = found.gauges
    assert (gauge.name, gauge.labels, gauge.unit) == ("load", {"core": "0"}, "%")
    assert gauge.values == [None, 1.0, None, 3.0, None, 5.0, None, 7.0, None, 9.0, None, 11.0]


def test_spread_of_values(tmp_path: Path) -> None:
    """Heat maps are of durations, latencies of requests first; distributions are of the series over time."""
    report = Making(tmp_path, DEFINITIONS).run(seconds(12)).report(pictures=True)
    found = pictures(report)
    assert [(one.name, one.unit) for one in found.heat_maps] == [("chat.latency", "ns"), ("delay", "ms")]
    latency, delay = found.heat_maps
    assert [sum(counts) for counts in delay.counts] == [20] * 12
    assert latency.counts == [[], *([[1]] * 11)]
    assert [one.name for one in found.distributions] == [one.name for one in report.over_time]
    delays = next(one for one in found.distributions if one.name == "delay")
    assert (sum(delays.counts), delays.below, delays.above) == (240, 0, 0)
    assert delays.scale == "log"


def test_a_time_range_begins_with_the_requests_in_flight(tmp_path: Path) -> None:
    """Requests issued before it are in flight at its beginning, even if its edge is inside an interval."""
    run = Making(tmp_path, DEFINITIONS).run(seconds(130))
    for from_s, first in ((65.0, 65), (65.5, 65)):
        report = run.time_range(TimeRangeChoice(from_s=from_s, to_s=70.0), pictures=True)
        found = pictures(report)
        assert found.edges_s == [float(second) for second in range(first, 71)]
        assert found.requests[0].in_flight == [5.0 + second for second in range(first, 70)]
        assert (
            report.pictures == run.time_range(TimeRangeChoice(from_s=65.0, to_s=70.0), 1.0, pictures=True).pictures
        )
        assert sum(found.distributions[0].counts) == 100
    assert run.time_range(TimeRangeChoice(from_s=65.0)).pictures is None
    assert run.time_range(TimeRangeChoice(), pictures=True) == run.report(pictures=True)
    assert run.time_range(TimeRangeChoice(from_s=0.0, to_s=130.0), pictures=True).pictures is not None


def test_a_gap_is_a_step_without_data(tmp_path: Path) -> None:
    """The history knows nothing of three seconds: no figure is made up for them, or for requests after them."""
    rows = seconds(10)
    rows[4:7] = [None, None, None]
    found = pictures(Making(tmp_path, DEFINITIONS).run(rows).report(pictures=True))
    assert found.edges_s == [0.0, 1.0, 2.0, 3.0, 4.0, 7.0, 8.0, 9.0, 10.0]
    assert found.counters[0].rates == [2.0, 2.0, 2.0, 2.0, None, 2.0, 2.0, 2.0]
    assert found.gauges[0].values == [None, 1.0, None, 3.0, None, 7.0, None, 9.0]
    assert found.requests[0].in_flight == [5.0, 6.0, 7.0, 8.0, None, None, None, None]
    assert found.heat_maps[0].counts[4] == []


def test_only_the_busiest_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The counters, gauges and kinds with the most events are drawn if not all fit in a page."""
    monkeypatch.setattr(collector, "COUNTERS", 1)
    monkeypatch.setattr(collector, "GAUGES", 1)
    monkeypatch.setattr(collector, "HEAT_MAPS", 1)
    monkeypatch.setattr(collector, "KINDS", 1)
    definitions = [
        *(Define(at, f"c{at}", "counter") for at in range(3)),
        *(Define(3 + at, f"g{at}", "gauge") for at in range(3)),
        *(Define(6 + at, f"s{at}", "series", "ms") for at in range(3)),
        *(Define(9 + at, f"k{at}.issued", "counter", "requests") for at in range(3)),
    ]
    row = [
        (place + at, 1.0) for place in range(0, 12, 3) for at, times in enumerate((1, 3, 2)) for _ in range(times)
    ]
    found = pictures(Making(tmp_path, definitions).run([row, row]).report(pictures=True))
    assert [one.name for one in (*found.counters, *found.gauges, *found.heat_maps)] == ["c1", "g1", "s1"]
    assert [one.kind for one in found.requests] == ["k1"]


def test_without_a_history_there_are_coarse_distributions(tmp_path: Path) -> None:
    """The result has the cells of each series, and nothing over time."""
    run = Making(tmp_path, DEFINITIONS).run(seconds(3))
    assert run.directory is not None
    for path in sorted(run.directory.history.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    run.directory.history.rmdir()
    found = pictures(open_run("job", tmp_path).report(pictures=True))
    assert (found.edges_s, found.requests, found.counters, found.heat_maps) == ([], [], [], [])
    delay = next(one for one in found.distributions if one.name == "delay")
    assert (delay.scale, sum(delay.counts) + delay.below + delay.above) == ("cells", 60)


def test_who_asks_gets_pictures(tmp_path: Path) -> None:
    """A result by itself has none; saving HTML asks for them."""
    run = Making(tmp_path, DEFINITIONS).run(seconds(3))
    assert run.report().pictures is None
    assert with_history(run.result).pictures is None
    assert with_history(run.result, pictures=True).pictures == run.report(pictures=True).pictures
