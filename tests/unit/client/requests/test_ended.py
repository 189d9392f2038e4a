"""Requests that have ended: their entries of the request log, and the records that the flusher makes of them."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from telemetry import limits
from telemetry.client.records import RECORD_BYTES
from telemetry.wire.codec import decode_record
from telemetry.wire.events import Uncounted
from telemetry.wire.request_log import EndedRequests, RequestEntry


@pytest.fixture
def backlog(program: Any) -> Any:
    """The outbox of a producer that is live."""
    made = SimpleNamespace(records=deque(), weight=0)
    program.kinds.log.begin(made, wanted=True)
    return made


def flushed(program: Any, backlog: Any) -> list[EndedRequests]:
    program.kinds.tend()
    found = [decode_record(record) for record in backlog.records]
    backlog.records.clear()
    return [record for record in found if isinstance(record, EndedRequests)]


def entries(program: Any, backlog: Any) -> list[RequestEntry]:
    return [entry for record in flushed(program, backlog) for entry in record.entries]


def test_an_entry_has_all_that_the_program_told(program: Any, backlog: Any) -> None:
    """Times, chunks with their tokens, tokens, turn, limits of its own, and the reason."""
    llm = program.requests(model="m")
    made = llm.issue(planned=3, input_tokens=12, conversation="c", slo="ttft:1", at_ns=10)
    made.first(2, at_ns=14)
    made.chunk(at_ns=15)
    made.chunk(3, at_ns=19)
    made.chunk(at_ns=20)
    made.complete(finish_reason="stop", at_ns=25)
    (record,) = flushed(program, backlog)
    assert (record.kind, record.labels, record.left_out) == ("llm", {"model": "m"}, 0)
    assert record.entries == [
        RequestEntry(
            number=0,
            issued_ns=10,
            ended_ns=25,
            reason="stop",
            planned_ns=3,
            first_ns=14,
            first_tokens=2,
            gaps_ns=[1, 4, 1],
            chunk_tokens=[1, 3, 1],
            input_tokens=12,
            output_tokens=7,
            turn="1",
            slo={"ttft": 10**6},
        )
    ]


def test_tokens_of_chunks_are_there_only_if_they_differ_from_one(program: Any, backlog: Any) -> None:
    """Unknown ones are null, and so are those of a first output that are unknown."""
    llm = program.requests()
    for pieces in ([1, 1, 1], [None, 1, 1], [1, None, 0, 1]):
        made = llm.issue(at_ns=0)
        for at, tokens in enumerate(pieces, 1):
            made.chunk(tokens, at_ns=at)
        made.complete(at_ns=9)
    found = [(entry.first_tokens, entry.chunk_tokens, entry.output_tokens) for entry in entries(program, backlog)]
    assert found == [(1, [], 3), (None, [], None), (1, [None, 0, 1], None)]


def test_every_outcome_has_an_entry(program: Any, backlog: Any) -> None:
    """Each outcome has an entry. The entry of a failed request has its output so far."""
    llm = program.requests()
    llm.issue(at_ns=0).complete(at_ns=4, output_tokens=2.5)
    failed = llm.issue(at_ns=1, input_tokens=7)
    failed.first(at_ns=2)
    failed.chunk(at_ns=3)
    failed.fail("timeout", at_ns=5)
    llm.issue(at_ns=2).fail("")
    llm.issue(at_ns=3).give_up()
    found = entries(program, backlog)
    told = [(each.number, each.outcome, each.reason, each.first_ns, each.first_tokens) for each in found]
    assert told == [
        (0, "completed", "", None, None),
        (1, "failed", "timeout", 2, 1),
        (2, "failed", "error", None, None),
        (3, "expired", "", None, None),
    ]
    assert [each.output_tokens for each in found] == [2.5, None, None, None]
    assert (found[1].gaps_ns, found[1].input_tokens) == ([1], 7)


@pytest.mark.parametrize(
    ("given", "expected"),
    [(5, 5), (5.0, 5), (0.5, 0.5), (-3, None), (1 << 70, None), (10**400, None), (None, None)],
)
def test_tokens_that_fit_in_no_record_are_left_out(program: Any, backlog: Any, given: Any, expected: Any) -> None:
    """The request is in the log all the same. Whole numbers are integers."""
    made = program.requests().issue(input_tokens=given)
    made.fail()
    (entry,) = entries(program, backlog)
    assert entry.input_tokens == expected
    assert type(entry.input_tokens) is type(expected)


def test_reasons_are_valid_text(program: Any, backlog: Any) -> None:
    """The reason of a request is cut, and has no halves of characters, like that of a counter."""
    program.requests().issue().fail("x" * 300)
    program.requests().issue().complete(finish_reason="\ud800")
    reasons = [entry.reason for entry in entries(program, backlog)]
    assert (len(reasons[0]), reasons[1]) == (limits.LABEL_VALUE_CHARS, "?")


def test_of_a_long_answer_the_last_chunks_are_kept(program: Any, backlog: Any, hold: Any) -> None:
    """The last chunks of a long answer are kept with their tokens. The number of earlier chunks is kept, too."""
    hold(4)
    made = program.requests().issue(at_ns=0)
    for number in range(12):
        made.chunk(number + 1, at_ns=number * number)
    made.complete(at_ns=200)
    (entry,) = entries(program, backlog)
    assert (entry.chunks_left_out, entry.gaps_ns, entry.chunk_tokens) == (8, [17, 19, 21], [10, 11, 12])
    assert (entry.first_ns, entry.first_tokens, entry.output_tokens) == (0, 1, 78)


def test_texts_have_the_number_of_their_request(program: Any, backlog: Any) -> None:
    """A text has the number of its request, so that its tokens find the request once counted."""
    llm = program.requests()
    llm.issue().complete()
    llm.issue(input_text="ask").complete(output_text="answer")
    found = entries(program, backlog)
    assert [(each.number, each.input_tokens, each.output_tokens) for each in found] == [
        (0, None, None),
        (1, None, None),
    ]
    assert [record.number for record in program.records if isinstance(record, Uncounted)] == [1, 1]


def test_kinds_and_windows_have_records_of_their_own(program: Any, backlog: Any) -> None:
    """Each kind and window has one record in a flush. Its requests are in the order in which they ended."""
    one, other = program.requests(), program.requests("other")
    late = one.issue()
    with program.tracking("measured"):
        for kind in (one, other, one):
            kind.issue().complete()
    late.fail()
    found = [
        (each.kind, each.labels, [entry.number for entry in each.entries]) for each in flushed(program, backlog)
    ]
    assert found == [
        ("llm", {"window": "measured"}, [0, 2]),
        ("other", {"window": "measured"}, [1]),
        ("llm", {}, [3]),
    ]
    assert flushed(program, backlog) == []


def test_a_record_has_a_bounded_number_of_requests(program: Any, backlog: Any) -> None:
    """A record has a bounded number of requests and a bounded size, so that it fits in a batch."""
    llm = program.requests()
    for _ in range(limits.REQUESTS_PER_RECORD + 1):
        llm.issue().complete()
    assert [len(each.entries) for each in flushed(program, backlog)] == [limits.REQUESTS_PER_RECORD, 1]
    for _ in range(60):
        made = llm.issue(at_ns=0)
        for number in range(1, 4_000):
            made.chunk(1 << 31, at_ns=(1 << 40) * (number % 2))
        made.complete()
    program.kinds.tend()
    sizes = [len(record) for record in backlog.records]
    assert len(sizes) > 1
    assert max(sizes) <= RECORD_BYTES
    assert sum(len(each.entries) for each in flushed(program, backlog)) == 60


def test_requests_without_room_are_counted(program: Any, backlog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests without room in the log are counted.

    They end too quickly, or while the records of an absent aggregator pile up.
    """
    monkeypatch.setattr(limits, "REQUESTS_WAITING", 2)
    llm = program.requests()
    for _ in range(5):
        llm.issue().complete()
    backlog.weight = limits.RECORDS_BUFFERED_BYTES
    assert flushed(program, backlog) == []
    backlog.weight = 0
    llm.issue().complete()
    (record,) = flushed(program, backlog)
    assert ([entry.number for entry in record.entries], record.left_out) == ([5], 5)
    assert flushed(program, backlog) == []


