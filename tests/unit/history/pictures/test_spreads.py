"""Bars and rows: fine enough for two modes, and no value is counted twice or left out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from telemetry.history.pictures.collector import (
    BARS,
    LINEAR_BARS,
    ROWS,
    Cumulative,
    coarse_distribution,
    distribution,
    heat_map,
)
from telemetry.statistics.hdr.layout import Layout
from telemetry.wire.cells import cell
from telemetry.wire.control import SeriesKey
from telemetry.wire.pictures import Distribution
from telemetry.wire.snapshot import SeriesStat

MS = SeriesKey(index=0, name="latency", kind="series", unit="ms", digits=3, ticks_per_unit=1e6)
STAT = SeriesStat(name="latency", unit="ms")


def held(values: NDArray[np.float64], key: SeriesKey = MS) -> Cumulative:
    """Values in the slots of a histogram of milliseconds."""
    ticks = np.rint(values * key.ticks_per_unit).astype(np.int64)
    slots, counts = np.unique(Layout.of(key.digits).slot_of(ticks), return_counts=True)
    return Cumulative.of(key, slots, counts)


def drawn(values: NDArray[np.float64], key: SeriesKey = MS) -> Distribution:
    found = distribution(STAT, held(values, key))
    assert len(found.edges) == len(found.counts) + 1
    assert (np.diff(found.edges) > 0).all()
    assert sum(found.counts) + found.below + found.above == values.size
    return found


def peaks(of: Distribution) -> list[float]:
    """Middles of the bars that are the highest of their neighbourhood, above half of the highest bar."""
    counts, middles = np.array(of.counts), (np.array(of.edges[1:]) + of.edges[:-1]) / 2
    found: list[float] = []
    for place in np.flatnonzero(counts > counts.max() / 2).tolist():
        if not found or (counts[:place][middles[:place] > found[-1]] < counts.max() / 4).any():
            found.append(float(middles[place]))
    return found


@pytest.mark.parametrize("tail", [0.0, 0.01], ids=["narrow", "with a tail"])
def test_two_modes_ten_percent_apart(tail: float) -> None:
    """Two hosts, one a tenth slower: two hills with a valley between, even if a few values are far out."""
    random = np.random.default_rng(1)
    values = np.where(random.random(20_000) < 0.5, 100.0, 110.0) * (1.0 + 0.01 * random.standard_normal(20_000))
    values *= np.where(random.random(20_000) < tail, 10.0 * random.random(20_000) + 1.0, 1.0)
    first, second = peaks(drawn(values))
    assert 96.0 < first < 103.0
    assert 105.0 < second < 113.0


def test_a_wide_distribution_has_a_log_scale() -> None:
    """Bars have equal ratios, from percentile 0.1 to 99.9, and no comb from slots that are wider or narrower."""
    values = np.random.default_rng(2).lognormal(3.0, 1.0, 100_000)
    found = drawn(values)
    assert (found.scale, len(found.counts)) == ("log", BARS)
    ratios = np.array(found.edges[1:]) / found.edges[:-1]
    assert ratios == pytest.approx(ratios[0])
    low, high = np.percentile(values, [0.1, 99.9])
    assert found.edges[0] == pytest.approx(low, rel=0.02)
    assert found.edges[-1] == pytest.approx(high, rel=0.02)
    assert 80 <= found.above <= 101
    true, _ = np.histogram(values, found.edges)
    assert np.abs(true - found.counts).max() <= 0.04 * true.max()


def test_a_narrow_distribution_has_round_bars() -> None:
    """The edges on a linear scale are multiples of 1, 2 or 5 times a power of ten."""
    found = drawn(np.random.default_rng(3).uniform(20.0, 60.0, 50_000))
    assert found.scale == "linear"
    assert 40 <= len(found.counts) <= LINEAR_BARS
    assert found.edges[:3] == [20.0, 20.5, 21.0]
    assert max(found.counts) < 1.3 * min(found.counts[1:-1])


def test_whole_numbers_have_a_bar_each() -> None:
    """Tokens are not halves: a bar is not narrower than what the histogram tells apart."""
    tokens = SeriesKey(index=0, name="tokens", kind="series", unit="tokens", digits=3)
    found = drawn(np.repeat([3.0, 4.0, 7.0], [50, 30, 20]), tokens)
    assert found.edges == [3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    assert found.counts == [50, 30, 0, 0, 20]


@pytest.mark.parametrize("value", [0.0, 5.0, 1e9])
def test_a_single_value(value: float) -> None:
    """A single value has a bar, wherever it is."""
    found = drawn(np.full(9, value))
    assert sum(found.counts) == 9
    assert found.edges[0] <= value < found.edges[-1]


def test_few_values_have_few_bars() -> None:
    """A picture with a bar for each of a few values would show noise."""
    assert len(drawn(np.random.default_rng(4).lognormal(3.0, 1.0, 100)).counts) <= 30


def test_mostly_zeros() -> None:
    """A queue that is mostly empty has a linear scale from zero."""
    found = drawn(np.concatenate([np.zeros(900), np.linspace(0.1, 20.0, 100)]))
    assert (found.scale, found.edges[0]) == ("linear", 0.0)
    assert found.counts[0] >= 900


def test_a_result_alone_has_coarse_bars() -> None:
    """The cells of a result are contiguous, and values far out are counted beside them."""
    counts = {cell(10): 5, cell(100): 10_000, cell(130): 3_000, cell(5_000): 3}
    found = coarse_distribution(
        SeriesStat(name="a", unit="ns", histogram=sorted(counts.items()), cell_unit=0.5, labels={"k": "v"})
    )
    assert found is not None
    assert (found.scale, found.below, found.above) == ("cells", 5, 3)
    assert (found.edges, found.counts) == ([48.0, 56.0, 64.0, 80.0], [10_000, 0, 3_000])
    assert coarse_distribution(SeriesStat(name="a")) is None


@pytest.mark.parametrize("unit", [math.nan, math.inf, 0.0, -1.0, 1e300])
def test_a_damaged_result_has_no_bars(unit: float) -> None:
    """Impossible cells are ignored, with an impossible unit all of them."""
    cells = [(-5, 3), (10**9, 2), (7, -1), (8, 10**400)]
    assert coarse_distribution(SeriesStat(name="a", histogram=cells, cell_unit=unit)) is None
    found = coarse_distribution(SeriesStat(name="a", histogram=cells, cell_unit=1.0))
    assert found is not None
    assert (found.edges, found.counts) == ([8.0, 10.0], [10**400])


def test_slots_that_no_histogram_has() -> None:
    """A damaged history may have them; they count as the largest values."""
    layout = Layout.of(1)
    slots = np.array([3, layout.slots - 1, layout.slots + 5, layout.slots + 900])
    values = Cumulative.of(SeriesKey(index=0, name="a", kind="series", digits=1), slots, np.array([5, 1, 1, 1]))
    found = distribution(SeriesStat(name="a"), values)
    assert sum(found.counts) + found.below + found.above == 8
    assert sum(heat_map(SeriesStat(name="a"), values, [values]).counts[0]) == 8


def test_rows_of_a_heat_map() -> None:
    """Steps without values are empty; the first row has the smallest values, the last row the largest one."""
    random = np.random.default_rng(5)
    parts = [random.lognormal(3.0, 1.0, 2_000), random.lognormal(4.0, 0.1, 50)]
    whole = held(np.concatenate(parts))
    found = heat_map(STAT, whole, [held(parts[0]), None, held(parts[1])])
    assert (len(found.edges), [len(counts) for counts in found.counts]) == (ROWS + 1, [ROWS, 0, ROWS])
    assert [sum(counts) for counts in found.counts] == [2_000, 0, 50]
    assert found.edges[-1] > max(part.max() for part in parts)
    ratios = np.array(found.edges[1:]) / found.edges[:-1]
    assert ratios == pytest.approx(ratios[0])
    hot = found.edges[int(np.argmax(found.counts[2]))]
    assert 40.0 < hot < 60.0


def test_a_heat_map_of_zeros_and_of_one_value() -> None:
    """Zero has no place on a log scale; it is in the first row."""
    mixed = held(np.concatenate([np.zeros(90), np.full(10, 8.0)]))
    found = heat_map(STAT, mixed, [mixed])
    assert (found.counts[0][0], sum(found.counts[0])) == (100, 100)
    for value in (0.0, 7.0):
        alone = held(np.full(5, value))
        assert heat_map(STAT, alone, [alone]).counts == [[5]]
