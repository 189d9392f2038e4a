"""One request: what its calls come to, to the nanosecond, and when they come to nothing."""

from __future__ import annotations

import gc
import pickle
import time
from typing import Any, Final

import numpy as np
import pytest

from telemetry import limits
from telemetry.client.requests import kind
from telemetry.wire.events import Uncounted


def test_a_streamed_request_comes_to_these_figures(program: Any) -> None:
    """Latency, time to the first output, each gap, the tokens and the time for each after the first output."""
    made = program.requests(model="m").issue(at_ns=1_000)
    told = [
        made.first(at_ns=1_400),
        made.chunk(at_ns=1_500),
        made.chunk(3, at_ns=1_850),
        made.complete(at_ns=2_000),
    ]
    assert told == [1_400, 1_500, 1_850, 2_000]
    assert program.events == [
        ("llm.issued", {"model": "m"}, 1_000, 1.0),
        ("llm.completed", {"model": "m"}, 2_000, 1.0),
        ("llm.latency", {"model": "m"}, 2_000, 1_000.0),
        ("llm.ttft", {"model": "m"}, 1_400, 400.0),
        ("llm.itl", {"model": "m"}, 1_500, 100.0),
        ("llm.itl", {"model": "m"}, 1_850, 350.0),
        ("llm.output_tokens", {"model": "m"}, 2_000, 5.0),
        ("llm.tpot", {"model": "m"}, 2_000, 150.0),
    ]


def test_an_outcome_is_one_call_to_the_buffer(watched: Any) -> None:
    """All of its rows or none; what came before the outcome is held until then."""
    made = watched.requests().issue(planned=5, at_ns=10)
    made.first(at_ns=11)
    for at in range(12, 40):
        made.chunk(at_ns=at)
    assert len(watched.puts) == 1
    made.complete(finish_reason="stop", at_ns=50)
    assert len(watched.puts) == 2
    assert all(type(number) in (int, float) for number in watched.puts[1])
    assert all(type(number) is float for number in watched.puts[1][2::3] + watched.puts[1][::3])


def test_without_output_in_between_there_is_only_a_latency(program: Any) -> None:
    """A request without output in between records a latency and no other figures."""
    program.requests().issue(at_ns=10).complete(at_ns=30)
    assert [name for name, *_ in program.events] == ["llm.issued", "llm.completed", "llm.latency"]


def test_the_first_output_is_the_first_that_is_told(program: Any) -> None:
    """A chunk without a first is one, and a second first is a chunk."""
    made = program.requests().issue(at_ns=0)
    made.chunk(2, at_ns=5)
    made.first(at_ns=8)
    made.complete(at_ns=11)
    assert (program.values("llm.ttft"), program.values("llm.itl")) == ([5.0], [3.0])
    assert (program.values("llm.output_tokens"), program.values("llm.tpot")) == ([3.0], [6.0])


@pytest.mark.parametrize(
    ("first", "told", "output", "per_token"),
    [(1, None, [1.0], []), (4, 4, [4.0], []), (4, 2, [2.0], []), (1, 5, [5.0], [2.5]), (0, 4, [4.0], [2.5])],
)
def test_tokens_are_what_complete_is_told(
    program: Any, first: int, told: int | None, output: list[float], per_token: list[float]
) -> None:
    """The tokens given to `complete` win over the sum.

    The time per token covers only tokens after the first output, if there are any.
    """
    made = program.requests().issue(at_ns=0)
    made.first(first, at_ns=10)
    made.complete(told, at_ns=20)
    assert (program.values("llm.output_tokens"), program.values("llm.tpot")) == (output, per_token)


def test_a_planned_request_has_both_latencies(program: Any) -> None:
    """One that goes out before its time has waited for nothing, also if its answer is there before that."""
    llm = program.requests()
    llm.issue(planned=100, at_ns=250).complete(at_ns=300)
    llm.issue(planned=100, at_ns=90).complete(at_ns=120)
    llm.issue(planned=100, at_ns=50).complete(at_ns=60)
    assert program.values("llm.latency") == [50.0, 30.0, 10.0]
    assert program.values("llm.latency_corrected") == [200.0, 30.0, 10.0]
    assert program.values("llm.queue_delay") == [150.0, 0.0, 0.0]


