"""Rebuild of a run's numbers from its journal, entry by entry.

    state of a run = fold of its journal, from any checkpoint

Batches of equal stamp were one turn. They are applied in one call, so that sums match to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import NamedTuple

from msgspec.structs import replace

from telemetry import limits
from telemetry.aggregator import StreamedRecord
from telemetry.daemon.numbers import LATEST_NS, Numbers
from telemetry.errors import RunDirectoryError
from telemetry.store.journal import BATCH, CHECKPOINT, NOTE, JournalFrame, JournalReader
from telemetry.wire.codec import Malformed, decode_note
from telemetry.wire.history import Interval, Slice
from telemetry.wire.journal import Closed, Ending, Note, Rolled
from telemetry.wire.request_log import LoggedRecords


class Entry(NamedTuple):
    """An entry of the journal, made by one call: the batches of a turn, a note, or a checkpoint."""

    time_ns: int
    kind: int
    data: list[bytes]
    damaged: bool = False
    """True if data before this entry is lost."""

    @property
    def size(self) -> int:
        return sum(map(len, self.data))


@dataclass(frozen=True)
class EntryEffects:
    """Effects of one entry, apart from changed numbers."""

    note: Note | None = None
    interval: Interval | None = None
    """Interval of the history that ended; its number is `roll`."""
    roll: int = 0
    slices: tuple[Slice, ...] = ()
    """Slices of the history that ended."""
    streamed: tuple[StreamedRecord, ...] = ()
    """Records of the stream. The first one has the number `first_record`."""
    first_record: int = 0
    logged: tuple[LoggedRecords, ...] = ()
    """Frames of the request log. The first one has the number `first_logged`."""
    first_logged: int = 0


_NOTHING = EntryEffects()


class Fold:
    """The numbers after the entries so far. It holds one turn in memory at a time."""

    def __init__(self, reader: JournalReader, first_segment: int | None = None) -> None:
        """Start with the checkpoint at the head of `first_segment`, by default with the first readable checkpoint.

        Raises RunDirectoryError if there is no journal, or no readable checkpoint in it.
        """
        self.reader = reader
        self.unreadable = 0
        """Number of notes that this version can't decode."""
        self._entries = entries(reader, first_segment)
        first = next((entry for entry in self._entries if entry.kind == CHECKPOINT), None)
        if first is None:
            raise RunDirectoryError("the journal has no readable checkpoint to start from")
        self.now_ns = first.time_ns
        """Stamp of the newest entry."""
        self.numbers = Numbers.restore(first.data[0])
        self._failed = reader.failed
        self._own_up()
        self._open_interval = first.time_ns > self.numbers.run.rolled_mono_ns
        """True if the run went on after the end of the last interval. A checkpoint has what came before it."""
        self.is_closed = False
        """True if the books are closed and no entry followed."""

    def entries(self) -> Iterator[Entry]:
        """Yield the entries after the first checkpoint. Apply each before you request the next."""
        yield from self._entries
        self._own_up()

    def apply(self, entry: Entry) -> EntryEffects:
        """Apply an entry. Raise RunDirectoryError if a required checkpoint can't be read."""
        self.now_ns = max(self.now_ns, entry.time_ns)
        if entry.kind == CHECKPOINT:
            self._restore(entry)
            return _NOTHING
        if entry.kind == BATCH:
            self._open_interval, self.is_closed = True, False
            return self._turn(entry)
        try:
            note = decode_note(entry.data[0])
        except Malformed:
            self.unreadable += 1
            return _NOTHING
        if isinstance(note, Rolled):
            self._open_interval = False
            return self._roll(note, entry.time_ns)
        self.is_closed = isinstance(note, Closed)
        self._open_interval = self._open_interval or not self.is_closed
        self.numbers.take_note(note, entry.time_ns)
        return self._step(note=note)

    def end_interval(self) -> EntryEffects:
        """End the interval that was open at the end of the journal, if it has entries."""
        if not self._open_interval:
            return _NOTHING
        rolled = self._rolled()
        self._open_interval = False
        return self._roll(rolled, self.now_ns)

    def close(self) -> EntryEffects:
        """Close the books after the last entry of an ended run."""
        self.numbers.close()
        return self._step()

    def last_notes(self) -> list[Note]:
        """Return the effects of `end_interval` and `close` as notes.

        The run would have written the same notes at `now_ns`. A reader of a journal that ends with these notes gets
        the same numbers. So does an aggregator that resumes the run.
        """
        notes: list[Note] = [self._rolled()] if self._open_interval else []
        return notes if self.is_closed else [*notes, Closed(lost_power=self.numbers.run.lost_power)]

    def how_it_ended(self) -> Ending:
        """Return how the run ended.

        The end is orderly if the journal holds a request to end and all batches that producers announced.
        """
        numbers, damaged = self.numbers, self.reader.tail_damaged
        ending = numbers.run.ending
        if ending is not None and (ending.interrupted or not (damaged or numbers.aggregator.book.waiting_for())):
            return ending
        last = datetime.fromtimestamp(numbers.wall_ns(self.now_ns) // 10**9, UTC)
        until = "is unreadable after" if damaged else "ends at"
        died = f"the aggregator died; its journal {until} {last:%Y-%m-%d %H:%M:%S} UTC"
        if ending is None:
            return Ending(reason=died, interrupted=True)
        return replace(ending, reason=f"{ending.reason}; {died}", interrupted=True)

    def _rolled(self) -> Rolled:
        run = self.numbers.run
        return Rolled(
            start_wall_ns=run.rolled_wall_ns,
            end_wall_ns=self.numbers.wall_ns(self.now_ns),
            elapsed_ns=self.now_ns - run.rolled_mono_ns,
            snapshot_seq=run.snapshot_seq,
        )

    def _turn(self, entry: Entry) -> EntryEffects:
        admitted = (self.numbers.admit(frame, entry.time_ns) for frame in entry.data)
        batches = [batch for batch in admitted if batch is not None]
        if batches:
            self.numbers.apply(batches, entry.time_ns)
        return self._step()

    def _roll(self, rolled: Rolled, now_ns: int) -> EntryEffects:
        number = self.numbers.run.rolls
        return self._step(note=rolled, interval=self.numbers.roll(rolled, now_ns), roll=number)

    def _step(self, note: Note | None = None, interval: Interval | None = None, roll: int = 0) -> EntryEffects:
        """Return a step with the stream records and the frames of the request log that it produced."""
        streamed, logged = tuple(self.numbers.take_streamed()), tuple(self.numbers.take_logged())
        run = self.numbers.run
        return EntryEffects(
            note=note,
            interval=interval,
            roll=roll,
            slices=tuple(self.numbers.take_slices()),
            streamed=streamed,
            first_record=run.records - len(streamed),
            logged=logged,
            first_logged=run.requests - len(logged),
        )

    def _restore(self, entry: Entry) -> None:
        """Restore a checkpoint after lost data. Without loss, the numbers already match the checkpoint."""
        if entry.damaged:
            self.numbers.start_over(entry.data[0])
            self.is_closed = False
        else:
            self.numbers.adopt(entry.data[0])
        self._own_up()

    def _own_up(self) -> None:
        """Mark the run as unaccounted if its journal is incomplete."""
        if self._failed or self.reader.tail_damaged:
            self.numbers.run = replace(self.numbers.run, unaccounted=True)


def entries(reader: JournalReader, first_segment: int | None = None) -> Iterator[Entry]:
    """Yield entries, each with the frames of one call. Raise RunDirectoryError if the journal can't be read."""
    for (time_ns, kind, _, damaged), frames in groupby(_copied(reader, first_segment), _call):
        if kind == BATCH:
            for turn in _turns(data for _, data in frames):
                yield Entry(time_ns, kind, turn, damaged)
        elif kind in (NOTE, CHECKPOINT):
            for _, data in frames:
                yield Entry(time_ns, kind, [data], damaged)


def _turns(frames: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield the frames of one stamp in turns of bounded size.

    A journal of this package has one turn per stamp. Only a foreign file has more.
    """
    turn: list[bytes] = []
    size = 0
    for frame in frames:
        turn.append(frame)
        size += len(frame)
        if len(turn) == limits.TURN_FRAMES or size >= limits.TURN_BYTES:
            yield turn
            turn, size = [], 0
    if turn:
        yield turn


def _copied(reader: JournalReader, first_segment: int | None) -> Iterator[tuple[JournalFrame, bytes]]:
    for item in reader.frames(first_segment):
        yield item._replace(time_ns=min(item.time_ns, LATEST_NS)), bytes(item.data)


def _call(item: tuple[JournalFrame, bytes]) -> tuple[int, int, int, bool]:
    frame = item[0]
    return frame.time_ns, frame.kind, frame.segment, frame.damaged
