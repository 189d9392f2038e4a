"""Spans: their records, their durations, and their self time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from telemetry import limits
from telemetry.client import spans
from telemetry.client.process import Process
from telemetry.client.sending.outbox import Outbox
from telemetry.client.spans import SpanInstruments, SpanTimer
from telemetry.wire.codec import decode_record
from telemetry.wire.events import Define, Span

MS = 1_000_000


class Bench:
    """A process that is live, without a thread that sends, and a clock that moves when told to."""

    def __init__(self) -> None:
        self.now_ns = 1_000 * MS
        self.process = Process()
        outbox = Outbox("p", self.process.recorders.buffer, [], tallies={}, row_bound=None)
        self.process._flusher = SimpleNamespace(outbox=outbox)  # type: ignore[assignment]
        self.process.state = "live"
        self.process.recorders.install(self.process.recorders.buffer.extend)
        self.outbox = outbox
        self.instruments = SpanInstruments(self.process)

    def span(self, name: object, track: object = "", **labels: object) -> SpanTimer:
        return SpanTimer(self.process, self.instruments, name, track, labels)

    @property
    def records(self) -> list[Span]:
        found = [decode_record(raw) for raw in self.outbox.records]
        assert all(isinstance(record, Span) for record in found)
        return found  # type: ignore[return-value]

    @property
    def values(self) -> dict[str, list[float]]:
        """Values by the name of the instrument."""
        defined = [decode_record(raw) for raw in self.process.catalog.definitions]
        rows = self.process.recorders.buffer
        found: dict[str, list[float]] = {}
        for at in range(0, len(rows), 3):
            definition = defined[int(rows[at])]
            assert isinstance(definition, Define)
            assert definition.unit == "ms"
            found.setdefault(definition.name, []).append(rows[at + 2])
        return found


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench()
    monkeypatch.setattr(spans, "_now", lambda: made.now_ns)
    return made


def work(bench: Bench, ms: float) -> None:
    bench.now_ns += round(ms * MS)


def test_a_span_is_a_record_a_duration_and_a_self_time(bench: Bench) -> None:
    """A span is a record with its track and labels, a duration and a self time."""
    with bench.span("forward", "gpu 0", layer=3):
        work(bench, 2)
    assert bench.records == [Span("forward", 1_000 * MS, 1_002 * MS, "gpu 0", {"layer": "3"})]
    assert bench.values == {"span.forward": [2.0], "span_self.forward": [2.0]}


def test_self_time_is_without_the_spans_inside(bench: Bench) -> None:
    """The self time of a span excludes the spans inside it at all depths, each once."""
    with bench.span("step"):
        work(bench, 1)
        with bench.span("forward"):
            work(bench, 2)
            with bench.span("attention"):
                work(bench, 4)
        with bench.span("backward"):
            work(bench, 8)
        work(bench, 16)
    found = bench.values
    assert {name: found[name] for name in found if name.startswith("span.")} == {
        "span.attention": [4.0],
        "span.forward": [6.0],
        "span.backward": [8.0],
        "span.step": [31.0],
    }
    own = {name.removeprefix("span_self."): found[name] for name in found if name.startswith("span_self.")}
    assert own == {"attention": [4.0], "forward": [2.0], "backward": [8.0], "step": [17.0]}


def test_a_span_that_raises_is_recorded_and_counts_inside(bench: Bench) -> None:
    """The exception goes on."""

    def fail() -> None:
        with bench.span("outer"), bench.span("inner"):
            work(bench, 3)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert bench.values["span_self.outer"] == [0.0]
    assert bench.values["span.outer"] == bench.values["span.inner"] == [3.0]


def test_calls_of_a_decorated_function_may_nest(bench: Bench) -> None:
    """Each has its own beginning."""

    @bench.span("fall")
    def fall(depth: int) -> None:
        work(bench, 1)
        if depth:
            fall(depth - 1)

    fall(2)
    assert bench.values == {"span.fall": [1.0, 2.0, 3.0], "span_self.fall": [1.0, 1.0, 1.0]}


async def test_tasks_take_no_time_from_each_other(bench: Bench) -> None:
    """A task that runs meanwhile is not inside."""

    @bench.span("task")
    async def task(first_ms: float, then_ms: float) -> None:
        work(bench, first_ms)
        await asyncio.sleep(0)
        work(bench, then_ms)

    await asyncio.gather(task(1, 2), task(4, 8))
    assert bench.values["span_self.task"] == bench.values["span.task"] == [7.0, 14.0]


def test_names_without_end_make_no_instruments_without_end(bench: Bench) -> None:
    """The records have all of them."""
    for number in range(limits.SPAN_NAMES + 5):
        with bench.span(f"s{number}"):
            pass
    assert len(bench.records) == limits.SPAN_NAMES + 5
    assert len(bench.values) == 2 * limits.SPAN_NAMES


def test_a_name_that_is_taken_leaves_the_record(bench: Bench) -> None:
    """The program's own instrument stays what it is."""
    bench.process.catalog.instrument("gauge", "span.mine")
    with bench.span("mine"):
        pass
    assert [record.name for record in bench.records] == ["mine"]
    assert bench.values == {}


