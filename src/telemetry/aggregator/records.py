"""Reader of records, one by one.

Definitions bind ids, self-describing events become rows, scalars become steps, and ended requests go to the request
log. All other records go to the stream.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta, Raw, Struct
from msgspec.structs import replace

from telemetry import limits
from telemetry.aggregator.batch_rows import RUN_TIMES, BatchGroup, RowRange, wall_ns
from telemetry.aggregator.budgets import RecordBudget
from telemetry.aggregator.nodes.root_side import NodeReader
from telemetry.aggregator.notes import Notes
from telemetry.aggregator.producers.producer import Producer
from telemetry.aggregator.registry import InstrumentBounds, Registry
from telemetry.aggregator.request_log import RequestLogIntake
from telemetry.aggregator.rows import CONFLICT, INVALID, UNKNOWN, Rows
from telemetry.aggregator.run_clock import LATEST_NS, RunClock
from telemetry.aggregator.series.extents import Extents
from telemetry.aggregator.steps.merger import StepMerger
from telemetry.aggregator.text_queue import TextQueue
from telemetry.common import formatting
from telemetry.redaction import mask_secrets
from telemetry.wire.codec import Malformed, decode_record, record_tag
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.events import (
    STREAMED,
    Axis,
    Bins,
    Count,
    Counted,
    Define,
    EventBatch,
    Expect,
    Gauge,
    Kind,
    Mark,
    Note,
    Params,
    Sample,
    Scalars,
    Span,
    SpanSource,
    StepClear,
    StepEnd,
    Streamed,
    Table,
    Uncounted,
)
from telemetry.wire.nodes import NODE_RECORDS, BatchRecord, Relay, StepPart
from telemetry.wire.request_log import REQUEST_RECORDS, RequestRecord

_DEFINE: Final = "define"


class _DefineHead(Struct, array_like=True, frozen=True):
    tag: str
    id: Annotated[int, Meta(ge=0, lt=limits.PRODUCER_IDS)]


_DEFINE_HEAD: Final = msgspec.msgpack.Decoder(_DefineHead)
_KIND_OF: Final[dict[type, Kind]] = {Sample: "series", Count: "counter", Gauge: "gauge"}


class StreamedRecord(NamedTuple):
    """A record for the record stream, which numbers it."""

    producer: str
    """Id of the producer. Empty for a record of the aggregator."""
    wall_ns: int
    record: Streamed
    part: StepPart | None = None
    """On a leaf: what the root gets in place of a closed step."""


def count_events(batch: EventBatch) -> int:
    """Return the number of events in a batch, readable or not: rows, and records except definitions."""
    events = batch.rows.events
    if batch.records:
        events += sum(record_tag(raw) != _DEFINE for raw in batch.records)
    return events


def definition_id(raw: Raw) -> int | None:
    """Return the id of an otherwise unreadable definition, or None if the id is unreadable too."""
    try:
        return _DEFINE_HEAD.decode(raw).id
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None


def fits_together(record: Bins | Table) -> bool:
    """Check that cells match columns or counts match edges, and that edges are finite and ascend."""
    if isinstance(record, Table):
        return all(len(row) == len(record.columns) for row in record.rows)
    ascending = all(low < high for low, high in pairwise(record.edges))  # false for any NaN
    ends_finite = math.isfinite(record.edges[0]) and math.isfinite(record.edges[-1])
    return ascending and ends_finite and len(record.counts) == len(record.edges) - 1


class RecordReader:
    """Reader of the records of batches. It collects self-describing events as rows until they are taken."""

    def __init__(
        self,
        registry: Registry,
        notes: Notes,
        texts: TextQueue,
        extents: Extents,
        steps: StepMerger,
        *,
        clock: RunClock,
        room: RecordBudget,
        requests: RequestLogIntake,
        nodes: NodeReader,
    ) -> None:
        self._clock = clock
        self._nodes = nodes
        self._registry = registry
        self._room = room
        self._requests = requests
        self._notes = notes
        self._texts = texts
        self._extents = extents
        self._steps = steps
        self._routes: list[int] = []
        self._values: list[float] = []
        self._times: list[int] = []
        self._row_ranges: list[RowRange] = []
        self._noted: dict[type, Callable[[str, int, Any], None]] = {
            Mark: self._notes.mark,
            Params: lambda _producer, _at_ns, params: self._notes.add_params(params),
            Expect: lambda _producer, _at_ns, expect: self._notes.expect(expect),
            Axis: lambda _producer, _at_ns, axis: self._steps.declare(axis),
            Note: lambda _producer, at_ns, note: self._steps.attach(note, at_ns),
            Bins: lambda _producer, at_ns, counted: self._steps.attach(counted, at_ns),
        }

    def read(self, producer: Producer, batch: EventBatch, now_ns: int, since: int = 0) -> list[StreamedRecord]:
        """Read the records of a batch. Return the records for the stream, which count as applied.

        `now_ns` is the run's clock. All batches of the producer from `since` up to this one were read before. If
        `since` is 0, all earlier batches were.
        """
        streamed: list[StreamedRecord] = []
        before = len(self._values)
        newest_ns = 0
        anchor = producer.steady(batch.anchor, self._clock)
        for raw in batch.records:
            try:
                record = decode_record(raw)
            except Malformed:
                self._refuse(producer, raw)
                continue
            if isinstance(record, Define):
                self._define(producer, record)
                continue
            if producer.node is not None or isinstance(record, NODE_RECORDS):
                shift_ns = anchor[1] - (batch.anchor[1] or anchor[0])
                streamed += self._of_leaf(producer, record, shift_ns, since)
                continue
            if isinstance(record, Params | Span):
                record = self._completed(producer, record, batch.anchor)
            if isinstance(record, Counted):
                self._texts.count(record)
                producer.account.ledger.apply(1)
                continue
            at_ns = wall_ns(record.start_ns if isinstance(record, Span) else record.time_ns, anchor, now_ns)
            newest_ns = max(newest_ns, at_ns)
            if isinstance(record, Sample | Count | Gauge):
                self._collect(record, at_ns)
                continue
            if isinstance(record, REQUEST_RECORDS):
                self._log_request(producer, record, raw)
                continue
            at_ns = min(max(0, at_ns + self._clock.shift_ns), LATEST_NS)  # a wall clock time from here on
            if isinstance(record, StepClear):
                self._clear_step(producer, record, at_ns, batch.seq)
            elif (kept := self._for_stream(producer, record, at_ns, since)) is not None:
                streamed.append(self._streamed(producer.key, at_ns, kept))
        self._requests.end_batch(producer.key, anchor[1] - anchor[0], self._clock.shift_ns)
        producer.heard_event(newest_ns, now_ns)
        producer.account.ledger.apply(len(streamed))
        if producer.node is not None and producer.newly_bound:
            self._nodes.add_waiting(producer, producer.node)
        if len(self._values) > before:
            self._row_ranges.append(RowRange(producer, RUN_TIMES, len(self._values) - before))
        return streamed

    def _streamed(self, producer: str, at_ns: int, record: Streamed) -> StreamedRecord:
        """Return a record for the stream, and keep what snapshots repeat of it."""
        if type(record) in self._noted:
            self._noted[type(record)](producer, at_ns, record)
        return StreamedRecord(producer, at_ns, record)

    def _of_leaf(self, leaf: Producer, record: BatchRecord, shift_ns: int, since: int) -> list[StreamedRecord]:
        """Read a record of a leaf, which has records of its own only. No other producer may send them."""
        node = leaf.node
        if node is None or not isinstance(record, NODE_RECORDS):
            leaf.account.ledger.drop(Reason.MALFORMED_RECORD)
        elif isinstance(record, Relay):
            return self._relayed(leaf, record, shift_ns)
        elif not self._nodes.read(leaf, node, record, shift_ns, since):
            self._drop_beyond_cap(leaf)
        return []

    def _relayed(self, leaf: Producer, relay: Relay, shift_ns: int) -> list[StreamedRecord]:
        """Return the record in a relay with its original producer and its time on the wall clock."""
        at_ns = min(max(0, relay.wall_ns + shift_ns + self._clock.shift_ns), LATEST_NS)
        try:
            record = decode_record(relay.record)
        except Malformed:
            record = None
        if not isinstance(record, STREAMED) or (isinstance(record, Bins | Table) and not fits_together(record)):
            leaf.account.ledger.drop(Reason.MALFORMED_RECORD)
            return []
        if isinstance(record, Params):
            record = replace(record, values=mask_secrets(record.values))
        if not self._room.take(relay.producer, record):
            self._drop_beyond_cap(leaf)
            return []
        return [self._streamed(relay.producer, at_ns, record)]

    def _for_stream(
        self, producer: Producer, record: Streamed | Scalars | StepEnd | Uncounted, at_ns: int, since: int
    ) -> Streamed | None:
        """Return a record that goes to the stream unchanged. Handle, or drop and count, any other record."""
        if isinstance(record, Scalars | StepEnd):
            self._step(producer, record, at_ns, since)
        elif isinstance(record, Uncounted):
            owner = "" if record.number is None else producer.key
            self._queue(producer, replace(record, time_ns=at_ns, producer=owner))
        elif isinstance(record, Bins | Table) and not fits_together(record):
            producer.account.ledger.drop(Reason.MALFORMED_RECORD)
        elif not self._room.take(producer.key, record):
            self._drop_beyond_cap(producer)
        else:
            return record
        return None

    def add_intervals(self) -> None:
        """Add the intervals of leaves that were read since the last call."""
        self._nodes.add_intervals()

    def take_values(self) -> BatchGroup | None:
        """Return the self-describing events read since the last call."""
        if not self._values:
            return None
        times = np.array(self._times, np.uint64)
        rows = Rows(np.zeros(0, np.intp), times, np.array(self._values, np.float64))
        group = BatchGroup(self._row_ranges, rows, np.array(self._routes, np.intp))
        self._routes, self._values, self._times, self._row_ranges = [], [], [], []
        return group

    def _collect(self, record: Sample | Count | Gauge, at_ns: int) -> None:
        kind = _KIND_OF[type(record)]
        self._routes.append(self._registry.resolve(kind, record.name, record.labels, record.unit))
        self._values.append(record.value)
        self._times.append(at_ns)

    def _drop_beyond_cap(self, producer: Producer) -> None:
        producer.account.ledger.drop(Reason.RECORDS_FULL)
        self._notes.warn(
            f"the record log is full (records.cap_bytes, {formatting.size(self._room.cap_bytes)}): "
            "later records, such as marks, params and values of steps, are dropped and counted as "
            f"{Reason.RECORDS_FULL}"
        )

    def _step(self, producer: Producer, record: Scalars | StepEnd, at_ns: int, since: int) -> None:
        if isinstance(record, Scalars) and self._room.is_full:  # the step of these values would not fit
            self._drop_beyond_cap(producer)
            return
        if isinstance(record, Scalars):
            refused = self._steps.report(producer.key, record, at_ns, since)
        else:
            refused = self._steps.end(producer.key, record, since)
        if refused is None:
            producer.account.ledger.apply(1)
        else:
            producer.account.ledger.drop(refused)

    def _clear_step(self, producer: Producer, record: StepClear, at_ns: int, seq: int) -> None:
        if seq + 1 < producer.sequence.next_seq:  # later batches may have been read before
            self._steps.clear(producer.key, record, seq, at_ns)
        else:
            self._steps.clear(producer.key, record, seq)
        producer.account.ledger.apply(1)

    def _queue(self, producer: Producer, text: Uncounted) -> None:
        """Queue a text whose time is wall clock. Without room for it, its event is dropped."""
        if self._texts.add(msgspec.msgpack.encode(text)):
            producer.account.ledger.apply(1)
            return
        producer.account.ledger.drop(Reason.TEXTS_FULL)

    def _log_request(self, producer: Producer, record: RequestRecord, raw: Raw) -> None:
        """Pass a record to the request log. A request that has no room there is not a lost event."""
        if self._requests.read(producer.key, record, raw):
            producer.account.ledger.apply(1)
            return
        producer.account.ledger.drop(Reason.MALFORMED_RECORD)

    def _define(self, producer: Producer, define: Define) -> None:
        """Bind the id of a definition. A repeated definition has no effect.

        A definition that binds a used id to another instrument makes the events of the id ambiguous, so they are
        dropped.
        """
        bounds = InstrumentBounds(define.digits, define.low, define.high)
        route = self._nodes.resolve(define) if producer.node is not None else None
        if route is None:
            route = self._registry.resolve(define.kind, define.name, define.labels, define.unit, bounds)
        if route >= 0 and define.within:
            self._extents.define(route, define.within, define.labels)
        bound = producer.ids[define.id]
        if bound == route:
            self._bound(producer, define, route)
            return
        if bound not in (UNKNOWN, INVALID):
            self._notes.warn(
                f"producer {producer.key!r} redefined id {define.id} as {define.kind} "
                f"{define.name!r}: its further events are dropped"
            )
            route = CONFLICT
        if self._bind(producer, define.id, route):
            self._bound(producer, define, route)

    def _bound(self, producer: Producer, define: Define, route: int) -> None:
        if producer.node is not None:
            self._nodes.define(producer, define, route)

    def _bind(self, producer: Producer, row_id: int, route: int) -> bool:
        """Bind an id. Return False if there is no room for it."""
        if producer.ids.bind(row_id, route):
            producer.newly_bound = True
            return True
        self._notes.warn(f"producer {producer.key!r}: no room for id {row_id}; its events are dropped")
        return False

    @staticmethod
    def _completed(producer: Producer, record: Params | Span, anchor: tuple[int, int]) -> Params | Span:
        """Return params without secrets, or a span with its process. `anchor` has the clocks of the process."""
        if isinstance(record, Params):  # only our own client masks secrets before it sends
            return replace(record, values=mask_secrets(record.values))
        own_ns = min(max(0, record.start_ns - anchor[0] + anchor[1]), LATEST_NS) if record.start_ns else 0
        facts = producer.name, producer.host, producer.pid, producer.rank
        return replace(record, source=SpanSource(own_ns, *facts))

    def _refuse(self, producer: Producer, raw: Raw) -> None:
        """Drop an unreadable record and count its event. For an unreadable definition, mark its id as invalid."""
        if record_tag(raw) != _DEFINE:
            producer.account.ledger.drop(Reason.MALFORMED_RECORD)
            return
        row_id = definition_id(raw)
        self._notes.warn(f"producer {producer.key!r} sent an unreadable definition (id {row_id})")
        if row_id is not None and producer.ids[row_id] == UNKNOWN:
            self._bind(producer, row_id, INVALID)
