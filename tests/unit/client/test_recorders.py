"""The hot path: what is taken, what is refused, and where it goes."""

from __future__ import annotations

import decimal
import fractions
import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from telemetry.client.recorders import Recorders, Rows, blocking_extend, checked_ns, python_recorders
from telemetry.client.signal_safe import Tally


@pytest.fixture
def live() -> Recorders:
    """Recorders with a fixed clock that put rows into the buffer."""
    made = python_recorders(now=lambda: 42)
    made.install(made.buffer.extend)
    return made


class Unwilling:
    def __float__(self) -> float:
        raise RuntimeError("not now")


class Lying:
    def __float__(self) -> float:
        return "8 chars."  # type: ignore[return-value]


NUMBERS = [
    1,
    -1.5,
    True,
    math.inf,
    2**60,
    decimal.Decimal("0.5"),
    fractions.Fraction(1, 4),
    np.float32(1.5),
    np.int64(7),
    np.array(3.0),
]
NO_NUMBERS = [
    "1.5",
    b"1",
    bytearray(b"1"),
    None,
    [1],
    {},
    1j,
    10**400,
    np.array([1.0, 2.0]),
    Unwilling(),
    Lying(),
    object,
]


def _kind(value: object) -> str:
    """A test's name may hold no address: it has to be the same in every process."""
    return type(value).__name__


@pytest.mark.parametrize("value", NUMBERS, ids=_kind)
def test_a_number_of_any_class_becomes_a_plain_float(live: Recorders, value: Any) -> None:
    """A plain float in the buffer can always be encoded, and no longer changes."""
    live.record(3.0)(value)
    assert live.buffer == [3.0, 42, float(value)]
    assert [type(part) for part in live.buffer] == [float, int, float]
    assert live.refused.take() == 0


@pytest.mark.parametrize("value", NO_NUMBERS, ids=_kind)
def test_what_is_no_number_is_counted_and_never_raises(live: Recorders, value: Any) -> None:
    """Text is not read as a number, whatever it spells."""
    live.record(3.0)(value)
    live.add(4.0)(value)
    assert live.buffer == []
    assert live.refused.take() == 2


def test_nan_goes_on_to_the_aggregator(live: Recorders) -> None:
    """The aggregator counts NaN as not finite, and there the loss has a producer's name."""
    live.record(3.0)(math.nan)
    assert math.isnan(live.buffer[2])


def test_an_array_is_frozen_at_the_call(live: Recorders) -> None:
    """Training code reuses its buffers."""
    loss = np.array(1.0)
    live.record(0.0)(loss)
    loss += 1
    assert live.buffer[2] == 1.0


def test_a_counter_adds_one_by_default(live: Recorders) -> None:
    """`add()` is the common case."""
    add = live.add(5.0)
    add()
    add(3)
    add(n=4)
    assert live.buffer[2::3] == [1.0, 3.0, 4.0]


def test_a_given_time_replaces_the_clock(live: Recorders) -> None:
    """A given time serves replays and feeds. Integers of numpy and booleans become plain integers."""
    record = live.record(1.0)
    record(1, at_ns=7)
    record(1, at_ns=np.int64(8))
    record(1, at_ns=True)
    live.add(1.0)(1, at_ns=9)
    assert live.buffer[1::3] == [7, 8, 1, 9]
    assert {type(part) for part in live.buffer[1::3]} == {int}


@pytest.mark.parametrize("at_ns", [-1, 1 << 63, 1.5, "now", b""])
def test_what_is_no_time_is_counted(live: Recorders, at_ns: Any) -> None:
    """An invalid time is counted, since it would make a batch that can't be read."""
    live.record(1.0)(1, at_ns=at_ns)
    assert live.buffer == []
    assert live.refused.take() == 1
    with pytest.raises((TypeError, ValueError)):
        checked_ns(at_ns)


def test_bound_recorders_follow_every_change() -> None:
    """A loop that bound `record` before the start records after it."""
    made = python_recorders(now=lambda: 1)
    record, add = made.record(0.0), made.add(1.0)
    record(1)
    assert made.buffer == []
    made.install(made.buffer.extend)
    record(2)
    add(3)
    assert made.buffer == [0.0, 1, 2.0, 1.0, 1, 3.0]
    late = Tally()
    made.install(lambda row: late.hit())
    record(4)
    assert late.total == 1
    assert len(made.buffer) == 6


