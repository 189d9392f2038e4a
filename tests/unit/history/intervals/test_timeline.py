"""One series over time."""

from __future__ import annotations

from collections.abc import Iterable
from unittest.mock import patch

import numpy as np
import pytest

from telemetry.aggregator.series.table import SeriesTable
from telemetry.errors import UsageError
from telemetry.history.intervals import timeline as module
from telemetry.history.intervals.figures import Figures
from telemetry.history.intervals.timeline import Timeline
from telemetry.wire.history import Interval, SeriesColumns

pytestmark = pytest.mark.slow

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
PERCENTILES = ("50", "99")
END = START + 10**6 * SECOND


class Recorder:
    """A series, and the intervals of what is recorded into it."""

    def __init__(self) -> None:
        self._table = SeriesTable(PERCENTILES, 1)
        self._table.add("other", {}, "ns")
        self._table.add("s", {}, "ns")
        self.key = self._table.key(1)

    def columns(self, values: Iterable[float]) -> SeriesColumns:
        recorded = np.array([*values, 1.0])
        index = np.ones(recorded.size, np.intp)
        index[-1] = 0
        self._table.record(index, recorded)
        return self._table.roll(1.0)

    def timeline(self, *seconds: Iterable[float]) -> Timeline:
        made = Timeline(self.key)
        for number, values in enumerate(seconds):
            made.add(second(number, self.columns(values)))
        return made


def second(number: float, series: SeriesColumns) -> Interval:
    start_ns = START + int(number * SECOND)
    return Interval(start_ns, start_ns + SECOND, series)


def test_every_interval_is_a_point() -> None:
    """Every interval is a point if they are no more than requested, also those without values."""
    recorder = Recorder()
    made = Timeline(recorder.key)
    added = [made.add(second(at, recorder.columns(values))) for at, values in enumerate(([5.0, 7.0], [], [9.0]))]
    assert added == [True, False, True]
    assert (len(made), made.start_ns, made.end_ns) == (3, START, START + 3 * SECOND)
    first, empty, last = made.points(START, END, 3, PERCENTILES)
    assert (first.start_ns, first.end_ns) == (START, START + SECOND)
    assert first.figures == Figures(
        seconds=1.0, count=2, rate=2.0, total=12.0, min=5.0, max=7.0, percentiles={"50": 5.0, "99": 7.0}
    )
    assert empty.figures == Figures(seconds=1.0)
    assert (last.figures.count, last.figures.percentiles["99"]) == (1, 9.0)


