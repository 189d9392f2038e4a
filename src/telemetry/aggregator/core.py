"""The aggregator: events in, snapshots out. Pure: no sockets, files, threads or clocks. One caller at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, TypeVar

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from telemetry.aggregator.applied_rows import AppliedRows, Observer
from telemetry.aggregator.apply import Applier, Handler
from telemetry.aggregator.batch_group import KindRows
from telemetry.aggregator.config import AggregatorConfig
from telemetry.aggregator.counters import CounterTable
from telemetry.aggregator.exact.replay import replay_series
from telemetry.aggregator.gauges import GaugeTable
from telemetry.aggregator.notes import Notes
from telemetry.aggregator.producers.account import plausible
from telemetry.aggregator.producers.book import Producer, ProducerBook
from telemetry.aggregator.record_budget import RecordBudget
from telemetry.aggregator.records import RecordReader, StreamedRecord, count_events
from telemetry.aggregator.registry import Bounds, Registry
from telemetry.aggregator.routes import KIND_CODES
from telemetry.aggregator.run_clock import RunClock
from telemetry.aggregator.series.extents import Extents
from telemetry.aggregator.series.table import SeriesTable
from telemetry.aggregator.snapshotter import RunFacts, SnapshotParts, build_snapshot
from telemetry.aggregator.state import PART, encode, load, save
from telemetry.aggregator.steps.merger import Steps
from telemetry.aggregator.text_queue import TextQueue
from telemetry.drop_reasons import Count, Reason, merge_reasons
from telemetry.errors import UsageError
from telemetry.wire.codec import Malformed
from telemetry.wire.control import End, Ended, Hello, SeriesKey, StepState
from telemetry.wire.events import EventBatch
from telemetry.wire.history import Interval
from telemetry.wire.sequence import SequenceTracker
from telemetry.wire.snapshot import CounterStat, Extent, MetricsSnapshot, SeriesStat

_Stat = TypeVar("_Stat", CounterStat, SeriesStat)

_UNUSED: Final = SequenceTracker()  # for producers that have sent nothing yet
_SHORTEST_ROLL_S: Final = 1e-3  # minimum length of the last interval, which ends when the books close
_FORMAT: Final = 5
"""Format of new checkpoints."""
_FORMATS: Final = (3, 4, _FORMAT)
"""Formats that can be read.

