"""Runs over time and steps, to be drawn over each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from telemetry.judge.compare import Options, Overlay, compare
from telemetry.judge.compare.overlays import RUNS, newest, overlays
from telemetry.wire.pictures import StepCurve
from telemetry.wire.report import Report, SeriesOverTime, SeriesPoint
from telemetry.wire.snapshot import CounterStat

Run = Callable[..., Report]


def over_time(name: str, *p99s: float | None, unit: str = "ms") -> SeriesOverTime:
    points = [
        SeriesPoint(
            start_s=float(at),
            end_s=at + 1.0,
            count=at,
            rate=10.0 * at,
            percentiles={} if p99 is None else {"50": p99 / 2, "99": p99},
        )
        for at, p99 in enumerate(p99s)
    ]
    return SeriesOverTime(name=name, unit=unit, points=points)


def kinds(found: list[Overlay]) -> list[tuple[str, str, str]]:
    return [(one.of, one.name, one.statistic) for one in found]


def test_series_and_steps_of_both_sides(run: Run) -> None:
    """Each run is a line with times of its own."""
    curve = StepCurve(axis="train", name="loss", steps=[1, 2], values=[0.5, None], count=2)
    before = replace(run(), over_time=[over_time("latency", 5.0, None)], curves=[curve])
    after = replace(run(), over_time=[over_time("latency", 6.0, 7.0, 8.0)], curves=[curve])
    found = overlays([before], [after])
    assert kinds(found) == [("series", "latency", "rate"), ("series", "latency", "p99"), ("steps", "loss", "")]
    p99 = found[1]
    assert [(line.after, line.values) for line in p99.lines] == [(False, [5.0, None]), (True, [6.0, 7.0, 8.0])]
    assert (p99.unit, p99.lines[1].starts) == ("ms", [0.0, 1.0, 2.0])
    assert found[0].lines[1].values == [0.0, 10.0, 20.0]
    assert (found[2].labels, found[2].lines[0].ends, found[2].lines[0].values) == (
        {"axis": "train"},
        [1.0, 2.0],
        [0.5, None],
    )


def test_only_the_latency_of_requests_has_a_rate(run: Run) -> None:
    """Only the latency of requests has a rate. Their other series happen as often, or say little by their rate."""
    issued = [CounterStat(name="llm.issued", unit="requests", value=9, events=9)]
    series = [over_time("llm.latency", 5.0), over_time("llm.ttft", 5.0)]
    one, other = (replace(run(counters=issued), over_time=series) for _ in "12")
    rates = [name for _, name, statistic in kinds(overlays([one], [other])) if statistic == "rate"]
    assert rates == ["llm.latency"]


def test_what_one_run_has_alone_is_not_drawn(run: Run) -> None:
    """Series that one run alone has are not drawn, because its own report shows them.

    A series in another unit is left out as well.
    """
    one = replace(run(), over_time=[over_time("a", 5.0), over_time("b", 1.0)])
    other = replace(run(), over_time=[over_time("b", 5.0, unit="s")])
    assert kinds(overlays([one], [other])) == [("series", "b", "rate")]


def test_the_newest_runs_are_drawn(run: Run) -> None:
    """A few of each side: more lines can't be read."""
    side = [replace(run(at=at), over_time=[over_time("a", 1.0)]) for at in (5, 3, 9, 1, 7, 2, 8)]
    drawn = newest(side)
    assert [one.snapshot.started_ns for one in drawn] == sorted(one.snapshot.started_ns for one in side)[-RUNS:]
    assert len(overlays(side, [])[0].lines) == RUNS


def test_a_comparison_has_them_if_they_are_asked_for(run: Run) -> None:
    """A comparison has overlays only on request. They are for pages, and its JSON stays small without."""
    sides: list[Any] = [[replace(run(), over_time=[over_time("a", 1.0)])] for _ in "12"]
    assert compare(*sides).overlays == []
    assert kinds(compare(*sides, Options(overlays=True)).overlays) == [
        ("series", "a", "rate"),
        ("series", "a", "p99"),
    ]
