"""Good requests: counted at their outcome, with limits of the program, of the environment, or of their own."""

from __future__ import annotations

import copyreg
from collections import Counter
from inspect import signature
from typing import Any

import pytest

from telemetry.client.requests.kind import Requests
from telemetry.common import slo
from telemetry.errors import InstrumentError, UsageError
from telemetry.wire.codec import decode_record
from telemetry.wire.events import Params, Uncounted

MS = 10**6


def limited(program: Any, slo_text: str, **labels: object) -> Any:
    return program.kinds.requests("llm", labels, slo_text=slo_text)


def counted(program: Any) -> Counter[str]:
    """Increments of the counters of good requests, by key; that of all limits together is `good`."""
    found: Counter[str] = Counter()
    for name, labels, _, value in program.events:
        if name in ("llm.good", "llm.met"):
            found[labels.get("slo", "good")] += int(value)
    return found


def stream(made: Any, *pieces_ms: int, tokens: int = 1, **outcome: Any) -> None:
    """Pieces at these times, then the end one ms after the last."""
    for at in pieces_ms:
        made.chunk(tokens, at_ns=at * MS)
    made.complete(at_ns=(pieces_ms[-1] + 1 if pieces_ms else 1) * MS, **outcome)


def test_counters_are_there_from_the_first_issue(program: Any) -> None:
    """The counters begin at 0, so that a lack of good requests differs from a lack of limits."""
    limited(program, "ttft:200 tpot:50").issue()
    made = [(each.name, each.labels, each.unit) for each in program.definitions[3:]]
    assert made == [
        ("llm.good", {}, "requests"),
        ("llm.met", {"slo": "ttft"}, "requests"),
        ("llm.met", {"slo": "tpot"}, "requests"),
    ]
    assert counted(program) == Counter()


def test_a_request_is_good_if_it_meets_all_limits(program: Any) -> None:
    """Each limit is counted for itself; equal is met."""
    llm = limited(program, "ttft:200 tpot:50 gap:60")
    stream(llm.issue(at_ns=0), 200, 250, 299)  # 100 ms for two tokens
    stream(llm.issue(at_ns=0), 201, 250, 299)
    stream(llm.issue(at_ns=0), 200, 250, 300)
    stream(llm.issue(at_ns=0), 200, 261)
    assert counted(program) == {"good": 1, "ttft": 3, "tpot": 2, "gap": 3}


@pytest.mark.parametrize("outcome", ["fail", "expire", "none"])
def test_only_completed_requests_are_good(program: Any, outcome: str) -> None:
    """However quickly they fail."""
    made = limited(program, "e2el:1000").issue()
    if outcome == "fail":
        made.fail()
    elif outcome == "expire":
        made.give_up()
    assert counted(program) == Counter()


def test_a_request_may_have_limits_of_its_own(program: Any) -> None:
    """The limits of a request replace those of its kind key by key."""
    llm = limited(program, "ttft:200 e2el:500")
    stream(llm.issue(at_ns=0, slo="ttft:1s"), 400)
    stream(llm.issue(at_ns=0, slo="gap:5"), 400, 401)
    stream(llm.issue(at_ns=0, conversation="c", slo="ttft:1s"), 400)
    assert counted(program) == {"good": 2, "ttft": 2, "e2el": 3, "gap": 1}


def test_requests_of_a_kind_without_limits_may_have_some(program: Any) -> None:
    """All requests are judged from the first one with limits on.

    A request without limits is good if it completes.
    """
    llm = program.requests()
    llm.issue().complete()
    stream(llm.issue(at_ns=0, slo="ttft:100"), 50)
    stream(llm.issue(at_ns=0, slo="ttft:100"), 150)
    llm.issue().complete()
    assert counted(program) == {"good": 2, "ttft": 1}


@pytest.mark.parametrize("text", ["ttft", "itl:5", "", 5, ["ttft:-1"], object()])
def test_limits_of_a_request_that_cannot_be_read_are_ignored(program: Any, said: Any, text: Any) -> None:
    """Unreadable limits count as refused, and one line says so. The request has the limits of its kind."""
    llm = limited(program, "ttft:100")
    for _ in range(2):
        stream(llm.issue(at_ns=0, slo=text), 50)
    assert (counted(program)["good"], program.recorders.refused.total) == (2, 2)
    assert ["the limits of a request of 'llm' are ignored" in line for line in said()] == [True]


def test_a_window_has_its_own_counters(program: Any) -> None:
    """A request belongs to the window of its issue."""
    llm = limited(program, "ttft:100")
    with program.tracking("measured"):
        made = llm.issue(at_ns=0)
    stream(made, 50)
    labels = [labels for name, labels, *_ in program.events if name in ("llm.good", "llm.met")]
    assert labels == [{"window": "measured", "slo": "ttft"}, {"window": "measured"}]