def test_a_failure_is_in_no_figure_of_successes(program: Any) -> None:
    """The reason of a failure is a label, and its latency has a series of its own."""
    made = program.requests().issue(planned=1, input_tokens=7, at_ns=10)
    made.first(at_ns=12)
    made.chunk(at_ns=13)
    program.take()
    assert made.fail("timeout", at_ns=40) == 40
    assert program.events == [
        ("llm.failed", {"reason": "timeout"}, 40, 1.0),
        ("llm.failed_latency", {}, 40, 30.0),
    ]


def test_calls_after_the_outcome_are_counted_and_change_nothing(program: Any) -> None:
    """Each returns its time as before."""
    made = program.requests().issue(at_ns=0)
    made.complete(at_ns=9)
    program.take()
    calls = [made.first, made.chunk, made.complete, made.fail]
    assert [call(at_ns=at) for at, call in enumerate(calls, 10)] == [10, 11, 12, 13]
    assert program.events == [("llm.after_end", {}, at, 1.0) for at in range(10, 14)]


def test_times_are_those_of_the_monotonic_clock(program: Any) -> None:
    """Times that are not given are the current times of the monotonic clock, in order."""
    before = time.monotonic_ns()
    made = program.requests().issue()
    told = [made.first(), made.chunk(), made.chunk(2), made.complete()]
    assert sorted(told) == told
    assert before <= program.events[0][2] <= told[0] <= told[-1] <= time.monotonic_ns()


def test_a_block_completes_or_fails(program: Any) -> None:
    """A block that raises fails with the exception's type as its reason, and the exception goes on.

    An outcome set inside the block stays.
    """
    llm = program.requests()
    with llm.issue() as whole:
        whole.first()
    with pytest.raises(TimeoutError), llm.issue():
        raise TimeoutError
    with llm.issue() as ended:
        ended.complete(finish_reason="length")
    kinds = [(name, labels) for name, labels, *_ in program.events if name in ("llm.completed", "llm.failed")]
    assert kinds == [
        ("llm.completed", {}),
        ("llm.failed", {"reason": "TimeoutError"}),
        ("llm.completed", {"finish": "length"}),
    ]
    assert program.values("llm.after_end") == []


def test_values_that_are_none_cost_their_neighbours_nothing(program: Any) -> None:
    """Each is counted; a time that is none is now, tokens that are none are not there."""
    odd: Any = "seven"
    none: Any = b"7"
    made = program.requests().issue(planned=odd, input_tokens=odd, input_text=none, turn=odd)
    assert made.first(odd, at_ns=odd) <= time.monotonic_ns()
    made.chunk(odd)
    made.chunk(-1)
    made.chunk(1 << 40)
    made.chunk(2, at_ns=-1)
    made.complete(float("nan"), output_text=none, at_ns=odd)
    assert program.recorders.refused.total == 13
    names = [name for name, *_ in program.events]
    assert names == [f"llm.{word}" for word in ("issued", "completed", "latency", "ttft", *["itl"] * 4)]


def test_a_request_may_be_given_up(program: Any) -> None:
    """A request that is given up expires, once, like one that never ended. Its conversation hears of no end."""
    llm = program.requests()
    made = llm.issue(key="k", conversation="c", at_ns=0)
    program.take()
    made.give_up()
    made.give_up()
    assert [(name, value) for name, _, _, value in program.events] == [("llm.expired", 1.0)]
    assert (llm.in_flight, llm._conversations.end("c").ended_ns) == (0, -1)
    made.complete(at_ns=5)
    assert program.values("llm.after_end") == [1.0]


class Odd:
    """A value that raises whatever is asked of it."""

    def __init__(self, error: type[BaseException]) -> None:
        self._error = error

    def _fail(self, *_: object) -> Any:
        raise self._error

    __str__ = __repr__ = __bool__ = __float__ = __index__ = __eq__ = __ne__ = __format__ = _fail
    __hash__ = object.__hash__


TEXT: Final = type("Text", (str,), {"encode": lambda self, **_: 5})
ODD: Final[dict[str, tuple[Any, str]]] = {
    "array": (np.arange(2), "[0 1]"),
    "raises": (Odd(ValueError), "other"),
    "bytes": (b"\xff", "b'\\xff'"),
    "list": ([], "[]"),
    "text": (TEXT("x"), "x"),
    "odd text": (type("Named", (), {"__str__": lambda self: TEXT("x")})(), "other"),
}
"""What is no text and no number, and the label that it makes."""
OUTCOME: Final = {"finish": "finish_reason", "tokens": "output_tokens"}


