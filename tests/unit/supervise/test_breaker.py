"""Tests of how long a writer waits before it tries again."""

from __future__ import annotations

import math

import pytest

from telemetry import limits
from telemetry.supervise.breaker import LAST_WAIT_S, Breaker


class Time:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_waits_double_up_to_a_bound_with_as_much_by_chance() -> None:
    """Waits double up to a bound with a random share, so that many writers don't return at once."""
    calm, jittery = Breaker(Time(), lambda: 0.0), Breaker(Time(), lambda: 1.0)
    waits = []
    for _ in range(9):
        calm.failed()
        jittery.failed()
        waits.append(calm.wait_s())
        assert jittery.wait_s() == 2 * waits[-1]
    assert waits[:4] == [0.5, 1.0, 2.0, 4.0]
    assert max(waits) == waits[-1] == limits.BACKEND_RETRY_MOST_S
    for _ in range(5_000):
        calm.failed()
    assert calm.wait_s() == limits.BACKEND_RETRY_MOST_S


def test_states_follow_failures_and_tries() -> None:
    """Closed, open after a few, half-open for one try, and open again at once if that fails."""
    breaker = Breaker(Time(), lambda: 0.0)
    states = []
    for _ in range(limits.BACKEND_BREAKER_FAILURES):
        breaker.begin()
        states.append(breaker.state)
        breaker.failed()
    assert set(states) == {"closed"}
    assert breaker.state == "open"
    breaker.begin()
    assert breaker.state == "half-open"
    breaker.failed()
    assert breaker.state == "open"
    breaker.begin()
    breaker.worked()
    assert (breaker.state, breaker.failures, breaker.wait_s()) == ("closed", 0, 0.0)


def test_a_wait_passes_with_time() -> None:
    """The wait is counted from the failure."""
    time = Time()
    breaker = Breaker(time, lambda: 0.0)
    breaker.failed()
    time.now_s += 0.2
    assert abs(breaker.wait_s() - 0.3) < 1e-9
    time.now_s += 9.0
    assert breaker.wait_s() == 0.0


def test_what_the_other_side_asks_for_is_kept() -> None:
    """The wait that the server asks for is kept, also at the end, where waits are short otherwise."""
    breaker = Breaker(Time(), lambda: 0.0)
    for _ in range(10):
        breaker.failed()
    assert breaker.wait_s(last=True) == LAST_WAIT_S
    breaker.failed(after_s=90.0)
    assert (breaker.wait_s(), breaker.wait_s(last=True)) == (90.0, 90.0)


@pytest.mark.parametrize("asked_s", [1e9, math.inf])
def test_what_the_other_side_asks_for_has_a_bound(asked_s: float) -> None:
    """A day, or for ever, is no answer to a run that has an end."""
    breaker = Breaker(Time(), lambda: 0.0)
    breaker.failed(asked_s)
    assert (breaker.wait_s(), breaker.wait_s(last=True)) == (limits.BACKEND_ASKED_MOST_S,) * 2


def test_what_is_no_time_to_wait_is_not_asked_for() -> None:
    """The wait is the writer's own then."""
    breaker = Breaker(Time(), lambda: 0.0)
    for asked_s in (math.nan, -5.0):
        breaker.worked()
        breaker.failed(asked_s)
        assert breaker.wait_s() == limits.BACKEND_RETRY_S
