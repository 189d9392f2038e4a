"""Unix times of other programs as times of the monotonic clock."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.client.records import mark
from telemetry.client.steps import moment
from telemetry.client.wall_time import monotonic_ns

NEAR_NS = 5_000_000_000


def test_a_time_keeps_its_distance_from_now() -> None:
    """A converted time keeps its distance from now, within the time that the test itself may take."""
    for ago_s in (0.0, 0.5, 30.0):
        found = monotonic_ns(time.time() - ago_s)
        assert found is not None
        assert abs(time.monotonic_ns() - found - ago_s * 1e9) < NEAR_NS


def test_the_future_is_kept() -> None:
    """Clocks of two machines differ."""
    found = monotonic_ns(time.time() + 3_600)
    assert found is not None
    assert found > time.monotonic_ns() + 3_500 * 10**9


@pytest.mark.parametrize(
    "value",
    [None, 0, -1.0, 1e9, float("nan"), float("inf"), -float("inf"), 1e300, "noon", object(), [1.0], 10**400],
)
def test_what_is_no_time_since_the_start_of_the_machine_stands_for_now(value: Any) -> None:
    """The monotonic clock has no such time."""
    assert monotonic_ns(value) is None


@pytest.mark.parametrize("kind", [float, int, str, Decimal, np.float64, np.float32, np.array])
def test_any_kind_of_number_is_taken(kind: Any) -> None:
    """Programs pass what they have."""
    now = time.time() + 1_000  # whole seconds of float32 are minutes apart
    found = monotonic_ns(kind(now))
    assert found is not None
    assert abs(found - time.monotonic_ns() - 1_000 * 10**9) < 300 * 10**9


@given(st.floats() | st.integers() | st.text() | st.none() | st.booleans())
def test_the_result_is_always_a_valid_time(value: Any) -> None:
    """A record with it can be encoded, whatever was given."""
    found = monotonic_ns(value)
    assert found is None or moment(found) == found
    assert mark("x", {}, moment(found))
