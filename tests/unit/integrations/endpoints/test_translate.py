"""Tests of what the events of a benchmark do to a run."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.unit.integrations.endpoints import bus

from telemetry import limits
from telemetry.integrations.endpoints import decode
from telemetry.integrations.endpoints.translate import EndpointsFeed
from telemetry.integrations.feeds import FeedOptions
from telemetry.wire.feeds import ENDED, ERRORS, INTERRUPTED, LATE, REFUSED, SESSIONS, UNCOUNTED

if TYPE_CHECKING:
    from telemetry.client import Run

STARTED = bus.event(decode.STARTED, 1)


class FakeRequest:
    def __init__(self, log: list[tuple[Any, ...]], number: str) -> None:
        self._log = log
        self._number = number

    def first(self, tokens: int | None = 1, at_ns: int | None = None) -> int:
        return self._note("first", tokens, at_ns)

    def chunk(self, tokens: int | None = 1, at_ns: int | None = None) -> int:
        return self._note("chunk", tokens, at_ns)

    def complete(self, *, at_ns: int, **more: Any) -> int:
        return self._note("complete", {key: value for key, value in more.items() if value is not None}, at_ns)

    def fail(self, reason: str, at_ns: int | None = None) -> int:
        return self._note("fail", reason, at_ns)

    def give_up(self) -> None:
        self._note("give up", None, None)

    def _note(self, what: str, value: object, at_ns: int | None) -> int:
        self._log.append((self._number, what, value, at_ns))
        return at_ns or 0


class FakeRun:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.log: list[tuple[Any, ...]] = []
        self.counts: Counter[tuple[str, str]] = Counter()
        self.marks: list[str] = []
        self.labels: dict[str, str] = {}
        self._issued = 0

    def requests(self, name: str, *, labels: dict[str, str]) -> FakeRun:
        assert name == "request"
        self.labels = labels
        return self

    def issue(self, *, at_ns: int, **more: Any) -> FakeRequest:
        self._issued += 1
        number = f"r{self._issued}"
        self.log.append((number, "issue", {key: value for key, value in more.items() if value is not None}, at_ns))
        return FakeRequest(self.log, number)

    def find(self, key: str) -> FakeRequest:
        return FakeRequest(self.log, "unknown")

    def mark(self, text: str, *, at_ns: int | None = None) -> None:
        self.marks.append(text)

    def enter(self, window: str) -> None:
        self.log.append(("window", window))

    def counter(self, name: str, *, labels: dict[str, str] | None = None, **more_labels: str) -> Any:
        labels = {**(labels or {}), **more_labels}
        own = [key for key in labels if key != "session"]
        assert own == {REFUSED: ["reason"], ERRORS: ["error"], UNCOUNTED: ["reason"]}.get(name, [])
        value = "".join(labels.values())
        run = self

        class Add:
            @staticmethod
            def add(amount: int) -> None:
                run.counts[name, value] += amount

        return Add


class Bench:
    """A feed, and the run it feeds."""

    def __init__(self, *, texts: bool = True, now_ns: int = 10**15, session: str = "") -> None:
        self.run = FakeRun()
        self.said: list[str] = []
        options = FeedOptions(say=self.said.append, texts=texts, session=session)
        self.feed = EndpointsFeed(cast("Run", self.run), options, clock=lambda: now_ns)

    def take(self, *events: bytes) -> None:
        self.feed.take(bus.batch(events))

    @property
    def uncounted(self) -> dict[str, int]:
        return {reason: count for (name, reason), count in self.run.counts.items() if name == UNCOUNTED}

    @property
    def refused(self) -> dict[str, int]:
        return {reason: count for (name, reason), count in self.run.counts.items() if name == REFUSED}


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.take(STARTED)
    return made


def test_a_request_from_its_issue_to_its_end(bench: Bench) -> None:
    """A request is recorded with the benchmark's own times and all that its events contain."""
    bench.take(
        bus.event(decode.ISSUED, 10, "a", bus.prompt("hello"), conversation="c", turn=2),
        bus.event(decode.FIRST, 20, "a"),
        bus.event(decode.CHUNK, 30, "a"),
        bus.event(decode.COMPLETE, 40, "a", bus.output("x", "y"), finish_reason="stop"),
    )
    assert bench.run.log == [
        ("r1", "issue", {"input_text": "hello", "conversation": "c", "turn": 2}, 10),
        ("r1", "first", None, 20),
        ("r1", "chunk", None, 30),
        ("r1", "complete", {"output_text": "xy", "finish_reason": "stop"}, 40),
    ]
    assert bench.refused == {}


