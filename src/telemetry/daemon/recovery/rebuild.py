"""The way back: a run's journal, entry by entry, into the numbers it was written for.

    state of a run = fold of its journal, from any checkpoint

Batches of equal stamp were one turn and are applied in one call, so that sums come out the same to the last bit.
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
from telemetry.wire.history import Interval
from telemetry.wire.journal import Closed, Ending, Note, Rolled


class Entry(NamedTuple):
    """What was one call: the batches of a turn, a note, or a checkpoint."""

    time_ns: int
    kind: int
    data: list[bytes]
    damaged: bool = False
    """Something before it is lost."""

    @property
    def size(self) -> int:
        return sum(map(len, self.data))


@dataclass(frozen=True)
class Step:
    """What one entry led to, beside other numbers."""

    note: Note | None = None
    interval: Interval | None = None
    """Of the history; its number is `roll`."""
    roll: int = 0
    streamed: tuple[StreamedRecord, ...] = ()
    """Records of the stream; the first one's number is `first_record`."""
    first_record: int = 0


_NOTHING = Step()


class Fold:
    """Numbers after the entries so far. Holds one turn in memory at a time."""

    def __init__(self, reader: JournalReader, first_segment: int | None = None) -> None:
        """Begins with the checkpoint at the head of that segment, by default the first that is there.

        Raises RunDirectoryError if there is no journal, or no checkpoint in it that can be read.
        """
        self.reader = reader
        self.unreadable = 0
        """Notes that this version does not know."""
        self._entries = entries(reader, first_segment)
        first = next((entry for entry in self._entries if entry.kind == CHECKPOINT), None)
        if first is None:
            raise RunDirectoryError("the journal has no checkpoint to begin with")
        self.now_ns = first.time_ns
        """The stamp of the newest entry."""
        self.numbers = Numbers.restore(first.data[0])
        self._failed = reader.failed
        self._own_up()
        self._open_interval = False
        """Something came since the last interval ended."""
        self._closed = False
        """The books are, and nothing came since."""

    def entries(self) -> Iterator[Entry]:
        """Those after the first checkpoint, each to be applied before the next is asked for."""
        yield from self._entries
        self._own_up()

    def apply(self, entry: Entry) -> Step:
        """Raises RunDirectoryError for a checkpoint that is needed and can't be read."""
        self.now_ns = max(self.now_ns, entry.time_ns)
        if entry.kind == CHECKPOINT:
            self._restore(entry)
            return _NOTHING
        if entry.kind == BATCH:
            self._open_interval, self._closed = True, False
            return self._turn(entry)
        try:
            note = decode_note(entry.data[0])
        except Malformed:
            self.unreadable += 1
            return _NOTHING
        if isinstance(note, Rolled):
            self._open_interval = False
            return self._roll(note, entry.time_ns)
        self._closed = isinstance(note, Closed)
        self._open_interval = self._open_interval or not self._closed
        self.numbers.take_note(note, entry.time_ns)
        return self._step(note=note)

    def end_interval(self) -> Step:
        """The interval that was going on when the journal ends, if anything came in it."""
        if not self._open_interval:
            return _NOTHING
        rolled = self._rolled()
        self._open_interval = False
        return self._roll(rolled, self.now_ns)

    def close(self) -> Step:
        """Behind the last entry of a run that is over."""
        self.numbers.close()
        return self._step()

    def last_notes(self) -> list[Note]:
        """What `end_interval` and `close` will do, as the run would have written it down at `now_ns`. Who reads a
        journal with them at its end comes to the same, and so does an aggregator that goes on with it."""
        notes: list[Note] = [self._rolled()] if self._open_interval else []
        return notes if self._closed else [*notes, Closed()]

    def how_it_ended(self) -> Ending:
        """In order, if the journal says that somebody ended the run, and all that its producers owed has come."""
        numbers, damaged = self.numbers, self.reader.tail_damaged
        ending = numbers.run.ending
        if ending is not None and (ending.interrupted or not (damaged or numbers.aggregator.waiting_for())):
            return ending
        last = datetime.fromtimestamp(numbers.wall_ns(self.now_ns) // 10**9, UTC)
        until = "can't be read beyond" if damaged else "ends at"
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

    def _turn(self, entry: Entry) -> Step:
        admitted = (self.numbers.admit(frame, entry.time_ns) for frame in entry.data)
        batches = [batch for batch in admitted if batch is not None]
        if batches:
            self.numbers.apply(batches, entry.time_ns)
        return self._step()

    def _roll(self, rolled: Rolled, now_ns: int) -> Step:
        number = self.numbers.run.rolls
        return self._step(note=rolled, interval=self.numbers.roll(rolled, now_ns), roll=number)

    def _step(self, note: Note | None = None, interval: Interval | None = None, roll: int = 0) -> Step:
        """With the records of the stream that it led to."""
        streamed = tuple(self.numbers.take_streamed())
        return Step(note, interval, roll, streamed, self.numbers.run.records - len(streamed))

    def _restore(self, entry: Entry) -> None:
        """Where nothing is lost, the numbers are what the checkpoint says already; else it knows what they were."""
        if entry.damaged:
            self.numbers.start_over(entry.data[0])
        else:
            self.numbers.adopt(entry.data[0])
        self._own_up()

    def _own_up(self) -> None:
        """The run goes on, and ends, as one whose journal does not hold all of it."""
        if self._failed or self.reader.tail_damaged:
            self.numbers.run = replace(self.numbers.run, unaccounted=True)


def entries(reader: JournalReader, first_segment: int | None = None) -> Iterator[Entry]:
    """Frames of one call together. Raises RunDirectoryError if the journal can't be read."""
    for (time_ns, kind, _, damaged), frames in groupby(_copied(reader, first_segment), _call):
        if kind == BATCH:
            for turn in _turns(data for _, data in frames):
                yield Entry(time_ns, kind, turn, damaged)
        elif kind in (NOTE, CHECKPOINT):
            for _, data in frames:
                yield Entry(time_ns, kind, [data], damaged)


def _turns(frames: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Frames of one stamp, no more at once than one turn takes: only a file that nobody wrote has more."""
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
