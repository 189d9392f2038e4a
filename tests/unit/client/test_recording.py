"""The calls that say something once, from a run to an aggregator in a thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from telemetry.client import module_level, start
from telemetry.client import run as run_module
from telemetry.client.process import ENDPOINT_VARIABLE, PROCESS
from telemetry.errors import InstrumentError, UsageError
from telemetry.testing.aggregator import FakeAggregator
from telemetry.wire.events import (
    Artifact,
    Axis,
    Bins,
    EventRecord,
    Note,
    Params,
    Scalars,
    Span,
    StepClear,
    StepEnd,
    Table,
)


@pytest.fixture
def aggregator(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAggregator]:
    monkeypatch.setenv("TELEMETRY_EMIT__FLUSH_MS", "2")
    with FakeAggregator(short_dir) as made:
        monkeypatch.setenv(ENDPOINT_VARIABLE, made.endpoint)
        yield made


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Each test begins and ends without a run."""
    yield
    run_module._STARTER.run = None
    PROCESS.finish(5.0)
    PROCESS.reopen()
    PROCESS._late.take()


def heard(aggregator: FakeAggregator) -> list[EventRecord]:
    [producer] = aggregator.heard.values()
    return producer.records


def test_a_run_says_all_of_it_in_order(aggregator: FakeAggregator) -> None:
    """Each call is one record, with its step, its axis and its time."""
    with start("job") as run:
        run.axis("train", reductions={"*/tokens": "sum"}, ranked=["loss"])
        run.log({"loss": 0.5}, step=3, at_ns=1)
        run.log({"loss": 0.25}, step=4, axis="train", at_ns=2)
        run.end_step(3, at_ns=3)
        run.end_step(4, axis="train", at_ns=4)
        run.text("note", "hello", at_ns=5)
        run.text("note", "hello", step=0, at_ns=6)
        run.table("t", ["a"], [[1]], step=3, axis="train", at_ns=7)
        run.histogram("h", ([0, 1], [5]), step=3, at_ns=8)
        run.image("i", "/a.png", step=3, at_ns=9)
        run.artifact("a", "/m.pt", "model", at_ns=10)
        run.span_at("s", 11, 12, "gpu", rank=1)
    first, *others = heard(aggregator)
    assert isinstance(first, Axis)
    assert (first.name, first.reduce, first.reductions) == ("train", "mean", {"*/tokens": "sum"})
    assert first.ranked == ["loss"]
    assert others == [
        Scalars("step", 3, {"loss": 0.5}, 1),
        Scalars("train", 4, {"loss": 0.25}, 2),
        StepEnd("step", 3, 3),
        StepEnd("train", 4, 4),
        Note("note", "hello", 5),
        Note("note", "hello", 6, "step", 0),
        Table("t", ["a"], [[1]], 7, "train", 3),
        Bins("h", [0.0, 1.0], [5], 8, "step", 3),
        Artifact("i", "/a.png", "image", 9, "step", 3),
        Artifact("a", "/m.pt", "model", 10),
        Span("s", 11, 12, "gpu", {"rank": "1"}),
    ]


def test_a_step_can_be_reported_or_forgotten(aggregator: FakeAggregator) -> None:
    """A step can be reported on an axis that says so, and cleared.

    Steps may be numbers of numpy, and an invalid step is counted.
    """
    with start("job") as run:
        run.axis("step", reduce="last", closing="reported")
        run.clear_step(np.int64(4))
        run.clear_step(axis="train")
        anything: Any = run
        anything.clear_step("4")
        anything.clear_step(1, axis="")
    axis, one, every = heard(aggregator)
    assert isinstance(axis, Axis)
    assert (axis.name, axis.reduce, axis.closing) == ("step", "last", "reported")
    assert isinstance(one, StepClear)
    assert isinstance(every, StepClear)
    assert (one.axis, one.step, every.axis, every.step) == ("step", 4, "train", None)
    assert one.time_ns > 0
    [producer] = aggregator.heard.values()
    assert producer.end is not None
    assert producer.end.dropped == {"unencodable": 2}


