"""Intervals of history say what the aggregator says: any time range of them has the figures of its values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.history.intervals.figures import Figures
from telemetry.history.intervals.range_sums import RangeSums
from telemetry.history.intervals.timeline import Timeline
from telemetry.statistics.hdr.percentiles import parse_percentile, rank
from telemetry.store.intervals.rollup import merge
from telemetry.testing import batch
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.wire.codec import decode_interval, encode_interval
from telemetry.wire.control import SeriesKey
from telemetry.wire.events import Define
from telemetry.wire.history import Interval, SeriesColumns
from telemetry.wire.snapshot import MetricsSnapshot

pytestmark = pytest.mark.slow

SECOND = 1_000_000_000
PERCENTILES = ("0.1", "50", "90", "99", "99.9", "100")
WINDOW = 3
DEFINITIONS = (
    Define(0, "time", "series", "ns"),
    Define(1, "coarse", "series", "s", digits=1),
    Define(2, "fine", "series", "ms", digits=5),
    Define(3, "bounded", "series", "tokens", low=0.5, high=200.0),
)
VALUES = st.one_of(
    st.floats(0.0, 1e7),
    st.integers(0, 5_000).map(float),
    st.sampled_from([0.0, 0.1, 1.0, 2.0**40 + 1, 2.0**53, 1e300]),
)
SECONDS = st.lists(st.lists(st.tuples(st.integers(0, 3), VALUES), max_size=30), min_size=1, max_size=12)
Seconds = list[list[tuple[int, float]]]


class Run:
    """A pure aggregator, and the intervals of its history as a reader decodes them."""

    def __init__(self, seconds: Seconds) -> None:
        self.aggregator = Aggregator(AggregatorConfig(percentiles=PERCENTILES, window_s=WINDOW))
        self.intervals: list[Interval] = []
        first = 0
        for number, rows in enumerate(seconds):
            sent = batch(
                seq=number,
                first=first,
                records=DEFINITIONS if number == 0 else (),
                rows=[(series, MONO_NS, value) for series, value in rows],
            )
            first += len(rows)
            self.aggregator.admit(sent, MONO_NS)
            self.aggregator.apply([sent], MONO_NS, WALL_NS)
            start_ns = WALL_NS + number * SECOND
            interval = self.aggregator.roll(start_ns, start_ns + SECOND, SECOND)
            self.intervals.append(decode_interval(encode_interval(interval)))
        keys = self.aggregator.keys()
        self.keys = [key for key in keys if key.kind == "series"]

    def snapshot(self) -> MetricsSnapshot:
        facts = SnapshotFacts(run_id="r", name="n", state="COMPLETE")
        return self.aggregator.snapshot(facts, MONO_NS, WALL_NS)

    def time_range(self, intervals: list[Interval]) -> dict[int, Figures]:
        made = RangeSums(self.keys, PERCENTILES)
        for interval in intervals:
            assert made.add(interval)
        return made.figures()

    def timelines(self, intervals: list[Interval]) -> list[Timeline]:
        made = [Timeline(key) for key in self.keys]
        for timeline in made:
            for interval in intervals:
                timeline.add(interval)
        return made


def same(left: Figures, right: Figures) -> bool:
    """Return whether two figures are equal, except for how totals are rounded."""
    words = ("seconds", "count", "rate", "min", "max", "percentiles")
    if any(getattr(left, word) != getattr(right, word) for word in words):
        return False
    return left.total == pytest.approx(right.total, rel=1e-9, abs=1e-6, nan_ok=True)


@given(SECONDS)
def test_a_whole_run_is_its_snapshot(seconds: Seconds) -> None:
    """Each series has over all intervals the same figures as in the final snapshot.

    The figures are percentiles, count, extremes and cells.
    """
    run = Run(seconds)
    figures = run.time_range(run.intervals)
    for key, stat, timeline in zip(run.keys, run.snapshot().series, run.timelines(run.intervals), strict=True):
        digest = timeline.between(0, 1 << 62)
        assert same(figures[key.index], digest.figures(PERCENTILES))
        found = figures[key.index]
        assert (found.count, found.min, found.max) == (stat.count, stat.min, stat.max)
        assert found.percentiles == stat.percentiles
        assert digest.cells() == stat.histogram
        assert digest.cell_unit == stat.cell_unit
        if stat.total < 1e300:
            assert found.total == pytest.approx(stat.total, rel=1e-9, abs=1e-6)


@given(SECONDS)
@settings(max_examples=settings().max_examples // 2)
def test_the_last_seconds_are_the_window(seconds: Seconds) -> None:
    """The last intervals, as many as the window has rolls, give the figures of the window."""
    run = Run(seconds)
    figures = run.time_range(run.intervals[-WINDOW:])
    for key, stat in zip(run.keys, run.snapshot().series, strict=True):
        found = figures[key.index]
        assert (found.count, found.rate, found.percentiles) == (
            stat.window.count,
            stat.window.rate,
            stat.window.percentiles,
        )


@given(SECONDS, st.data())
@settings(max_examples=settings().max_examples // 2)
def test_any_time_range_is_its_values(seconds: Seconds, data: st.DataObject) -> None:
    """Percentiles of any seconds are within their bound of the order statistics of what was recorded in them."""
    run = Run(seconds)
    first = data.draw(st.integers(0, len(seconds) - 1))
    last = data.draw(st.integers(first + 1, len(seconds)))
    figures = run.time_range(run.intervals[first:last])
    between = WALL_NS + first * SECOND, WALL_NS + last * SECOND
    for key, timeline in zip(run.keys, run.timelines(run.intervals), strict=True):
        found = figures[key.index]
        assert same(found, timeline.between(*between).figures(PERCENTILES))
        values = np.sort([value for rows in seconds[first:last] for index, value in rows if index == key.index])
        assert found.count == values.size
        for percentile, value in found.percentiles.items():
            true = values[rank(parse_percentile(percentile), values.size) - 1]
            assert values[0] <= value <= values[-1]
            assert abs(value - true) <= max(10.0**-key.digits * true, 1 / key.ticks_per_unit) or _outside(key, true)


def _outside(key: SeriesKey, value: float) -> bool:
    """Return whether a value lies beyond what the histogram of its series tells apart."""
    return value > 2.0**52 / key.ticks_per_unit or (key.name == "bounded" and value > 200.0)


@given(SECONDS, st.data())
def test_coarser_levels_say_the_same(seconds: Seconds, data: st.DataObject) -> None:
    """The sum over rolled-up intervals or over merged points of a plot has the same figures."""
    run = Run(seconds)
    cut = data.draw(st.integers(1, len(seconds)))
    coarser = [merge(run.intervals[:cut]), *run.intervals[cut:]]
    fine, coarse = run.time_range(run.intervals), run.time_range(coarser)
    assert all(same(fine[key.index], coarse[key.index]) for key in run.keys)
    most = data.draw(st.integers(1, 14))
    for timeline in run.timelines(coarser):
        points = timeline.points(0, 1 << 62, most, PERCENTILES)
        assert len(points) <= most
        for point in points:
            alone = timeline.between(point.start_ns, point.end_ns).figures(PERCENTILES)
            assert same(point.figures, alone)
        assert sum(point.figures.count for point in points) == fine[timeline.key.index].count


def column(numbers: st.SearchStrategy[float], kind: str, size: int) -> st.SearchStrategy[bytes]:
    drawn = st.lists(numbers, min_size=size, max_size=size)
    return drawn.map(lambda values: np.array(values, kind).tobytes())


@st.composite
def nonsense(draw: st.DrawFn) -> Interval:
    """An interval whose columns fit together, and that is all."""
    times = st.sampled_from([-(1 << 63), (1 << 63) - 1, (1 << 64) - 1]) | st.integers(0, 9 * SECOND)
    anything = st.sampled_from([0.0, -1.0, 1e308, float("nan"), float("inf"), -float("inf")])
    occupied = draw(st.lists(st.integers(0, 4), max_size=4))
    size, slots = len(occupied), sum(occupied)
    series = SeriesColumns(
        draw(column(st.integers(0, 4) | st.just((1 << 32) - 1), "<u4", size)),
        draw(column(st.sampled_from([0, 1, (1 << 64) - 1]), "<u8", size)),
        draw(column(anything, "<f8", size)),
        draw(column(anything, "<f8", size)),
        draw(column(anything, "<f8", size)),
        np.array(occupied, "<u4").tobytes(),
        draw(column(st.integers(0, 9) | st.integers(0, (1 << 32) - 1), "<u4", slots)),
        draw(column(st.integers(0, 2) | st.just((1 << 32) - 1), "<u4", slots)),
    )
    return decode_interval(encode_interval(Interval(draw(times), draw(times), series)))


@given(st.lists(nonsense(), max_size=5), st.integers(1, 4))
def test_nonsense_is_no_error(intervals: list[Interval], most: int) -> None:
    """Nonsense that a decoder lets through gives wrong numbers at worst.

    There is no error, no warning and no missing key.
    """
    run = Run([[]])
    time_range = RangeSums(run.keys, PERCENTILES)
    for interval in intervals:
        time_range.add(interval)
    assert list(time_range.figures()) == [0, 1, 2, 3]
    for timeline in run.timelines(intervals):
        points = timeline.points(-(1 << 63), (1 << 63) - 1, most, PERCENTILES)
        assert len(points) <= most
        digest = timeline.between(0, 9 * SECOND)
        assert set(digest.figures(PERCENTILES).percentiles) <= set(PERCENTILES)
        assert len(digest.curve(5)) <= 5
        digest.cells()
