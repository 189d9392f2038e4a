"""The hot path: functions that put one event into the single buffer of the process.

This is the way in Python; `telemetry.client.native_recorders` has the compiled one, which does the same.

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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import ldexp
from operator import index
from typing import Final, Protocol, SupportsFloat, SupportsIndex

from telemetry.client.signal_safe import HitCounter, Tally
from telemetry.wire.control import Hello

Rows = Sequence[float]
"""Rows of one or more events, flat: `id, time, value` of each. They enter the buffer together."""
Extend = Callable[[Rows], object]

_POLL_S: Final = 0.001
_ROW: Final = 3  # numbers of a row
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


class Buffer(Protocol):
    """Rows that wait for a batch. Threads add rows; one thread takes them, the oldest first.

    As a sequence, it is the flat rows `id, time, value, …`.
    """

    @property
    def waiting(self) -> int:
        """Number of rows."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[float]: ...

    def extend(self, rows: Rows, /) -> object:
        """Add rows, whatever is installed."""

    def hold(self, most: int, /) -> None:
        """Refuse rows from now on while so many wait."""

    def take(self, most: int, /) -> tuple[bytes | list[float], int]:
        """Take the oldest rows. Return them, flat or as a msgpack array, and their number."""

    def drop(self, count: int, /) -> None:
        """Give up the oldest rows."""

    def clear(self) -> None:
        """Give up all rows."""

    def new_records(self) -> deque[bytes]:
        """Return a queue for encoded records."""

    def records_gone(self, records: Sequence[bytes], /) -> None:
        """Note that these records, the oldest of the queue, are in a batch or were given up."""

    def note_batch(self, seq: int, first: int, monotonic_ns: int, wall_ns: int, /) -> None:
        """Note that a batch has all rows and records that were taken so far."""

    def acknowledged(self, batches: int, /) -> None:
        """Note that all batches below this number have arrived."""


class ListBuffer(list[float]):
    """A buffer of Python objects. Its rows end with the process."""

    @property
    def waiting(self) -> int:
        return len(self) // _ROW

    def hold(self, most: int, /) -> None:
        """Do nothing: a list has room, and its reader drops what is too much."""

    def take(self, most: int, /) -> tuple[list[float], int]:
        rows = self[: _ROW * most]
        del self[: len(rows)]
        return rows, len(rows) // _ROW

    def drop(self, count: int, /) -> None:
        del self[: _ROW * count]

    def new_records(self) -> deque[bytes]:
        return deque()

    def records_gone(self, records: Sequence[bytes], /) -> None:
        """Do nothing: the queue is the only place of records."""

    def note_batch(self, seq: int, first: int, monotonic_ns: int, wall_ns: int, /) -> None:
        """Do nothing: nobody reads this buffer later."""

    def acknowledged(self, batches: int, /) -> None:
        """Do nothing: rows in batches are no longer here."""


class Memory(Protocol):
    """The memory of a producer's latest events, which may outlive the process."""

    def open(
        self,
        producer: str,
        bound: int,
        definitions: Sequence[bytes],
        hello: Hello | None = None,
        endpoint: str = "",
    ) -> str:
        """Begin with empty memory for a producer. Return the path of its file; empty if it ends with the process.

        Earlier definitions are kept, too. So is `hello`, for the aggregator at `endpoint` that may never get it. An
        aggregator on another host can't read a file.
        """

    def define(self, definition: bytes) -> None:
        """Keep a definition before an event can use its id."""

    def renew_rules(self) -> None:
        """Keep the rules of redaction that now apply."""

    def remove(self) -> None:
        """Give up the memory and remove its files: all events have arrived, or nobody waits for them."""

    def forget(self) -> None:
        """Leave the memory to the parent of this forked process."""


class OwnMemory:
    """Memory that ends with the process: the buffer itself."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer

    def open(
        self,
        producer: str,
        bound: int,
        definitions: Sequence[bytes],
        hello: Hello | None = None,
        endpoint: str = "",
    ) -> str:
        self._buffer.clear()
        return ""

    def define(self, definition: bytes) -> None:
        """Do nothing: definitions end with the process, too."""

    def renew_rules(self) -> None:
        """Do nothing: only this process masks."""

    def remove(self) -> None:
        self._buffer.clear()

    def forget(self) -> None:
        self._buffer.clear()


@dataclass(frozen=True)
class Recorders:
    """The hot path, as the rest of the process uses it."""

    buffer: Buffer
    """Rows that wait for a batch. Never replaced, because recorders hold its bound methods."""
    memory: Memory
    refused: HitCounter
    """Number of values that were not numbers."""
    buffer_full: HitCounter
    """Number of rows that found no room. A list has room; what is too much is dropped by its reader."""
    timed_out: HitCounter
    """Number of rows that were dropped because a call had waited for room long enough."""
    unencodable: HitCounter
    """Number of records and events that could not be encoded, or had no id."""
    install: Callable[[Extend], None]
    install_waiting: Callable[[Extend], None]
    """Record into the buffer, with a function that waits for room in it."""
    record: Callable[[float], Record]
    """Factory of a recorder for a row id."""
    add: Callable[[float], Add]
    """Factory of a recorder for a row id whose value defaults to 1."""
    put: Extend
    """Recorder of rows that are already plain numbers."""
    next_request: Callable[[], int] = field(default_factory=lambda: count().__next__)
    """Function that returns the number of the next request for the request log."""
    requests_logged: Callable[[int], object] = lambda requests: None
    """Function that notes that so many more requests are in records, in memory that outlives the process."""


def python_recorders(now: Callable[[], int] = time.monotonic_ns) -> Recorders:
    """Return the recorders of a process, in Python. They discard events until `install` sets a target.

    `ldexp(v, 0)` equals `float(v)` for every number, including arrays and tensors of one element. Unlike `float`,
    it refuses text, and it returns a plain float for any class, so a row can always be encoded.
    """
    buffer = ListBuffer()
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

    return Recorders(
        buffer=buffer,
        memory=OwnMemory(buffer),
        refused=refused,
        buffer_full=Tally(),
        timed_out=Tally(),
        unencodable=Tally(),
        install=install,
        install_waiting=install,
        record=make_record,
        add=make_add,
        put=put,
    )


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
    full = _ROW * capacity
    stuck_at = -1

    def wait_for_room(rows: Rows) -> None:
        nonlocal stuck_at
        if progress() == stuck_at:
            timed_out(len(rows) // _ROW)
            return
        try:
            wake()
            deadline = now() + timeout_s
            while len(buffer) >= full:
                if now() >= deadline:
                    stuck_at = progress()
                    timed_out(len(rows) // _ROW)
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
