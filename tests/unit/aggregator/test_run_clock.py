"""The run's own clock: distances are those of monotonic clocks, whatever the wall clock does."""

from __future__ import annotations

import pytest

from telemetry.aggregator.run_clock import RunClock

SECOND = 1_000_000_000
HOUR = 3_600 * SECOND
WALL = 1_700_000_000 * SECOND
UP = 5_000 * SECOND
"""How long our machine was up at the first batch."""
OTHER = 90_000 * SECOND
"""How long another one was."""


@pytest.fixture
def clock() -> RunClock:
    made = RunClock()
    made.read(UP, WALL)
    return made


def test_it_begins_as_the_wall_clock_and_goes_on_as_the_monotonic_one(clock: RunClock) -> None:
    """A step is told apart from the time it took to read two clocks."""
    assert (clock.now_ns, clock.shift_ns) == (WALL, 0)
    clock.read(UP + SECOND, WALL + SECOND + 20_000)
    assert (clock.now_ns, clock.shift_ns) == (WALL + SECOND, 0)
    clock.read(UP + 2 * SECOND, WALL + 2 * SECOND - 5 * HOUR)
    assert (clock.now_ns, clock.shift_ns) == (WALL + 2 * SECOND, -5 * HOUR)


def test_asking_for_the_shift_changes_nothing() -> None:
    """A question for the shift does not move the clock, neither before the first batch nor after it."""
    clock = RunClock()
    assert clock.shift_at(UP, WALL) == 0
    clock.read(UP, WALL)
    assert clock.shift_at(UP, WALL + HOUR) == HOUR
    assert (clock.now_ns, clock.shift_ns) == (WALL, 0)


@pytest.mark.parametrize("delay", [0, SECOND // 50, HOUR])
def test_a_process_of_our_machine_has_our_clock(clock: RunClock, delay: int) -> None:
    """A process of our machine has our clock to the nanosecond, however late its batch is taken."""
    anchor = UP - delay, WALL - delay + 30_000
    assert clock.offset_of(anchor) == WALL - UP


@pytest.mark.parametrize("step", [3 * HOUR, -5 * HOUR, 20 * SECOND, -20 * SECOND])
def test_a_step_before_the_first_batch_of_a_process_of_our_machine(clock: RunClock, step: int) -> None:
    """A step of the wall clock moves nothing for a process of our machine.

    This holds whether or not our clock has read it, and for batches from before or after it.
    """
    now = UP + 60 * SECOND
    for told_us, told_it in ((0, step), (step, step), (step, 0)):
        clock.read(now, WALL + 60 * SECOND + told_us)
        assert clock.offset_of((now - SECOND // 50, WALL + 60 * SECOND - SECOND // 50 + told_it)) == WALL - UP


@pytest.mark.parametrize("step", [0, 3 * HOUR, -5 * HOUR])
def test_the_clock_of_another_machine_is_told_by_the_wall_clocks(clock: RunClock, step: int) -> None:
    """The clock of another machine follows from the two wall clocks.

    These agree, before a step of both and after it.
    """
    clock.read(UP + SECOND, WALL + SECOND + step)
    assert clock.offset_of((OTHER, WALL + step)) == WALL - OTHER


def test_a_wall_clock_that_runs_ahead_is_not_believed(clock: RunClock) -> None:
    """A batch counts as made when it came, at the latest: no batch comes from later than now."""
    assert clock.offset_of((OTHER, WALL + HOUR)) == WALL - OTHER


def test_a_batch_of_another_machine_may_have_been_long_on_its_way(clock: RunClock) -> None:
    """A batch of another machine may be old: it was sent again, or its anchor was read once for all."""
    assert clock.offset_of((OTHER, WALL - HOUR)) == WALL - HOUR - OTHER
