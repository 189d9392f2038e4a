"""Conversations: their turns, their length, and which of them are open."""

from __future__ import annotations

from typing import Any

import pytest

from telemetry import limits
from telemetry.client.requests.conversations import Conversations


def told_at(now_ns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the time at which conversations are heard of."""
    monkeypatch.setattr("telemetry.client.requests.conversations._now", lambda: now_ns)


def of(program: Any, word: str) -> list[tuple[dict[str, str], float]]:
    return [(labels, value) for name, labels, _, value in program.events if name == f"llm.conversation.{word}"]


def test_a_conversation_lasts_from_its_first_issue_to_its_last_end(program: Any) -> None:
    """However its requests end, and in whatever order."""
    llm = program.requests()
    one, two, three = (llm.issue(conversation="c", at_ns=at) for at in (10, 20, 30))
    two.complete(at_ns=95)
    one.fail(at_ns=60)
    llm.end_conversation("c", at_ns=100)
    three.complete(at_ns=200)
    assert (of(program, "turns"), of(program, "duration")) == ([({}, 3.0)], [({}, 85.0)])
    llm.end_conversation("c")
    assert len(of(program, "turns")) == 1


def test_without_an_end_there_is_no_duration(program: Any) -> None:
    """A conversation whose requests have not ended has turns but no duration."""
    llm = program.requests()
    llm.issue(conversation="c", at_ns=10)
    llm.end_conversation("c", at_ns=20)
    assert (of(program, "turns"), of(program, "duration")) == ([({}, 1.0)], [])


def test_turns_count_from_one_unless_they_are_given(program: Any) -> None:
    """The figures of a turn have its number as a label. Turns beyond the limit share one label."""
    llm = program.requests()
    for turn in (None, None, 7, limits.TURNS, limits.TURNS + 1, 10**6):
        made = llm.issue(conversation="c", turn=turn, at_ns=0)
        made.first(at_ns=3)
        made.complete(at_ns=9)
    llm.issue(turn=2, at_ns=0).complete(at_ns=5)
    turns = [(labels["turn"], value) for name, labels, _, value in program.events if name == "llm.turn.latency"]
    beyond = f"{limits.TURNS}+"
    assert turns == [(turn, 9.0) for turn in ("1", "2", "7", str(limits.TURNS), beyond, beyond)] + [("2", 5.0)]
    first = [labels["turn"] for name, labels, _, value in program.events if name == "llm.turn.ttft" and value == 3]
    assert first == ["1", "2", "7", str(limits.TURNS), beyond, beyond]


def test_what_is_left_is_recorded_at_the_end(watched: Any) -> None:
    """Open conversations are recorded at the end in one call that never waits.

    Each has the window that it began in.
    """
    llm = watched.requests()
    llm.issue(conversation="a")
    with watched.tracking("w"):
        llm.issue(conversation="b")
        llm.issue(conversation="a")
    puts = len(watched.puts)
    watched.kinds.close()
    assert len(watched.puts) == puts
    assert of(watched, "turns") == [({"window": "w"}, 1.0), ({}, 2.0)]
    watched.kinds.close()
    assert len(of(watched, "turns")) == 2


def test_idle_ones_end_by_themselves(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversation ends once it was silent for as long as a request may take.

    The times that its requests were given do not matter.
    """
    llm = program.requests()
    llm.expire_s = 1e-6
    told_at(0, monkeypatch)
    llm.issue(conversation="old", at_ns=7_000).complete(at_ns=7_001)
    late = llm.issue(conversation="ended late", at_ns=7_000)
    told_at(5_000, monkeypatch)
    llm.issue(conversation="new", at_ns=7_000).complete(at_ns=7_003)
    told_at(5_500, monkeypatch)
    late.complete(at_ns=7_002)
    llm.tend(5_900)
    assert of(program, "duration") == [({}, 1.0)]
    llm.tend(6_600)
    assert of(program, "duration") == [({}, 1.0), ({}, 2.0), ({}, 3.0)]


def test_the_quietest_makes_room(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The conversation that was silent longest is recorded as if it had ended. Active ones stay."""
    monkeypatch.setattr(limits, "CONVERSATIONS", 2)
    llm = program.requests()
    for key in "abac":
        llm.issue(conversation=key, at_ns=1).complete(at_ns=2)
    assert of(program, "turns") == [({}, 1.0)]
    llm.end_conversation("a")
    llm.end_conversation("b")
    assert of(program, "turns") == [({}, 1.0), ({}, 2.0)]


def test_a_look_for_idle_ones_is_bounded(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next goes on where it ended."""
    monkeypatch.setattr("telemetry.client.requests.conversations._LOOKED_AT", 2)
    known = Conversations()
    family: Any = program.requests()._family
    for key, at in (("new", 90), ("newer", 95), ("old", 1)):
        told_at(at, monkeypatch)
        known.turn(key, family, at, None)
    assert known.end_idle(50) == []
    assert [ended.first_ns for ended in known.end_idle(50)] == [1]
    assert len(known) == 2
