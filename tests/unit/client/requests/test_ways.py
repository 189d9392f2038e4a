"""Requests in Python and compiled ones: calls take the same arguments, and an outcome is whole or not there."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from telemetry import limits
from telemetry.client.requests import kind
from telemetry.client.requests.request import hold_chunks

BUFFER_FULL = 0


@pytest.mark.parametrize(
    ("call", "given", "named"),
    [
        ("first", (1, 2, 3), {}),
        ("chunk", (), {"token": 1}),
        ("chunk", (1,), {"tokens": 1}),
        ("complete", (1, "stop", None, 5, 6), {}),
        ("complete", (1,), {"output_tokens": 1}),
        ("complete", (), {"reason": "stop"}),
    ],
)
def test_arguments_that_a_call_does_not_have(
    program: Any, call: str, given: tuple[object, ...], named: dict[str, object]
) -> None:
    """Wrong arguments raise as an error of the program, and the call records no event."""
    made = program.requests().issue(at_ns=0)
    program.take()
    with pytest.raises(TypeError):
        getattr(made, call)(*given, **named)
    assert program.take() == []
    assert made._first_ns is None


def test_arguments_by_place_and_by_name(program: Any) -> None:
    """Each call takes both. Names that are made at run time are the same names."""
    made = program.requests().issue(at_ns=0)
    made.first(2, 5)
    made.chunk(**{"".join(("tok", "ens")): 3, "".join(("at", "_ns")): 8})
    made.complete(9, "stop", None, 20)
    assert program.values("llm.itl") == [3.0]
    assert (program.values("llm.output_tokens"), program.values("llm.tpot")) == ([9.0], [15 / 7])


def test_an_outcome_without_room_is_dropped_as_a_whole(program: Any, way: str) -> None:
    """All of its rows are counted. One that has room is whole."""
    buffer = program.recorders.buffer
    if way == "ring":
        buffer.open("", "p", 24, 0, 0)
        program.recorders.install(buffer.extend)
    llm = program.requests()
    for chunks in (30, 10):
        made = llm.issue(at_ns=0)
        for at in range(chunks + 1):
            made.chunk(at_ns=at)
        made.complete(finish_reason="stop", at_ns=99)
    dropped = buffer.tally(BUFFER_FULL).total if way == "ring" else 0
    assert dropped == (36 - 1 if way == "ring" else 0)
    assert len(program.values("llm.itl")) == (10 if way == "ring" else 40)
    assert len(program.events) + dropped == 2 + (5 + 30) + (5 + 10)
    assert llm.in_flight == 0


def test_a_request_is_issued_and_not_made(program: Any) -> None:
    """A request can't be made directly, since it needs the instruments of a kind."""
    with pytest.raises(TypeError):
        kind.Request()  # type: ignore[call-arg]


def test_many_requests_leave_nothing_behind(program: Any) -> None:
    """However they end, the number of objects is as before."""
    llm = program.requests()

    def play(number: int) -> None:
        made = llm.issue(key=("k", number), at_ns=0)
        made.first(number % 3, at_ns=1)
        for at in range(2, 9):
            made.chunk(None if at == number % 9 else at, at_ns=at)
        end = (made.complete, made.fail, made.give_up, lambda: made.complete(output_text="text"))[number % 4]
        end()
        made.chunk()

    hold_chunks(3)
    try:
        for number in range(100):
            play(number)
        program.records.clear()
        program.take()
        program.puts.clear()
        gc.collect()
        before = len(gc.get_objects())
        for number in range(400):
            play(number)
        program.records.clear()
        program.take()
        program.puts.clear()
        gc.collect()
        assert len(gc.get_objects()) <= before + 5
    finally:
        hold_chunks(limits.CHUNKS_HELD)
