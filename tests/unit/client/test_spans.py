"""Spans: their records, their durations, and their self time."""

from __future__ import annotations

import asyncio
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
    """With its track and labels."""
    with bench.span("forward", "gpu 0", layer=3):
        work(bench, 2)
    assert bench.records == [Span("forward", 1_000 * MS, 1_002 * MS, "gpu 0", {"layer": "3"})]
    assert bench.values == {"span.forward": [2.0], "span_self.forward": [2.0]}


def test_self_time_is_without_the_spans_inside(bench: Bench) -> None:
    """Those of all depths, each once."""
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
    """As far as the wire can carry it."""
    with bench.span(name):
        pass
    [record] = bench.records
    assert 1 <= len(record.name) <= limits.NAME_CHARS


def test_without_a_run_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is kept."""
    monkeypatch.delenv("TELEMETRY_ENDPOINT", raising=False)
    process = Process()
    call: Callable[[], int] = SpanTimer(process, SpanInstruments(process), "x", "", {})(lambda: 5)
    assert call() == 5
    assert process.recorders.buffer == []
