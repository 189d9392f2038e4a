"""Readings of a history are exact where it is, the same whenever they are made, and go on where they stopped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.unit.backends.going import LATENCY, LOAD, PERCENTILES, REQUESTS, SECOND, Going

from telemetry.backends.items import Reading
from telemetry.backends.sources.readings import HistoryReadings
from telemetry.errors import RunDirectoryError
from telemetry.history.interval_source import DiskIntervals
from telemetry.testing.builders import WALL_NS
from telemetry.wire.events import Define


@pytest.fixture
def going(tmp_path: Path) -> Iterator[Going]:
    made = Going(tmp_path)
    yield made
    made.die()


def readings(going: Going, every_s: float = 10.0, until_ns: int = 0) -> HistoryReadings:
    return HistoryReadings(DiskIntervals(going.directory.history), WALL_NS, every_s, PERCENTILES, until_ns)


def taken(of: HistoryReadings, *, last: bool = True) -> list[Reading]:
    found = []
    while (reading := of.take(last=last)) is not None:
        found.append(reading)
    return found


def fill(going: Going, seconds: int, begin: int = 0) -> None:
    for second in range(begin, begin + seconds):
        going.second((LATENCY, 1.0 + second), (LATENCY, 100.0 * second), (REQUESTS, 2.0), (LOAD, float(second)))


def test_a_reading_is_what_was_recorded_in_its_seconds(going: Going) -> None:
    """Counts, totals and extremes to the last, percentiles within the bound of a series; counters add up since the
    start, gauges have their last value."""
    fill(going, 25)
    found = taken(readings(going))
    assert [(one.elapsed_s, one.seconds, one.time_ns - WALL_NS) for one in found] == [
        (10.0, 10.0, 10 * SECOND),
        (20.0, 10.0, 20 * SECOND),
        (25.0, 5.0, 25 * SECOND),
    ]
    (latency,) = found[1].series
    values = sorted([1.0 + second for second in range(10, 20)] + [100.0 * second for second in range(10, 20)])
    assert (latency.name, latency.labels, latency.unit) == ("latency", {"route": "/a"}, "ms")
    assert (latency.count, latency.rate, latency.total) == (20, 2.0, sum(values))
    assert (latency.min, latency.max, latency.mean) == (values[0], values[-1], sum(values) / 20)
    assert latency.percentiles == {"50": pytest.approx(values[9], rel=1e-3), "99": values[-1]}
    assert sum(count for _, _, count in latency.cells) == 20
    assert latency.cells[0][0] <= values[0] < latency.cells[0][1]
    assert latency.cells[-1][0] <= values[-1] < latency.cells[-1][1]
    assert [(one.counters[0].value, one.counters[0].rate) for one in found] == [
        (20.0, 2.0),
        (40.0, 2.0),
        (50.0, 2.0),
    ]
    assert [one.gauges[0].value for one in found] == [9.0, 19.0, 24.0]


def test_they_are_the_same_live_as_afterwards(going: Going) -> None:
    """A reading comes once its time is over, and is never made otherwise; keys name them for ever."""
    live = readings(going, 3.0)
    found = []
    for second in range(11):
        fill(going, 1, second)
        found += taken(live, last=False)
        assert len(found) == second // 3
    found += taken(live)
    assert found == taken(readings(going, 3.0))
    assert len({one.key for one in found}) == 4


def test_they_go_on_where_another_process_stopped(going: Going) -> None:
    """Readings go on after any reading with the same rest, also with the same state of counters."""
    fill(going, 47)
    whole = taken(readings(going, 5.0))
    for number, reading in enumerate(whole):
        until_ns = int(reading.key.removeprefix("t"))
        assert taken(readings(going, 5.0, until_ns)) == whole[number + 1 :]


def test_a_run_that_comes_back_gets_the_rest_of_its_seconds(going: Going) -> None:
    """A run that comes back gets readings of the rest of its seconds. No second is read twice or lost."""
    fill(going, 13)
    first = taken(readings(going))
    fill(going, 12, 13)
    rest = taken(readings(going, until_ns=int(first[-1].key.removeprefix("t"))))
    assert [(one.elapsed_s, one.seconds) for one in (*first, *rest)] == [(10, 10), (13, 3), (20, 7), (25, 5)]
    assert sum(one.series[0].count for one in (*first, *rest)) == 50
    assert rest[-1].counters[0].value == 50.0


def test_instruments_that_come_later_join(going: Going) -> None:
    """Instruments that come in the middle of a reading join it.

    Earlier values keep their place, however precise new instruments are.
    """
    live = readings(going, 4.0)
    fill(going, 2)
    assert taken(live, last=False) == []
    finer = Define(7, "other", "series", "ms", digits=5)
    going.second((7, 5.0), (LATENCY, 1_000.0), define=[finer, Define(8, "errors", "counter")])
    going.second((8, 1.0))
    fill(going, 1)
    (reading,) = taken(live, last=False)
    by_name = {one.name: one for one in reading.series}
    assert (by_name["latency"].count, by_name["latency"].max) == (5, 1_000.0)
    assert (by_name["other"].count, by_name["other"].percentiles["50"]) == (1, pytest.approx(5.0, rel=1e-5))
    assert {one.name: one.value for one in reading.counters} == {"requests": 4.0, "errors": 1.0}


def test_nothing_is_said_of_what_nobody_knows(going: Going) -> None:
    """Seconds that are missing make no reading, idle ones make one without series; counters that never increased
    are not there yet."""
    going.second((LATENCY, 1.0))
    for _ in range(3):
        going.second((LATENCY, 1.0), known=False)
    for _ in range(2):
        going.second()
    found = taken(readings(going, 2.0))
    assert [(one.elapsed_s, len(one.series), one.counters) for one in found] == [(2.0, 1, []), (6.0, 0, [])]


def test_readings_have_whole_seconds_of_their_own(going: Going) -> None:
    """Each reading has a whole second of its own.

    The last one of a run has too, if it ends a moment after another.
    """
    for _ in range(10):
        going.second((LATENCY, 1.0))
    going.second((LATENCY, 1.0), lasting_ns=SECOND // 10)
    assert [one.elapsed_s for one in taken(readings(going))] == [10.0, 11.0]


def test_seconds_that_are_only_kept_as_minutes(tmp_path: Path) -> None:
    """Are read as such: nothing is lost and nothing comes twice."""
    going = Going(tmp_path, retention_s={1: 60.0, 10: 60.0, 60: None})
    fill(going, 600)
    whole = taken(readings(going))
    assert sum(one.series[0].count for one in whole) == 1_200
    assert whole[-1].counters[0].value == 1_200.0
    late = taken(readings(going, until_ns=WALL_NS + 300 * SECOND))
    assert sum(one.series[0].count for one in late) == 600
    assert late[-1].counters[0].value == 1_200.0
    going.die()


def test_sums_beyond_floats_are_finite(going: Going) -> None:
    """Values may be as large as floats go."""
    going.second(
        (9, 1e308), (9, 1e308), define=[Define(9, "huge", "gauge"), Define(10, "large", "series", low=1e30)]
    )
    going.second((10, 1e300), (10, 1.7e308), (10, 1.7e308))
    (reading,) = taken(readings(going))
    for series in reading.series:
        assert np.isfinite([series.total, series.mean or 0.0, *series.percentiles.values()]).all()


def test_a_history_that_is_gone_is_said_and_asked_again(going: Going) -> None:
    """A missing history is an error, and the next call loses nothing that was gathered."""
    live = readings(going, 3.0)
    fill(going, 2)
    assert taken(live, last=False) == []
    hidden = going.directory.history.rename(going.directory.path / "hidden")
    with pytest.raises(RunDirectoryError):
        live.take()
    hidden.rename(going.directory.history)
    fill(going, 2, 2)
    assert [one.series[0].count for one in taken(live)] == [6, 2]