def test_requests_in_records_are_told(program: Any, backlog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests count as logged once a record has them or names them as left out.

    Only the rest is lost with a killed process.
    """
    monkeypatch.setattr(limits, "REQUESTS_WAITING", 2)
    told: list[int] = []
    log = program.kinds.log
    log._logged = told.append
    llm, first = program.requests(), log.number()
    for _ in range(5):
        llm.issue().complete()
    backlog.weight = limits.RECORDS_BUFFERED_BYTES
    program.kinds.tend()
    assert told == []
    backlog.weight = 0
    llm.issue().fail()
    program.kinds.tend()
    assert told == [6]
    assert log.number() - first - 1 == 6


def test_a_flush_takes_a_bounded_number_and_the_end_takes_all(
    program: Any, backlog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flush takes a bounded number of requests, and the end takes all.

    Requests after the end leave no trace in the log.
    """
    monkeypatch.setattr(limits, "REQUESTS_A_TURN", 2)
    llm = program.requests()
    for _ in range(7):
        llm.issue().complete()
    assert len(entries(program, backlog)) == 2
    program.kinds.close()
    assert len(entries(program, backlog)) == 5
    llm.issue().complete()
    assert flushed(program, backlog) == []


def test_without_the_setting_there_is_no_log(program: Any) -> None:
    """Nor do texts refer to it."""
    made = SimpleNamespace(records=deque(), weight=0)
    program.kinds.log.begin(made, wanted=False)
    program.requests().issue().complete(output_text="answer")
    program.kinds.close()
    assert (list(made.records), [record.number for record in program.records]) == ([], [None])


def test_a_forked_child_has_requests_of_its_own_only(program: Any, backlog: Any) -> None:
    """A forked child has no requests of its parent in its log, since the parent logs them."""
    llm = program.requests()
    llm.issue().complete()
    program.kinds.after_fork_in_child()
    assert flushed(program, backlog) == []


def test_after_the_end_no_request_expires(program: Any, backlog: Any) -> None:
    """The sending thread still tends while it sends the rest. A request is in counters and log, or in neither."""
    llm = program.kinds.requests("llm", {}, expire_s=1e-9)
    llm.issue()
    program.kinds.close()
    assert flushed(program, backlog) == []
    assert (program.values("llm.expired"), llm.in_flight) == ([], 1)


def test_a_turn_that_the_end_interrupts_logs_what_it_counts(
    program: Any, backlog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end comes from another thread, while requests expire."""
    llm = program.kinds.requests("llm", {}, expire_s=1e-9)
    llm.issue()
    oldest = llm._oldest

    def interrupted() -> Any:
        found = oldest()
        program.kinds.close()
        return found

    monkeypatch.setattr(llm, "_oldest", interrupted)
    assert [entry.outcome for entry in entries(program, backlog)] == ["expired"]
    assert program.values("llm.expired") == [1.0]


def test_requests_that_end_while_the_end_makes_records_are_logged(program: Any, backlog: Any) -> None:
    """Making records of a long list takes a third of a second, and the counters have such a request."""
    llm = program.requests()
    llm.issue().complete()
    last = llm.issue()

    class Busy(deque[bytes]):
        def extend(self, records: Any) -> None:
            super().extend(records)
            last.complete()  # as another thread would

    backlog.records = Busy()
    program.kinds.close()
    assert [entry.number for entry in entries(program, backlog)] == [0, 1]
