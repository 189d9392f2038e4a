"""Spans as a trace."""

from __future__ import annotations

from msgspec.structs import replace
from tests.backends.reading_otlp import plain

from telemetry.backends.items import Span
from telemetry.backends.otlp.spans import Spans, traces_request

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
    """Of all spans, which keep their times and labels."""
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


def test_a_request_has_one_resource() -> None:
    """And all spans."""
    request = traces_request([Spans("r1").of(ITEM)] * 2, {"service.name": "x"})
    (group,) = request.resource_spans
    assert plain(group.resource.attributes) == {"service.name": "x"}
    assert [len(scope.spans) for scope in group.scope_spans] == [2]
