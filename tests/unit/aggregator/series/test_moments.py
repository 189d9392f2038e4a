"""Running moments against numpy's."""

from __future__ import annotations

import math
from dataclasses import fields

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from tests.unit.aggregator.nodes.leaf_and_root import series as leaf_series

from telemetry.aggregator.checkpoint import encode, load, save
from telemetry.aggregator.series import moments as series_moments
from telemetry.aggregator.series.moments import Moments
from telemetry.aggregator.series.summary import SeriesSummary


class Recorder:
    """Moments with plain counts where the histograms would be."""

    def __init__(self, series: int) -> None:
        self._counts = np.zeros(series, dtype=np.int64)
        self.moments = Moments(self._counts.copy)
        for _ in range(series):
            self.moments.add_series()

    def record(self, index: NDArray[np.intp], value: NDArray[np.float64], chunk: int = 10_000) -> None:
        for start in range(0, value.size, chunk):
            part, part_index = value[start : start + chunk], index[start : start + chunk]
            self.moments.record(part_index, part, float(part.max()))
            self.add_counts(part_index)

    def add_counts(self, index: NDArray[np.intp]) -> None:
        np.add.at(self._counts, index, 1)

    def deviations(self) -> list[float]:
        self.moments.fold()
        size = self.moments.size
        return np.sqrt(self.moments.squares[:size] / self.moments.count[:size]).tolist()  # type: ignore[no-any-return]


def recorded(values: NDArray[np.float64], chunk: int = 10_000) -> Recorder:
    recorder = Recorder(1)
    recorder.record(np.zeros(values.size, dtype=np.intp), values, chunk)
    recorder.moments.fold()
    return recorder


def test_variance_is_stable_for_large_values_with_little_spread() -> None:
    """Values of 1e9 that differ by single ticks keep their standard deviation over many folds."""
    values = 1e9 + np.random.default_rng(2).integers(0, 4, 100_000)
    recorder = Recorder(1)
    for start in range(0, values.size, 7_000):
        part = values[start : start + 7_000]
        recorder.record(np.zeros(part.size, dtype=np.intp), part, 1_000)
        recorder.moments.fold()
    assert recorder.deviations() == [pytest.approx(float(np.std(values - 1e9)), rel=1e-9)]


@pytest.mark.parametrize("spread", [1e-3, 1e-5, 1e-6])
@pytest.mark.parametrize("base", [1e9, 1e9 + 0.123456])
def test_variance_of_fractions_is_known_down_to_the_digits_of_a_float(base: float, spread: float) -> None:
    """Near 1e9 a float has steps of 1.2e-7. Nothing that such values differ by may be added to their spread."""
    values = base + np.random.default_rng(3).normal(0.0, spread, 50_000)
    recorder = Recorder(1)
    for start in range(0, values.size, 1_000):
        recorder.record(np.zeros(1_000, dtype=np.intp), values[start : start + 1_000])
        recorder.moments.fold()
    assert recorder.deviations() == [pytest.approx(float(np.std(values - base)), rel=0.01)]


def test_series_that_begin_far_from_their_mean_keep_their_variance() -> None:
    """A first value of 0 does not spoil the spread of what follows."""
    values = np.concatenate(([0.0], 1e9 + np.arange(50_000.0) % 7))
    assert recorded(values).deviations() == [pytest.approx(float(np.std(values)), rel=1e-9)]


def test_neighbours_of_another_size_do_not_matter() -> None:
    """Tiny and huge series side by side keep their own totals and spreads."""
    generator = np.random.default_rng(3)
    scales = np.array([1e-9, 1.0, 1e9, 1e14])
    index = generator.integers(0, 4, 40_000)
    value = scales[index] * (1.0 + generator.random(40_000))
    recorder = Recorder(4)
    recorder.record(index, value)
    deviations, totals = recorder.deviations(), recorder.moments.summary().exact_totals(np.arange(4))
    for number in range(4):
        own = value[index == number]
        assert deviations[number] == pytest.approx(float(own.std()), rel=1e-10)
        assert totals[number] == pytest.approx(math.fsum(own), rel=1e-14)


