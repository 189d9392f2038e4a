"""The `notify` backend: it watches a run, and tells people about a few events through Apprise.

Items become notifications at once. A notification that a receiver does not take waits here, in the checkpoint, so
that one receiver that is down delays no other.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

import msgspec
from msgspec import Struct

from telemetry import limits
from telemetry.backends.backend import NotConfigured, RunFacts, Unavailable
from telemetry.backends.items import KINDS, Item, Live, Reading
from telemetry.backends.notify.apprise_receiver import receivers
from telemetry.backends.notify.message import Message
from telemetry.backends.notify.watch import NotifyWatch, Seen
from telemetry.common.formatting import number_of
from telemetry.config import load
from telemetry.config.load import env_name
from telemetry.config.notify_urls import FLAG, KEY
from telemetry.errors import RunDirectoryError
from telemetry.store.gate_results import GATES, read_ending_gate, read_gates
from telemetry.supervise.breaker import Breaker
from telemetry.wire.gates import GateResult

_KEYS = 1_000
"""Keys of the newest notifications, by which repeated ones are recognized."""
_GATES_S: Final = 10.0
"""Longest wait for the results of gates. `telemetry run` writes them before it ends its writers."""
_LOOK_S: Final = 0.05


class Receiver(Protocol):
    """A receiver of notifications."""

    label: str
    """Its address without secrets."""

    def send(self, message: Message) -> str:
        """Send a notification. Return why that failed, without secrets; an empty text if it was delivered."""


class WaitingMessages(Struct, kw_only=True):
    """Notifications that wait, for the next process."""

    messages: list[list[Message]] = []
    """For each receiver, in the order of the addresses."""
    keys: list[str] = []


class NotifyOutbox:
    """The notifications that wait for their receivers. Not thread-safe."""

    def __init__(
        self,
        receivers: Sequence[Receiver],
        waiting: WaitingMessages,
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

    def waiting(self) -> WaitingMessages:
        """Return what waits, for the next process."""
        return WaitingMessages(messages=[list(queue) for queue in self._queues], keys=list(self._keys))


class NotifyOptions(Struct, frozen=True, forbid_unknown_fields=True):
    gates: bool = False
    """Whether the run has gates, so that the end waits for their results. `telemetry run` sets it."""


class _NotifyState(Struct, kw_only=True):
    seen: Seen = msgspec.field(default_factory=Seen)
    waiting: WaitingMessages = msgspec.field(default_factory=WaitingMessages)


class NotifyBackend:
    """A backend that sends notifications. Receivers and events come from the settings `notify`."""

    Options: ClassVar[type[Struct]] = NotifyOptions
    takes: ClassVar[tuple[type[Item], ...]] = KINDS
    idempotent: ClassVar[bool] = False

    def __init__(self, options: NotifyOptions, place: Path) -> None:
        self._options = options
        self._labels: list[str] = []
        self._told = ""
        self._is_over = False
        """True once the result of the run was read. Only its last snapshot may follow."""
        self.say: Callable[[str], object] = lambda _: None

    def open(self, run: RunFacts, state: dict[str, Any]) -> None:
        config = load({}).config.notify
        if not config.urls:
            raise NotConfigured("no receiver is known", hint=f"give {FLAG} URL, or set {KEY} or {env_name(KEY)}")
        saved = msgspec.convert(state, _NotifyState)
        recipients = receivers(config.urls)
        self._labels = list(dict.fromkeys(recipient.label for recipient in recipients))
        self._directory = run.directory
        self._outbox = NotifyOutbox(recipients, saved.waiting)
        self._watch = NotifyWatch(run, config, saved.seen)
        for message in self._watch.begin():
            self._outbox.add(message)

    @property
    def trouble(self) -> str:
        """Why notifications wait; empty if all are delivered."""
        return self._outbox.trouble

    @property
    def left_out(self) -> dict[str, int]:
        return {"no_room": self._outbox.dropped} if self._outbox.dropped else {}

    def write(self, items: Sequence[Item]) -> None:
        for item in items:
            for message in self._watch.take(item):
                self._outbox.add(message)
            if isinstance(item, Live) and (gate := self._ending_gate()) is not None:
                for message in self._watch.gate_ended(gate, item.time_ns):
                    self._outbox.add(message)
        if any(isinstance(item, Reading) and item.final for item in items):
            self._is_over = True
        if self._is_over:  # in `close` it would not be part of a checkpoint
            self._conclude()
        self._outbox.send()
        self._tell()

    def flush(self) -> None:
        """Do nothing: what waits is part of the state."""

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = msgspec.to_builtins(
            _NotifyState(seen=self._watch.seen, waiting=self._outbox.waiting())
        )
        return state

    def close(self, *, final: bool) -> None:
        if not final:
            return
        self._conclude()
        self._outbox.send(at_once=True)
        if not self._outbox.is_empty:
            raise Unavailable(self._outbox.trouble or "notifications are not delivered yet")

    def where(self) -> str:
        return ", ".join(self._labels)

    # --- helpers ---------------------------------------------------------------------------------

    def _conclude(self) -> None:
        if self._watch.seen.end is not None:
            for message in self._watch.conclude(self._gates(), time.time_ns()):
                self._outbox.add(message)

    def _ending_gate(self) -> GateResult | None:
        if not self._options.gates or self._directory is None:
            return None
        with suppress(RunDirectoryError):  # it is being written
            return read_ending_gate(self._directory)
        return None

    def _gates(self) -> list[GateResult]:
        """Return the results of the gates. Waits for them if the run has gates."""
        if self._directory is None:
            return []
        until_s = time.monotonic() + (_GATES_S if self._options.gates else 0.0)
        while not (self._directory / GATES).exists() and time.monotonic() < until_s:
            time.sleep(_LOOK_S)
        with suppress(RunDirectoryError):
            return read_gates(self._directory)
        return []

    def _tell(self) -> None:
        """Report a receiver that stops working, once."""
        trouble = self.trouble
        if trouble and not self._told:
            self.say(f"{trouble}; retrying")
        self._told = trouble
