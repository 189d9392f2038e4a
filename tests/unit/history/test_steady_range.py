"""Tests of where a chosen part begins and ends."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.unit.history.runs import Making

from telemetry.history.reader import RunHistory
from telemetry.history.run import RecordedRun
from telemetry.history.steady_range import busiest, settled
from telemetry.history.time_range import TimeRangeChoice
from telemetry.wire.events import Define
from telemetry.wire.report import TimeRange
from telemetry.wire.snapshot import SeriesStat


def chosen(run: RecordedRun, choice: TimeRangeChoice) -> TimeRange:
    assert run.directory is not None
    past = RunHistory(run.directory.history, run.result.snapshot.started_ns, run.result.snapshot.time_ns)
    return settled(choice, past, run.result.snapshot.series)


def test_the_series_with_most_of_the_values() -> None:
    """The busiest series are the fewest that hold more than half of the values.

    They are at most four, and none is without values.
    """
    assert [stat.name for stat in busiest([SeriesStat(name="a", count=1), SeriesStat(name="b", count=9)])] == ["b"]
    equal = [SeriesStat(name=f"s{number}", count=10) for number in range(3)]
    assert [stat.name for stat in busiest(equal)] == ["s0", "s1"]
    assert len(busiest([SeriesStat(name=f"s{number}", count=10) for number in range(100)])) == 4
    assert busiest([SeriesStat(name="a")]) == []


def test_the_busiest_series_decides(tmp_path: Path) -> None:
    """Another one may do what it likes."""
    rng = random.Random(2)
    rows = [
        [(0, rng.lognormvariate(1.0, 0.2) * (4.0 if second < 15 else 1.0)) for _ in range(40)]
        + [(1, float(second**2)) for _ in range(10)]
        for second in range(90)
    ]
    definitions = (Define(0, "main", "series", "ms"), Define(1, "other", "series", "ms"))
    found = chosen(Making(tmp_path, definitions).run(rows), TimeRangeChoice(trim_warmup=True))
    assert (found.found, found.start_s, found.end_s) == (True, 15.0, 90.0)
    assert "main" in found.reason
    assert "other" not in found.reason


@pytest.mark.parametrize("choice", [TimeRangeChoice(steady=True), TimeRangeChoice(trim_warmup=True)])
def test_no_series_no_steadiness(tmp_path: Path, choice: TimeRangeChoice) -> None:
    """A run of counters alone has nothing to tell it by."""
    run = Making(tmp_path, (Define(0, "requests", "counter"),)).run([[(0, 1.0)]] * 20)
    found = chosen(run, choice)
    assert (found.found, found.start_s, found.end_s) == (False, 0.0, 20.0)
    assert found.reason == "there are no series to find it with"


def test_too_short_to_tell(tmp_path: Path) -> None:
    """The reason is handed on."""
    found = chosen(Making(tmp_path).run([[(0, 1.0)]] * 4), TimeRangeChoice(steady=True))
    assert not found.found
    assert "4" in found.reason