def test_fold_happens_before_too_many_events_collect(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of events between folds is bounded, whatever their size."""
    monkeypatch.setattr(series_moments, "FOLD_EVENTS", 50)
    values = np.random.default_rng(4).random(1_000)
    recorder = recorded(values, 40)
    assert recorder.moments.summary().exact_totals(np.array([0])) == [pytest.approx(values.sum(), rel=1e-14)]
    assert recorder.deviations() == [pytest.approx(float(values.std()), rel=1e-12)]


@pytest.mark.parametrize("value", [2**40 + 1, 2**53 - 1])
def test_forced_folds_keep_integers_exact(value: int) -> None:
    """Sums that would pass 2**53 are folded or split before they do."""
    recorder = recorded(np.tile(np.array([float(value), 3.0]), 30_000), 1_000)
    assert recorder.moments.summary().exact_totals(np.array([0])) == [30_000 * (value + 3)]


def test_extremes_of_an_interval_begin_anew() -> None:
    """The interval forgets its extremes, the run does not."""
    recorder = recorded(np.array([1.0, 9.0]))
    recorder.moments.start_interval()
    recorder.record(np.zeros(2, dtype=np.intp), np.array([4.0, 5.0]))
    recorder.moments.fold()
    moments = recorder.moments
    assert (moments.interval_min[0], moments.interval_max[0]) == (4.0, 5.0)
    assert (moments.min[0], moments.max[0]) == (1.0, 9.0)


def test_small_values_after_a_huge_one_are_measured_in_silence() -> None:
    """The square of their distance is beyond every float: the spread is, too, and the rest stays true."""
    recorder = Recorder(1)
    recorder.record(np.array([0]), np.array([1e300]))
    recorder.record(np.array([0]), np.array([1.0]))
    summary = recorder.moments.summary()
    assert (summary.min[0], summary.max[0], summary.total[0]) == (1.0, 1e300, 1e300)
    assert not math.isfinite(summary.squares[0])


def test_asking_for_a_summary_changes_no_bit() -> None:
    """The times of snapshots decide nothing: sums of fractions round as if nobody had asked."""
    values = np.random.default_rng(6).lognormal(0, 3, 49_000)
    asked, left_alone = Recorder(2), Recorder(2)
    for start in range(0, values.size, 700):
        for recorder in (asked, left_alone):
            recorder.record(np.arange(start, start + 700) % 2, values[start : start + 700])
        asked.moments.summary()
    for recorder in (asked, left_alone):
        recorder.moments.fold()
    for field in fields(SeriesSummary):
        assert np.array_equal(getattr(asked.moments, field.name), getattr(left_alone.moments, field.name))


@pytest.mark.parametrize(("scale", "events"), [(1.0, 1_500), (7e10, 1 << 24), (1e16, 2_500)])
def test_restored_moments_fold_when_the_other_ones_do(
    scale: float, events: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Restored moments fold when the other ones do, by the number of events or by their size.

    The counts include events before the checkpoint, so the same bits come out.
    """
    monkeypatch.setattr(series_moments, "FOLD_EVENTS", events)
    generator = np.random.default_rng(7)
    index, values = np.arange(7_000) % 2, scale * generator.lognormal(0, 1, 7_000)
    whole, restored = Recorder(2), Recorder(2)
    whole.record(index[:2_000], values[:2_000], 1_000)
    load(restored.moments, msgspec.msgpack.decode(encode(save(whole.moments))))
    restored.add_counts(index[:2_000])
    for recorder in (whole, restored):
        recorder.record(index[2_000:], values[2_000:], 1_000)
    assert whole.moments.count[0] > 0, "it folded on the way"
    for field in fields(SeriesSummary):
        assert np.array_equal(getattr(whole.moments, field.name), getattr(restored.moments, field.name)), field.name
        one, other = whole.moments.summary(), restored.moments.summary()
        assert np.array_equal(getattr(one, field.name), getattr(other, field.name)), field.name


def test_a_summary_says_what_a_fold_would_leave() -> None:
    """A summary includes the values since the last fold, for the series that got any."""
    recorder = Recorder(3)
    recorder.record(np.array([0, 0]), np.array([1.0, 2.5]))
    recorder.moments.fold()
    recorder.record(np.array([0, 2]), np.array([7.0, 3.0]))
    summary = recorder.moments.summary()
    assert summary.count.tolist() == [3, 0, 1]
    assert summary.exact_totals(np.arange(3)) == [10.5, 0, 3]
    assert (summary.min[0], summary.max[0]) == (1.0, 7.0)
    assert recorder.moments.count[:3].tolist() == [2, 0, 0]


def test_integral_is_told_for_each_series_at_any_time() -> None:
    """A fraction late in one series is noticed, also after others have long had theirs."""
    recorder = Recorder(3)
    recorder.record(np.array([0, 1]), np.array([0.5, 1.0]))
    recorder.record(np.array([1]), np.array([2.0**53]))
    recorder.record(np.array([2]), np.array([7.0]))
    assert recorder.moments.integral[:3].tolist() == [False, False, True]
    recorder.record(np.array([2]), np.array([7.25]))
    assert not recorder.moments.integral[:3].any()
    assert recorder.moments.imprecise[:3].tolist() == [0, 1, 0]


def test_totals_of_fractions_that_a_float_holds_are_exact() -> None:
    """Halves and quarters add up without a rest, over many chunks and folds."""
    values = np.arange(20_000) % 4_000 + 0.25
    recorder = Recorder(1)
    for start in range(0, values.size, 3_000):
        part = values[start : start + 3_000]
        recorder.record(np.zeros(part.size, dtype=np.intp), part, chunk=1_000)
        recorder.moments.fold()
    assert recorder.moments.summary().exact_totals(np.array([0])) == [math.fsum(values.tolist())]


def test_a_series_that_begins_among_fractional_ones_is_looked_at_from_its_first_value() -> None:
    """Fractions count also in the very chunk that brings a series' first values."""
    recorder = Recorder(2)
    for _ in range(2):
        recorder.record(np.array([0]), np.array([0.25]))
    recorder.record(np.array([1]), np.array([0.5]))
    recorder.record(np.array([1]), np.array([3.0]))
    recorder.moments.fold()
    assert recorder.moments.summary().exact_totals(np.array([0, 1])) == [0.5, 3.5]


def test_merged_moments_are_those_of_all_values() -> None:
    """Collected values are folded first; the values that follow find a series with a mean."""
    recorder = Recorder(2)
    recorder.record(np.array([0, 0, 1]), np.array([1e9, 1e9 + 2, 5.0]))
    recorder.moments.merge(np.array([0]), leaf_series(0, [1e9 + 1, 1e9 + 7], [1, 2], [1, 1]))
    recorder.add_counts(np.array([0, 0]))
    recorder.record(np.array([0, 1]), np.array([1e9 + 5, 7.0]))
    recorder.moments.fold()
    moments = recorder.moments
    values = np.array([0.0, 2.0, 1.0, 7.0, 5.0])
    assert moments.count[:2].tolist() == [5, 2]
    assert moments.squares[0] == pytest.approx(((values - 3.0) ** 2).sum(), rel=1e-12)
    assert (moments.total[0] + moments.total_rest[0], moments.mean[0]) == (5e9 + 15, 1e9 + 3)
    assert (moments.min[0], moments.max[0], moments.interval_max[0]) == (1e9, 1e9 + 7, 1e9 + 7)


def test_only_a_leaf_has_moments_of_the_interval() -> None:
    """The moments of a leaf are those since the interval began, also of merged values.

    An aggregator that is no leaf has none.
    """
    assert len(Recorder(3).moments.interval) == 0
    counts = np.zeros(1, np.int64)
    moments = Moments(counts.copy, leaf=True)
    moments.add_series()
    for values in ([1.0, 3.0], [10.0, 10.0, 16.0]):
        moments.interval.start_interval()
        moments.record(np.zeros(len(values), np.intp), np.array(values), max(values))
        counts += len(values)
        moments.fold()
    moments.merge(np.array([0]), leaf_series(0, [20.0], [1], [1]))
    total, rest, mean, squares = moments.interval.sums(np.array([0]))
    assert (total[0] + rest[0], mean[0], squares[0]) == (56.0, 14.0, 72.0)
