"""Conversations of one kind of request: their start, the last end of a request, and the number of turns."""

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
_LOOKED_AT: Final = 1_000  # maximum number of conversations checked for idleness in one call


class Conversation:
    """A conversation. Its requests hold a reference and report their ends to it directly."""

    __slots__ = ("ended_ns", "family", "first_ns", "heard_ns", "turns")

    def __init__(self, family: Family, first_ns: int) -> None:
        self.family = family
        """Instruments of the tracking window in which the conversation began."""
        self.first_ns = first_ns
        self.ended_ns = -1
        self.heard_ns = 0
        """Time of the last call about this conversation. May be long after the event that the call reported."""
        self.turns = 0

    def ended(self, at: int) -> None:
        """Record that one of its requests completed or failed."""
        self.ended_ns = max(self.ended_ns, at)
        self.heard_ns = _now()

    def rows(self, at: int) -> tuple[float, ...]:
        """Return the rows of the result: the number of turns, and the duration if a request has ended."""
        ids = self.family.ids
        turns = (ids[words.CONVERSATION_TURNS], at, float(self.turns))
        if self.ended_ns < 0:
            return turns
        if self.ended_ns < self.first_ns:
            return (*turns, ids[words.OUT_OF_ORDER], at, 1.0)
        return (*turns, ids[words.CONVERSATION_DURATION], at, float(self.ended_ns - self.first_ns))


class Conversations:
    """Registry of the open conversations of a kind. Thread-safe. Records no events while it holds the lock."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Drop all open conversations. Also used in a forked child, where the lock may have been held."""
        self._lock = threading.Lock()
        self._open: OrderedDict[Hashable, Conversation] = OrderedDict()
        """Open conversations, roughly in order of the last call about them, oldest first."""

    def __len__(self) -> int:
        return len(self._open)

    def turn(
        self, key: Hashable, family: Family, at: int, turn: int | None
    ) -> tuple[Conversation, int, Conversation | None]:
        """Return the conversation, the number of this turn, and an evicted conversation.

        Turns count from 1. The third value is the conversation that was evicted to make room, or None.
        """
        gone = None
        with self._lock:
            conversation = self._open.get(key)
            if conversation is None:
                if len(self._open) >= limits.CONVERSATIONS:
                    _, gone = self._open.popitem(last=False)
                conversation = self._open[key] = Conversation(family, at)
            else:
                self._open.move_to_end(key)
            conversation.turns += 1
            conversation.heard_ns = _now()
            return conversation, conversation.turns if turn is None else turn, gone

    def end(self, key: Hashable) -> Conversation | None:
        """Remove a conversation and return it, or None if it is not open."""
        with self._lock:
            return self._open.pop(key, None)

    def end_all(self) -> list[Conversation]:
        """Remove and return all conversations."""
        with self._lock:
            ended = list(self._open.values())
            self._open.clear()
        return ended

    def end_idle(self, before_ns: int) -> list[Conversation]:
        """Remove and return conversations without a call since `before_ns`. Checks a bounded number of them."""
        ended = []
        with self._lock:
            for key, conversation in list(islice(self._open.items(), _LOOKED_AT)):
                if conversation.heard_ns < before_ns:
                    del self._open[key]
                    ended.append(conversation)
                else:
                    self._open.move_to_end(key)
        return ended