@pytest.mark.parametrize(("odd", "label"), ODD.values(), ids=ODD)
def test_an_outcome_counts_whatever_it_is_told(program: Any, odd: Any, label: str) -> None:
    """A claimed request that raised would be neither in flight nor ended."""
    llm = program.requests()
    for end in (
        lambda made: made.fail(odd),
        lambda made: made.complete(finish_reason=odd),
        lambda made: made.complete(output_tokens=odd),
        lambda made: made.complete(output_text=odd),
    ):
        made = llm.issue(key="k")
        end(made)
        assert llm.in_flight == 0
        assert llm.find("k") is not made
    assert (len(program.values("llm.failed")), len(program.values("llm.completed"))) == (1, 3)
    assert (len(program.values("llm.failed_latency")), len(program.values("llm.latency"))) == (1, 3)
    told = [labels.values() for name, labels, *_ in program.events if name in ("llm.failed", "llm.completed")]
    assert [list(values) for values in told] == [[label], [label], [], []]


@pytest.mark.parametrize("odd", [odd for odd, _ in ODD.values()], ids=ODD)
def test_output_is_there_whatever_its_tokens_are(program: Any, odd: Any) -> None:
    """A number of tokens that is none is none, and counted; the times beside it are what they are."""
    made = program.requests().issue(at_ns=0)
    for at, call in enumerate((made.first, made.chunk, made.chunk, made.first), 1):
        assert call(odd, at_ns=at) == at
    made.chunk(2, at_ns=5)
    assert program.recorders.refused.total == 4
    made.complete(at_ns=9)
    assert (program.values("llm.ttft"), program.values("llm.itl")) == ([1.0], [1.0] * 4)
    assert program.values("llm.output_tokens") == [2.0]


def test_tokens_may_be_a_whole_number_of_any_type(program: Any) -> None:
    """Tokens may be whole numbers of any type. Computed ones are often floats, and a model's own are arrays."""
    made = program.requests().issue(at_ns=0)
    for at, tokens in enumerate((1.0, 2.0, np.int64(3), np.float32(4), True, 1, 1.5, float("inf")), 1):
        made.chunk(tokens, at_ns=at)
    made.complete(at_ns=10)
    assert program.values("llm.output_tokens") == [12.0]
    assert program.recorders.refused.total == 2


@pytest.mark.parametrize("word", ["reason", "finish", "tokens"])
def test_what_interrupts_an_outcome_leaves_the_request_in_flight(program: Any, word: str) -> None:
    """An interrupted outcome leaves the request in flight.

    The caller's values are read before the request is claimed.
    """
    llm, odd = program.requests(), Odd(KeyboardInterrupt)
    made = llm.issue(key="k", at_ns=0)
    program.take()
    with pytest.raises(KeyboardInterrupt):
        made.fail(odd) if word == "reason" else made.complete(**{OUTCOME[word]: odd})
    assert (llm.in_flight, llm.find("k"), program.take()) == (1, made, [])
    made.complete(at_ns=5)
    assert program.values("llm.latency") == [5.0]


def test_what_interrupts_a_chunk_changes_nothing(program: Any) -> None:
    """An interrupted chunk changes no figure.

    Neither its time nor an earlier one is recorded twice or without its tokens.
    """
    made, odd = program.requests().issue(at_ns=0), Odd(KeyboardInterrupt)
    for call, at in ((made.first, 1), (made.chunk, 2), (made.chunk, 3)):
        with pytest.raises(KeyboardInterrupt):
            call(odd, at_ns=at + 100)
        call(at_ns=at)
    made.complete(at_ns=9)
    assert (program.values("llm.ttft"), program.values("llm.itl")) == ([1.0], [1.0, 1.0])
    assert program.values("llm.output_tokens") == [3.0]


def test_a_long_stream_holds_a_bounded_number_of_times(program: Any, hold: Any) -> None:
    """Gaps beyond it are recorded before the outcome; no figure changes."""
    hold(4)
    made = program.requests().issue(at_ns=0)
    made.first(2, at_ns=10)
    for number in range(11):
        made.chunk(number, at_ns=20 + number * number)
    assert 0 < len(program.values("llm.itl")) < 11
    made.complete(at_ns=200)
    assert program.values("llm.itl") == [10.0, *[float(2 * number + 1) for number in range(10)]]
    assert (program.values("llm.output_tokens"), program.values("llm.tpot")) == ([57.0], [190 / 55])


def test_a_text_may_be_of_a_type_of_its_own(program: Any) -> None:
    """A text may be of a subclass of `str`, such as a template engine's. The text itself is counted."""
    made = type("Markup", (str,), {})
    program.requests().issue(input_text=made("ask")).complete(output_text=made("answer"))
    assert [record.text for record in program.records] == ["ask", "answer"]