def test_ids_are_counted_and_texts_only_where_there_are_none(bench: Bench) -> None:
    """A number is better than a text."""
    bench.take(bus.event(decode.ISSUED, 10, "a", bus.prompt("text", [1, 2, 3])))
    assert bench.run.log == [("r1", "issue", {"input_tokens": 3}, 10)]


def test_texts_that_nobody_counts_stay_here() -> None:
    """The feed sends no texts if there is no tokenizer, since the aggregator would only drop them."""
    bench = Bench(texts=False)
    bench.take(
        bus.event(decode.ISSUED, 10, "a", bus.prompt("text")),
        bus.event(decode.COMPLETE, 40, "a", bus.output("x", "y")),
    )
    assert bench.run.log == [("r1", "issue", {}, 10), ("r1", "complete", {}, 40)]
    assert bench.uncounted == {"no_tokenizer": 1}


CALLS = [{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]


@pytest.mark.parametrize(
    ("data", "finish", "reason"),
    [
        (["TextModelOutput", "", None, CALLS], "tool_calls", "tool_calls"),
        (["TextModelOutput", [], None, [CALLS, CALLS]], "tool_calls", "tool_calls"),
        (["TextModelOutput", ["let me ", "look"], None, CALLS], "stop", "tool_calls"),
        (["TextModelOutput"], "function_call", "tool_calls"),
        (None, "stop", "no_text"),
        (["Nobody"], "stop", "no_text"),
    ],
)
def test_an_answer_whose_tokens_are_not_in_its_text_has_no_number_of_them(
    bench: Bench, data: Any, finish: str, reason: str
) -> None:
    """Calls of tools have tokens that no text has, whatever text is beside them."""
    bench.take(
        bus.event(decode.ISSUED, 10, "a"),
        bus.event(decode.FIRST, 20, "a"),
        bus.event(decode.COMPLETE, 40, "a", data, finish_reason=finish),
    )
    assert bench.run.log[1:] == [("r1", "first", None, 20), ("r1", "complete", {"finish_reason": finish}, 40)]
    assert bench.uncounted == {reason: 1}


@pytest.mark.parametrize("calls", [None, []])
def test_without_calls_a_text_is_the_whole_answer(bench: Bench, calls: Any) -> None:
    """Nil, or an empty list."""
    bench.take(
        bus.event(decode.ISSUED, 10, "a"),
        bus.event(decode.COMPLETE, 40, "a", ["TextModelOutput", "x", None, calls], finish_reason="tool_calls"),
    )
    assert bench.run.log[-1][2]["output_text"] == "x"
    assert bench.uncounted == {}


def test_no_output_is_no_token(bench: Bench) -> None:
    """An empty output has 0 tokens without a tokenizer."""
    bench.take(bus.event(decode.ISSUED, 10, "a"), bus.event(decode.COMPLETE, 40, "a", bus.output()))
    assert bench.run.log[-1] == ("r1", "complete", {"output_tokens": 0, "output_text": ""}, 40)


@pytest.mark.parametrize("with_complete", [True, False])
def test_an_error_is_the_end_whether_or_not_a_completion_follows(bench: Bench, with_complete: bool) -> None:
    """An error ends a request once, as a failure, whether or not a completion follows."""
    bench.take(
        bus.event(decode.ISSUED, 10, "a"),
        bus.event(decode.FIRST, 20, "a"),
        bus.event("error.client", 30, "a", bus.error("ReadTimeout", "60 s")),
        bus.event("error.generic", 31, "a", bus.error("Again")),
        bus.event(decode.CHUNK, 32, "a"),
    )
    if with_complete:
        bench.take(bus.event(decode.COMPLETE, 40, "a", bus.output("x")))
    assert bench.run.log[1:] == [("r1", "first", None, 20), ("r1", "fail", "ReadTimeout", 30)]
    assert bench.refused == {}


def test_after_the_completion_that_an_error_announces_the_id_is_nobodys(bench: Bench) -> None:
    """A second completion is one too many, and counts as such."""
    done = bus.event(decode.COMPLETE, 40, "a")
    bench.take(bus.event(decode.ISSUED, 10, "a"), bus.event("error.client", 30, "a"), done, done)
    assert bench.run.log[1:] == [("r1", "fail", "client", 30), ("unknown", "complete", {}, 40)]


def test_an_issue_that_is_repeated_is_refused(bench: Bench) -> None:
    """The first one counts; an id that has ended may be used again."""
    bench.take(
        bus.event(decode.ISSUED, 10, "a"),
        bus.event(decode.ISSUED, 15, "a"),
        bus.event(decode.COMPLETE, 20, "a"),
        bus.event(decode.ISSUED, 30, "a"),
    )
    assert [entry[:2] for entry in bench.run.log] == [("r1", "issue"), ("r1", "complete"), ("r2", "issue")]
    assert bench.refused == {"issued_again": 1}


def test_requests_that_nobody_saw_begin(bench: Bench) -> None:
    """Events of a request without an issue go to a request that counts them. An issue without an id is refused."""
    bench.take(
        bus.event(decode.FIRST, 20, "z"),
        bus.event(decode.COMPLETE, 20, "z"),
        bus.event("error.client", 21, "y"),
        bus.event(decode.ISSUED, 22),
    )
    assert [entry[:2] for entry in bench.run.log] == [
        ("unknown", "first"),
        ("unknown", "complete"),
        ("unknown", "fail"),
    ]
    assert bench.refused == {"no_id": 1}


def test_tracking_is_a_window(bench: Bench) -> None:
    """Opened once, closed once, and closed at the end."""
    begin, end = bus.event(decode.TRACKING_BEGINS, 5), bus.event(decode.TRACKING_ENDS, 6)
    bench.take(end, begin, begin, end, begin)
    assert bench.run.log == [("window", "tracked"), ("window", ""), ("window", "tracked")]
    assert bench.refused == {"not_tracking": 1, "tracking_again": 1}
    bench.feed.close()
    assert bench.run.log[-1] == ("window", "")
    assert bench.run.marks[1:-1] == ["tracking tracked began", "tracking tracked ended"] * 2


def test_the_end_is_the_end(bench: Bench) -> None:
    """Messages after the end of the benchmark are counted and change nothing."""
    bench.take(bus.event(decode.ENDED, 50), bus.event(decode.ISSUED, 60, "a"))
    bench.feed.take(bus.single(decode.ISSUED, 70, "b"))
    assert bench.feed.over
    assert bench.run.log == []
    assert bench.refused == {"after_ended": 2}
    bench.feed.close()
    assert bench.said == []


def test_a_benchmark_that_does_not_end_is_said(bench: Bench) -> None:
    """A benchmark that does not end is reported to the user and marked in the run."""
    bench.take(bus.event(decode.INTERRUPTED, 50))
    assert not bench.feed.over
    bench.feed.close()
    assert ["the benchmark sent no end message" in line for line in bench.said] == [True]
    assert (bench.run.counts[SESSIONS, ""], bench.run.counts[ENDED, ""]) == (1, 0)
    assert bench.run.marks == ["session started", "session interrupted", bench.said[0]]


@pytest.mark.parametrize("session", ["", "2"])
def test_an_interruption_is_counted_and_is_not_the_end(session: str) -> None:
    """The end follows it; which session it was is a label."""
    bench = Bench(session=session)
    bench.take(STARTED, bus.event(decode.INTERRUPTED, 50))
    assert not bench.feed.over
    bench.take(bus.event(decode.ENDED, 51))
    bench.feed.close()
    counts = {(SESSIONS, ""): 1, (INTERRUPTED, session): 1, (ENDED, ""): 1}
    assert (bench.run.counts, bench.said) == (counts, [])


def test_another_session_is_told_apart() -> None:
    """A further session has a label on its requests and its name in every mark and message."""
    bench = Bench(session="2")
    bench.take(STARTED, bus.event(decode.TRACKING_BEGINS, 5), bus.event("error.session", 6, "", bus.error("Gone")))
    bench.feed.close()
    assert bench.run.labels == {"session": "2"}
    assert [line for line in (*bench.run.marks, *bench.said) if not line.startswith("session 2")] == []


def test_a_late_joiner_says_so() -> None:
    """A feed that joins late says so once. A feed that never got a message says nothing."""
    bench = Bench()
    bench.take(bus.event(decode.ISSUED, 10, "a"), STARTED)
    assert len(bench.said) == 1
    assert "the benchmark started before the feed" in bench.said[0]
    assert bench.refused == {"started_again": 1}
    assert bench.run.counts[LATE, ""] == 1
    silent = Bench()
    silent.feed.close()
    assert silent.said == []


def test_what_is_no_event_is_counted_by_reason_and_fails_no_request(bench: Bench) -> None:
    """A request whose payload can't be read is still a request."""
    bench.take(b"\xc1", bus.event("sample.invented", 5), bus.event(decode.ISSUED, 10, "a", ["Nobody"]))
    bench.feed.take(b"short")
    bench.feed.take(bus.topic("batch") + b"\xc1")
    bench.take(bus.event(decode.COMPLETE, 20, "a", 5))
    assert bench.refused == {"event": 1, "unknown_event": 1, "data": 2, "frame": 1, "batch": 1}
    assert bench.run.log == [("r1", "issue", {}, 10), ("r1", "complete", {}, 20)]


def test_errors_of_the_session_are_counted_and_the_first_few_said(bench: Bench) -> None:
    """Errors of the session are counted by type, up to a limit. The first few are printed in safe text."""
    for number in range(limits.REASONS + 10):
        bench.take(bus.event("error.session", 5, "", bus.error(f"E{number}", "\x1b[2J" + "x" * 1_000)))
    bench.take(bus.event("error.loadgen", 6))
    errors = {name: count for (kind, name), count in bench.run.counts.items() if kind == ERRORS}
    assert len(errors) == limits.REASONS + 1
    assert sum(errors.values()) == limits.REASONS + 11
    assert len(bench.said) == limits.FEED_WORDS
    assert all(line.isprintable() and len(line) < 300 for line in bench.said)


def test_failed_ids_are_remembered_up_to_a_bound(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it the oldest are forgotten, and what follows them counts as nobody's."""
    monkeypatch.setattr(limits, "FEED_ENDED_IDS", 2)
    for key in "abc":
        bench.take(bus.event(decode.ISSUED, 1, key), bus.event("error.client", 2, key))
    bench.run.log.clear()
    bench.take(*(bus.event(decode.COMPLETE, 3, key) for key in "abc"))
    assert bench.run.log == [("unknown", "complete", {}, 3)]


def test_of_too_many_in_flight_the_oldest_are_given_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest of too many requests in flight are given up, and one message says so.

    They are usually never ended, so the other requests lose nothing.
    """
    monkeypatch.setattr(limits, "FEED_OPEN", 3)
    for number in range(10):
        bench.take(
            bus.event(decode.ISSUED, number, f"never{number}"),
            bus.event(decode.ISSUED, number, "good"),
            bus.event(decode.COMPLETE, number, "good"),
        )
    assert [entry[0] for entry in bench.run.log if entry[1] == "complete"] == [f"r{2 * n}" for n in range(1, 11)]
    given_up = [entry[0] for entry in bench.run.log if entry[1] == "give up"]
    assert given_up == [f"r{2 * number + 1}" for number in range(8)]
    assert bench.said == bench.run.marks[1:] == ["more than 3 requests are in flight: the oldest count as expired"]
    assert len(bench.feed._open) <= 3
    bench.run.log.clear()
    bench.take(bus.event(decode.COMPLETE, 50, "never0"), bus.event(decode.COMPLETE, 51, "never9"))
    assert [entry[:2] for entry in bench.run.log] == [("unknown", "complete"), ("r19", "complete")]


def test_prompts_that_wait_for_their_requests_are_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it the tokens of one are unknown; whatever becomes of a request makes room for others."""
    monkeypatch.setattr(limits, "FEED_OPEN_CHARS", 10)
    monkeypatch.setattr(limits, "FEED_OPEN", 3)
    bench.take(
        bus.event(decode.ISSUED, 1, "a", bus.prompt("12345")),
        bus.event(decode.ISSUED, 2, "b", bus.prompt("12345")),
        bus.event(decode.ISSUED, 3, "c", bus.prompt("1")),
        bus.event(decode.COMPLETE, 4, "a"),
        bus.event(decode.ISSUED, 5, "d", bus.prompt("67890")),
        bus.event("error.client", 6, "b"),
        bus.event(decode.ISSUED, 7, "e", bus.prompt("67890")),
        bus.event(decode.ISSUED, 8, "f", bus.prompt("1")),
        bus.event(decode.ISSUED, 9, "g", bus.prompt("abcde")),
        bus.event(decode.ISSUED, 10, "h", bus.prompt("", [7] * 100)),
    )
    texts = [entry[2].get("input_text") for entry in bench.run.log if entry[1] == "issue"]
    assert texts == ["12345", "12345", None, "67890", "67890", None, "abcde", None]
    assert bench.refused == {"prompts_full": 2}
    assert len([line for line in bench.said if "prompts" in line]) == 1


def test_errors_without_end_are_remembered_by_a_word(bench: Bench) -> None:
    """However long it is that a sender calls them."""
    bench.take(bus.event("error.session", 5, "", bus.error("x" * 100_000)))
    bench.take(bus.event("error.session", 5, "", bus.error("x" * 100_001)))
    assert list(bench.feed._errors) == ["x" * limits.LABEL_VALUE_CHARS]
    assert bench.run.counts[ERRORS, "x" * limits.LABEL_VALUE_CHARS] == 2


def test_every_known_event_is_taken(bench: Bench) -> None:
    """A kind that the decoder lets through and nobody takes would end the feed."""
    for kind in sorted(decode.KNOWN - {decode.ENDED}):
        bench.take(bus.event(kind, 5, "q"))
    assert "unknown_event" not in bench.refused


def test_times_of_a_clock_that_is_ahead_are_moved_back_together() -> None:
    """Times of a clock that is ahead are moved back together, so no event is later than now.

    Moved one by one they would all be now, and rates would have no bound.
    """
    now_ns, day_ns = 10**12, 86_400 * 10**9
    bench = Bench(now_ns=now_ns)
    begin = now_ns + day_ns
    bench.take(
        bus.event(decode.STARTED, begin),
        bus.event(decode.ISSUED, begin + 10, "a"),
        bus.event(decode.ISSUED, begin + 10**10, "b"),
    )
    bench.take(bus.event(decode.COMPLETE, begin + 10**10 + 10**9, "a"))
    issued_ns, newest_ns, ended_ns = [entry[3] for entry in bench.run.log]
    assert (newest_ns - issued_ns, ended_ns - newest_ns) == (10**10 - 10, 10**9)
    assert newest_ns <= ended_ns <= now_ns
    assert [line for line in bench.said if "24 h 0 min ahead" in line] == bench.run.marks[:1]


def test_one_wild_time_in_the_first_message_moves_no_other() -> None:
    """The clock of a machine is that of most of its events."""
    bench = Bench(now_ns=10**12)
    wild = bus.event("error.session", 1_790_000_000 * 10**9)
    bench.take(STARTED, wild, bus.event(decode.ISSUED, 2 * 10**9, "a"))
    bench.take(bus.event(decode.COMPLETE, 5 * 10**9, "a"))
    assert [entry[3] for entry in bench.run.log] == [2 * 10**9, 5 * 10**9]


def test_times_that_were_are_as_they_are() -> None:
    """A bunch may be minutes old, and only the first message is asked: one wild time moves no other."""
    bench = Bench(now_ns=10**12)
    bench.take(STARTED, bus.event(decode.ISSUED, 10**12, "a"))
    bench.take(bus.event(decode.FIRST, 1 << 62, "a"), bus.event(decode.COMPLETE, 10**12, "a"))
    assert [entry[3] for entry in bench.run.log] == [10**12, 1 << 62, 10**12]
    assert bench.said == []
