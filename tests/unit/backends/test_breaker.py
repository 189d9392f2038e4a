"""How long a writer waits before it tries again."""

from __future__ import annotations

from telemetry import limits
from telemetry.backends.breaker import LAST_WAIT_S, Breaker


class Time:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_waits_double_up_to_a_bound_with_as_much_by_chance() -> None:
    """So that a thousand writers don't come back at the same moment."""
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
    """It is counted from the failure."""
    time = Time()
    breaker = Breaker(time, lambda: 0.0)
    breaker.failed()
    time.now_s += 0.2
    assert abs(breaker.wait_s() - 0.3) < 1e-9
    time.now_s += 9.0
    assert breaker.wait_s() == 0.0


def test_what_the_other_side_asks_for_is_kept() -> None:
    """Also at the end, where waits are short otherwise."""
    breaker = Breaker(Time(), lambda: 0.0)
    for _ in range(10):
        breaker.failed()
    assert breaker.wait_s(last=True) == LAST_WAIT_S
    breaker.failed(after_s=90.0)
    assert (breaker.wait_s(), breaker.wait_s(last=True)) == (90.0, 90.0)
