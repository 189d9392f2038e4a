"""The counts and state of a writer, written by its main thread and read by its status thread."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final, Literal

from telemetry import limits
from telemetry.backends.backend import Unavailable
from telemetry.backends.sources.source import Position
from telemetry.common.formatting import printable
from telemetry.errors import TelemetryError, error_text
from telemetry.redaction import mask_secrets
from telemetry.store.backends import Counts
from telemetry.supervise.breaker import Breaker
from telemetry.wire.snapshot import BackendStat, BackendState

_OTHER: Final = "other"
_QUIET: Final[frozenset[BackendState]] = frozenset({"writing", "idle"})
"""States between which a writer changes with each batch."""


class WriterTally:
    """Counters and state of a writer.

    Dictionaries and lists are replaced, never changed, so that readers see a consistent one.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        counts: Counts | None = None,
        *,
        restarts: int = 0,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Create a tally. `counts`: counts of previous processes."""
        counts = counts or Counts()
        self.name = name
        self.kind = kind
        self.changed = threading.Event()
        """Set by progress and by troubles, for the status thread, which clears it.

        That a batch begins is none: a report of it would delay the report that it is delivered.
        """
        self._state: BackendState = "starting"
        self.written = counts.written
        self.retried = counts.retried
        self.repeated = counts.repeated
        self.dropped = dict(counts.dropped)
        self.no_place = dict(counts.no_place)
        self.refused = list(counts.refused)
        """Numbers of the newest records that the tracker refused."""
        self.last_error = ""
        self.place = ""
        self._position = Position()
        self.known: Callable[[], int] = lambda: 0
        """Function that returns the number after the newest known record."""
        self.calling_since_s: float | None = None
        """Start of the current call into the tracker's library, by `clock`."""
        self.clock = clock
        self.breaker = Breaker(clock, chance)
        self._restarts = restarts

    @property
    def state(self) -> BackendState:
        return self._state

    @state.setter
    def state(self, state: BackendState) -> None:
        if state != self._state:
            tells = not {state, self._state} <= _QUIET
            self._state = state
            if tells:
                self.changed.set()

    @property
    def position(self) -> Position:
        """Position up to which all items are delivered or counted."""
        return self._position

    @position.setter
    def position(self, position: Position) -> None:
        if position != self._position:
            self._position = position
            self.changed.set()

    def refuse(self, numbers: Iterable[int]) -> None:
        """Note records that the tracker refused for good."""
        self.refused = [*self.refused, *numbers][-limits.BACKEND_REFUSED :]

    def add(self, what: Literal["dropped", "no_place"], reason: str, number: int) -> None:
        """Add to a counter. `reason` is a word; beyond a limit, further reasons are counted together."""
        if number <= 0:
            return
        old: dict[str, int] = getattr(self, what)
        reason = reason[: limits.REASON_CHARS] or _OTHER
        if reason not in old and len(old) >= limits.DROP_REASONS - 1:
            reason = _OTHER
        setattr(self, what, old | {reason: old.get(reason, 0) + number})

    def said(self, error: BaseException) -> None:
        self.last_error = words(error).removeprefix(f"{self.kind}: ")  # the kind is displayed beside it

    def wait_for(self, trouble: str) -> None:
        """Report that no item waits. `trouble`: why the backend itself holds data back; empty if it does not."""
        if trouble:
            self.last_error = trouble
        self.state = "retrying" if trouble else "idle"

    def counts(self) -> Counts:
        return Counts(
            written=self.written,
            retried=self.retried,
            repeated=self.repeated,
            dropped=self.dropped,
            no_place=self.no_place,
            refused=self.refused,
        )

    def stat(self) -> BackendStat:
        since_s = self.calling_since_s
        next_record = self.position.next_record
        return BackendStat(
            name=self.name,
            kind=self.kind,
            state=self.state,
            pid=os.getpid(),
            time_ns=time.time_ns(),
            next_record=next_record,
            queued=max(0, self.known() - next_record),
            written=self.written,
            retried=self.retried,
            repeated=self.repeated,
            dropped=self.dropped,
            no_place=self.no_place,
            breaker=self.breaker.state,
            failures=self.breaker.failures,
            restarts=self._restarts,
            last_error=_tellable(self.last_error),
            calling_s=0.0 if since_s is None else max(0.0, self.clock() - since_s),
            place=_tellable(self.place),
            refused=self.refused,
        )


def _tellable(text: str) -> str:
    """Mask secrets and unprintable bytes: errors of libraries may contain a URL with a password."""
    return mask_secrets([printable(text)])[0][: limits.TEXT_CHARS]


def words(error: BaseException) -> str:
    """Format an error as one line."""
    return printable(str(error) if isinstance(error, Unavailable | TelemetryError) else error_text(error))