def test_texts_go_to_whoever_counts_their_tokens(program: Any) -> None:
    """The counter of tokens gets each text with what the time per token is made of.

    It also records the rows of tokens.
    """
    made = program.requests(model="m").issue(input_text="ask", at_ns=0)
    made.first(2, at_ns=10)
    made.chunk(at_ns=12)
    made.complete(output_text="answer", at_ns=40)
    asked, answered = program.records
    assert asked == Uncounted(text="ask", tokens="llm.input_tokens", time_ns=40, labels={"model": "m"})
    assert answered == Uncounted(
        text="answer",
        tokens="llm.output_tokens",
        time_ns=40,
        labels={"model": "m"},
        per_token="llm.tpot",
        span_ns=30,
        skipped=2,
    )
    assert program.values("llm.output_tokens") == program.values("llm.tpot") == []


def test_a_number_of_tokens_wins_over_a_text(program: Any) -> None:
    """A text with a number of tokens is not sent for counting. A failed request's text is not sent either."""
    llm = program.requests()
    llm.issue(input_tokens=3, input_text="a b c").complete(2, output_text="d e")
    llm.issue(input_text="a").fail()
    assert program.records == []
    assert (program.values("llm.input_tokens"), program.values("llm.output_tokens")) == ([3.0], [2.0])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x" * (limits.UNCOUNTED_CHARS + 1), "262,145 characters, the limits are 262,144 characters"),
        ("\U0001f600" * limits.UNCOUNTED_CHARS, "characters and one MiB of UTF-8 including its labels"),
        ("\ud800", "surrogates not allowed"),
    ],
    ids=["long", "bytes", "surrogate"],
)
def test_a_text_that_fits_in_no_record_is_counted_and_said_once(
    program: Any, said: Any, text: str, why: str
) -> None:
    """A text that fits in no record is named once for each of the two, with a remedy.

    The rest of its request is recorded.
    """
    llm = program.requests()
    for _ in range(2):
        llm.issue(input_text=text).complete(output_text=text)
    assert (program.records, program.unencodable.total) == ([], 4)
    assert len(program.values("llm.latency")) == 2
    lines = said()
    assert [line.partition("can't")[0] for line in lines] == [
        "telemetry: llm.input_tokens ",
        "telemetry: llm.output_tokens ",
    ]
    for line, argument in zip(lines, ("`input_tokens=`", "`output_tokens=`"), strict=True):
        assert why in line
        assert argument in line


def test_a_reason_that_says_nothing_is_an_error(program: Any) -> None:
    """An empty reason of a failure counts as `error`, like no reason. An empty finish reason counts as none."""
    llm = program.requests()
    for reason in ("", None):
        llm.issue().fail(reason)
        llm.issue().complete(finish_reason=reason)
    told = [labels for name, labels, *_ in program.events if name in ("llm.failed", "llm.completed")]
    assert told == [{"reason": "error"}, {}] * 2


def test_a_total_of_tokens_may_have_a_fraction(program: Any) -> None:
    """A total of tokens keeps its fraction, while the tokens of a piece are whole."""
    made = program.requests().issue(input_tokens=1.5)
    made.first(2.5)
    made.complete(output_tokens=2.5)
    assert (program.values("llm.input_tokens"), program.values("llm.output_tokens")) == ([1.5], [2.5])
    assert program.recorders.refused.total == 1


def test_the_collector_never_looks_at_requests(program: Any) -> None:
    """Nor can one be part of a cycle for ever: what was the caller's is let go with the outcome."""
    llm = program.requests()
    made = llm.issue(key="k", conversation="c", input_text="t")
    assert not gc.is_tracked(made)
    assert not gc.is_tracked(llm._open)
    made.complete()
    assert (made._key, made._extras, made._times) == (None, None, None)


def test_a_request_stays_in_its_process(program: Any) -> None:
    """A request can't be pickled. Its repr names its kind and whether it is in flight."""
    made = program.requests().issue()
    assert repr(made) == "<Request of 'llm', in flight>"
    with pytest.raises(TypeError, match="a request can only be used in the process that issued it"):
        pickle.dumps(made)
    made.fail()
    assert repr(made) == "<Request of 'llm', ended>"
    assert isinstance(made, kind.Request)


