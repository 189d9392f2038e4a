"""Instruments of requests: made when needed, bounded, and of one meaning."""

from __future__ import annotations

import time
from typing import Any

import pytest

from telemetry import limits
from telemetry.client import user_warnings
from telemetry.client.requests import kind as requests_module
from telemetry.wire import requests as words


def test_instruments_are_made_when_they_are_needed(program: Any) -> None:
    """A kind that nobody uses is in no result; that nothing failed or expired is a number from the first issue."""
    llm = program.requests()
    assert program.definitions == []
    llm.issue()
    counters = ["llm.issued", "llm.failed", "llm.expired"]
    assert [made.name for made in program.definitions] == counters
    llm.issue().complete()
    assert [made.name for made in program.definitions] == [*counters, "llm.completed", "llm.latency"]


def test_each_has_the_kind_and_unit_it_is_known_by(program: Any) -> None:
    """Each instrument has its kind and unit. The ones that rates are made of are defined within the latency."""
    llm = program.kinds.requests("llm", {}, slo_text="ttft:200")
    made = llm.issue(planned=time.monotonic_ns(), input_tokens=1, conversation="c")
    made.first()
    made.chunk()
    made.complete()
    made.complete()
    llm.issue().fail()
    llm.issue(at_ns=5).complete(at_ns=4)
    llm.expire_s = 1.0
    llm.issue(at_ns=0)
    llm.tend(1 << 62)
    meanings = {made.name.removeprefix("llm."): (made.kind, made.unit) for made in program.definitions}
    assert meanings == words.INSTRUMENTS
    within = {made.name: made.within for made in program.definitions if made.within}
    assert within == {"llm.latency": "llm.latency", "llm.output_tokens": "llm.latency"}


@pytest.mark.parametrize(
    ("end", "name", "label"), [("fail", "failed", "reason"), ("complete", "completed", "finish")]
)
def test_reasons_are_bounded(program: Any, end: str, name: str, label: str) -> None:
    """The first of them have a label each, in all windows together; the rest is called other."""
    llm = program.requests()

    def finish(reason: Any) -> str:
        made = llm.issue()
        made.fail(reason) if end == "fail" else made.complete(finish_reason=reason)
        found = [labels[label] for known, labels, *_ in program.events if known == f"llm.{name}"]
        return found[-1]

    assert finish("x" * 300) == "x" * (limits.LABEL_VALUE_CHARS - 1) + "…"
    assert finish("\udc00") == "?"
    assert finish(7) == "7"
    assert [finish(f"r{number}") for number in range(limits.REASONS)][-4:] == ["r60", "other", "other", "other"]
    with program.tracking("w"):
        assert [finish("r1"), finish("new"), finish("other")] == ["r1", "other", "other"]
    assert len(llm._shared.values[name]) == limits.REASONS


