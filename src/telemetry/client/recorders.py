"""The hot path: functions that put one event into the single buffer of the process.

All recorders of a process share one cell, `extend`. Its target decides what happens to an event:

    before a start, or with no endpoint    discard
    live, policy drop                      the buffer's own `extend`: one C call, atomic
    live, policy block                     waits for room
    in a forked child                      starts the child's own flusher, then becomes live
    after finish                           counts

So a recorder that a loop bound long ago stays valid, at no extra cost.
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
"""Rows of one or more events, flat: `id, time, value` of each. They enter the buffer together."""
Extend = Callable[[Rows], object]
Buffer = list[float]

_POLL_S: Final = 0.001
TIME_LIMIT: Final = 1 << 63

discard: Final[Extend] = deque[float](maxlen=0).extend


class Record(Protocol):
    """Record `value`, now or at a time of the monotonic clock.

    Never raises, and never blocks with policy `drop`. A value that is not a number is dropped and counted.
    """

    def __call__(self, value: SupportsFloat, at_ns: int | None = None) -> None: ...


class Add(Protocol):
    """Add `n`, now or at a time of the monotonic clock. Never raises, and never blocks with policy `drop`."""

    def __call__(self, n: SupportsFloat = 1, at_ns: int | None = None) -> None: ...


@dataclass(frozen=True)
class Recorders:
    """The hot path, as the rest of the process uses it."""

    buffer: Buffer
    """Flat list `id, time, value, …`. Never replaced, because recorders hold its bound methods."""
    refused: Tally
    """Number of values that were not numbers."""
    install: Callable[[Extend], None]
    record: Callable[[float], Record]
    """Factory of a recorder for a row id."""
    add: Callable[[float], Add]
    """Factory of a recorder for a row id whose value defaults to 1."""
    put: Extend
    """Recorder of rows that are already plain numbers."""


def build_recorders(now: Callable[[], int] = time.monotonic_ns) -> Recorders:
    """Return the recorders of a process. They discard events until `install` sets a target.

    `ldexp(v, 0)` equals `float(v)` for every number, including arrays and tensors of one element. Unlike `float`,
    it refuses text, and it returns a plain float for any class, so a row can always be encoded.
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
    """Return a plain integer that is valid as a time on the wire. Raise TypeError or ValueError."""
    plain = int(index(at_ns))
    if not 0 <= plain < TIME_LIMIT:
        raise ValueError(f"{plain} ns is not a valid time")
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
    """Return an `extend` that waits for room while `capacity` events are in the buffer.

    After `timeout_s` it drops and counts the events. It waits once for all rows of a call. After a timeout, later
    events are dropped at once until `progress` has moved. So a stuck aggregator costs the program one timeout, not
    one per event.
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
        # raised in a signal handler: the program ends, and its rows are kept
        except (KeyboardInterrupt, SystemExit):
            extend(rows)
            raise
        extend(rows)

    def extend_or_wait(rows: Rows) -> None:
        if len(buffer) < full:
            extend(rows)
        else:
            wait_for_room(rows)

    return extend_or_wait