@pytest.mark.parametrize(
    ("times", "left_out", "kept"),
    [
        ((1_400, None, 1_300), 1.0, {"latency": [300.0], "ttft": [400.0], "output_tokens": [2.0]}),
        ((900, None, 1_300), 1.0, {"latency": [300.0], "output_tokens": [2.0], "tpot": [400.0]}),
        (
            (1_200, 1_100, 1_300),
            1.0,
            {"latency": [300.0], "ttft": [200.0], "output_tokens": [2.0], "tpot": [100.0]},
        ),
        ((1_200, None, 900), 2.0, {"ttft": [200.0], "output_tokens": [2.0]}),
    ],
)
def test_times_out_of_order_cost_the_figure_between_them_and_no_other(
    program: Any, times: tuple[int, int | None, int], left_out: float, kept: dict[str, list[float]]
) -> None:
    """The request counts as completed, no row is below 0, and what is left out is counted."""
    first, chunk, complete = times
    made = program.requests().issue(at_ns=1_000)
    made.first(at_ns=first)
    if chunk is not None:
        made.chunk(at_ns=chunk)
    made.complete(output_tokens=2, at_ns=complete)
    assert program.values("llm.completed") == [1.0]
    assert program.values("llm.out_of_order") == [left_out]
    words = ("latency", "ttft", "itl", "output_tokens", "tpot")
    assert {word: found for word in words if (found := program.values(f"llm.{word}"))} == kept


def test_a_failure_before_its_issue_is_a_failure_without_a_latency(program: Any) -> None:
    """A failure before its issue has no latency, and the missing value is counted."""
    program.requests().issue(at_ns=1_000).fail("late", at_ns=900)
    counted = [program.values(f"llm.{word}") for word in ("failed", "failed_latency", "out_of_order")]
    assert counted == [[1.0], [], [1.0]]


def test_gaps_out_of_order_are_left_out_of_answers_without_end_too(program: Any, hold: Any) -> None:
    """Gaps that are recorded on the way are looked at like those of the end."""
    hold(2)
    made = program.requests().issue(at_ns=0)
    for at in (10, 8, 20, 15, 30):
        made.chunk(at_ns=at)
    made.complete(at_ns=40)
    assert program.values("llm.itl") == [12.0, 15.0]
    assert sum(program.values("llm.out_of_order")) == 2.0


def test_a_text_whose_first_output_came_after_the_end_has_tokens_and_no_time_for_each(program: Any) -> None:
    """A text whose first output came after the end has no time per token.

    The missing value is counted, as with known tokens.
    """
    made = program.requests().issue(at_ns=0)
    made.first(at_ns=30)
    made.complete(output_text="some words", at_ns=20)
    (record,) = program.records
    assert (record.text, record.per_token) == ("some words", "")
    assert program.values("llm.out_of_order") == [1.0]


def test_a_conversation_that_ends_before_it_begins_has_no_duration(program: Any) -> None:
    """A conversation that ends before it begins has turns but no duration."""
    llm = program.requests()
    llm.issue(conversation="c", at_ns=100).fail(at_ns=90)
    program.take()
    llm.end_conversation("c", at_ns=95)
    assert [name for name, *_ in program.events] == ["llm.conversation.turns", "llm.out_of_order"]


@pytest.mark.parametrize("full", [4, 1_000])
@pytest.mark.parametrize(
    "pieces", [[None], [1, None], [None, 1], [2, None, 3], [None, None, 1, 1, 1, 1], [None] * 9]
)
def test_where_the_tokens_of_a_piece_are_unknown_so_is_their_sum(
    program: Any, hold: Any, pieces: list[int | None], full: int
) -> None:
    """All that is known of times is there, also of answers without end, and nothing counts as lost."""
    hold(full)
    made = program.requests().issue(at_ns=0)
    for at, tokens in enumerate(pieces, 1):
        made.chunk(tokens, at_ns=at)
    made.complete(at_ns=40)
    assert (program.values("llm.output_tokens"), program.values("llm.tpot")) == ([], [])
    assert len(program.values("llm.itl")) == len(pieces) - 1
    assert program.recorders.refused.total == 0


def test_a_total_is_known_however_little_is_known_of_pieces(program: Any) -> None:
    """A first piece of unknown tokens counts as one of them for the time per token."""
    made = program.requests().issue(at_ns=0)
    made.first(None, at_ns=10)
    made.chunk(None, at_ns=12)
    made.complete(5, at_ns=30)
    assert (program.values("llm.output_tokens"), program.values("llm.tpot")) == ([5.0], [5.0])
