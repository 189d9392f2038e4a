"""Numbers as snapshots show them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from telemetry.aggregator.snapshot_numbers import LARGEST, bounded, grown, plain


@pytest.mark.parametrize(
    ("value", "shown"), [(3.0, 3), (-2.0, -2), (0.5, 0.5), (2.0**53, 2.0**53), (2.0**53 - 1, 2**53 - 1)]
)
def test_plain_is_an_int_where_that_is_exact(value: float, shown: int | float) -> None:
    """Integral values below 2**53 are integers, all others stay floats."""
    assert plain(value) == shown
    assert type(plain(value)) is type(shown)


def test_integers_the_wire_cant_carry_become_floats() -> None:
    """The largest int64 stays; beyond it the nearest float, and beyond floats the largest."""
    assert bounded((1 << 63) - 1) == (1 << 63) - 1
    assert bounded(1 << 63) == float(1 << 63)
    assert isinstance(bounded(1 << 63), float)
    assert bounded(10**400) == LARGEST


def test_floats_that_json_cant_carry_become_the_largest() -> None:
    """Sums that overflowed stay numbers."""
    assert bounded(1.5) == 1.5
    assert bounded(math.inf) == bounded(math.nan) == LARGEST


def test_grown_keeps_what_is_there_and_doubles() -> None:
    """Old entries stay, new ones are zero, and small steps don't copy each time."""
    column = np.arange(20)
    assert grown(column, 20) is column
    larger = grown(column, 21)
    assert len(larger) == 40
    assert larger[:20].tolist() == list(range(20))
    assert not larger[20:].any()
