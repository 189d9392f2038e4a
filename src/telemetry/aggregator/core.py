"""The aggregator: events in, snapshots out. Pure: no sockets, files, threads or clocks. One caller at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from telemetry import limits
from telemetry.aggregator.apply import Applier, Handler
from telemetry.aggregator.batch_rows import AppliedRows, KindRows, Observer
from telemetry.aggregator.budgets import RecordBudget
from telemetry.aggregator.checkpoint import PART, encode_checkpoint, restore_checkpoint
from telemetry.aggregator.config import AggregatorConfig
from telemetry.aggregator.counters import CounterTable
from telemetry.aggregator.exact.percentiles import replay_series
from telemetry.aggregator.fast_rows import UsualRows
from telemetry.aggregator.gauges import GaugeTable
from telemetry.aggregator.nodes.folded_gauges import FoldedGauges
from telemetry.aggregator.nodes.incoming import IncomingIntervals
from telemetry.aggregator.nodes.leaf_side import LeafFacts, LeafSide, OwnNumbers, own_account
from telemetry.aggregator.nodes.leaf_sums import LeafSums
from telemetry.aggregator.nodes.members import NewMembers, NodeMembers
from telemetry.aggregator.nodes.root_side import NodeReader, RootSide
from telemetry.aggregator.nodes.stats import ExpectedNodes
from telemetry.aggregator.notes import Notes
from telemetry.aggregator.producers.account import plausible
from telemetry.aggregator.producers.book import ProducerBook
from telemetry.aggregator.producers.producer import Producer
from telemetry.aggregator.records import RecordReader, StreamedRecord, count_events
from telemetry.aggregator.registry import InstrumentBounds, Registry
from telemetry.aggregator.request_log import RequestLogIntake
from telemetry.aggregator.rows import KIND_CODES
from telemetry.aggregator.run_clock import RunClock
from telemetry.aggregator.series.extents import Extents, with_extents
from telemetry.aggregator.series.table import SeriesTable
from telemetry.aggregator.snapshotter import SnapshotFacts, SnapshotParts, build_snapshot
from telemetry.aggregator.steps.merger import StepMerger
from telemetry.aggregator.text_queue import TextQueue
from telemetry.wire.control import End, Hello, SeriesKey
from telemetry.wire.drop_reasons import Count, Reason, merge_reasons
from telemetry.wire.events import EventBatch, Params, Scalar
from telemetry.wire.history import Interval
from telemetry.wire.nodes import NodeAccount
from telemetry.wire.sequence import SequenceTracker
from telemetry.wire.snapshot import MetricsSnapshot

_UNUSED: Final = SequenceTracker()  # for producers that have sent nothing yet
_SHORTEST_ROLL_S: Final = 1e-3  # minimum length of the last interval, which ends when the books close


class Aggregator:
    """The numbers of one run. `now_ns` is the monotonic clock, `wall_ns` the wall clock, both in nanoseconds.

    Invalid input of a producer never raises. It is counted by reason and appears in the snapshot.

    The same calls with the same arguments give the same state to the last bit, in any process. Calls that only read
    may be omitted or added. The exception is `book.acknowledgements`, which remembers its last answer; a restored
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
        "_folded": PART,
        "_incoming": PART,
        "_leaf_sums": PART,
        "expected_nodes": PART,
        "_members": PART,
        "_new_members": PART,
        "_requests": PART,
    }
    ADDED: ClassVar[tuple[str, ...]] = (
        *("_clock", "_incoming", "_leaf_sums", "expected_nodes", "_members", "_new_members", "_requests"),
        "_folded",
    )
    DERIVED: ClassVar[tuple[str, ...]] = (
        *("_config", "_applier", "record_room", "leaf", "root"),
        *("clock", "counters", "book", "steps", "incoming", "requests"),  # in STATE, by their names in checkpoints
    )

    def __init__(self, config: AggregatorConfig) -> None:
        self._config = config
        self.clock = self._clock = RunClock()
        self.series = SeriesTable(config.percentiles, config.window_rolls, leaf=config.leaf)
        self.counters = self._counters = CounterTable(config.window_rolls, leaf=config.leaf)
        self._gauges = GaugeTable()
        self._notes = Notes()
        self.uncounted = TextQueue()
        self.book = self._book = ProducerBook(config)
        self.steps = self._steps = StepMerger(
            config.step_grace_s, self._notes.warn, self.book.rank_of, clock=self.clock, leaf=config.leaf
        )
        self._bad_frames: Counter[str] = Counter()
        self._new_bad_frames: Counter[str] = Counter()
        """Refused frames since the last `take_bad_frames`."""
        self.expected_nodes = ExpectedNodes()
        self._members = NodeMembers()
        """Producers of the nodes of a root."""
        self._new_members = NewMembers()
        """Producers that a leaf has not reported yet."""
        self._registry = Registry(
            {
                "counter": lambda name, labels, unit, _: self.counters.add(name, labels, unit),
                "gauge": lambda name, labels, unit, _: self._gauges.add(name, labels, unit),
                "series": self._add_series,
            },
            config.series_cap,
            self._notes.warn,
        )
        self._extents = Extents(self._registry, self._notes.warn)
        self._leaf_sums = LeafSums(self._registry, self.series, self.counters, self._gauges, self._extents)
        self.leaf = LeafSide(self._leaf_sums, self._new_members, is_leaf=config.leaf)
        self.root = RootSide(self.book, self.expected_nodes, self._members, clock=self.clock, config=config)
        self._folded = FoldedGauges(self._registry, self._gauges, is_leaf=config.leaf)
        self.incoming = self._incoming = IncomingIntervals(
            self.series,
            self.counters,
            self._gauges,
            self._extents,
            folded=self._folded,
            clock=self.clock,
            warn=self._notes.warn,
        )
        handlers: dict[int, Handler] = {
            KIND_CODES["series"]: self._record_series,
            KIND_CODES["counter"]: self._record_counters,
            KIND_CODES["gauge"]: lambda part: self._gauges.record(part.indices, part.values, part.wall_times()),
        }
        self.record_room = RecordBudget(config.record_cap_bytes)
        """Budget of the record log. The run state stores its use, next to the number of records."""
        self.requests = self._requests = RequestLogIntake(config.request_log_cap_bytes)
        reader = RecordReader(
            self._registry,
            self._notes,
            self.uncounted,
            self._extents,
            self.steps,
            clock=self.clock,
            room=self.record_room,
            requests=self.requests,
            nodes=NodeReader(
                self.incoming,
                self.steps,
                self._members,
                self._new_members if config.leaf else None,
                clock=self.clock,
                room=self.record_room,
                words=self.book.reasons,
            ),
        )
        usual = UsualRows(self.series, self.counters, self._gauges, self._extents)
        self._applier = Applier(self.book, self.clock, reader, handlers, self._extents.witness, usual=usual)

    def _record_series(self, part: KindRows) -> None:
        self.series.record(part.indices, part.values)
        self.series.times.note(part.indices, part.values, part.wall_times())

    def _record_counters(self, part: KindRows) -> None:
        self.counters.record(part.indices, part.values)
        self.counters.times.note(part.indices, part.values, part.wall_times())

    def _add_series(self, name: str, labels: dict[str, str], unit: str, bounds: InstrumentBounds) -> int:
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
        return encode_checkpoint(self, self._config, head)

    @staticmethod
    def restore(data: bytes | memoryview) -> Aggregator:
        """Restore the aggregator from a checkpoint. Raise Malformed for invalid bytes."""
        return restore_checkpoint(Aggregator, data)

    def restored(self) -> None:
        """Check that all ids lead to existing instruments."""
        instruments = [len(self._registry.instruments[kind]) for kind in KIND_CODES]
        if not self.book.fits([*instruments, len(self._folded)]):
            raise ValueError("an id that leads to no instrument")

    # --- input -----------------------------------------------------------------------------------

    def hello(self, hello: Hello, now_ns: int, wall_ns: int) -> bool:
        """Introduce a producer. Return False if there are too many."""
        if hello.producer in self.book.folded:
            return True
        producer = self._meet(hello.producer, now_ns)
        if producer is None:
            return False
        producer.hello(hello, now_ns)
        self.leaf.introduce(hello)
        return True

    def set_params(self, values: Mapping[str, Scalar]) -> None:
        """Set params of the run that no producer sends. Only before the first checkpoint, which has them."""
        self._notes.add_params(Params(values=dict(values)))

    def ping(self, producer: str, now_ns: int) -> None:
        """Register a sign of life. Ignores unknown producers."""
        if (entry := self.book.get(producer)) is not None:
            entry.last_seen_ns = now_ns

    def admit(self, batch: EventBatch, now_ns: int) -> bool:
        """Check whether a batch is new. The caller must journal and then apply a new batch.

        Events of a new batch count as received, even if `apply` drops them because the end of their producer is
        reconciled.
        """
        entry = self.book.get(batch.producer)
        events = count_events(batch)
        sequence = entry.sequence if entry is not None else _UNUSED
        if not sequence.believable(batch.seq) or not plausible(batch.first + events, batch.dropped):
            self.bad_frame(Reason.IMPLAUSIBLE)
            return False
        if batch.producer in self.book.folded:
            self.book.folded.duplicates += 1
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
        self.clock.read(now_ns, wall_ns)
        streamed = self._applier.apply(batches)
        for key in {batch.producer: None for batch in batches}:
            self._settle_steps(self.book[key])
        return streamed + self._said()

    def end(self, end: End, now_ns: int) -> list[StreamedRecord]:
        """Apply the end of a producer, and return the steps that waited for it, for the stream.

        It is reconciled at once if all its batches are applied, otherwise when the rest arrives.
        """
        if end.producer in self.book.folded:
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
        entry = self.book.get(producer)
        if entry is None:
            return []
        entry.cannot_resend(first, last, now_ns)
        entry.reconcile()
        self._settle_steps(entry)
        return self._said()

    def salvage(self, producer: str) -> None:
        """Count the events of a producer as salvaged from now on. Ignores unknown producers."""
        if (entry := self.book.get(producer)) is not None:
            entry.is_salvaged = True

    def pass_time(self, elapsed_ns: int) -> list[StreamedRecord]:
        """End an interval of length `elapsed_ns`. Return the steps that have waited long enough, for the stream."""
        self.steps.pass_time(elapsed_ns)
        return self._said()

    def close(self) -> list[StreamedRecord]:
        """End the drain: drop rows that wait for a definition, and close open steps.

        Return the closed steps, to be published. If the run is resumed later, further values of them are late.
        """
        for producer in self.book:
            producer.give_up_waiting()
        self.steps.close()
        return self._said()

    def _settle_steps(self, producer: Producer) -> None:
        """Update the steps that a producer has ended, as far as no batch is missing.

        After its reconciled end, no step waits for the producer.
        """
        if producer.reconciled:
            self.steps.leave(producer.key)
        else:
            self.steps.settle(producer.key, producer.sequence.contiguous)

    def _said(self) -> list[StreamedRecord]:
        taken = self.steps.take()
        if not taken:
            return []
        records = [StreamedRecord("", wall_ns, step, part) for wall_ns, step, part in taken]
        for item in records:  # room was checked when their values arrived, so they are kept
            self.record_room.take(item.producer, item.record)
        return records

    def _meet(self, producer: str, now_ns: int) -> Producer | None:
        entry = self.book.meet(producer, now_ns)
        if entry is None:
            self.bad_frame(Reason.TOO_MANY_PRODUCERS)
        return entry

    # --- producers -------------------------------------------------------------------------------

    # --- nodes -----------------------------------------------------------------------------------

    def node_account(self, roll: int, facts: LeafFacts | None = None) -> NodeAccount:
        """Return the account of a leaf and all its producers, at the end of interval `roll`.

        Its completeness is that of the leaf's result if the run ended now.
        """
        own = OwnNumbers(
            values=self.series.values + self.counters.values + self._gauges.values,
            producers=self.book.stats(0, 0),
            folded=self.book.folded.stat(),
            nodes=self.root.nodes(0, 0),
            waiting_for=[key for key in self.book.waiting_for() if self.book[key].node is None],
            bad_frames=merge_reasons(self._bad_frames, self._new_bad_frames),
            uncounted=self.uncounted.pending,
            warnings=self._notes.warnings,
        )
        return own_account(own, roll, facts or LeafFacts())

    # --- output ----------------------------------------------------------------------------------

    @property
    def records_values(self) -> bool:
        """True if a series has values that did not come from nodes. Only these are in the journal."""
        return self.series.values > self.incoming.series_values

    def roll(self, start_wall_ns: int, end_wall_ns: int, elapsed_ns: int, now_ns: int = 0) -> Interval:
        """End an interval, once a second, and return its contents. Also moves windows and rates.

        The interval is dated by the wall clock. Its length is `elapsed_ns`, which is unaffected by clock steps.
        Windows of young instruments begin with their first event, if `now_ns` is not 0.
        """
        seconds = max(elapsed_ns / 1e9, _SHORTEST_ROLL_S)
        end_ns = self.clock.at(now_ns) if now_ns else 0
        self.book.roll(seconds)
        self._folded.fold()
        interval = Interval(
            start_wall_ns,
            end_wall_ns,
            self.series.roll(seconds, end_ns),
            self.counters.roll(seconds, end_ns),
            self._gauges.roll(),
        )
        self.leaf.roll(interval, self.clock.shift_ns)
        return interval

    def slice(self, start_wall_ns: int, wall_ns: int, now_ns: int) -> Interval:
        """End a slice of the current interval, and return its contents. Windows and leaves don't see slices.

        The slice ends with its newest event, because later ones are still on their way: at a cut by the clock, a
        steady load would look like a saw. `wall_ns` is the time now.
        """
        series, counters = self.series.slice(), self.counters.slice()
        newest_ns = max(self.series.times.newest(series.index), self.counters.times.newest(counters.index))
        age_ns = self.clock.at(now_ns) - newest_ns
        end_ns = max(wall_ns - min(max(age_ns, 0), limits.SLICE_LAG_NS), start_wall_ns + 1)
        return Interval(start_wall_ns, end_ns, series, counters, self._gauges.slice())

    def keys(self) -> list[SeriesKey]:
        """Return the keys of all instruments. An index is unique within its kind."""
        return [self.series.key(index) for index in range(len(self.series))] + self._registry.keys()

    @property
    def params(self) -> Mapping[str, Scalar]:
        """Parameters of the run."""
        return self._notes.params

    @property
    def instruments(self) -> int:
        """Number of all instruments."""
        return len(self.series) + len(self.counters) + len(self._gauges)

    def snapshot(self, facts: SnapshotFacts, now_ns: int, wall_ns: int) -> MetricsSnapshot:
        """Return the whole state at this moment."""
        extents = self._extents.by_instrument()
        shift_ns = self.clock.shift_at(now_ns, wall_ns)
        parts = SnapshotParts(
            registry=self._registry,
            notes=self._notes,
            counters=with_extents(self.counters.stats(), extents["counter"]),
            gauges=self._folded.put_into(self._gauges.stats(shift_ns)),
            series=with_extents(self.series.stats(), extents["series"]),
            producers=self.book.stats(now_ns, wall_ns, shift_ns),
            folded=self.book.folded.stat(),
            nodes=(self.root.live_nodes if facts.state == "LIVE" else self.root.nodes)(now_ns, wall_ns),
            waiting_for=self.book.names_of(self.book.waiting_for()),
            bad_frames=merge_reasons(self._bad_frames, self._new_bad_frames),
            texts=self.uncounted,
            axes=self.steps.stats(),
            requests=self.requests.stat(),
            window_s=self._config.window_rolls,
        )
        return build_snapshot(facts, parts, now_ns, wall_ns)

    def observe(self, observer: Observer) -> None:
        """Call `observer` with all rows that are applied from now on, kind by kind. Not part of a checkpoint."""
        kinds = {code: kind for kind, code in KIND_CODES.items()}
        self._applier.observe(lambda code, part: observer(AppliedRows(kinds[code], part, self.clock.shift_ns)))

    def series_values(self, batch: EventBatch) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return the series indices and values in a journaled batch, by the current routes.

        Changes no state, so it may run beside `snapshot` once no more batches are applied.
        """
        return replay_series(batch, self.book.replayed(batch.producer), self._registry)
