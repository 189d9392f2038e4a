"""The records and readings of a run as one sequence of items, ordered by time as far as possible."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from telemetry.backends.items import Item, Live, Reading
from telemetry.backends.sources.readings import HistoryReadings
from telemetry.backends.sources.records import Records, item_of
from telemetry.backends.sources.snapshots import final_reading
from telemetry.backends.sources.source import MISSED, NOTHING, Position, Read
from telemetry.errors import TelemetryError
from telemetry.wire.snapshot import MetricsSnapshot

_LOOK_S: Final = 1.0  # a history has one interval a second


class Sequence:
    """A merged sequence of items. Not thread-safe, except for `position`."""

    def __init__(
        self,
        records: Records,
        readings: HistoryReadings | None,
        position: Position,
        reachable: Callable[[], bool] = lambda: True,
    ) -> None:
        """Start at a position.

        `reachable`: checks if the history is readable, because a failed request takes long.
        """
        self.records = records
        self.position = position
        """Position after all items taken."""
        self.missed = 0
        """Lost records before the position, since this object was created."""
        self._readings = readings
        self._reachable = reachable
        self._ready: deque[tuple[Reading, int]] = deque()
        """Waiting readings, each with the end of its newest interval."""
        self._look_at = 0.0
        self._notes: dict[str, bool] = {}
        """Message → whether it was returned."""

    def take(self, most: int, *, last: bool) -> list[Read]:
        """Return at most `most` available items. Blocks on the sources.

        `last`: the run is complete, so [] means the end. Raises RunDirectoryError if the records can't be read;
        then no item is taken.
        """
        reads: list[Read] = []
        try:
            while len(reads) < most and (read := self._one(last=last)) is not None:
                reads.append(read)
        except TelemetryError:
            if not reads:
                raise
        return reads

    def prepare(self) -> None:
        """Read the rest of a complete history while it is still reachable."""
        while (entry := self._look(last=True)) is not None:
            self._ready.append(entry)
        self.close()

    def add_reading(self, reading: Reading) -> None:
        """Add a reading that is not from a history. It is skipped if its time was read before."""
        newest_ns = self._ready[-1][1] if self._ready else self.position.reading_until_ns
        if reading.time_ns > newest_ns:
            self._ready.append((reading, reading.time_ns))

    def conclude(self, result: MetricsSnapshot, *, live: bool) -> list[Read]:
        """Return the result as the last items, or an empty list if it was taken before."""
        if self.position.final_done:
            return []
        self._passed()  # count damaged records after the last one
        reads = [self.live(result)] if live else []
        self.position = replace(self.position, final_done=True)
        return [*reads, self._read(final_reading(result))]

    def live(self, snapshot: MetricsSnapshot) -> Read:
        """Wrap a snapshot as an item. The position stays the same."""
        item = Live(key=f"s{snapshot.epoch}.{snapshot.seq}", time_ns=snapshot.time_ns, snapshot=snapshot)
        return self._read(item)

    def again(self, number: int) -> Item | None:
        """Return the item of an earlier record. Raises RunDirectoryError."""
        record = self.records.again(number)
        return item_of(record) if record is not None else None

    def say(self, text: str) -> None:
        """Add a message. Each text is returned once."""
        self._notes.setdefault(text, False)

    def notes(self) -> list[str]:
        """Return the messages since the last call."""
        if self.records.trouble:
            self.say(self.records.trouble)
            self.records.trouble = ""
        new = [text for text, is_returned in self._notes.items() if not is_returned]
        self._notes.update(dict.fromkeys(new, True))
        return new

    def close(self) -> None:
        if self._readings is not None:
            self._readings.close()
            self._readings = None

    def _one(self, *, last: bool) -> Read | None:
        """Return the next item: the earlier one of a record and a reading."""
        item: Item | None = None
        while (record := self.records.peek()) is not None and (item := item_of(record)) is None:
            self._pop_record()
        if not self._ready and (entry := self._look(last=last)) is not None:
            self._ready.append(entry)
        if self._ready and (item is None or self._ready[0][0].time_ns <= item.time_ns):
            reading, until_ns = self._ready.popleft()
            self.position = replace(self.position, reading_until_ns=until_ns)
            return self._read(reading)
        if item is None:
            return None
        self._pop_record()
        return self._read(item)

    def _read(self, item: Item) -> Read:
        return Read(item, self.position, {MISSED: self.missed} if self.missed else NOTHING)

    def _pop_record(self) -> None:
        self.records.pop()
        self._passed()

    def _passed(self) -> None:
        self.missed = self.records.missed
        self.position = replace(self.position, next_record=self.records.next_seq)

    def _look(self, *, last: bool) -> tuple[Reading, int] | None:
        """Return the next reading. Without one, the history is checked at most once a second.

        An unreadable history costs only its readings.
        """
        readings = self._readings
        if readings is None or (not last and time.monotonic() < self._look_at):
            return None
        reading, why = None, "its aggregator is gone"
        try:
            is_reachable = self._reachable()
            reading = readings.take(last=last) if is_reachable else None
        except TelemetryError as error:
            is_reachable, why = False, error.message
        if last and not is_reachable:
            self.say(f"the last readings of the instruments are missing: {why}")
            self.close()
        elif last and reading is None:
            for text in readings.damage():
                self.say(text)
        if reading is None:
            self._look_at = time.monotonic() + _LOOK_S
            return None
        return reading, readings.until_ns


class SequenceSource:
    """The part of a `Source` that its sequence answers."""

    _sequence: Sequence
    _over: bool

    @property
    def known(self) -> int:
        return self._sequence.records.known

    @property
    def missed(self) -> int:
        return self._sequence.missed

    @property
    def left_out(self) -> dict[str, int]:
        return {}

    @property
    def position(self) -> Position:
        return self._sequence.position

    @property
    def over(self) -> bool:
        return self._over

    def again(self, number: int) -> Item | None:
        return self._sequence.again(number)

    def notes(self) -> list[str]:
        return self._sequence.notes()

    def close(self) -> None:
        self._sequence.close()
