"""Spans as a trace."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.backends.reading_otlp import plain

from telemetry.backends.items import Span
from telemetry.backends.otlp.messages import Spans, traces_request

ITEM = Span(key="r7", time_ns=100, end_ns=250, name="load", track="gpu 0", labels={"layer": "3"}, producer="p1")


def test_ids_are_those_of_the_run_and_the_item() -> None:
    """The same in every process, others for others."""
    first, again = Spans("r1").of(ITEM), Spans("r1").of(ITEM)
    assert first == again
    assert (len(first.trace_id), len(first.span_id)) == (16, 8)
    other = Spans("r2").of(ITEM)
    assert first.trace_id != other.trace_id
    assert first.span_id != other.span_id


def test_the_run_is_the_parent() -> None:
    """The span of the run is the parent of all spans, which keep their times and labels."""
    made = Spans("r1")
    span, root = made.of(ITEM), made.root("job", 50, 300)
    assert (span.trace_id, span.parent_span_id) == (root.trace_id, root.span_id)
    assert (root.name, root.parent_span_id, root.start_time_unix_nano, root.end_time_unix_nano) == (
        "job",
        b"",
        50,
        300,
    )
    assert (span.name, span.start_time_unix_nano, span.end_time_unix_nano) == ("load", 100, 250)
    assert plain(span.attributes) == {"layer": "3", "telemetry.track": "gpu 0", "telemetry.producer": "p1"}


def test_each_span_can_be_a_trace_of_its_own() -> None:
    """The same one in every process, without a parent, and with numbers where a receiver compares them."""
    labels = {"global_steps": "7", "turn": "-1", "sample": "3", "finished": "yes"}
    item = replace(ITEM, labels=labels)
    made = Spans("r1", roots=True, integers=["global_steps", "turn", "finished"])
    span, other = made.of(item), made.of(replace(item, key="r8"))
    assert span == Spans("r1", roots=True, integers=["turn", "global_steps", "finished"]).of(item)
    assert (span.parent_span_id, len(span.trace_id)) == (b"", 16)
    assert len({span.trace_id, other.trace_id, Spans("r1").of(item).trace_id}) == 3
    found = plain(span.attributes)
    assert found["global_steps"] == 7
    assert found["turn"] == -1
    assert (found["sample"], found["finished"]) == ("3", "yes")


def test_nested_spans_keep_their_ids() -> None:
    """Nested spans keep their ids in the trace of the run. A span without a parent is below the span of the run."""
    made = Spans("r1")
    outer = made.of(replace(ITEM, labels={"span_id": "00000000000000aa", "layer": "3"}))
    inner = made.of(
        replace(ITEM, key="r8", labels={"span_id": "00000000000000ab", "parent_id": "00000000000000aa"})
    )
    by_times = made.of(replace(ITEM, key="r9", labels={"parent_id": "00000000000000aa"}))
    root = made.root("job", 50, 300)
    assert outer.span_id == inner.parent_span_id == by_times.parent_span_id == bytes.fromhex("00000000000000aa")
    assert outer.parent_span_id == root.span_id
    assert by_times.span_id == made.of(replace(ITEM, key="r9", labels={})).span_id
    assert {one.trace_id for one in (outer, inner, by_times)} == {root.trace_id}
    assert all(map(made.is_of_run, (outer, inner, by_times)))
    assert plain(outer.attributes) == {"layer": "3", "telemetry.track": "gpu 0", "telemetry.producer": "p1"}


def test_a_span_of_opentelemetry_leaves_as_it_came() -> None:
    """A span of OpenTelemetry has its own trace, parent, kind and status, and is not below the run."""
    ids = {"trace_id": "0123456789abcdef" * 2, "span_id": "00000000000000aa", "parent_id": "00000000000000bb"}
    labels = {**ids, "kind": "server", "status": "error", "status_message": "no room", "path": "/a"}
    made = Spans("r1")
    found = made.of(replace(ITEM, labels=labels))
    assert (found.trace_id.hex(), found.span_id.hex(), found.parent_span_id.hex()) == tuple(ids.values())
    assert not made.is_of_run(found)
    assert (found.kind, found.status.code, found.status.message) == (2, 2, "no room")
    assert plain(found.attributes)["path"] == "/a"
    assert "kind" not in plain(found.attributes)
    del labels["parent_id"]
    assert made.of(replace(ITEM, labels=labels)).parent_span_id == b""


@pytest.mark.parametrize("word", ["", "12", "0" * 16, "g" * 16, "0123456789abcde "])
def test_a_label_that_is_no_id_stays_a_label(word: str) -> None:
    """Programs may use these names for something else."""
    made = Spans("r1")
    found = made.of(replace(ITEM, labels={"span_id": word, "parent_id": word}))
    assert found.span_id == made.of(ITEM).span_id
    assert found.parent_span_id == made.root("job", 0, 1).span_id
    assert plain(found.attributes)["span_id"] == word


def test_a_request_has_one_resource() -> None:
    """A request of traces has one resource and all spans."""
    request = traces_request([Spans("r1").of(ITEM)] * 2, {"service.name": "x"})
    (group,) = request.resource_spans
    assert plain(group.resource.attributes) == {"service.name": "x"}
    assert [len(scope.spans) for scope in group.scope_spans] == [2]
