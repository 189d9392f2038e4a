"""Messages between a search over nodes and the loop that owns the sockets."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from msgspec.structs import astuple

from telemetry import limits
from telemetry.common.clock import SYSTEM_CLOCK, Clock
from telemetry.wire.search import Found, Search

_WAIT_S: Final = 0.1


@dataclass(frozen=True)
class Returned:
    """A leaf that has connected, for the first time or again."""

    producer: str


Arrival = Found | Returned


class SearchChannel:
    """Two bounded queues. A search runs on a thread of its own, one at a time; the loop never waits for it."""

    def __init__(self, wake: Callable[[], object], clock: Clock = SYSTEM_CLOCK) -> None:
        """Prepare the queues. `wake` makes the loop call `outgoing`; any thread may call it."""
        self._wake = wake
        self._clock = clock
        self._turn = threading.Lock()
        self._changed = threading.Condition()
        self._number: int | None = None
        self._last_number = 0
        self._arrived: deque[tuple[Arrival, int]] = deque()
        self._arrived_bytes = 0
        self._outgoing: deque[tuple[str, Search]] = deque()

    # --- the thread of a search ------------------------------------------------------------------

    @contextmanager
    def searching(self, meanwhile: Callable[[], object] = lambda: None) -> Iterator[None]:
        """Hold the channel. Blocks until another search of this process has ended, and calls `meanwhile` then."""
        while not self._turn.acquire(timeout=_WAIT_S):
            meanwhile()
        try:
            yield
        finally:
            self._forget(None)
            self._turn.release()

    def new_number(self) -> int:
        """Begin the next search and return its number. No other search has it, also after a restart."""
        self._last_number = max(self._last_number + 1, self._clock.wall_ns())
        self._forget(self._last_number)
        return self._last_number

    def send(self, leaf: str, messages: Iterable[Search]) -> None:
        """Queue messages to a leaf."""
        with self._changed:
            self._outgoing.extend((leaf, message) for message in messages)
        self._wake()

    def receive(self, timeout_s: float) -> list[Arrival]:
        """Return what has arrived. Wait for at most `timeout_s` if that is nothing."""
        with self._changed:
            if not self._arrived and timeout_s > 0:
                self._changed.wait_for(lambda: bool(self._arrived), timeout_s)
            arrived = [arrival for arrival, _ in self._arrived]
            self._arrived.clear()
            self._arrived_bytes = 0
        return arrived

    def _forget(self, number: int | None) -> None:
        with self._changed:
            self._number = number
            self._arrived.clear()
            self._arrived_bytes = 0
            self._outgoing.clear()

    # --- the loop --------------------------------------------------------------------------------

    def outgoing(self) -> list[tuple[str, Search]]:
        """Return messages to send, each with its leaf."""
        if not self._outgoing:
            return []
        with self._changed:
            waiting = list(self._outgoing)
            self._outgoing.clear()
        return waiting

    def deliver(self, leaf_answer: Found) -> bool:
        """Hand over an answer of a leaf. Return False if there is no room, so that the leaf must send it again.

        Answers to earlier searches are dropped.
        """
        size = _size(leaf_answer)
        with self._changed:
            if leaf_answer.number != self._number:
                return True
            if self._arrived_bytes + size > limits.SEARCH_QUEUE_BYTES:
                return False
            self._arrived.append((leaf_answer, size))
            self._arrived_bytes += size
            self._changed.notify()
        return True

    def returned(self, producer: str) -> None:
        """Report that a leaf has connected."""
        with self._changed:
            if self._number is not None:
                self._arrived.append((Returned(producer), 0))
                self._changed.notify()


def _size(leaf_answer: Found) -> int:
    columns = (*astuple(leaf_answer.values), *astuple(leaf_answer.bins), *astuple(leaf_answer.unfit))
    return sum(map(len, columns))
