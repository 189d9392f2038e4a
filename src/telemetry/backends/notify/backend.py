"""The `notify` backend: it watches a run, and tells people about a few events through Apprise.

Items become notifications at once. A notification that a receiver does not take waits here, in the checkpoint, so
that one receiver that is down delays no other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec
from msgspec import Struct

from telemetry.backends.backend import NotConfigured, RunFacts, Unavailable
from telemetry.backends.items import KINDS, Item, Live, Reading
from telemetry.backends.notify.apprise_receiver import receivers
from telemetry.backends.notify.outbox import Outbox, Waiting
from telemetry.backends.notify.watch import Seen, Watch
from telemetry.config import load
from telemetry.config.load import env_name
from telemetry.config.notify_urls import FLAG, KEY
from telemetry.errors import RunDirectoryError
from telemetry.store.gate_results import GATES, read_ending_gate, read_gates
from telemetry.wire.gates import GateResult

_GATES_S: Final = 10.0
"""Longest wait for the results of gates. `telemetry run` writes them before it ends its writers."""
_LOOK_S: Final = 0.05


class NotifyOptions(Struct, frozen=True, forbid_unknown_fields=True):
    gates: bool = False
    """Whether the run has gates, so that the end waits for their results. `telemetry run` sets it."""


class _State(Struct, kw_only=True):
    seen: Seen = msgspec.field(default_factory=Seen)
    waiting: Waiting = msgspec.field(default_factory=Waiting)


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
        saved = msgspec.convert(state, _State)
        found = receivers(config.urls)
        self._labels = list(dict.fromkeys(one.label for one in found))
        self._directory = run.directory
        self._outbox = Outbox(found, saved.waiting)
        self._watch = Watch(run, config, saved.seen)
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
        state: dict[str, Any] = msgspec.to_builtins(_State(seen=self._watch.seen, waiting=self._outbox.waiting()))
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
