"""The system's clocks behind the Protocol."""

from __future__ import annotations

import time

from telemetry.common.clock import SYSTEM_CLOCK, backoff_s


def test_the_monotonic_clock_never_goes_back() -> None:
    """Durations are differences of it."""
    times = [SYSTEM_CLOCK.monotonic_ns() for _ in range(1_000)]
    assert times == sorted(times)


def test_both_clocks_are_those_of_the_machine() -> None:
    """Monotonic times compare between processes of a host; wall times are since 1970."""
    before = (time.monotonic_ns(), time.time_ns())
    between = (SYSTEM_CLOCK.monotonic_ns(), SYSTEM_CLOCK.wall_ns())
    after = (time.monotonic_ns(), time.time_ns())
    assert before[0] <= between[0] <= after[0]
    assert before[1] <= between[1] <= after[1]


def test_waits_grow_with_failures() -> None:
    """The wait is zero at first, then grows to a bound, also after any number of failures."""
    assert [backoff_s(failures, 0.5, 3.0) for failures in range(6)] == [0.0, 0.5, 1.0, 2.0, 3.0, 3.0]
    assert [backoff_s(failures, 1.0, factor=3.0) for failures in (1, 2, 3)] == [1.0, 3.0, 9.0]
    assert backoff_s(10**9, 0.5, 30.0) == 30.0