def test_where_ids_have_run_out_events_are_counted(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events whose instrument gets no id are counted. Other instruments record as usual."""
    said: list[str] = []
    monkeypatch.setattr(user_warnings, "warn", said.append)
    monkeypatch.setattr(limits, "PRODUCER_IDS", 4)
    llm = program.requests()
    for _ in range(2):
        llm.issue().complete()
    assert [name for name, *_ in program.events] == ["llm.issued", "llm.completed"] * 2
    assert (program.unencodable.total, len(said)) == (2, 1)
    llm.expire_s = 1.0
    with program.tracking("w"):
        llm.issue().fail()
        llm.issue(at_ns=0, conversation="c")
        llm.tend(1 << 62)
    assert program.unencodable.total == 2 + 3 + 3
    assert min(program.recorders.buffer[::3]) >= 0.0


def test_a_plan_by_the_wall_clock_is_named(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan in wall-clock time is named once, and the rest of the request stays."""
    said: list[str] = []
    monkeypatch.setattr(user_warnings, "warn", said.append)
    llm = program.requests()
    day_ns = 86_400 * 10**9
    for _ in range(2):
        llm.issue(planned=100 * day_ns + 5, at_ns=5).complete(at_ns=7)
    assert program.values("llm.latency") == [2.0, 2.0]
    assert program.values("llm.latency_corrected") == []
    assert program.recorders.refused.total == 2
    assert len(said) == 1
    assert "is 100 days in the future" in said[0]


def test_values_that_are_none_are_named(program: Any, said: Any) -> None:
    """A warning names each wrong value and its argument, once for each argument. The request keeps its outcome."""

    class Silent(str):
        def __repr__(self) -> str:
            raise RuntimeError("no words")

    llm = program.requests()
    for _ in range(2):
        request = llm.issue(input_tokens=-1, turn=0.5)
        request.first("two")
        request.complete("stop")
    llm.issue(at_ns=1.5, input_text=b"bytes").complete(Silent("stop"))
    assert len(program.values("llm.completed")) == 3
    assert [line.removeprefix("telemetry: a request of 'llm' got ") for line in said()] == [
        "0.5 as a `turn`, so it was ignored",
        "'two' as the tokens of a piece, so it was ignored",
        "'stop' as `output_tokens`, so it was ignored",
        "-1 as `input_tokens`, so it was ignored",
        "1.5 as an `at_ns`, so the current time is used",
        "b'bytes' as `input_text`, so it was ignored",
    ]


def test_a_time_of_the_wall_clock_is_named(program: Any, said: Any) -> None:
    """A wall-clock time is named, and used as it is. Beside other times of its clock it is right."""
    llm = program.requests()
    wall_ns = 1_790_000_000 * 10**9
    llm.issue(at_ns=wall_ns).complete(at_ns=wall_ns + 7)
    assert program.values("llm.latency") == [7.0]
    [line] = said()
    assert "got 1790000000000000000 as an `at_ns`, which is wall-clock time" in line


HOUR_NS = 3_600 * 10**9
UP_NS = 50 * HOUR_NS
"""How long the machine of these tests has been up."""


@pytest.mark.parametrize(
    ("planned", "why"),
    [
        (UP_NS // 10**9, "is 50 h in the past"),
        (5, "is 50 h in the past"),
        (1_763_900_000, "is 50 h in the past"),
        (50.0 * 3_600, "is not a time"),
        (-1, "is not a time"),
    ],
)
def test_a_plan_in_seconds_is_named(
    program: Any, monkeypatch: pytest.MonkeyPatch, said: Any, planned: Any, why: str
) -> None:
    """Whole ones too, also of the wall clock, which would be before any program; once, and the rest of the request
    stays."""
    monkeypatch.setattr(requests_module, "_now", lambda: UP_NS)
    llm = program.requests()
    for _ in range(2):
        llm.issue(planned=planned).complete(at_ns=UP_NS + 7)
    assert (program.values("llm.latency"), program.values("llm.latency_corrected")) == ([7.0, 7.0], [])
    assert program.recorders.refused.total == 2
    [line] = said()
    assert why in line
    assert "time.monotonic_ns()" in line


def test_a_plan_that_can_be_is_kept_however_late(program: Any, monkeypatch: pytest.MonkeyPatch, said: Any) -> None:
    """A job may have waited for days, longer than the program has run; and a replay may begin at 0."""
    monkeypatch.setattr(requests_module, "_now", lambda: UP_NS)
    llm = program.requests()
    for planned, at_ns in ((HOUR_NS, None), (2 * 10**9, None), (5, 7), (0, HOUR_NS)):
        llm.issue(planned=planned, at_ns=at_ns).complete()
    assert program.values("llm.queue_delay") == [UP_NS - HOUR_NS, UP_NS - 2 * 10**9, 2, HOUR_NS]
    assert (program.recorders.refused.total, said()) == (0, [])


def test_an_instrument_somebody_made_before_is_taken(program: Any) -> None:
    """An existing instrument of the same kind and unit is used, whatever its precision."""
    program.catalog.instrument("series", "llm.latency", "ns", digits=5)
    program.requests().issue(at_ns=0).complete(at_ns=8)
    assert program.values("llm.latency") == [8.0]


def test_keys_that_compare_oddly_harm_nobody(program: Any) -> None:
    """A request whose key compares oddly ends like any other."""

    class Odd:
        def __init__(self) -> None:
            self.asked = 0

        def __hash__(self) -> int:
            self.asked += 1
            if self.asked > 1:
                raise RuntimeError("not again")
            return 1

    llm = program.requests()
    llm.issue(key=Odd()).complete()
    assert llm.in_flight == 0
    assert program.recorders.refused.total == 1


def test_values_that_raise_leave_no_request_without_an_outcome(program: Any) -> None:
    """Values that raise are counted. A reason that raises becomes `other`."""

    class Odd:
        def __str__(self) -> str:
            raise RuntimeError("no text")

        def __index__(self) -> int:
            raise RuntimeError("no number")

    llm = program.requests()
    llm.issue(planned=Odd(), turn=Odd(), at_ns=Odd()).fail(Odd())
    request = llm.issue()
    request.first(Odd())
    request.chunk(Odd(), at_ns=Odd())
    request.complete(finish_reason=Odd(), at_ns=Odd())
    outcomes = [(name, labels) for name, labels, *_ in program.events if name in ("llm.failed", "llm.completed")]
    assert outcomes == [("llm.failed", {"reason": "other"}), ("llm.completed", {"finish": "other"})]
    assert program.recorders.refused.total == 9
