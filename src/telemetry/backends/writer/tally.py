"""What a writer knows of itself: written by its main thread, read by the one that reports it."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import Final, Literal

from telemetry import limits
from telemetry.backends.backend import Unavailable
from telemetry.backends.sources.source import Position
from telemetry.backends.writer.breaker import Breaker
from telemetry.errors import TelemetryError
from telemetry.formatting import printable
from telemetry.store.backends import Counts
from telemetry.wire.masking import mask_secrets
from telemetry.wire.snapshot import BackendStat, BackendState

_OTHER: Final = "other"


class Tally:
    """Dictionaries are replaced, never changed in place, so that whoever reads one sees a whole one."""

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
        """`counts`: of the processes before this one."""
        counts = counts or Counts()
        self.name = name
        self.kind = kind
        self.state: BackendState = "starting"
        self.written = counts.written
        self.retried = counts.retried
        self.repeated = counts.repeated
        self.dropped = dict(counts.dropped)
        self.no_place = dict(counts.no_place)
        self.last_error = ""
        self.place = ""
        self.position = Position()
        """Up to here all is delivered, or counted."""
        self.known: Callable[[], int] = lambda: 0
        """One above the newest record that is known of."""
        self.calling_since_s: float | None = None
        """When the call into the tracker's library that goes on began, by `clock`."""
        self.clock = clock
        self.breaker = Breaker(clock, chance)
        self._restarts = restarts

    def add(self, what: Literal["dropped", "no_place"], reason: str, number: int) -> None:
        """The reason is a word; beyond a few of them the rest is one."""
        if number <= 0:
            return
        old: dict[str, int] = getattr(self, what)
        reason = reason[: limits.REASON_CHARS] or _OTHER
        if reason not in old and len(old) >= limits.DROP_REASONS - 1:
            reason = _OTHER
        setattr(self, what, old | {reason: old.get(reason, 0) + number})

    def said(self, error: BaseException) -> None:
        self.last_error = words(error).removeprefix(f"{self.kind}: ")  # it is shown beside the name

    def counts(self) -> Counts:
        return Counts(
            written=self.written,
            retried=self.retried,
            repeated=self.repeated,
            dropped=self.dropped,
            no_place=self.no_place,
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
        )


def _tellable(text: str) -> str:
    """What a library says may hold a password of its address, and bytes of a path that are no text."""
    return mask_secrets([printable(text)])[0][: limits.TEXT_CHARS]


def words(error: BaseException) -> str:
    """One line for people."""
    if isinstance(error, Unavailable | TelemetryError):
        return printable(str(error))
    return printable(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
