"""Bytes of an endpoints benchmark, and bytes of anybody else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.integrations.endpoints import bus

from telemetry import limits
from telemetry.integrations.endpoints import decode
from telemetry.integrations.endpoints.decode import (
    EndpointFailure,
    Event,
    EventRejection,
    ModelOutput,
    Prompt,
    data_of,
)


def one(message: bytes) -> Event:
    (found,) = decode.decode(message)
    assert isinstance(found, Event), found
    return found


def carried(data: Any) -> Any:
    return data_of(one(bus.single(decode.COMPLETE, 1, "a", data)))


@pytest.mark.parametrize("kind", sorted(decode.KNOWN))
def test_every_kind_of_event_is_read(kind: str) -> None:
    """Every kind of event is read under its own topic and in a batch."""
    for message in (bus.single(kind, 1 << 62, "id"), bus.batch([bus.event(kind, 1 << 62, "id")])):
        found = one(message)
        assert (found.event_type, found.timestamp_ns, found.sample_uuid) == (kind, 1 << 62, "id")


def test_all_fields_and_those_that_are_unset() -> None:
    """A field that is not sent has a value that means nothing."""
    full = one(
        bus.single(decode.COMPLETE, 5, "id", conversation="c", turn=3, finish_reason="stop", worker_id=7, later=1)
    )
    assert (full.conversation_id, full.turn, full.finish_reason) == ("c", 3, "stop")
    bare = one(bus.topic(decode.ISSUED) + bus.pack({"event_type": decode.ISSUED, "timestamp_ns": 5}))
    assert (bare.sample_uuid, bare.conversation_id, bare.turn, bare.finish_reason) == ("", "", None, None)
    assert data_of(bare) is None


def test_a_batch_is_read_in_order_and_what_is_none_is_refused_in_its_place() -> None:
    """One that can't be read costs itself and no neighbour."""
    parts = [
        bus.event(decode.ISSUED, 1, "a"),
        b"\xc1",
        bus.event("sample.invented", 2),
        bus.event(decode.ISSUED, -1, "a"),
        bus.pack({"event_type": decode.ISSUED}),
        bus.event(decode.COMPLETE, 3, "a"),
    ]
    found = list(decode.decode(bus.batch(parts)))
    assert [event.timestamp_ns for event in found if isinstance(event, Event)] == [1, 3]
    assert found[1:5] == [
        EventRejection("event"),
        EventRejection("unknown_event"),
        EventRejection("event"),
        EventRejection("event"),
    ]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "frame"),
        (bus.topic("batch"), "frame"),
        (bus.topic("batch") + bus.pack([1, 2]), "batch"),
        (bus.topic("batch") + b"\xdd\xff\xff\xff\xff", "batch"),
        (bus.topic("batch") + bus.pack({"a": 1}), "batch"),
        (bus.topic("MET") + b"\x91" * 100_000, "event"),
        (bus.topic("MET") + b"\x81\xa4data" + b"\x91" * 100_000, "event"),
        (bus.single(decode.ISSUED, 1, "x" * (limits.FEED_ID_CHARS + 1)), "event"),
        (bus.single(decode.ISSUED, 1 << 63, "x"), "event"),
        (bus.single("x" * 41, 1), "event"),
    ],
    ids=range(10),
)
def test_what_can_not_be_read_is_refused_with_its_reason(message: bytes, reason: str) -> None:
    """A message that can't be read gives a rejection with its reason and raises nothing."""
    assert list(decode.decode(message)) == [EventRejection(reason)]  # type: ignore[arg-type]


def test_a_batch_beyond_every_sender_is_refused() -> None:
    """A batch larger than any sender's is rejected before its list is made."""
    crowd = bus.topic("batch") + bus.pack([b""] * (limits.FEED_BATCH_EVENTS + 1))
    assert list(decode.decode(crowd)) == [EventRejection("batch")]


@pytest.mark.parametrize("count", [0, 1, 15, 16, 70_000])
def test_ids_of_a_prompt_are_counted(count: int) -> None:
    """However their number is written."""
    prompt = carried(bus.prompt(ids=[200] * count))
    assert isinstance(prompt, Prompt)
    assert prompt.tokens == count


def test_a_prompt_of_text_has_no_ids() -> None:
    """Nor has one whose ids are something else."""
    assert carried(bus.prompt("hello")).tokens is None
    assert carried(bus.prompt("hello")).text == "hello"
    assert carried(["PromptData", None, "many"]).tokens is None
    assert carried(["PromptData"]) == carried(["PromptData", None, None, [{"role": "user"}], [], None])


def test_output_is_its_reasoning_and_its_chunks() -> None:
    """Streamed or not, with or without what was thought before."""
    assert carried(bus.output("a", "b", "c")).text == "abc"
    assert carried(["TextModelOutput", "whole"]).text == "whole"
    assert carried(["TextModelOutput", ["b"], ["r", "s"], None]).text == "rsb"
    assert carried(["TextModelOutput"]) == ModelOutput()
    assert ModelOutput().text == ""


def test_failures_have_a_type_and_maybe_a_message() -> None:
    """Defaults are left out on the wire."""
    assert carried(bus.error("Timeout", "60 s")) == EndpointFailure("Timeout", "60 s")
    assert carried(["ErrorData", "Timeout"]) == EndpointFailure("Timeout")


@pytest.mark.parametrize("data", [5, ["Nobody"], ["PromptData", 5], ["TextModelOutput", [1]], {"a": 1}, []])
def test_data_that_can_not_be_read_is_refused_alone(data: object) -> None:
    """The event stands."""
    assert carried(data) == EventRejection("data")


@given(st.binary(max_size=300), st.booleans())
def test_no_bytes_raise(data: bytes, framed: bool) -> None:
    """No bytes that a socket may deliver make `decode` or `data_of` raise."""
    for prefix in (b"", bus.topic("batch"), bus.topic(decode.ISSUED)):
        message = prefix + (bus.pack([data]) if framed else data)
        for found in decode.decode(message):
            if isinstance(found, Event):
                data_of(found)


@given(st.data())
def test_a_message_with_a_few_wrong_bytes_raises_nothing(data: st.DataObject) -> None:
    """Near misses reach further into a decoder than noise."""
    message = bytearray(
        bus.batch(
            [
                bus.event(decode.ISSUED, 1, "a", bus.prompt("p", [1, 2])),
                bus.event(decode.COMPLETE, 2, "a", bus.output("x", "y"), finish_reason="stop"),
                bus.event("error.client", 2, "a", bus.error("E", "m")),
            ]
        )
    )
    for place in data.draw(st.lists(st.integers(0, len(message) - 1), max_size=4)):
        message[place] = data.draw(st.integers(0, 255))
    for found in decode.decode(bytes(message)):
        if isinstance(found, Event):
            carried_data = data_of(found)
            assert not isinstance(carried_data, Prompt) or (carried_data.tokens or 0) < 1 << 32
