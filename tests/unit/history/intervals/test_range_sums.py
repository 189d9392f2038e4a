"""All series over one time range."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

from telemetry.aggregator.series.table import SeriesTable
from telemetry.history.intervals import range_sums
from telemetry.history.intervals.figures import Figures
from telemetry.history.intervals.range_sums import RangeSums
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval

pytestmark = pytest.mark.slow

SECOND = 1_000_000_000
PERCENTILES = ("50", "99.9")


def table(series: int) -> SeriesTable:
    made = SeriesTable(PERCENTILES, 4)
    for number in range(series):
        made.add(f"s{number}", {}, "ms", digits=2 + number % 2)
    return made


def keys(of: SeriesTable) -> list[SeriesKey]:
    return [of.key(index) for index in range(len(of))]


def seconds(of: SeriesTable, count: int, used: int) -> list[Interval]:
    """Values of the first `used` series, a few in each second."""
    generator = np.random.default_rng(3)
    made = []
    for second in range(count):
        index = generator.integers(0, used, 50).astype(np.intp)
        of.record(index, generator.lognormal(1.0, 1.0, 50))
        made.append(Interval(second * SECOND, (second + 1) * SECOND, of.roll(1.0)))
    return made


def test_a_time_range_is_what_the_aggregator_says_of_it() -> None:
    """All intervals of a window together have the figures of the window; a series without values has none."""
    made = table(4)
    intervals = seconds(made, 6, 3)
    found = RangeSums(keys(made), PERCENTILES)
    for interval in reversed(intervals[2:]):
        assert found.add(interval)
    figures = found.figures()
    assert list(figures) == [0, 1, 2, 3]
    assert figures[3] == Figures(seconds=4.0)
    for index, stat in enumerate(made.stats()[:3]):
        assert figures[index].percentiles == stat.window.percentiles
        assert (figures[index].count, figures[index].rate) == (stat.window.count, stat.window.rate)


def test_bounds_are_those_of_the_whole_time_range() -> None:
    """Bounds are by index, around the percentiles, and a series without values has none."""
    made = table(3)
    intervals = seconds(made, 6, 2)
    found = RangeSums(keys(made), PERCENTILES)
    for interval in intervals:
        found.add(interval)
    bounds, figures = found.bounds(), found.figures()
    assert list(bounds) == [0, 1, 2]
    assert bounds[2] == {}
    for index in (0, 1):
        median, value = bounds[index]["50"], figures[index].percentiles["50"]
        assert median.low is not None
        assert median.high is not None
        assert median.low < value < median.high
        assert median.beyond == figures[index].count // 2
        assert bounds[index]["99.9"].high is None
    surer = found.bounds(0.99)[0]["50"]
    assert surer.low is not None
    assert bounds[0]["50"].low is not None
    assert surer.low <= bounds[0]["50"].low


def test_figures_may_be_asked_for_in_between() -> None:
    """Figures that are read in between do not change the later ones."""
    made = table(2)
    intervals = seconds(made, 5, 2)
    asked, left_alone = RangeSums(keys(made), PERCENTILES), RangeSums(keys(made), PERCENTILES)
    for interval in intervals:
        asked.add(interval)
        left_alone.add(interval)
        asked.figures()
    assert asked.figures() == left_alone.figures()


def test_adding_up_early_changes_nothing() -> None:
    """The number of slots that wait to be added up affects memory alone."""
    made = table(3)
    intervals = seconds(made, 8, 3)
    whole = RangeSums(keys(made), PERCENTILES)
    with patch.object(range_sums, "_PENDING_SLOTS", 60):
        bounded = RangeSums(keys(made), PERCENTILES)
        for interval in intervals:
            bounded.add(interval)
            whole.add(interval)
            assert bounded._pending_slots <= max(60, bounded._sum[0].size)
    assert bounded.figures() == whole.figures()


def test_series_without_a_key_are_passed_over_and_told_of() -> None:
    """A missing key is reported, so that a reader knows when to get keys again. Known series keep their figures."""
    made = table(4)
    [interval] = seconds(made, 1, 4)
    some = RangeSums([made.key(0), made.key(2), SeriesKey(index=1, name="requests", kind="counter")], PERCENTILES)
    every = RangeSums(keys(made), PERCENTILES)
    assert not some.add(interval)
    assert every.add(interval)
    assert some.figures() == {index: every.figures()[index] for index in (0, 2)}


def test_without_keys_or_intervals_there_are_no_figures() -> None:
    """An empty time range is no error."""
    assert RangeSums([], PERCENTILES).figures() == {}
    made = table(1)
    assert RangeSums(keys(made), PERCENTILES).figures() == {0: Figures()}
    nobody = RangeSums([], PERCENTILES)
    assert not nobody.add(seconds(made, 1, 1)[0])
    assert nobody.figures() == {}


def test_a_clock_that_is_set_back_takes_no_time() -> None:
    """The length of an interval is never negative, and its values count."""
    made = table(1)
    [interval] = seconds(made, 1, 1)
    found = RangeSums(keys(made), PERCENTILES)
    found.add(Interval(10 * SECOND, 8 * SECOND, interval.series))
    assert (found.figures()[0].count, found.figures()[0].seconds, found.figures()[0].rate) == (50, 0.0, 0.0)