def test_merged_points_are_of_all_values() -> None:
    """The percentile of two seconds is that of all their values, no average of percentiles."""
    made = Recorder().timeline([1.0] * 99, [100.0], [1.0], [])
    points = made.points(START, END, 2, PERCENTILES)
    assert [(point.start_ns - START) // SECOND for point in points] == [0, 2]
    assert dict(points[0].figures.percentiles) == {"50": 1.0, "99": 1.0}
    assert (points[0].figures.count, points[0].figures.rate, points[0].figures.max) == (100, 50.0, 100.0)
    assert (points[1].figures.count, points[1].figures.seconds) == (1, 2.0)


def test_merging_keeps_its_steps_while_the_end_moves() -> None:
    """The drawn past stays as it was, whatever is added and wherever the time range begins."""
    recorder = Recorder()
    made = recorder.timeline(*([float(number)] for number in range(40)))
    before = made.points(START, END, 15, PERCENTILES)
    made.add(second(40, recorder.columns([50.0])))
    after = made.points(START, END, 15, PERCENTILES)
    moved = made.points(START + 9 * SECOND, END, 12, PERCENTILES)
    assert before[:-1] == after[: len(before) - 1]
    assert moved[1:] == after[-len(moved) + 1 :]
    assert {point.figures.seconds for point in before[:-1]} == {3.0}


def test_seconds_that_begin_a_little_early_or_late_are_one_step() -> None:
    """A tick is never quite on time; every step still gets the same number of seconds."""
    recorder = Recorder()
    made = Timeline(recorder.key)
    for number in range(40):
        made.add(second(number + (0.0, 0.03, -0.03)[number % 3], recorder.columns([1.0])))
    assert {point.figures.count for point in made.points(START, END, 20, ())} == {2}


@pytest.mark.parametrize("most", [1, 2, 3, 7, 50])
def test_there_are_never_more_points_than_asked_for(most: int) -> None:
    """The number of points is bounded with gaps and clocks that are set back, too. No value is lost by it."""
    recorder = Recorder()
    made = Timeline(recorder.key)
    for number in [*range(30), *range(500, 520), *range(490, 540), -100, 600]:
        made.add(second(number, recorder.columns([1.0, 2.0])))
    points = made.points(START - 200 * SECOND, END, most, PERCENTILES)
    assert 1 <= len(points) <= most
    assert sum(point.figures.count for point in points) == 2 * len(made)


def test_a_gap_is_no_time() -> None:
    """A rate is over the seconds that are known of."""
    recorder = Recorder()
    made = Timeline(recorder.key)
    for number in (0, 100):
        made.add(second(number, recorder.columns([1.0] * 10)))
    whole = made.between(START, END)
    assert (whole.start_ns, whole.end_ns) == (START, START + 101 * SECOND)
    assert (whole.figures(()).seconds, whole.figures(()).rate) == (2.0, 10.0)


def test_a_time_range_is_what_overlaps_it() -> None:
    """The end is not part of an interval, nor of what is asked for."""
    made = Recorder().timeline([1.0], [2.0], [3.0])
    for start_s, end_s, total in [(0, 1, 1.0), (1, 2, 2.0), (0.5, 1.5, 3.0), (1, 1.001, 2.0), (-9, 99, 6.0)]:
        found = made.between(START + int(start_s * SECOND), START + int(end_s * SECOND))
        assert found.figures(()).total == total


def test_where_nothing_is_there_is_nothing() -> None:
    """A timeline is empty before its first interval, after its last one, and without intervals."""
    recorder = Recorder()
    empty, made = Timeline(recorder.key), recorder.timeline([1.0])
    assert (len(empty), empty.start_ns, empty.end_ns) == (0, 0, 0)
    for nowhere in (empty.between(0, END), made.between(0, START), made.between(END, END + 1)):
        assert nowhere.figures(PERCENTILES) == Figures()
        assert nowhere.start_ns == nowhere.end_ns
        assert nowhere.curve(5) == nowhere.cells() == []
    assert empty.points(0, END, 5, PERCENTILES) == made.points(0, START, 5, PERCENTILES) == []


def test_a_copy_stays_as_it_was() -> None:
    """A timeline and its copy may both grow, and additions to one are not in the other."""
    recorder = Recorder()
    made = recorder.timeline(*([1.0] for _ in range(10)))
    twin = made.copy()
    for number in range(10, 3_000):
        made.add(second(number, recorder.columns([2.0])))
        if number < 15:
            twin.add(second(number, recorder.columns([3.0])))
    assert (len(made), len(twin)) == (3_000, 15)
    assert made.between(START, END).figures(()).total == 10.0 + 2.0 * 2_990
    assert twin.between(START, END).figures(()).total == 10.0 + 3.0 * 5


def test_copies_share_what_they_hold() -> None:
    """Copies share their memory, so that handing on an hour of history every second costs none."""
    made = Recorder().timeline([1.0, 2.0], [3.0])
    twin = made.copy()
    assert all(np.shares_memory(mine, its) for mine, its in zip(made._parts, twin._parts, strict=True))


@pytest.mark.parametrize("bounds", [{"PARTS": 64}, {"SLOTS": 1_000}, {"PARTS": 100, "SLOTS": 500}])
def test_what_is_held_is_bounded(bounds: dict[str, int]) -> None:
    """Beyond the bounds old seconds become one: all values stay, the newest seconds in detail."""
    recorder = Recorder()
    rng = np.random.default_rng(5)
    values = rng.integers(1, 30, (1_000, 5)).astype(float)
    with patch.multiple(module, **bounds):
        made = recorder.timeline(*values.tolist())
        assert len(made) <= bounds.get("PARTS", 1_000)
        assert made._slots <= bounds.get("SLOTS", 5_000)
    whole = made.between(START, END).figures(PERCENTILES)
    ordered = np.sort(values, axis=None)
    assert (whole.count, whole.total, whole.seconds) == (5_000, ordered.sum(), 1_000.0)
    assert dict(whole.percentiles) == {"50": ordered[2_499], "99": ordered[4_949]}
    lengths = [point.figures.seconds for point in made.points(START, END, 1_000, ())]
    assert lengths[-1] == 1.0
    assert max(lengths) <= 128.0


def test_a_part_that_fills_the_bound_alone_is_kept() -> None:
    """A part that can't be merged any further is kept as it is."""
    recorder = Recorder()
    with patch.object(module, "SLOTS", 3):
        made = recorder.timeline(*([float(value) for value in range(10)] for _ in range(4)))
    assert (len(made), made.between(START, END).count) == (1, 40)


def test_percentiles_outside_their_range_are_refused() -> None:
    """A typing error is no empty plot."""
    made = Recorder().timeline([1.0])
    with pytest.raises(UsageError, match="decimal"):
        made.points(START, END, 5, ("p99",))


def test_short_intervals_make_no_rates() -> None:
    """Late values come all at once, so that a short interval belongs to the gap before it."""
    recorder = Recorder()
    made = Timeline(recorder.key)
    for start_s, end_s, number in ((0.0, 1.0, 27), (1.0, 10.4, 160), (10.4, 10.5, 94), (10.5, 11.5, 27)):
        times = (START + int(at * SECOND) for at in (start_s, end_s))
        made.add(Interval(*times, recorder.columns([1.0] * number)))
    assert [round(point.figures.rate) for point in made.points(START, END, 10, ())] == [27, 27, 27]


def test_slices_are_gathered_to_the_steps_that_there_is_room_for() -> None:
    """Tenths of a second, two, five, or seconds; nothing is left out."""
    recorder = Recorder()
    made = Timeline(recorder.key)
    for tenth in range(1, 35):
        start_ns = START + tenth * SECOND // 10
        made.add(Interval(start_ns, start_ns + SECOND // 10, recorder.columns([1.0])))
    made.add(Interval(START + 35 * SECOND // 10, START + 352 * SECOND // 100, recorder.columns([1.0])))
    for most, expected in ((40, 1), (20, 2), (10, 5), (5, 10)):
        counts = [point.figures.count for point in made.points(START, END, most, ())]
        assert sum(counts) == 35
        assert {*counts[1:-1]} == {expected}
        assert counts[-1] > 1 or expected > 1, "a slice of 20 ms is no point of its own"
