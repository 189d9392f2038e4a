"""Selection of the definitions for the next batch: those that no acknowledged batch has carried."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from telemetry import limits

WINDOW_BYTES: Final = limits.MIB
_IN_FLIGHT: Final = 4_096  # batches; far more than the pipes hold


class Announcer:
    """A cursor over an append-only list of definitions. It gives one range per batch. For one thread."""

    def __init__(
        self, definitions: Sequence[bytes], on_acknowledged: Callable[[int], object] = lambda batches: None
    ) -> None:
        self._definitions = definitions
        self._on_acknowledged = on_acknowledged
        self._acknowledged = 0
        self._sent = 0
        self._in_flight: deque[tuple[int, int, int]] = deque(maxlen=_IN_FLIGHT)

    @property
    def due(self) -> bool:
        """True if a definition exists that no batch has carried yet."""
        return self._sent < len(self._definitions)

    def window(self) -> tuple[int, int]:
        """Return the range `[start, stop)` of definitions for the next batch.

        It holds all unacknowledged definitions if they fit. Otherwise unsent definitions are first.
        """
        start = self._acknowledged
        stop = self._fill(start)
        if stop < len(self._definitions) and self._sent < len(self._definitions):
            start = max(start, self._sent)
            stop = self._fill(start)
        return start, stop

    def covers_all(self, stop: int) -> bool:
        """Check that every definition is sent once a batch with definitions up to `stop` is sent."""
        return max(stop, self._sent) >= len(self._definitions)

    def carried(self, seq: int, start: int, stop: int) -> None:
        """Register that batch `seq` carries definitions `[start, stop)`."""
        if stop > start:
            self._in_flight.append((seq, start, stop))
            self._sent = max(self._sent, stop)

    def acknowledged(self, batches: int) -> None:
        """Register that all batches below `batches` have arrived."""
        self._on_acknowledged(batches)
        while self._in_flight and self._in_flight[0][0] < batches:
            _, start, stop = self._in_flight.popleft()
            if start <= self._acknowledged < stop:
                self._acknowledged = stop

    def announce_again(self) -> None:
        """Send all definitions again: a new aggregator may not have them."""
        self._in_flight.clear()
        self._acknowledged = self._sent = 0

    def _fill(self, start: int) -> int:
        size = 0
        stop = start
        end = min(len(self._definitions), start + limits.BATCH_RECORDS)
        while stop < end:
            size += len(self._definitions[stop])
            if size > WINDOW_BYTES and stop > start:
                break
            stop += 1
        return stop
