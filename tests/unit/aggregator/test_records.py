"""Records, one by one."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from telemetry import limits
from telemetry.aggregator.budgets import RecordBudget, line_bytes
from telemetry.aggregator.config import AggregatorConfig
from telemetry.aggregator.counters import CounterTable
from telemetry.aggregator.gauges import GaugeTable
from telemetry.aggregator.nodes.folded_gauges import FoldedGauges
from telemetry.aggregator.nodes.incoming import IncomingIntervals
from telemetry.aggregator.nodes.members import NodeMembers
from telemetry.aggregator.nodes.root_side import NodeReader
from telemetry.aggregator.notes import Notes
from telemetry.aggregator.producers.book import ProducerBook
from telemetry.aggregator.producers.producer import Producer
from telemetry.aggregator.records import RecordReader, StreamedRecord, count_events, definition_id
from telemetry.aggregator.registry import Registry
from telemetry.aggregator.request_log import RequestLogIntake
from telemetry.aggregator.rows import CONFLICT, INVALID, UNKNOWN, route
from telemetry.aggregator.run_clock import RunClock
from telemetry.aggregator.series.extents import Extents
from telemetry.aggregator.series.table import SeriesTable
from telemetry.aggregator.steps.merger import StepMerger
from telemetry.aggregator.steps.step import FinishedStep
from telemetry.aggregator.text_queue import TextQueue
from telemetry.store.records import record_line
from telemetry.testing import batch
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.wire.control import Hello
from telemetry.wire.events import (
    Artifact,
    Axis,
    Bins,
    ClosedStep,
    Count,
    Define,
    EventBatch,
    EventRecord,
    Expect,
    Gauge,
    Mark,
    Note,
    Params,
    Sample,
    Scalars,
    Session,
    Span,
    SpanSource,
    StepEnd,
    StreamRecord,
    Table,
)
from telemetry.wire.rows import read
from telemetry.wire.version import PROTOCOL

NOW = WALL_NS + 10**9
UNREADABLE_DEFINE = Raw(msgspec.msgpack.encode(["define", 5, "", "no such kind"]))
UNREADABLE = Raw(msgspec.msgpack.encode(["sample", 5]))
STREAMED: list[EventRecord] = [
    Mark("text"),
    Params({"a": 1}),
    Expect("x", 5.0),
    Axis("train", "sum", {"*/loss": "mean"}),
    Span("s", MONO_NS, MONO_NS + 5, source=SpanSource(WALL_NS)),
    Note("n", "text", 0, "train", 3),
    Table("t", ["a", "b"], [[1, "x"], [None, 2.5]]),
    Bins("b", [0.0, 1.0, 2.0], [3, 4]),
    Artifact("a", "file:///x"),
    Session("started"),
]


class _Bench:
    """A reader with one producer."""

    def __init__(
        self,
        record_cap_bytes: int = limits.RECORDS_CAP_BYTES,
        request_log_cap_bytes: int = limits.REQUEST_LOG_CAP_BYTES,
    ) -> None:
        self.notes = Notes()
        self.added: list[str] = []
        self.registry = Registry(dict.fromkeys(("counter", "gauge", "series"), self._add), 100, self.notes.warn)
        self.texts = TextQueue()
        self.steps = StepMerger(30.0, self.notes.warn)
        extents = Extents(self.registry, self.notes.warn)
        clock = RunClock()
        clock.read(NOW, NOW)
        self.room = RecordBudget(record_cap_bytes)
        book = ProducerBook(AggregatorConfig())
        gauges = GaugeTable()
        intervals = IncomingIntervals(
            *(SeriesTable(("50",), 1), CounterTable(1), gauges, extents),
            folded=FoldedGauges(self.registry, gauges, is_leaf=False),
            clock=clock,
            warn=self.notes.warn,
        )
        nodes = NodeReader(
            *(intervals, self.steps, NodeMembers(), None), clock=clock, room=self.room, words=book.reasons
        )
        self.requests = RequestLogIntake(request_log_cap_bytes)
        self.reader = RecordReader(
            *(self.registry, self.notes, self.texts, extents, self.steps),
            clock=clock,
            room=self.room,
            requests=self.requests,
            nodes=nodes,
        )
        producer = book.meet("p", 0)
        assert producer is not None
        self.producer: Producer = producer

    def _add(self, name: str, *_: object) -> int:
        self.added.append(name)
        return len(self.added) - 1

    def read(self, *records: EventRecord, raw: Raw | None = None) -> list[StreamedRecord]:
        sent = batch(records=records)
        if raw is not None:
            sent = replace(sent, records=[*sent.records, raw])
        self.producer.account.ledger.receive(count_events(sent))
        return self.reader.read(self.producer, sent, NOW)


def test_definitions_bind_ids_and_may_be_repeated() -> None:
    """A repeated definition makes nothing new and costs nothing."""
    bench = _Bench()
    define = Define(3, "x", "series", "ms")
    bench.read(define, define)
    bench.read(define)
    assert bench.producer.ids[3] == route("series", 0)
    assert bench.producer.newly_bound
    assert bench.added == ["x"]
    assert bench.notes.warnings == []


def test_an_id_defined_as_something_else_is_ambiguous_from_then_on() -> None:
    """Events of an id defined as something else can't be told apart, so they drop as a conflict.

    The warning names the id and the producer.
    """
    bench = _Bench()
    bench.read(Define(3, "x", "series", "ms"), Define(3, "y", "series", "ms"))
    assert bench.producer.ids[3] == CONFLICT
    assert "'p' redefined id 3" in bench.notes.warnings[0]
    bench.read(Define(3, "x", "series", "ms"))
    assert bench.producer.ids[3] == CONFLICT


def test_a_conflicting_definition_binds_its_id_to_the_conflict() -> None:
    """Rows of that id drop, those of the first definition don't."""
    bench = _Bench()
    bench.read(Define(1, "x", "series", "ms"), Define(2, "x", "counter", "ms"))
    assert (bench.producer.ids[1], bench.producer.ids[2]) == (route("series", 0), CONFLICT)