Format 3 has no folded producers, and its times are wall clock times. Up to format 4 there are no reported axes.
"""


class _Checkpoint(Struct):
    format: int
    config: AggregatorConfig
    state: Any


_CHECKPOINT: Final = msgspec.msgpack.Decoder(_Checkpoint)


class Aggregator:
    """The numbers of one run. `now_ns` is the monotonic clock, `wall_ns` the wall clock, both in nanoseconds.

    Invalid input of a producer never raises. It is counted by reason and appears in the snapshot.

    The same calls with the same arguments give the same state to the last bit, in any process. Calls that only read
    may be omitted or added. The exception is `acknowledgements`, which remembers its last answer; a restored
    aggregator repeats it.
    """

    STATE: ClassVar[Mapping[str, Any]] = {
        "_clock": PART,
        "_registry": PART,
        "_extents": PART,
        "_notes": PART,
        "series": PART,
        "_counters": PART,
        "_gauges": PART,
        "_book": PART,
        "uncounted": PART,
        "_steps": PART,
        "_bad_frames": dict[str, Count],
        "_new_bad_frames": dict[str, Count],
    }
    ADDED: ClassVar[tuple[str, ...]] = ("_clock",)
    DERIVED: ClassVar[tuple[str, ...]] = ("_config", "_applier", "record_room")

    def __init__(self, config: AggregatorConfig) -> None:
        self._config = config
        self._clock = RunClock()
        self.series = SeriesTable(config.percentiles, config.window_rolls)
        self._counters = CounterTable(config.window_rolls)
        self._gauges = GaugeTable()
        self._notes = Notes()
        self.uncounted = TextQueue()
        self._steps = Steps(config.step_grace_s, self._notes.warn)
        self._book = ProducerBook(config)
        self._bad_frames: Counter[str] = Counter()
        self._new_bad_frames: Counter[str] = Counter()
        """Refused frames since the last `take_bad_frames`."""
        self._registry = Registry(
            {
                "counter": lambda name, labels, unit, _: self._counters.add(name, labels, unit),
                "gauge": lambda name, labels, unit, _: self._gauges.add(name, labels, unit),
                "series": self._add_series,
            },
            config.series_cap,
            self._notes.warn,
        )
        self._extents = Extents(self._registry, self._notes.warn)
        handlers: dict[int, Handler] = {
            KIND_CODES["series"]: lambda part: self.series.record(part.indices, part.values),
            KIND_CODES["counter"]: lambda part: self._counters.record(part.indices, part.values),
            KIND_CODES["gauge"]: lambda part: self._gauges.record(part.indices, part.values, part.wall_times()),
        }
        self.record_room = RecordBudget(config.record_cap_bytes)
        """Budget of the record log. The run state stores its use, next to the number of records."""
        reader = RecordReader(
            self._registry,
            self._notes,
            self.uncounted,
            self._extents,
            self._steps,
            clock=self._clock,
            room=self.record_room,
        )
        self._applier = Applier(self._book, self._clock, reader, handlers, self._extents.witness)

    def _add_series(self, name: str, labels: dict[str, str], unit: str, bounds: Bounds) -> int:
        index = self.series.add(name, labels, unit, digits=bounds.digits, low=bounds.low, high=bounds.high)
        digits = self.series.key(index).digits
        if digits != bounds.digits:
            self._notes.warn(
                f"series {name!r} uses {digits} digits instead of {bounds.digits} to limit memory; "
                "define fewer series of such precision, or set `high` for each"
            )
        self._extents.meet(index, name, labels, unit)
        return index

    # --- checkpoints -----------------------------------------------------------------------------

    def checkpoint(self, head: bytes = b"") -> bytearray:
        """Return the whole state between two turns. `restore` continues from it exactly as this aggregator would.

        The result is large, so `head` is written in front of it without a copy.
        """
        self._extents.settle()
        config = msgspec.convert(msgspec.to_builtins(self._config), AggregatorConfig)  # 10 becomes 10.0
        return encode(_Checkpoint(_FORMAT, config, save(self)), head)

    @staticmethod
    def restore(data: bytes | memoryview) -> Aggregator:
        """Restore the aggregator from a checkpoint. Raise Malformed for invalid bytes."""
        try:
            checkpoint = _CHECKPOINT.decode(data)
            if checkpoint.format not in _FORMATS:
                raise Malformed(Reason.WRONG_VERSION, f"a checkpoint of format {checkpoint.format}, not {_FORMAT}")
            aggregator = Aggregator(checkpoint.config)
            load(aggregator, checkpoint.state)
        except (msgspec.MsgspecError, RecursionError, ValueError, OverflowError, UsageError) as error:
            raise Malformed(Reason.FRAME_UNREADABLE, f"invalid checkpoint: {error}") from None
        return aggregator

    def restored(self) -> None:
        """Check that all ids lead to existing instruments."""
        instruments = [len(self._registry.instruments[kind]) for kind in KIND_CODES]
        fits = self._book.folded.fits(instruments)
        if not fits or not all(producer.ids.fits(instruments) for producer in self._book):
            raise ValueError("an id that leads to no instrument")

    # --- input -----------------------------------------------------------------------------------

    def hello(self, hello: Hello, now_ns: int, wall_ns: int) -> bool:
        """Introduce a producer. Return False if there are too many."""
        if hello.producer in self._book.folded:
            return True
        producer = self._meet(hello.producer, now_ns)
        if producer is None:
            return False
        producer.hello(hello, now_ns)
        return True

    def ping(self, producer: str, now_ns: int) -> None:
        """Register a sign of life. Ignores unknown producers."""
        known = self._book.get(producer)
        if known is not None:
            known.last_seen_ns = now_ns

    def admit(self, batch: EventBatch, now_ns: int) -> bool:
        """Check whether a batch is new. The caller must journal and then apply a new batch.

        Events of a new batch count as received, even if `apply` drops them because the end of their producer is
        reconciled.
        """
        known = self._book.get(batch.producer)
        events = count_events(batch)
        sequence = known.sequence if known is not None else _UNUSED
        if not sequence.believable(batch.seq) or not plausible(batch.first + events, batch.dropped):
            self.bad_frame(Reason.IMPLAUSIBLE)
            return False
        if batch.producer in self._book.folded:
            self._book.folded.duplicates += 1
            return False
        producer = self._meet(batch.producer, now_ns)
        return producer is not None and producer.admit(batch, events, now_ns)

    def bad_frame(self, reason: Reason) -> None:
        """Count a frame that can't be accepted."""
        self._new_bad_frames[reason.value] += 1

    def take_bad_frames(self) -> dict[str, int]:
        """Return the refused frames since the last call, by reason."""
        taken = dict(self._new_bad_frames)
        self.add_bad_frames(taken)
        return taken

    def add_bad_frames(self, counts: Mapping[str, int]) -> None:
        """Add the result of another aggregator's `take_bad_frames`.

        It replaces the counts since this one's last call.
        """
        self._new_bad_frames.clear()
        self._bad_frames.update(counts)

    def apply(self, batches: Sequence[EventBatch], now_ns: int, wall_ns: int) -> list[StreamedRecord]:
        """Apply batches that `admit` accepted, each once.

        Returns the records for the stream, in order: those of the batches, then the steps that they closed or
        changed.
        """
        self._clock.read(now_ns, wall_ns)
        streamed = self._applier.apply(batches)
        for key in {batch.producer: None for batch in batches}:
            self._settle_steps(self._book[key])
        return streamed + self._said()

    def end(self, end: End, now_ns: int) -> list[StreamedRecord]:
        """Apply the end of a producer, and return the steps that waited for it, for the stream.

        It is reconciled at once if all its batches are applied, otherwise when the rest arrives.
        """
        if end.producer in self._book.folded:
            return []
        producer = self._meet(end.producer, now_ns)
        if producer is None:
            return []
        for complaint in producer.finish(end, now_ns):
            self._notes.warn(f"producer {end.producer!r} {complaint}")
        producer.reconcile()
        self._settle_steps(producer)
        return self._said()

    def cannot_resend(self, producer: str, first: int, last: int, now_ns: int) -> list[StreamedRecord]:
        """Give up missing batches that a producer no longer has. Returns as `end`.

        If its end waited only for these batches, it is reconciled.
        """
        known = self._book.get(producer)
        if known is None:
            return []
        known.cannot_resend(first, last, now_ns)
        known.reconcile()
        self._settle_steps(known)
        return self._said()

    def pass_time(self, elapsed_ns: int) -> list[StreamedRecord]:
        """End an interval of length `elapsed_ns`. Return the steps that have waited long enough, for the stream."""
        self._steps.pass_time(elapsed_ns)
        return self._said()

    def close(self) -> list[StreamedRecord]:
        """End the drain: drop rows that wait for a definition, and close open steps.

        Return the closed steps, to be published. If the run is resumed later, further values of them are late.
        """
        for producer in self._book:
            producer.give_up_waiting()
        self._steps.close()
        return self._said()

    def _settle_steps(self, producer: Producer) -> None:
        """Update the steps that a producer has ended, as far as no batch is missing.

        After its reconciled end, no step waits for the producer.
        """
        if producer.reconciled:
            self._steps.leave(producer.key)
        else:
            self._steps.settle(producer.key, producer.sequence.contiguous)

    def _said(self) -> list[StreamedRecord]:
        said = [StreamedRecord("", wall_ns, step) for wall_ns, step in self._steps.take()]
        for item in said:  # room was checked when their values arrived, so they are kept
            self.record_room.take(item.producer, item.record)
        return said

    def _meet(self, producer: str, now_ns: int) -> Producer | None:
        known = self._book.meet(producer, now_ns)
        if known is None:
            self.bad_frame(Reason.TOO_MANY_PRODUCERS)
        return known

    # --- producers -------------------------------------------------------------------------------

    def producers(self) -> list[str]:
        """Return the ids of all producers, in order of appearance."""
        return [producer.key for producer in self._book]

    def producer(self, producer: str) -> Producer:
        """Return the state of a producer. Raise KeyError for an unknown one."""
        return self._book[producer]

    def ended(self, producer: str) -> Ended | None:
        """Return the account of a reconciled producer. Return None before its end or while batches are missing."""
        known = self._book.get(producer)
        if known is None:
            return self._book.folded.ended(producer)
        return known.ended() if known.reconciled else None

    def account(self, producer: str) -> Ended:
        """Return the current account of a producer, or an empty account for an unknown one."""
        known = self._book.get(producer)
        return known.ended() if known is not None else Ended(emitted=0, received=0, missing=0)

    def applied_batches(self, producer: str) -> int:
        """Return the number below which all batches of a producer were applied or given up."""
        known = self._book.get(producer)
        return known.applied_batches if known is not None else 0

    def losses(self, producer: str) -> tuple[dict[str, int], int]:
        """Return a producer's dropped events by reason, and the number of its batches that were given up."""
        known = self._book.get(producer)
        if known is None:
            return {}, 0
        account = known.account
        dropped = merge_reasons(account.ledger.by_reason(), account.dropped_by_producer)
        return dropped, known.sequence.unrepairable

    def acknowledgements(self) -> list[tuple[str, int]]:
        """Return the producers whose `applied_batches` changed since the last call, with the new values."""
        moved = []
        for producer in self._book:
            if producer.acknowledged_batches != producer.applied_batches:
                producer.acknowledged_batches = producer.applied_batches
                moved.append((producer.key, producer.applied_batches))
        return moved

    def gaps(self, producer: str) -> list[tuple[int, int]]:
        """Return ranges `[first, last]` of missing batches."""
        known = self._book.get(producer)
        return known.sequence.gaps if known is not None else []

    def waiting_for(self) -> list[str]:
        """Return producers that sent hello and have not ended, or have missing batches."""
        return self._book.waiting_for()

    def anyone_left(self, now_ns: int, besides: str = "") -> bool:
        """Return False once there were producers other than `besides` and each has ended or is lost."""
        return self._book.anyone_left(now_ns, besides)

    # --- output ----------------------------------------------------------------------------------

    @property
    def applied(self) -> int:
        """Number of events of all producers in the numbers or the record stream."""
        return self._book.folded.events + sum(producer.account.ledger.applied for producer in self._book)

    def roll(self, start_wall_ns: int, end_wall_ns: int, elapsed_ns: int) -> Interval:
        """End an interval, once a second, and return its contents. Also moves windows and rates.

        The interval is dated by the wall clock. Its length is `elapsed_ns`, which is unaffected by clock steps.
        """
        seconds = max(elapsed_ns / 1e9, _SHORTEST_ROLL_S)
        self._book.roll(seconds)
        return Interval(
            start_wall_ns,
            end_wall_ns,
            self.series.roll(seconds),
            self._counters.roll(seconds),
            self._gauges.roll(),
        )

    def keys(self) -> list[SeriesKey]:
        """Return the keys of all instruments. An index is unique within its kind."""
        return [self.series.key(index) for index in range(len(self.series))] + self._registry.keys()

    def counters(self) -> list[CounterStat]:
        """Return all counters now, without their extents."""
        return self._counters.stats()

    def step(self, axis: str, step: int) -> StepState:
        """Return the state of one step, without what the record stream and backends know. Makes no snapshot."""
        return self._steps.state(axis, step)

    def snapshot(self, facts: RunFacts, now_ns: int, wall_ns: int) -> MetricsSnapshot:
        """Return the whole state at this moment."""
        extents = self._extents.by_instrument()
        shift_ns = self._clock.shift_at(now_ns, wall_ns)
        parts = SnapshotParts(
            registry=self._registry,
            notes=self._notes,
            counters=_with_extents(self._counters.stats(), extents["counter"]),
            gauges=self._gauges.stats(shift_ns),
            series=_with_extents(self.series.stats(), extents["series"]),
            producers=self._book.stats(now_ns, wall_ns, shift_ns),
            folded=self._book.folded.stat(),
            waiting_for=self._book.waiting_for(),
            bad_frames=merge_reasons(self._bad_frames, self._new_bad_frames),
            texts=self.uncounted,
            axes=self._steps.stats(),
            window_s=self._config.window_rolls,
        )
        return build_snapshot(facts, parts, now_ns, wall_ns)

    def observe(self, observer: Observer) -> None:
        """Call `observer` with all rows that are applied from now on, kind by kind. Not part of a checkpoint."""
        kinds = {code: kind for kind, code in KIND_CODES.items()}

        def see(code: int, part: KindRows) -> None:
            observer(AppliedRows(kinds[code], part, self._clock.shift_ns))

        self._applier.observe(see)

    def series_values(self, batch: EventBatch) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return the series indices and values in a journaled batch, by the current routes.

        Changes no state, so it may run beside `snapshot` once no more batches are applied.
        """
        return replay_series(batch, self._book.replayed(batch.producer), self._registry)


def _with_extents(stats: list[_Stat], extents: Mapping[int, Extent]) -> list[_Stat]:
    for index, extent in extents.items():
        stats[index] = replace(stats[index], extent=extent)
    return stats
