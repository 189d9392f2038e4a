"""Documents in the Chrome trace format."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.trace_checker import problems

from telemetry.backends.items import CounterReading, GaugeReading, Mark, Reading, SeriesReading, Span
from telemetry.backends.timeline.trace import StepRange, TraceIds, document, reading_events
from telemetry.wire.events import SpanSource
from telemetry.wire.snapshot import ProducerStat

ORIGIN = 1_700_000_000 * 10**9


def span(name: str, start: int, end: int, producer: str = "p", track: str = "", **labels: str) -> Span:
    """A span by microseconds since the origin."""
    times = {"time_ns": ORIGIN + start * 1_000, "end_ns": ORIGIN + end * 1_000}
    return Span(key=f"r{name}{start}", name=name, track=track, labels=labels, producer=producer, **times)


def read(**parts: Any) -> list[dict[str, Any]]:
    """Events of a document that the checker has no objection to, without its names."""
    names = parts.pop("names", TraceIds())
    data = document(names, ORIGIN, **parts)
    assert problems(data) == []
    return [event for event in json.loads(data)["traceEvents"] if event["ph"] != "M"]


def names_of(data: bytes, kind: str) -> dict[tuple[int, int], str]:
    events = json.loads(data)["traceEvents"]
    return {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one["name"] == kind}


def test_a_span_is_a_slice_with_its_labels() -> None:
    """Times are microseconds since the start of the run."""
    [event] = read(spans=[span("forward", 10, 30, layer="3")])
    assert (event["ph"], event["name"], event["ts"], event["dur"]) == ("X", "forward", 10, 20)
    assert event["args"] == {"layer": "3"}


def test_processes_and_threads_have_names() -> None:
    """A producer is a process, with its rank; a track is a thread."""
    stat = ProducerStat(producer="a", name="trainer", host="node1", pid=77, rank=3)
    names = TraceIds(producers={"a": stat})
    data = document(names, ORIGIN, spans=[span("x", 0, 1, "a", "gpu 0"), span("y", 0, 1, "b")])
    assert problems(data) == []
    assert sorted(names_of(data, "process_name").values()) == ["b", "rank 3 · trainer (77 on node1)", "run"]
    assert sorted(names_of(data, "thread_name").values()) == ["gpu 0", "main"]


def test_a_process_without_a_row_is_named_by_its_spans() -> None:
    """A root has no rows of the producers of its nodes."""
    of_node = replace(span("x", 0, 1, "a"), source=SpanSource(ORIGIN, "trainer", "node1", 77, 3))
    names = names_of(document(TraceIds(), ORIGIN, spans=[of_node]), "process_name")
    assert sorted(names.values()) == ["rank 3 · trainer (77 on node1)", "run"]


def test_overlapping_spans_get_lanes_of_their_own() -> None:
    """Viewers show slices of a thread correctly only if they are nested."""
    spans = [span("a", 0, 10), span("inside", 2, 8), span("b", 5, 15), span("after", 10, 12)]
    data = document(TraceIds(), ORIGIN, spans=spans)
    assert problems(data) == []
    threads = names_of(data, "thread_name")
    found = {
        one["name"]: threads[one["pid"], one["tid"]] for one in json.loads(data)["traceEvents"] if "dur" in one
    }
    assert found == {"a": "main", "inside": "main", "b": "main 2", "after": "main"}


@given(st.lists(st.integers(0, 10**18), min_size=2, max_size=20))
def test_slices_that_follow_each_other_do_not_overlap(found: list[int]) -> None:
    """Slices that follow each other never overlap by rounding. A viewer would draw one inside the other."""
    ends = sorted(set(found))
    steps = [StepRange("a", at, ORIGIN + start, ORIGIN + end) for at, (start, end) in enumerate(pairwise(ends))]
    assert len(read(steps=steps)) == len(steps)


@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 20), st.sampled_from("ab"), st.sampled_from(["", "t"])),
        max_size=40,
    )
)
def test_any_spans_make_a_valid_document(found: list[tuple[int, int, str, str]]) -> None:
    """A document has every span once with its exact length."""
    spans = [span("s", start, start + length, *where) for start, length, *where in found]
    events = read(spans=spans)
    assert sorted((event["ts"], event["dur"]) for event in events) == sorted(
        (float(start), float(length)) for start, length, *_ in found
    )


def test_an_arrow_leads_from_the_sender_to_the_receiver() -> None:
    """An arrow leads from the end of the sender to the beginning of the receiver. The labels are no arguments."""
    spans = [span("send", 0, 10, "a", flow_out="m1"), span("receive", 15, 20, "b", flow_in="m1")]
    events = read(spans=spans)
    [start], [finish] = ([one for one in events if one["ph"] == phase] for phase in "sf")
    assert (start["id"], start["ts"], finish["id"], finish["ts"]) == ("m1", 10, "m1", 15)
    assert start["pid"] != finish["pid"]
    assert all("args" not in event for event in events)


def test_steps_marks_and_readings_have_their_places() -> None:
    """Steps and readings belong to the run, marks to their producers."""
    reading = Reading(
        key="h1",
        time_ns=ORIGIN + 5_000_000,
        elapsed_s=0.005,
        seconds=0.005,
        gauges=[GaugeReading(name="depth", value=3.0)],
        counters=[CounterReading(name="tokens", unit="tok", labels={"k": "v"}, rate=9.0)],
        series=[
            SeriesReading(name="latency", unit="ms", percentiles={"50": 1.0, "99": 2.0}),
            SeriesReading(name="e"),
        ],
    )
    events = read(
        steps=[
            StepRange("train", 1, 0, ORIGIN + 1_000_000),
            StepRange("train", 2, ORIGIN + 1_000_000, ORIGIN + 3_000_000),
        ],
        marks=[Mark(key="r1", time_ns=ORIGIN + 2_000, text="began", labels={"a": "b"}, producer="p")],
        others=reading_events(reading, ORIGIN),
    )
    steps = [(one["name"], one["ts"], one["dur"]) for one in events if one["ph"] == "X"]
    assert steps == [("train 1", 0, 1_000), ("train 2", 1_000, 2_000)]
    [mark] = [one for one in events if one["ph"] == "i"]
    assert (mark["name"], mark["ts"], mark["args"]) == ("began", 2, {"a": "b"})
    counters = {one["name"]: one["args"] for one in events if one["ph"] == "C"}
    assert counters == {
        "depth": {"value": 3.0},
        "tokens{k=v} (tok/s)": {"rate": 9.0},
        "latency (ms)": {"p50": 1.0, "p99": 2.0},
    }


def test_numbers_stay_the_same_in_all_documents() -> None:
    """Files of steps can be put side by side."""
    names = TraceIds()
    first = json.loads(document(names, ORIGIN, spans=[span("x", 0, 1, "a"), span("x", 0, 1, "b")]))
    second = json.loads(document(names, ORIGIN, spans=[span("x", 2, 3, "b")]))
    pid = {one["args"]["name"]: one["pid"] for one in first["traceEvents"] if one["name"] == "process_name"}
    assert {one["pid"] for one in second["traceEvents"] if one["ph"] == "X"} == {pid["b"]}
