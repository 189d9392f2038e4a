"""The hot path: functions that put one event into the process's one buffer.

All recorders of a process share one cell, `extend`. What it holds decides what becomes of an event:

    before a start, or with no endpoint    discard
    live, policy drop                      the buffer's own `extend`: one C call, atomic
    live, policy block                     waits for room
    in a forked child                      starts the child's own flusher, then goes live
    after finish                           counts

A recorder that a loop has bound long ago therefore stays valid, and costs nothing extra.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ldexp
from operator import index
from typing import Final, Protocol, SupportsFloat, SupportsIndex

from telemetry.client.tally import Tally

Rows = Sequence[float]
"""One event or more, `id, time, value` of each, flat. They go into the buffer together."""
Extend = Callable[[Rows], object]
Buffer = list[float]

_POLL_S: Final = 0.001
TIME_LIMIT: Final = 1 << 63

discard: Final[Extend] = deque[float](maxlen=0).extend


class Record(Protocol):
    """Records `value`, now or at a moment of the monotonic clock. Never blocks with policy `drop`, never raises.

    A value that is no number is dropped and counted.
    """

    def __call__(self, value: SupportsFloat, at_ns: int | None = None) -> None: ...


class Add(Protocol):
    """Adds `n`, now or at a moment of the monotonic clock. Never blocks with policy `drop`, never raises."""

    def __call__(self, n: SupportsFloat = 1, at_ns: int | None = None) -> None: ...


@dataclass(frozen=True)
class Recorders:
    """What the rest of the process needs of the hot path."""

    buffer: Buffer
    """Flat `id, time, value, …`. Never replaced: recorders hold its bound methods."""
    refused: Tally
    """Values that were no numbers."""
    install: Callable[[Extend], None]
    record: Callable[[float], Record]
    """A recorder for a row id."""
    add: Callable[[float], Add]
    """The same with a default of one."""
    put: Extend
    """For rows that are plain numbers already."""


def build_recorders(now: Callable[[], int] = time.monotonic_ns) -> Recorders:
    """The recorders of a process, discarding until `install` says otherwise.

    `ldexp(v, 0)` is `float(v)` for everything that is a number, arrays and tensors of one element included, but
    refuses text, and returns a plain float whatever the class: so a row can always be encoded.
    """
    buffer: Buffer = []
    refused = Tally()
    refuse = refused.hit
    extend = discard

    def install(target: Extend) -> None:
        nonlocal extend
        extend = target

    def make_record(row_id: float) -> Record:
        def record(value: SupportsFloat, at_ns: int | None = None) -> None:
            try:
                extend((row_id, now() if at_ns is None else checked_ns(at_ns), ldexp(value, 0)))
            except Exception:  # noqa: BLE001 – a value may raise anything; it is counted and reported with the run
                refuse()

        return record

    def make_add(row_id: float) -> Add:
        def add(n: SupportsFloat = 1, at_ns: int | None = None) -> None:
            try:
                extend((row_id, now() if at_ns is None else checked_ns(at_ns), ldexp(n, 0)))
            except Exception:  # noqa: BLE001 – as above
                refuse()

        return add

    def put(rows: Rows) -> None:
        extend(rows)

    return Recorders(buffer, refused, install, make_record, make_add, put)


def checked_ns(at_ns: SupportsIndex) -> int:
    """A plain integer that the wire takes as a time. Raises TypeError or ValueError."""
    plain = int(index(at_ns))
    if not 0 <= plain < TIME_LIMIT:
        raise ValueError(f"{plain} ns is no time")
    return plain


def blocking_extend(
    buffer: Buffer,
    capacity: int,
    timeout_s: float,
    *,
    wake: Callable[[], object],
    progress: Callable[[], int],
    timed_out: Callable[[int], object],
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> Extend:
    """An `extend` that waits while `capacity` events are waiting, at most `timeout_s`, then drops and counts. It
    waits once for all rows of a call.

    A caller that gave up spares the others: until `progress` has moved, later events are dropped at once. A
    stuck aggregator costs a program one timeout, not one for each event.
    """
    extend = buffer.extend
    full = 3 * capacity
    stuck_at = -1

    def wait_for_room(rows: Rows) -> None:
        nonlocal stuck_at
        if progress() == stuck_at:
            timed_out(len(rows) // 3)
            return
        try:
            wake()
            deadline = now() + timeout_s
            while len(buffer) >= full:
                if now() >= deadline:
                    stuck_at = progress()
                    timed_out(len(rows) // 3)
                    return
                sleep(_POLL_S)
        except (KeyboardInterrupt, SystemExit):  # a signal handler's: the program ends, what it recorded is kept
            extend(rows)
            raise
        extend(rows)

    def extend_or_wait(rows: Rows) -> None:
        if len(buffer) < full:
            extend(rows)
        else:
            wait_for_room(rows)

    return extend_or_wait
