"""Notifications on their way: each receiver gets them in order, and has tries and pauses of its own."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from telemetry import limits
from telemetry.backends.notify.message import Message
from telemetry.formatting import number_of
from telemetry.supervise.breaker import Breaker

_KEYS = 1_000
"""Keys of the newest notifications, by which repeated ones are recognized."""


class Receiver(Protocol):
    """A receiver of notifications."""

    label: str
    """Its address without secrets."""

    def send(self, message: Message) -> str:
        """Send a notification. Return why that failed, without secrets; an empty text if it was delivered."""


class Waiting(Struct, kw_only=True):
    """Notifications that wait, for the next process."""

    messages: list[list[Message]] = []
    """For each receiver, in the order of the addresses."""
    keys: list[str] = []


class Outbox:
    """The notifications that wait for their receivers. Not thread-safe."""

    def __init__(
        self,
        receivers: Sequence[Receiver],
        waiting: Waiting,
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Continue with what waits. If the number of receivers has changed, each gets all of it."""
        self._receivers = list(receivers)
        self._clock = clock
        self._breakers = [Breaker(clock, chance) for _ in receivers]
        self._reasons = ["" for _ in receivers]
        self._keys = list(waiting.keys)
        self.dropped = 0
        """Notifications that had no room."""
        if len(waiting.messages) == len(self._receivers):
            self._queues = [list(queue) for queue in waiting.messages]
        else:
            every = {message.key: message for queue in waiting.messages for message in queue}
            self._queues = [list(every.values()) for _ in self._receivers]

    @property
    def is_empty(self) -> bool:
        return not any(self._queues)

    @property
    def trouble(self) -> str:
        """The number of messages not delivered, to whom and why; empty if all receivers work."""
        return "; ".join(
            f"{number_of(len(queue), 'notification')} not delivered to {receiver.label}: {reason}"
            for queue, receiver, reason in zip(self._queues, self._receivers, self._reasons, strict=True)
            if queue and reason
        )

    def add(self, message: Message) -> None:
        """Add a notification for all receivers, unless it was added before."""
        if message.key in self._keys:
            return
        self._keys = [*self._keys, message.key][-_KEYS:]
        for queue in self._queues:
            queue.append(message)
            if len(queue) > limits.NOTIFY_WAITING:
                del queue[0]
                self.dropped += 1

    def send(self, *, at_once: bool = False) -> None:
        """Send what can be sent now. `at_once`: also to receivers that pause after a failure.

        Blocks for about `limits.NOTIFY_CALL_S` at most, plus one call of a receiver.
        """
        until_s = self._clock() + limits.NOTIFY_CALL_S
        for number, queue in enumerate(self._queues):
            breaker = self._breakers[number]
            while queue and self._clock() < until_s and (at_once or breaker.wait_s() <= 0.0):
                breaker.begin()
                self._reasons[number] = reason = self._receivers[number].send(queue[0])
                if reason:
                    breaker.failed()
                    break
                breaker.worked()
                del queue[0]

    def waiting(self) -> Waiting:
        """Return what waits, for the next process."""
        return Waiting(messages=[list(queue) for queue in self._queues], keys=list(self._keys))
