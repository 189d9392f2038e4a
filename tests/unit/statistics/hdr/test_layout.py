"""Bucket arithmetic against the `hdrhistogram` library."""

from __future__ import annotations

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram

from telemetry.errors import UsageError
from telemetry.statistics.hdr.layout import Layout

LAST_TICK = (1 << 53) - 1
EDGES = sorted({0, LAST_TICK} | {(1 << bit) + step for bit in range(53) for step in (-1, 0, 1)} - {-1})


@pytest.fixture(scope="module", params=range(1, 6))
def oracle(request: pytest.FixtureRequest) -> HdrHistogram:
    """The library's histogram of one precision."""
    return HdrHistogram(1, LAST_TICK, request.param)


def test_slots_at_powers_of_two_are_the_librarys(oracle: HdrHistogram) -> None:
    """Every power of two, one below and one above, falls into the library's slot."""
    layout = Layout.of(oracle.significant_figures)
    assert layout.slots == oracle.counts_len
    slots = layout.slot_of(np.array(EDGES, dtype=np.int64)).tolist()
    assert slots == [oracle._counts_index_for(tick) for tick in EDGES]


def test_equivalent_ranges_are_the_librarys(oracle: HdrHistogram) -> None:
    """Lowest and highest tick of a slot are the library's equivalent values."""
    layout = Layout.of(oracle.significant_figures)
    ticks = np.array(EDGES, dtype=np.int64)
    slots = layout.slot_of(ticks)
    assert layout.lowest_of(slots).tolist() == [oracle.get_lowest_equivalent_value(tick) for tick in EDGES]
    assert layout.highest_of(slots).tolist() == [oracle.get_highest_equivalent_value(tick) for tick in EDGES]


@pytest.mark.parametrize("digits", range(1, 5))
def test_slots_tile_the_ticks(digits: int) -> None:
    """Slots follow each other without gap or overlap up to the last tick, and none is wider than its bound."""
    layout = Layout.of(digits)
    assert layout.lowest[0] == 0
    assert layout.highest[-1] == LAST_TICK
    assert np.array_equal(layout.lowest[1:], layout.highest[:-1] + 1)
    widths = layout.highest - layout.lowest
    assert np.all(widths <= layout.error_bound * layout.lowest)


def test_a_chunk_without_small_ticks_needs_no_care_for_them() -> None:
    """Both forms of the slot computation agree where both apply."""
    layout = Layout.of(3)
    ticks = np.array([1024.0, 2047.0, 2048.0, 1e9, float(LAST_TICK)])
    careful = layout.slot_of_whole(ticks, small=True)
    assert np.array_equal(careful, layout.slot_of_whole(ticks, small=False))


def test_negative_zero_is_zero() -> None:
    """The sign bit of -0.0 does not reach the slot."""
    assert Layout.of(3).slot_of_whole(np.array([-0.0, 5.0]), small=True).tolist() == [0, 5]


def test_layouts_are_shared_and_digits_checked() -> None:
    """One layout for each precision; others are refused."""
    assert Layout.of(2) is Layout.of(2)
    with pytest.raises(UsageError, match="digits"):
        Layout.of(6)
