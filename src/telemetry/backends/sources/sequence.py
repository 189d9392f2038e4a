"""Records and readings of one run as one sequence of items, in the order of their times as far as they go."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from telemetry.backends.items import Item, Live, Reading
from telemetry.backends.sources.convert import item_of
from telemetry.backends.sources.readings import HistoryReadings
from telemetry.backends.sources.records import Records
from telemetry.backends.sources.snapshots import final_reading
from telemetry.backends.sources.source import MISSED, NOTHING, Position, Read
from telemetry.errors import TelemetryError
from telemetry.wire.snapshot import MetricsSnapshot

_LOOK_S: Final = 1.0  # a history has an interval each second


class Sequence:
    """One owner, but for `position`."""

    def __init__(
        self,
        records: Records,
        readings: HistoryReadings | None,
        position: Position,
        reachable: Callable[[], bool] = lambda: True,
    ) -> None:
        """`reachable`: whether the history can be read now, where asking in vain takes long."""
        self.records = records
        self.position = position
        """After all that was taken."""
        self.missed = 0
        """Records before it that nobody has any more, since this was made."""
        self._readings = readings
        self._reachable = reachable
        self._ready: deque[tuple[Reading, int]] = deque()
        """And until where its reading goes."""
        self._look_at = 0.0
        self._notes: dict[str, bool] = {}
        """What there is to say, and whether it was."""

    def take(self, most: int, *, last: bool) -> list[Read]:
        """At most so many items that are there. `last`: nothing is added any more, so that [] means it was all.
        Blocks on what they come from. Raises RunDirectoryError if the records can't be read; nothing is taken
        then."""
        found: list[Read] = []
        try:
            while len(found) < most and (read := self._one(last=last)) is not None:
                found.append(read)
        except TelemetryError:
            if not found:
                raise
        return found

    def prepare(self) -> None:
        """Reads the rest of the history, to which nothing is added any more, while it can be had."""
        while (made := self._look(last=True)) is not None:
            self._ready.append(made)
        self.close()

    def add_reading(self, reading: Reading) -> None:
        """One that was not made of a history; passed over if the time was read before."""
        newest_ns = self._ready[-1][1] if self._ready else self.position.reading_until_ns
        if reading.time_ns > newest_ns:
            self._ready.append((reading, reading.time_ns))

    def conclude(self, result: MetricsSnapshot, *, live: bool) -> list[Read]:
        """The result as the last items; none if it was taken before."""
        if self.position.final_done:
            return []
        self._passed()  # also damaged records behind the last one
        found = [self.live(result)] if live else []
        self.position = replace(self.position, final_done=True)
        return [*found, self._read(final_reading(result))]

    def live(self, snapshot: MetricsSnapshot) -> Read:
        """A snapshot as an item, which changes no position."""
        item = Live(key=f"s{snapshot.epoch}.{snapshot.seq}", time_ns=snapshot.time_ns, snapshot=snapshot)
        return self._read(item)

    def again(self, number: int) -> Item | None:
        """Raises RunDirectoryError."""
        record = self.records.again(number)
        return item_of(record) if record is not None else None

    def say(self, words: str) -> None:
        """Once, however often it is said."""
        self._notes.setdefault(words, False)

    def notes(self) -> list[str]:
        """What was said since the last call."""
        if self.records.trouble:
            self.say(self.records.trouble)
            self.records.trouble = ""
        new = [words for words, told in self._notes.items() if not told]
        self._notes.update(dict.fromkeys(new, True))
        return new

    def close(self) -> None:
        if self._readings is not None:
            self._readings.close()
            self._readings = None

    def _one(self, *, last: bool) -> Read | None:
        """The next item: of a record and a reading the earlier one."""
        item: Item | None = None
        while (record := self.records.peek()) is not None and (item := item_of(record)) is None:
            self._pop_record()
        if not self._ready and (made := self._look(last=last)) is not None:
            self._ready.append(made)
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
        """The next reading of the history, at most once a second if there is none yet. A history that can't be
        read costs its readings and nothing else."""
        readings = self._readings
        if readings is None or (not last and time.monotonic() < self._look_at):
            return None
        reading, why = None, "its aggregator is gone"
        try:
            found = self._reachable()
            reading = readings.take(last=last) if found else None
        except TelemetryError as error:
            found, why = False, error.message
        if last and not found:
            self.say(f"the last readings of the instruments are missing: {why}")
            self.close()
        elif last and reading is None:
            for words in readings.damage():
                self.say(words)
        if reading is None:
            self._look_at = time.monotonic() + _LOOK_S
            return None
        return reading, readings.until_ns