def test_rows_of_many_threads_stay_whole(live: Recorders) -> None:
    """One extend is atomic: no row is torn, none is lost."""

    def work(ident: float) -> None:
        record = live.record(ident)
        for number in range(20_000):
            record(number)

    threads = [threading.Thread(target=work, args=(float(ident),)) for ident in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for ident in range(4):
        rows = zip(live.buffer[0::3], live.buffer[2::3], strict=True)
        assert [value for row_id, value in rows if row_id == ident] == list(range(20_000))


class Blocked:
    """A blocking extend over three events, with time that passes by sleeping."""

    def __init__(self) -> None:
        self.buffer: list[float] = []
        self.now = 0.0
        self.progress = 0
        self.woken = 0
        self.timed_out = Tally()
        self.on_sleep: Callable[[], object] = lambda: None
        self.extend = blocking_extend(
            self.buffer,
            3,
            5.0,
            wake=self._wake,
            progress=lambda: self.progress,
            timed_out=self.timed_out.hit_many,
            now=lambda: self.now,
            sleep=self._sleep,
        )

    def _wake(self) -> None:
        self.woken += 1

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        self.on_sleep()

    def put(self, count: int) -> None:
        row: Rows = (0.0, 1, 2.0)
        for _ in range(count):
            self.extend(row)


def test_policy_block_waits_for_room() -> None:
    """The caller goes on as soon as the flusher took something; nothing is lost."""
    blocked = Blocked()
    blocked.put(3)
    assert blocked.woken == 0
    blocked.on_sleep = lambda: blocked.now > 1.0 and blocked.buffer.clear()
    blocked.put(1)
    assert len(blocked.buffer) == 3
    assert 1.0 < blocked.now < 1.1
    assert (blocked.woken, blocked.timed_out.total) == (1, 0)


def test_policy_block_gives_up_after_its_timeout() -> None:
    """The event is dropped and counted."""
    blocked = Blocked()
    blocked.put(4)
    assert len(blocked.buffer) == 9
    assert blocked.now == pytest.approx(5.0, abs=0.01)
    assert blocked.timed_out.total == 1


def test_a_stuck_aggregator_costs_one_timeout() -> None:
    """Later events are dropped at once until the aggregator moves. After that, callers wait again."""
    blocked = Blocked()
    blocked.put(100)
    assert blocked.now == pytest.approx(5.0, abs=0.01)
    assert blocked.timed_out.total == 97
    blocked.progress += 1
    blocked.put(1)
    assert blocked.now == pytest.approx(10.0, abs=0.02)
    blocked.buffer.clear()
    blocked.put(1)
    assert len(blocked.buffer) == 3


def test_policy_block_waits_once_for_all_rows_of_a_call() -> None:
    """The rows of a call go in together or are dropped together, and each is counted."""
    blocked = Blocked()
    rows: Rows = (0.0, 1, 2.0) * 4
    blocked.extend(rows)
    assert blocked.buffer == list(rows)
    blocked.extend(rows)
    assert blocked.now == pytest.approx(5.0, abs=0.01)
    assert (len(blocked.buffer), blocked.timed_out.total) == (12, 4)


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])
def test_who_ends_the_program_while_a_call_waits_loses_nothing(raised: type[BaseException]) -> None:
    """The rows of the call go in, beyond the capacity, and the signal handler's exception goes on."""
    blocked = Blocked()
    blocked.put(3)

    def handle() -> None:
        raise raised

    blocked.on_sleep = handle
    with pytest.raises(raised):
        blocked.put(1)
    assert (len(blocked.buffer), blocked.timed_out.total) == (12, 0)


def test_rows_that_are_numbers_take_the_same_way(live: Recorders) -> None:
    """Wherever that leads now."""
    put = live.put
    put((1.0, 2, 3.0, 4.0, 5, 6.0))
    assert live.buffer == [1.0, 2, 3.0, 4.0, 5, 6.0]
    seen: list[Rows] = []
    live.install(seen.append)
    put((1.0, 2, 3.0))
    assert (len(live.buffer), seen) == (6, [(1.0, 2, 3.0)])
