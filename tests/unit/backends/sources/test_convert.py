"""Each record of the stream is the item that trackers know, with the number of its record."""

from __future__ import annotations

import math

import pytest

from telemetry.backends import items
from telemetry.backends.sources.records import item_of, record_number
from telemetry.wire import events
from telemetry.wire.events import Streamed, StreamRecord
from telemetry.wire.version import PROTOCOL


def of(record: Streamed) -> items.Item | None:
    return item_of(StreamRecord(PROTOCOL, "r", 7, "p1", 1_000, record))


def test_a_step_has_all_that_was_said_of_it() -> None:
    """A value that was no finite number is NaN."""
    spread = {"loss": events.Spread(2, 0.0, 1.0, 0.5, "a", "b")}
    found = of(
        events.ClosedStep("train", 3, {"loss": 0.5, "bad": None}, spread, 2, "late", 1, {"loss": [(0, 1.0)]})
    )
    assert isinstance(found, items.Step)
    assert math.isnan(found.values.pop("bad"))
    assert found == items.Step(
        key="r7",
        time_ns=1_000,
        axis="train",
        step=3,
        values={"loss": 0.5},
        spread=spread,
        closed="late",
        revision=1,
        ranks={"loss": [(0, 1.0)]},
    )


@pytest.mark.parametrize(
    ("record", "item"),
    [
        (events.Params({"lr": 0.1}, 5), items.Params(key="r7", time_ns=1_000, values={"lr": 0.1})),
        (
            events.Mark("warm", 5, {"a": "b"}),
            items.Mark(key="r7", time_ns=1_000, text="warm", labels={"a": "b"}, producer="p1"),
        ),
        (
            events.Note("sample", "hi", 5, "eval", 2),
            items.Text(key="r7", time_ns=1_000, name="sample", axis="eval", step=2, text="hi"),
        ),
        (
            events.Table("t", ["a"], [[1], [None]], 5),
            items.Table(key="r7", time_ns=1_000, name="t", columns=["a"], rows=[[1], [None]]),
        ),
        (
            events.Bins("h", [0.0, 1.0], [4], 5, "train", 1),
            items.Histogram(key="r7", time_ns=1_000, name="h", axis="train", step=1, edges=[0.0, 1.0], counts=[4]),
        ),
        (
            events.Artifact("pic", "/a.png", "image", 5, "eval", 2),
            items.Artifact(key="r7", time_ns=1_000, name="pic", axis="eval", step=2, uri="/a.png", kind="image"),
        ),
        (
            events.Span("load", 50, 80, "io", {"a": "b"}),
            items.Span(
                key="r7", time_ns=1_000, name="load", end_ns=1_030, track="io", labels={"a": "b"}, producer="p1"
            ),
        ),
    ],
)
def test_records_and_their_items(record: Streamed, item: items.Item) -> None:
    """Times are those of the stream, on the wall clock; a span keeps its length."""
    assert of(record) == item


@pytest.mark.parametrize(
    "record", [events.Expect("a", 3.0), events.Session("warm"), events.Axis("train"), events.Scalars("t", 1, {})]
)
def test_what_trackers_have_no_use_of_is_no_item(record: Streamed) -> None:
    """Declarations, and what became part of a step."""
    assert of(record) is None


def test_a_span_never_ends_before_it_began() -> None:
    """A span never ends before it began, since its producer's clock is its own."""
    found = of(events.Span("odd", 80, 50))
    assert isinstance(found, items.Span)
    assert found.end_ns == found.time_ns


def test_keys_tell_records_from_readings() -> None:
    """Keys of records have a number, and keys of readings or the result have none."""
    assert (record_number("r12"), record_number("t12"), record_number("final")) == (12, None, None)
