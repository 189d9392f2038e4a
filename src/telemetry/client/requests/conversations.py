"""Conversations of one kind of request: when each began, when it last ended a request, how many turns it had."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Hashable
from itertools import islice
from typing import TYPE_CHECKING, Final

from telemetry import limits
from telemetry.wire import requests as words

if TYPE_CHECKING:
    from telemetry.client.requests.instruments import Family

_now: Final = time.monotonic_ns
_LOOKED_AT: Final = 1_000  # at a time, for those that are idle


class Conversation:
    """One conversation. Its requests hold it, so that it hears of their ends without being looked for."""

    __slots__ = ("ended_ns", "family", "first_ns", "heard_ns", "turns")

    def __init__(self, family: Family, first_ns: int) -> None:
        self.family = family
        """Of the window it began in."""
        self.first_ns = first_ns
        self.ended_ns = -1
        self.heard_ns = 0
        """When it was last spoken of, which may be long after it happened."""
        self.turns = 0

    def ended(self, at: int) -> None:
        """One of its requests completed or failed."""
        self.ended_ns = max(self.ended_ns, at)
        self.heard_ns = _now()

    def rows(self, at: int) -> tuple[float, ...]:
        """What it came to: the turns it had, and how long it took if any of them ended."""
        ids = self.family.ids
        turns = (ids[words.CONVERSATION_TURNS], at, float(self.turns))
        if self.ended_ns < 0:
            return turns
        if self.ended_ns < self.first_ns:
            return (*turns, ids[words.OUT_OF_ORDER], at, 1.0)
        return (*turns, ids[words.CONVERSATION_DURATION], at, float(self.ended_ns - self.first_ns))


class Conversations:
    """The open ones. Thread-safe; nothing is recorded under the lock."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """None is open; also in a forked child, where the lock may have been held."""
        self._lock = threading.Lock()
        self._open: OrderedDict[Hashable, Conversation] = OrderedDict()
        """Those of which nothing was heard for longest come first, more or less."""

    def __len__(self) -> int:
        return len(self._open)

    def turn(
        self, key: Hashable, family: Family, at: int, turn: int | None
    ) -> tuple[Conversation, int, Conversation | None]:
        """The conversation, the number of this turn, from 1, and another conversation that had to make room."""
        gone = None
        with self._lock:
            found = self._open.get(key)
            if found is None:
                if len(self._open) >= limits.CONVERSATIONS:
                    _, gone = self._open.popitem(last=False)
                found = self._open[key] = Conversation(family, at)
            else:
                self._open.move_to_end(key)
            found.turns += 1
            found.heard_ns = _now()
            return found, found.turns if turn is None else turn, gone

    def end(self, key: Hashable) -> Conversation | None:
        """Takes a conversation out; None if there is none."""
        with self._lock:
            return self._open.pop(key, None)

    def end_all(self) -> list[Conversation]:
        """Takes all of them out."""
        with self._lock:
            ended = list(self._open.values())
            self._open.clear()
        return ended

    def end_idle(self, before_ns: int) -> list[Conversation]:
        """Takes out those of which nothing was heard since a moment; of a bounded number that it looks at."""
        ended = []
        with self._lock:
            for key, found in list(islice(self._open.items(), _LOOKED_AT)):
                if found.heard_ns < before_ns:
                    del self._open[key]
                    ended.append(found)
                else:
                    self._open.move_to_end(key)
        return ended