def test_an_unreadable_definition_makes_its_id_invalid_until_a_good_one_comes() -> None:
    """An unreadable definition is no event and makes its id invalid. An id that is already bound stays bound."""
    bench = _Bench()
    bench.read(raw=UNREADABLE_DEFINE)
    assert bench.producer.ids[5] == INVALID
    assert bench.producer.account.ledger.received == 0
    bench.read(Define(5, "x", "gauge"), raw=UNREADABLE_DEFINE)
    assert bench.producer.ids[5] == route("gauge", 0)


def test_an_unreadable_record_costs_only_itself() -> None:
    """A reader drops an unreadable record, counts it by reason, and reads the records beside it."""
    bench = _Bench()
    streamed = bench.read(Mark("before"), Sample("x", 1.0), raw=UNREADABLE)
    ledger = bench.producer.account.ledger
    assert [item.record for item in streamed] == [Mark("before")]
    assert (ledger.received, ledger.applied, ledger.by_reason()) == (3, 1, {"malformed_record": 1})
    group = bench.reader.take_values()
    assert group is not None
    assert len(group) == 1


def test_self_describing_events_become_rows_of_their_kind() -> None:
    """Routes, values and wall times, in order, cut into one lot a batch; taken once."""
    bench = _Bench()
    bench.read(Sample("s", 1.5, MONO_NS + 7), Count("c"), Gauge("g", -2.0, 0, "ms"), Sample("s", 2.0))
    bench.read(Count("c", 3.0))
    group = bench.reader.take_values()
    assert group is not None
    assert group.routes.tolist() == [
        route("series", 0),
        route("counter", 1),
        route("gauge", 2),
        route("series", 0),
        route("counter", 1),
    ]
    assert group.rows.values.tolist() == [1.5, 1.0, -2.0, 2.0, 3.0]
    assert group.wall_times(slice(None), NOW).tolist()[:2] == [WALL_NS + 7, WALL_NS]
    assert [row_range.rows for row_range in group.row_ranges] == [4, 1]
    assert bench.reader.take_values() is None


@pytest.mark.parametrize("record", STREAMED, ids=lambda record: type(record).__name__)
def test_other_records_go_to_the_stream_and_count_as_applied(record: EventRecord) -> None:
    """A record that is no event goes to the stream, with its producer and wall time.

    Such a record counts as applied.
    """
    bench = _Bench()
    streamed = bench.read(record)
    assert [(item.producer, item.record) for item in streamed] == [("p", record)]
    assert streamed[0].wall_ns == WALL_NS
    assert bench.producer.account.ledger.balanced()


def test_a_span_gets_its_process_and_the_clock_of_that_process() -> None:
    """The record is dated by the run's clock. Its source has the start on the producer's own wall clock."""
    bench = _Bench()
    bench.producer.hello(Hello(producer="p", name="trainer", host="n1", pid=7, rank=3), NOW)
    sent = batch(records=[Span("s", MONO_NS + 5, MONO_NS + 9, source=SpanSource(1, "forged"))])
    [first] = bench.reader.read(bench.producer, sent, NOW)
    late = replace(sent, seq=1, anchor=(MONO_NS, WALL_NS - 3_000_000))
    [second] = bench.reader.read(bench.producer, late, NOW)
    assert first.wall_ns == second.wall_ns == WALL_NS + 5
    assert isinstance(first.record, Span)
    assert isinstance(second.record, Span)
    assert first.record.source == SpanSource(WALL_NS + 5, "trainer", "n1", 7, 3)
    assert second.record.source == SpanSource(WALL_NS + 5 - 3_000_000, "trainer", "n1", 7, 3)


def test_marks_params_and_expectations_are_noted() -> None:
    """The notes of a run take marks, params and expectations, which are in snapshots, too."""
    bench = _Bench()
    bench.read(Mark("m", MONO_NS + 5), Params({"a": 1}), Expect("x", 5.0))
    assert (bench.notes.marks[0].text, bench.notes.marks[0].time_ns) == ("m", WALL_NS + 5)
    assert bench.notes.marks[0].producer == "p"
    assert (bench.notes.params, bench.notes.expected) == ({"a": 1}, {"x": 5.0})


