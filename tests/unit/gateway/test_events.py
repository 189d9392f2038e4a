"""Events: each type becomes the record that the document promises, and a bad one costs only itself."""

from __future__ import annotations

import time
from math import inf, nan
from typing import Any

import pytest
from tests.unit.gateway.otlp.recorded import Recorded

from telemetry import limits
from telemetry.client.wall_time import monotonic_of
from telemetry.gateway.bodies import converted
from telemetry.gateway.endpoint import Problem
from telemetry.gateway.routes.events import Events, record_all
from telemetry.wire.events import Artifact, Expect, Mark, Note, Params, Scalars, Span, StepEnd

S = 1_000_000_000


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


def post(recorded: Recorded, *events: dict[str, Any]) -> dict[int, str]:
    """Record events as a request would, and return the refused ones."""
    body = converted({"events": list(events)}, Events, "body")
    return {refused.index: refused.reason for refused in record_all(recorded, body.events)}


def test_values_of_instruments(recorded: Recorded) -> None:
    """Values go with unit and labels, each to the instrument of its name."""
    refused = post(
        recorded,
        {"type": "count", "name": "n"},
        {"type": "count", "name": "n", "value": 2.5},
        {"type": "count", "name": "n", "labels": {"route": "/a"}, "value": 0},
        {"type": "sample", "name": "latency", "value": 12, "unit": "ms"},
        {"type": "gauge", "name": "temperature", "value": -3.5, "unit": "°C"},
    )
    assert refused == {}
    assert [(each.name, dict(each.labels), each.value) for each in recorded.values] == [
        ("n", {}, 1.0),
        ("n", {}, 2.5),
        ("n", {"route": "/a"}, 0.0),
        ("latency", {}, 12.0),
        ("temperature", {}, -3.5),
    ]
    assert recorded.units() == {"n": ("counter", ""), "latency": ("series", "ms"), "temperature": ("gauge", "°C")}


def test_records(recorded: Recorded) -> None:
    """All fields arrive."""
    now_ns = time.time_ns()
    refused = post(
        recorded,
        {"type": "expect", "name": "n", "total": 100},
        {"type": "mark", "text": "deployed", "labels": {"version": "2"}},
        {"type": "params", "values": {"model": "tiny", "lr": 0.5, "big": 1 << 70, "on": True, "none": None}},
        {"type": "step", "step": -3, "values": {"loss": 0.5, "lr": None}},
        {"type": "step", "step": 4, "values": {"loss": 1}, "axis": "eval"},
        {"type": "end_step", "step": 4, "axis": "eval"},
        {"type": "span", "name": "load", "start_ns": now_ns - 2 * S, "end_ns": now_ns - S, "track": "gpu0"},
        {"type": "text", "name": "sample", "text": "hello"},
        {"type": "text", "name": "sample", "text": "world", "step": 7},
        {"type": "artifact", "name": "plot", "uri": "s3://b/plot.png", "kind": "image", "step": 7, "axis": "eval"},
    )
    assert refused == {}
    [expect] = recorded.records(Expect)
    assert (expect.name, expect.total) == ("n", 100.0)
    [mark] = recorded.records(Mark)
    assert (mark.text, mark.labels) == ("deployed", {"version": "2"})
    [params] = recorded.records(Params)
    assert params.values == {"model": "tiny", "lr": 0.5, "big": str(1 << 70), "on": True, "none": None}
    first, second = recorded.records(Scalars)
    assert (first.axis, first.step, first.values) == ("step", -3, {"loss": 0.5, "lr": None})
    assert (second.axis, second.step, second.values) == ("eval", 4, {"loss": 1.0})
    [end] = recorded.records(StepEnd)
    assert (end.axis, end.step) == ("eval", 4)
    [span] = recorded.records(Span)
    assert (span.name, span.track, span.end_ns - span.start_ns) == ("load", "gpu0", S)
    assert recorded.of("span.load") == [1_000.0]
    bare, placed = recorded.records(Note)
    assert (bare.name, bare.text, bare.axis) == ("sample", "hello", "")
    assert (placed.text, placed.axis, placed.step) == ("world", "step", 7)
    [artifact] = recorded.records(Artifact)
    assert (artifact.name, artifact.uri, artifact.kind) == ("plot", "s3://b/plot.png", "image")
    assert (artifact.axis, artifact.step) == ("eval", 7)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "count", "name": "n"},
        {"type": "mark", "text": "m"},
        {"type": "params", "values": {"a": 1}},
        {"type": "step", "step": 1, "values": {"a": 1}},
        {"type": "end_step", "step": 1},
        {"type": "text", "name": "t", "text": "x"},
        {"type": "artifact", "name": "a", "uri": "/tmp/a"},
        {"type": "expect", "name": "n", "total": 3},
    ],
)
def test_a_time_is_kept(recorded: Recorded, event: dict[str, Any]) -> None:
    """An event may arrive later than it happened. One from before the start of this machine can't be placed."""
    at_ns = time.time_ns() - S // 2
    assert post(recorded, event | {"time_ns": at_ns}) == {}
    found = recorded.times_ns or [record.time_ns for record in recorded.program.records]
    assert abs(found[0] - monotonic_of(at_ns)) < S // 100
    [reason] = post(recorded, event | {"time_ns": 1}).values()
    assert "time_ns is not a time since this machine started" in reason
    assert len(recorded.times_ns or recorded.program.records) == 1


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"type": "count", "name": "n", "value": -1}, "the value is negative"),
        ({"type": "count", "name": "n", "value": nan}, "the value is not finite"),
        ({"type": "count", "name": "n", "value": inf}, "the value is not finite"),
        ({"type": "sample", "name": "s", "value": -0.5}, "the value is negative"),
        ({"type": "sample", "name": "s", "value": nan}, "the value is not finite"),
        ({"type": "gauge", "name": "g", "value": -inf}, "the value is not finite"),
        ({"type": "gauge", "name": "taken", "value": 1}, "already a counter"),
        ({"type": "count", "name": "taken", "unit": "ms"}, "already defined with unit"),
        (
            {"type": "span", "name": "x", "start_ns": time.time_ns(), "end_ns": time.time_ns() - S},
            "before it starts",
        ),
        ({"type": "span", "name": "x", "start_ns": 1, "end_ns": 2}, "before this machine did"),
        ({"type": "artifact", "name": "a", "uri": "out/plot.png"}, "the path is relative"),
    ],
)
def test_a_bad_event_costs_only_itself(recorded: Recorded, event: dict[str, Any], reason: str) -> None:
    """The others of its batch are recorded, and the reason names what to change."""
    ok = {"type": "count", "name": "taken"}
    refused = post(recorded, ok, event, ok)
    assert list(refused) == [1]
    assert reason in refused[1]
    assert recorded.of("taken") == [1.0, 1.0]
    assert len(recorded.values) == 2
    assert recorded.program.records == []


