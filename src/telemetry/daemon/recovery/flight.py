"""The flight recording of a run: the last seconds of its journal as a trace file, with every value.

A fold of the journal, from the newest checkpoint before these seconds, gives values, spans and marks. So the run
may still go on, or its aggregator may have died.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry import limits
from telemetry.aggregator import Aggregator, StreamedRecord
from telemetry.aggregator.batch_rows import AppliedRows, ProducerFacts
from telemetry.backends.items import Mark, Span
from telemetry.backends.sources.records import item_of
from telemetry.backends.timeline.trace import Event, TraceIds, document, instrument_track, value_event
from telemetry.daemon.recovery.rebuild import Fold
from telemetry.store.journal import JournalReader
from telemetry.store.run_directory import RunDirectory
from telemetry.wire import events
from telemetry.wire.events import Kind, StreamRecord
from telemetry.wire.snapshot import ProducerStat
from telemetry.wire.version import PROTOCOL

_NS: Final = 1_000_000_000


class FlightRecording(NamedTuple):
    """A trace file and what is in it."""

    trace: bytes
    values: int
    records: int
    """Number of spans and marks."""
    left_out: int
    """Number of older values, spans and marks of the same seconds that the recording has no room for."""


def record_flight(directory: RunDirectory, seconds: float, until_ns: int, reason: str = "") -> FlightRecording:
    """Return the last `seconds` before `until_ns`, and all that the journal has after it. Blocks on the disk.

    `until_ns` is the monotonic clock of the run's machine. Raises RunDirectoryError without a readable journal.
    """
    since_ns = max(0, until_ns - int(seconds * _NS))
    reader = JournalReader(directory.journal)
    fold = Fold(reader, _first_segment(reader, since_ns))
    recorder = _Recorder(fold, since_ns, until_ns, seconds)
    for entry in fold.entries():
        recorder.before(entry.time_ns)
        step = fold.apply(entry)
        if entry.time_ns >= since_ns:
            recorder.keep(step.streamed)
    return recorder.finish(reason)


def _first_segment(reader: JournalReader, since_ns: int) -> int:
    """Return the newest segment that begins before a time, or else the oldest one with a checkpoint."""
    segment = number = reader.last_checkpoint()
    while number >= 0:
        first = next(reader.frames(number), None)
        if first is None or first.segment != number:  # the cap has removed it
            break
        segment = number
        if first.time_ns <= since_ns:
            break
        number -= 1
    return segment


class _Chunk(NamedTuple):
    """Values of one kind that were applied together."""

    kind: Kind
    indices: NDArray[np.intp]
    values: NDArray[np.float64]
    times: NDArray[np.int64]
    producers: list[ProducerFacts]
    owners: NDArray[np.intp]

    def newest(self, count: int) -> _Chunk:
        return self._replace(
            indices=self.indices[-count:],
            values=self.values[-count:],
            times=self.times[-count:],
            owners=self.owners[-count:],
        )


class _Recorder:
    """A collector of the values and records of a fold that are not older than the recording."""

    def __init__(self, fold: Fold, since_ns: int, until_ns: int, seconds: float) -> None:
        self._fold = fold
        self._since_ns = since_ns
        self._until_ns = until_ns
        self._seconds = seconds
        self._observed: Aggregator | None = None
        self._is_recent = False
        self._since_wall_ns = 0
        self._chunks: deque[_Chunk] = deque()
        self._values = 0
        self._records: deque[Span | Mark] = deque(maxlen=limits.FLIGHT_RECORDS)
        self._left_out = 0
        self._names = TraceIds()

    def before(self, time_ns: int) -> None:
        """Prepare for the entry at this time. Events of entries before the recorder's window are not kept."""
        aggregator = self._fold.numbers.aggregator
        if aggregator is not self._observed:  # the first one, or another one after damage
            aggregator.observe(self._see)
            self._observed = aggregator
        self._is_recent = time_ns >= self._since_ns
        self._since_wall_ns = self._fold.numbers.wall_ns(self._since_ns)

    def keep(self, streamed: tuple[StreamedRecord, ...]) -> None:
        """Keep spans and marks."""
        for record in streamed:
            if not isinstance(record.record, events.Span | events.Mark):
                continue
            item = item_of(StreamRecord(PROTOCOL, "", 0, record.producer, record.wall_ns, record.record))
            assert isinstance(item, Span | Mark)
            end_ns = item.end_ns if isinstance(item, Span) else item.time_ns
            if end_ns >= self._since_wall_ns:
                self._left_out += len(self._records) == limits.FLIGHT_RECORDS
                self._records.append(item)

    def finish(self, reason: str) -> FlightRecording:
        """Return the recording."""
        run = self._fold.numbers.run
        for item in self._records:
            self._name(item.producer)
        values = list(self._value_events(run.started_ns))
        facts: dict[str, Any] = {
            "run_id": run.run_id,
            "run": run.name,
            "reason": reason,
            "seconds": self._seconds,
            "until_unix_ns": self._fold.numbers.wall_ns(self._until_ns),
        }
        if self._left_out:
            facts["left_out"] = self._left_out
        if self._fold.reader.damaged or self._fold.reader.tail_damaged:
            facts["damaged"] = True
        trace = document(
            self._names,
            run.started_ns,
            spans=[item for item in self._records if isinstance(item, Span)],
            marks=[item for item in self._records if isinstance(item, Mark)],
            others=values,
            facts=facts,
        )
        return FlightRecording(trace, len(values), len(self._records), self._left_out)

    def _see(self, rows: AppliedRows) -> None:
        """Keep the values of applied rows that are recent."""
        if not self._is_recent:
            return
        times = rows.wall_times()
        chosen = np.flatnonzero(times >= self._since_wall_ns)
        if not chosen.size:
            return
        chunk = _Chunk(
            rows.kind,
            rows.indices[chosen],
            rows.values[chosen],
            times[chosen],
            rows.producers(),
            rows.owners()[chosen],
        )
        self._chunks.append(chunk)
        self._values += chosen.size
        while self._values > limits.FLIGHT_VALUES:
            self._drop_oldest(self._values - limits.FLIGHT_VALUES)

    def _drop_oldest(self, excess: int) -> None:
        oldest = self._chunks.popleft()
        dropped = min(excess, len(oldest.values))
        if dropped < len(oldest.values):
            self._chunks.appendleft(oldest.newest(len(oldest.values) - dropped))
        self._values -= dropped
        self._left_out += dropped

    def _value_events(self, origin_ns: int) -> Iterator[Event]:
        keys = self._fold.numbers.aggregator.keys()
        tracks = {(key.kind, key.index): instrument_track(key.name, key.labels, key.unit) for key in keys}
        for chunk in self._chunks:
            part = "increment" if chunk.kind == "counter" else "value"
            pids = []
            for facts in chunk.producers:
                self._introduce(facts)
                pids.append(self._names.pid(facts.key))
            columns = (chunk.indices, chunk.values, chunk.times, chunk.owners)
            for index, value, time_ns, owner in zip(*(column.tolist() for column in columns), strict=True):
                yield value_event(
                    time_ns,
                    origin_ns,
                    pid=pids[owner],
                    track=tracks[chunk.kind, index],
                    part=part,
                    value=value,
                )

    def _name(self, key: str) -> None:
        """Find the facts of a producer of records."""
        if key in self._names.producers:
            return
        producer = self._fold.numbers.aggregator.book.get(key)
        if producer is not None:  # else it is the aggregator itself, or a producer that gave up its row
            self._introduce(ProducerFacts(key, producer.name, producer.host, producer.pid, producer.rank))

    def _introduce(self, facts: ProducerFacts) -> None:
        if facts.name or facts.pid:
            stat = ProducerStat(
                producer=facts.key, name=facts.name, host=facts.host, pid=facts.pid, rank=facts.rank
            )
            self._names.producers[facts.key] = stat