def test_limits_that_come_later_are_for_requests_in_flight_too(program: Any) -> None:
    """The same limits may be given again, others may not."""
    llm = program.requests()
    made = llm.issue(at_ns=0, slo="gap:5")
    assert limited(program, "ttft:100") is llm
    assert limited(program, "time_to_first_token:0.1s") is llm
    with pytest.raises(InstrumentError, match="'ttft:100ms' already"):
        limited(program, "ttft:200")
    stream(made, 50)
    stream(llm.issue(at_ns=0), 150)
    assert counted(program) == {"good": 1, "gap": 1}
    with pytest.raises(UsageError, match="is not the key of a limit"):
        limited(program, "latncy:5")


@pytest.mark.parametrize("word", ["good", "met"])
def test_a_request_may_end_while_limits_come(program: Any, monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    """A request may end in another thread between the limits and their counters. No call raises."""
    llm = limited(program, "")
    made, row_id = llm.issue(at_ns=0), program.catalog.row_id

    def slow(kind: str, name: str, *rest: Any, **more: Any) -> float:
        if name == f"llm.{word}":
            made.complete(at_ns=MS)
        return float(row_id(kind, name, *rest, **more))

    monkeypatch.setattr(program.catalog, "row_id", slow)
    limited(program, "e2el:1")
    assert len(program.values("llm.completed")) == 1
    stream(llm.issue(at_ns=0))
    assert counted(program)["good"] in (1, 2)


def test_limits_may_come_while_the_first_request_is_issued(program: Any) -> None:
    """Limits may come in another thread just before the counter of issues is known. No call raises."""
    llm = limited(program, "")
    made = llm.issue(at_ns=0)
    issued = llm._family.ids.pop("issued")
    limited(program, "e2el:1")
    llm._family.ids["issued"] = issued
    stream(made)
    assert counted(program) == {"good": 1, "e2el": 1}


def test_texts_are_judged_once_their_tokens_are_counted(program: Any) -> None:
    """The worker is told the limit for the time per token, and whether all others are met."""
    llm = limited(program, "ttft:100 tpot:50")
    stream(llm.issue(at_ns=0), 50, 80, output_text="some words")
    stream(llm.issue(at_ns=0), 150, 180, output_text="some words")
    assert counted(program) == {"ttft": 1}
    texts = [record for record in program.records if isinstance(record, Uncounted)]
    assert [(text.tpot_limit_ns, text.otherwise_good) for text in texts] == [(50 * MS, True), (50 * MS, False)]
    stream(llm.issue(at_ns=0), 50, 80, output_text="some words", output_tokens=2)
    assert counted(program) == {"ttft": 2, "tpot": 1, "good": 1}


def test_the_largest_gap_of_a_long_answer(program: Any, hold: Any) -> None:
    """Gaps that are no longer held count too."""
    hold(2)
    llm = limited(program, "gap:20")
    stream(llm.issue(at_ns=0), 1, 22, 23, 24, 25, 26)
    stream(llm.issue(at_ns=0), 1, 21, 23, 24, 25, 26)
    assert counted(program) == {"good": 1, "gap": 1}


def test_the_environment_replaces_limits_of_the_program(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Key by key, for every kind or for one."""
    monkeypatch.setenv(slo.GOODPUT_VARIABLE, "tpot:50 llm=ttft:300")
    assert limited(program, "ttft:200 e2el:1s").limits == slo.parse("ttft:300 tpot:50 e2el:1s")
    assert program.requests("other").limits == slo.parse("tpot:50")


def test_limits_of_the_environment_that_cannot_be_read(
    program: Any, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says that the limits of the environment are ignored. A program does not fail because of them."""
    monkeypatch.setenv(slo.GOODPUT_VARIABLE, "tpot=50 once")
    assert [program.requests(name).limits for name in "ab"] == [{}, {}]
    assert ["TELEMETRY_GOODPUT is ignored" in line for line in said()] == [True]


def test_limits_are_parameters_of_the_run(program: Any) -> None:
    """Sent when they are set, and again to the next producer. Kinds with labels have a parameter each."""
    limited(program, "ttft:200 tps:20")
    limited(program, "ttft:100", model="m")
    expected = [{"slo.llm": "ttft:200ms tpot:50ms"}, {"slo.llm{model=m}": "ttft:100ms"}]
    assert [record.values for record in program.records if isinstance(record, Params)] == expected
    found = [decode_record(record) for record in program.kinds.declarations()]
    assert [record.values for record in found if isinstance(record, Params)] == expected


def test_a_condition_to_stop_is_a_parameter_of_the_run(program: Any) -> None:
    """The condition is sent once, and again to the next producer.

    A report shows from it who asked for early stopping.
    """
    for _ in range(2):
        program.kinds.requests("llm", {}, stop_when="p99 known")
    expected = [{"stop_when.llm": "p99 known"}]
    assert [record.values for record in program.records if isinstance(record, Params)] == expected
    found = [decode_record(record) for record in program.kinds.declarations()]
    assert [record.values for record in found if isinstance(record, Params)] == expected


def test_limits_go_with_a_kind_to_another_process(program: Any) -> None:
    """Limits go with a kind to another process, as `expire_s` and `stop_when` do."""
    make, arguments = copyreg.dispatch_table[Requests](limited(program, "ttft:200"))  # type: ignore[misc]
    assert dict(zip(signature(make).parameters, arguments, strict=True))["slo"] == "ttft:200ms"