def test_too_many_instruments_are_refused(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event that the client can't send is not called recorded."""
    monkeypatch.setattr(limits, "PRODUCER_IDS", 2)
    batch = [{"type": "count", "name": "n", "labels": {"user": str(number)}} for number in range(3)]
    assert list(post(recorded, *batch)) == [2]
    assert recorded.of("n") == [1.0, 1.0]


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"type": "counter", "name": "n"},
        {"type": "count"},
        {"type": "count", "name": ""},
        {"type": "count", "name": "n" * 201},
        {"type": "count", "name": "n", "value": "1"},
        {"type": "count", "name": "n", "value": None},
        {"type": "count", "name": "n", "unit": "u" * 25},
        {"type": "count", "name": "n", "labels": {str(number): "x" for number in range(17)}},
        {"type": "count", "name": "n", "labels": {"k": 1}},
        {"type": "count", "name": "n", "labels": {"": "x"}},
        {"type": "mark", "text": "m", "labels": {"k": "v" * 201}},
        {"type": "count", "name": "n", "time_ns": -1},
        {"type": "count", "name": "n", "time_ns": 1 << 63},
        {"type": "count", "name": "n", "steps": 3},
        {"type": "expect", "name": "n", "total": -1},
        {"type": "mark", "text": "m" * 4_097},
        {"type": "params", "values": {"a": [1]}},
        {"type": "params", "values": {str(number): 1 for number in range(1_001)}},
        {"type": "step", "step": 1.5, "values": {}},
        {"type": "step", "step": 1 << 63, "values": {}},
        {"type": "step", "step": True, "values": {}},
        {"type": "step", "step": 1, "values": {"loss": "0.1"}},
        {"type": "step", "step": 1, "values": {"": 0.1}},
        {"type": "step", "step": 1, "values": {}, "axis": ""},
        {"type": "span", "name": "x", "start_ns": -1, "end_ns": 2},
        {"type": "artifact", "name": "a", "uri": ""},
    ],
)  # fmt: skip
def test_a_batch_that_does_not_fit_the_schema_is_refused_whole(recorded: Recorded, event: dict[str, Any]) -> None:
    """A wrong batch is the mistake of a program, which must notice it. No part of the batch is recorded."""
    with pytest.raises(Problem) as caught:
        post(recorded, {"type": "count", "name": "n"}, event)
    assert caught.value.status == 422
    assert caught.value.failure.detail[0].loc[:3] == ["body", "events", 1]
    assert recorded.values == []


def test_the_size_of_a_batch_is_bounded(recorded: Recorded) -> None:
    """An empty batch is a mistake, too."""
    one = {"type": "count", "name": "n"}
    most = limits.GATEWAY_EVENTS
    assert post(recorded, *[one] * most) == {}
    for batch in ([], [one] * (most + 1)):
        with pytest.raises(Problem):
            post(recorded, *batch)
    assert len(recorded.values) == most