@pytest.mark.parametrize("name", ["", "x" * 500, 7])
def test_any_name_is_recorded(bench: Bench, name: Any) -> None:
    """Any name is recorded as far as the wire can carry it."""
    with bench.span(name):
        pass
    [record] = bench.records
    assert 1 <= len(record.name) <= limits.NAME_CHARS


def test_without_a_run_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """A span without a run calls the function, and keeps no event."""
    monkeypatch.delenv("TELEMETRY_ENDPOINT", raising=False)
    process = Process()
    call: Callable[[], int] = SpanTimer(process, SpanInstruments(process), "x", "", {})(lambda: 5)
    assert call() == 5
    assert process.recorders.buffer == []


def test_nested_spans_know_their_parents(bench: Bench) -> None:
    """A span that is not nested has no ids, and labels of the program stay."""
    with bench.span("outer", user="a"):
        with bench.span("middle"), bench.span("inner"):
            pass
        with bench.span("second"):
            pass
    with bench.span("alone"):
        pass
    found = {record.name: dict(record.labels) for record in bench.records}
    assert found["alone"] == {}
    assert found["outer"].pop("user") == "a"
    assert set(found["outer"]) == {"span_id"}
    assert found["middle"]["parent_id"] == found["second"]["parent_id"] == found["outer"]["span_id"]
    assert found["inner"]["parent_id"] == found["middle"]["span_id"]
    assert set(found["inner"]) == set(found["second"]) == {"parent_id"}, "no span is inside them"
    ids = [found[name]["span_id"] for name in ("outer", "middle")]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch("[0-9a-f]{16}", one) for one in ids)


async def test_a_task_is_inside_the_span_that_started_it(bench: Bench) -> None:
    """Tasks that run at the same time are not inside each other."""

    async def work(name: str) -> None:
        with bench.span(name):
            await asyncio.sleep(0)

    with bench.span("outer"):
        await asyncio.gather(work("a"), work("b"))
    found = {record.name: record.labels for record in bench.records}
    assert found["a"]["parent_id"] == found["b"]["parent_id"] == found["outer"]["span_id"]


def test_a_generator_that_outlives_a_span_is_no_parent_of_later_ones(bench: Bench) -> None:
    """A generator restores the span in which it began. That span is over by then, and gets no later child."""

    @bench.span("steps")
    def steps() -> Any:
        yield 1

    with bench.span("outer"):
        going = steps()
        next(going)
    assert list(going) == []
    with bench.span("later"):
        pass
    found = {record.name: record.labels for record in bench.records}
    assert found["steps"]["parent_id"] == found["outer"]["span_id"]
    assert found["later"] == {}


def test_a_span_with_many_labels_has_no_ids(bench: Bench) -> None:
    """The labels of such a span are worth more than ids.

    Spans inside it have the next outer span as their parent.
    """
    many = {f"k{number}": "x" for number in range(limits.LABEL_COUNT)}
    with bench.span("outer"), bench.span("full", **many), bench.span("inner"):
        pass
    found = {record.name: record.labels for record in bench.records}
    assert found["full"] == many
    assert found["inner"]["parent_id"] == found["outer"]["span_id"]


def test_a_span_by_its_times_is_inside_the_open_one(bench: Bench) -> None:
    """A span by its times is inside the open span if it began there and has no ids of its own."""
    with bench.span("outer"):
        now_ns = bench.now_ns
        assert set(spans.parent_labels(now_ns, {})) == {"parent_id"}
        assert spans.parent_labels(now_ns - 1, {}) == {}
        assert spans.parent_labels(now_ns, {"trace_id": "a"}) == {}
    assert spans.parent_labels(now_ns, {}) == {}


def test_a_forked_process_has_ids_of_its_own(bench: Bench) -> None:
    """Both go on with the same numbers."""
    before = spans._PREFIX[0]
    spans._renew_prefix()
    assert spans._PREFIX[0] != before