def test_scalars_become_steps_and_count_as_applied() -> None:
    """Scalars are not in the stream, but their step is, with the wall clock of its newest value."""
    bench = _Bench()
    assert bench.read(Scalars("train", 1, {"loss": 0.5}, MONO_NS + 5), StepEnd("train", 1, MONO_NS + 9)) == []
    assert bench.producer.account.ledger.applied == 2
    assert bench.producer.account.ledger.balanced()
    bench.steps.close()
    assert bench.steps.take() == [FinishedStep(WALL_NS + 5, ClosedStep("train", 1, {"loss": 0.5}))]


def test_scalars_there_is_no_room_for_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scalars beyond the bound of axes are dropped in their producer's account, by reason."""
    monkeypatch.setattr(limits, "AXES", 1)
    bench = _Bench()
    bench.read(Scalars("a", 1, {"x": 1.0}), Scalars("b", 1, {"x": 1.0}), StepEnd("b", 1))
    assert bench.producer.account.ledger.by_reason() == {"steps_full": 2}
    assert bench.producer.account.ledger.balanced()


@pytest.mark.parametrize(
    "record",
    [
        Table("t", ["a", "b"], [[1, 2], [1]]),
        Bins("b", [0.0, 1.0], [1, 2]),
        Bins("b", [0.0, 1.0, 1.0], [1, 2]),
        Bins("b", [0.0, math.nan, 1.0], [1, 2]),
        Bins("b", [-math.inf, 0.0], [1]),
        Bins("b", [0.0, math.inf], [1]),
    ],
)
def test_what_does_not_fit_together_is_malformed(record: EventRecord) -> None:
    """Cells without a column, counts without edges: whoever shows them could only guess."""
    bench = _Bench()
    assert bench.read(record, Mark("m"))[0].record == Mark("m")
    assert bench.producer.account.ledger.by_reason() == {"malformed_record": 1}
    assert bench.producer.account.ledger.balanced()


def test_every_record_but_a_definition_is_an_event() -> None:
    """Readable or not, as the producer counted them."""
    sent = batch(records=[Define(1, "x", "series"), Mark("m")], rows=[(1, 1 << 40, 2.0)])
    whole = replace(sent, records=[*sent.records, UNREADABLE, UNREADABLE_DEFINE, Raw(b"\xc0")])
    assert count_events(whole) == 4


@pytest.mark.parametrize(
    ("value", "row_id"),
    [(["define", 7], 7), (["define"], None), (["define", -1], None), (["define", "x"], None), (None, None)],
)
def test_the_id_of_an_unreadable_definition_is_read_if_it_can_be(value: object, row_id: int | None) -> None:
    """A reader gets the id of an unreadable definition, whatever else is wrong with that definition."""
    assert definition_id(Raw(msgspec.msgpack.encode(value))) == row_id


def test_an_id_without_room_stays_unknown() -> None:
    """The producer is named in a warning."""
    bench = _Bench()
    bench.producer.ids._budget.take(bench.producer.ids._budget.left)
    bench.read(Define(3, "x", "series"))
    assert bench.producer.ids[3] == UNKNOWN
    assert "no room for id 3" in bench.notes.warnings[0]


def test_a_batch_without_readable_rows_still_counts() -> None:
    """Null instead of rows counts as one malformed event beside the records."""
    sent: EventBatch = replace(batch(records=[Mark("m")]), rows=read(b"\xc0"))
    assert count_events(sent) == 2


def test_a_full_record_log_takes_no_record_more() -> None:
    """A full record log drops and counts what does not fit and all records after it.

    Events are no records and are applied.
    """
    bench = _Bench(record_cap_bytes=1_000)
    long, short = Mark("x" * 500), Mark("y")
    assert len(bench.read(long, long, short)) == 1
    assert bench.room.is_full
    assert bench.read(short, Params({"a": 1}), Axis("train"), Scalars("train", 1, {"a": 1.0})) == []
    assert bench.read(Sample("x", 1.0), StepEnd("train", 1)) == []
    ledger = bench.producer.account.ledger
    assert (ledger.by_reason(), ledger.applied) == ({"records_full": 6}, 2)
    assert [mark.text for mark in bench.notes.marks] == [long.text]
    assert bench.notes.params == {}
    (warning,) = bench.notes.warnings
    assert "the record log is full (records.cap_bytes, 1000 B)" in warning


@pytest.mark.parametrize(
    "record", [*STREAMED, Mark('"\n\x01é"' * 9), ClosedStep("a", 1, {"x": None, "y": math.inf}, {}, 2)]
)
def test_a_line_takes_no_more_than_its_bound(record: Any) -> None:
    """A line is at most as long as its bound, so the file stays below the cap.

    The bound is at most 100 bytes above that, so most of the cap can be used.
    """
    line = record_line(StreamRecord(PROTOCOL, "r" * 64, 1 << 60, 'p"é', 1 << 62, record))
    assert len(line) <= line_bytes('p"é', record) <= len(line) + 100