def test_a_span_is_a_block_or_a_decorator(aggregator: FakeAggregator) -> None:
    """A span is recorded when its block or function ends, whether it returns or raises."""
    with start("job") as run:

        @run.span("call", track="cpu", rank=1)
        def call() -> None:
            raise ValueError("cheese")

        before = time.monotonic_ns()
        with run.span("block"):
            inside = time.monotonic_ns()
        with pytest.raises(ValueError, match="cheese"):
            call()
        after = time.monotonic_ns()
    block, called = heard(aggregator)
    assert isinstance(block, Span)
    assert isinstance(called, Span)
    assert before <= block.start_ns <= inside <= block.end_ns <= called.start_ns <= called.end_ns <= after
    assert (called.name, called.track, called.labels) == ("call", "cpu", {"rank": "1"})


def test_a_headline_is_a_parameter(aggregator: FakeAggregator) -> None:
    """The last choice counts; a name that can't be one raises, so the choice before it stays."""
    with start("job") as run:
        run.headline("loss")
        with pytest.raises(UsageError, match="unknown function"):
            run.headline("loss", "median(latency)")
        run.headline("loss", "p99(latency)")
    chosen = [record.values for record in heard(aggregator) if isinstance(record, Params)]
    assert chosen == [{"telemetry.headline": '["loss"]'}, {"telemetry.headline": '["loss", "p99(latency)"]'}]


def test_only_a_declaration_raises(aggregator: FakeAggregator, said: Callable[[], list[str]]) -> None:
    """Everything else is counted, and said once."""
    with start("job") as run:
        anything: Any = run
        with pytest.raises(InstrumentError):
            run.axis("train", reduce="median")  # type: ignore[arg-type]
        for _ in range(2):
            anything.text("a", "x", step="one")
            anything.table("b", None, None)
            anything.table("c", ["x"], [[1], []])
            anything.histogram("d", "text")
            anything.histogram("e", [1.0, "x"])
            anything.artifact("f", None)
            anything.span_at("g", 2, 1)
            anything.span_at("h", -1, 1)
            anything.text("i", "x", step=1, axis="")
    [producer] = aggregator.heard.values()
    assert [type(record) for record in producer.records] == 2 * [Table, Bins]
    assert producer.end is not None
    assert producer.end.dropped == {"unencodable": 2 * 8, "not_a_number": 2}
    lines = said()
    assert len(lines) == 9
    assert lines[0].startswith("telemetry: text 'a' is ignored: step must be an integer, not str")
    assert lines[2] == (
        "telemetry: a part of table 'c' is ignored: no room for 1 row. Such values are counted; "
        "this warning appears once"
    )


def test_the_first_call_attaches_by_itself(aggregator: FakeAggregator) -> None:
    """A worker that only logs needs no `start`."""
    module_level.log({"loss": 0.5}, step=1, at_ns=7)
    module_level.end_step(1, at_ns=8)
    PROCESS.finish(5.0)
    assert heard(aggregator) == [Scalars("step", 1, {"loss": 0.5}, 7), StepEnd("step", 1, 8)]


@pytest.mark.parametrize(
    "call",
    [
        lambda: module_level.mark("began"),
        lambda: module_level.params({"lr": 0.1}),
        lambda: module_level.expect("requests", 5),
        lambda: module_level.text("sample", "x"),
        lambda: module_level.span_at("rollout", 1, 2),
    ],
    ids=["mark", "params", "expect", "text", "span_at"],
)
def test_any_record_attaches_as_the_first_call(aggregator: FakeAggregator, call: Callable[[], None]) -> None:
    """A worker that only sets marks or parameters needs no `start` either."""
    call()
    PROCESS.finish(5.0)
    assert len(heard(aggregator)) == 1


def test_a_forked_child_is_a_producer_of_its_own(aggregator: FakeAggregator) -> None:
    """The names that its parent had checked are still good, and its first call makes it known."""
    run = start("job")
    run.log({"loss": 0.5}, step=1, at_ns=1)
    run.log({"loss": 0.5}, step=2, at_ns=2)
    parents = PROCESS.flusher
    assert parents is not None
    parents.finish(5.0)  # a thread is not forked: in a real child it does not take what the child records
    PROCESS.after_fork_in_child()
    run.log({"loss": 0.25}, step=3)
    run.log({"loss": 0.25}, step=4)
    PROCESS.finish(5.0)
    [first, second] = aggregator.heard.values()
    steps = [[record.step for record in heard.records if isinstance(record, Scalars)] for heard in (first, second)]
    assert steps == [[1, 2], [3, 4]]
