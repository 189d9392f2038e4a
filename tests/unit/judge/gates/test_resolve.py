"""Names in a gate → the instruments of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.judge.gates.fakes import ERRORS, FAST, HEAT, REQUESTS, SLOW, TTFT, counter

from telemetry.errors import UsageError
from telemetry.judge.gates.catalog import CounterSum
from telemetry.judge.gates.evidence import GateInstrument
from telemetry.judge.gates.parser import parse
from telemetry.judge.gates.resolve import bindings, each, elsewhere
from telemetry.judge.gates.value import Unknown


def texts(gate: str, *instruments: GateInstrument) -> list[str]:
    return [binding.text for binding in bindings(parse(gate), instruments)]


def unknown(gate: str, *instruments: GateInstrument) -> str:
    with pytest.raises(Unknown) as caught:
        bindings(parse(gate), instruments)
    return str(caught.value)


def test_labels_choose() -> None:
    """Given labels have to be there, and other labels may. An empty label must not be there."""
    more = replace(FAST, labels=(("host", "a"), ("route", "/fast")))
    assert texts("p99(ttft{route=/fast}) < 1", FAST, SLOW) == ["p99(ttft{route=/fast}) < 1"]
    assert texts("p99(ttft) < 1", FAST, SLOW) == [
        "p99(ttft{route=/fast}) < 1",
        "p99(ttft{route=/slow}) < 1",
    ]
    assert texts("p99(ttft{host=a}) < 1", FAST, SLOW, more) == ["p99(ttft{host=a}) < 1"]
    both = texts("p99(ttft{route=/fast}) < 1", FAST, more, SLOW)
    assert both == ['p99(ttft{host="",route=/fast}) < 1', "p99(ttft{host=a,route=/fast}) < 1"]
    for text, instrument in zip(both, (FAST, more), strict=True):
        (binding,) = bindings(parse(text), [FAST, more, SLOW])
        assert (list(binding.bound.values()), binding.text) == ([instrument], text)


def test_those_of_the_same_labels_belong_together() -> None:
    """Instruments with the same labels belong together, and one instrument belongs to all.

    Labels that the gate gives don't count.
    """
    errors = [GateInstrument("counter", "errors", (("code", "500"), ("route", route))) for route in ("/a", "/b")]
    requests = [GateInstrument("counter", "requests", (("route", route),)) for route in ("/b", "/a")]
    found = bindings(parse("rate(errors{code=500})/rate(requests) < 1%"), [*errors, *requests, HEAT])
    assert [binding.text for binding in found] == [
        "rate(errors{code=500,route=/a}) / rate(requests{route=/a}) < 1%",
        "rate(errors{code=500,route=/b}) / rate(requests{route=/b}) < 1%",
    ]
    for binding in found:
        first, second = binding.bound.values()
        assert dict(first.labels)["route"] == dict(second.labels)["route"]
    shared = bindings(parse("-rate(errors)/rate(requests) < 1%"), [*errors, REQUESTS])
    assert [REQUESTS in binding.bound.values() for binding in shared] == [True, True]


def test_instruments_of_other_labels_do_not_go_together() -> None:
    """Errors of one route say nothing of the requests of another, however few of both there are."""
    slow = GateInstrument("counter", "errors", (("route", "/slow"),))
    requests = [GateInstrument("counter", "requests", (("route", route),)) for route in ("/fast", "/slow")]
    found = bindings(parse("rate(errors)/rate(requests) < 1%"), [slow, *requests])
    assert [(binding.text, binding.missing) for binding in found] == [
        (
            "rate(errors{route=/fast}) / rate(requests{route=/fast}) < 1%",
            "errors{route=/fast} is missing for the other terms",
        ),
        ("rate(errors) / rate(requests{route=/slow}) < 1%", ""),
    ]
    found = bindings(parse("rate(errors)/rate(requests) < 1%"), [slow, requests[0]])
    assert all(binding.missing for binding in found)
    given = "rate(errors{route=/slow})/rate(requests{route=/fast}) < 1%"
    assert [binding.missing for binding in bindings(parse(given), [slow, *requests])] == [""]


def test_what_has_no_label_is_no_place_of_what_has_it() -> None:
    """Though it goes with what never has that label, as do all others."""
    errors = [counter("errors"), counter("errors", route="/a")]
    found = bindings(parse("rate(errors)/rate(requests) < 1%"), [*errors, counter("requests", route="/a")])
    assert [binding.missing for binding in found] == ['requests{route=""} is missing for the other terms', ""]
    found = bindings(parse("rate(errors)/rate(requests) < 1%"), [*errors, REQUESTS])
    assert [list(each(binding.bound)) for binding in found] == [[errors[0], REQUESTS], [errors[1], REQUESTS]]


def test_those_that_contradict_each_other_go_with_nothing() -> None:
    """Instruments with contradictory labels go together with none, also if a third term has several."""
    calls = [counter("calls", host=host) for host in "12"]
    known = [counter("errors", route="/a"), counter("requests", route="/b"), *calls]
    found = bindings(parse("value(errors)/value(requests)/value(calls) < 1%"), known)
    assert all(binding.missing for binding in found)


def test_a_set_that_lacks_one_says_so() -> None:
    """A set that lacks an instrument is still a result and says what is missing."""
    errors = [GateInstrument("counter", "errors", (("route", route),)) for route in ("/a", "/b")]
    requests = [GateInstrument("counter", "requests", (("route", route),)) for route in ("/a", "/c")]
    found = bindings(parse("rate(errors)/rate(requests) < 1%"), [*errors, *requests])
    assert [binding.missing for binding in found] == [
        "",
        "requests{route=/b} is missing for the other terms",
        "errors{route=/c} is missing for the other terms",
    ]


def test_what_never_happened_to_requests_can_be_counted() -> None:
    """Outcomes that never happened count for known kinds, windows and figures. Other functions need values."""
    issued = counter("llm.issued", "requests", window="w")
    for function, word in (
        ("count", "latency"),
        ("rate", "ttft"),
        ("throughput", "output_tokens"),
        ("value", "after_end"),
        ("count", "failed"),
    ):
        gate = f"{function}(llm.{word}{{window=w}}) < 1"
        (binding,) = bindings(parse(gate), [issued])
        (never,) = each(binding.bound)
        assert (binding.text, never.name, never.labels) == (gate, f"llm.{word}", issued.labels)
        there = [issued] if never.kind == "counter" else [issued, never]
        assert list(each(elsewhere(binding.bound, there, "the baseline"))) == [never]
        with pytest.raises(Unknown, match=f"the baseline has no {never.kind} llm.{word}"):
            elsewhere(binding.bound, [replace(issued, labels=())], "the baseline")
    (binding,) = bindings(parse("count(llm.latency) >= baseline"), [issued])
    with pytest.raises(Unknown, match=r"the baseline has no series llm\.latency"):
        elsewhere(binding.bound, [issued], "the baseline")
    assert "no series or counter is named llm.latncy" in unknown("count(llm.latncy) < 1", issued)
    assert "no series or counter is named lm.latency" in unknown("count(lm.latency) < 1", issued)
    assert "no series matches llm.latency{window=v}" in unknown("count(llm.latency{window=v}) < 1", issued)
    for function in ("p99", "mean", "max", "total"):
        assert "is named llm.latency" in unknown(f"{function}(llm.latency{{window=w}}) < 1", issued)


def test_names_nobody_has() -> None:
    """The error for an unknown name gives the nearest names, or else some that there are."""
    assert unknown("p99(ttfb) < 1", TTFT, ERRORS) == "no series is named ttfb; did you mean ttft?"
    assert unknown("p99(zebra) < 1", TTFT, ERRORS) == "no series is named zebra; the run has ttft"
    assert (
        unknown("value(zebra) < 1", ERRORS, HEAT) == "no counter or gauge is named zebra; the run has errors, heat"
    )
    assert unknown("p99(ttft) < 1") == "no series is named ttft: the run has none"
    many = [GateInstrument("series", f"metric{number}") for number in range(9)]
    assert unknown("p99(zebra) < 1", *many).endswith("the run has metric0, metric1, metric2 and 6 more")


def test_labels_nobody_has() -> None:
    """The error for an unknown label gives the nearest of its values.

    It gives existing labels if no instrument has that label.
    """
    assert unknown("p99(ttft{route=/x}) < 1", FAST, SLOW) == (
        "no series matches ttft{route=/x}; the run has ttft{route=/slow}, ttft{route=/fast}"
    )
    failed = [
        counter("failed", model=model, reason=reason, window=window)
        for window in ("hot", "cool", "warm", "measured")
        for model in ("a", "b")
        for reason in ("busy", "gone", "slow")
    ]
    assert unknown("sum(failed{window=measurd}) == 0", *failed) == (
        "no counter matches failed{window=measurd}; the run has failed{window=measured}, failed{window=warm}, "
        "failed{window=hot} and 1 more"
    )
    assert unknown("sum(failed{model=a,window=hott}) == 0", *failed, counter("failed")).startswith(
        "no counter matches failed{model=a,window=hott}; the run has failed{model=a,window=hot}, "
    )
    assert unknown("sum(failed{windw=hot}) == 0", *failed[:1]) == (
        "no counter matches failed{windw=hot}; the run has failed{model=a,reason=busy,window=hot}"
    )


def test_text_from_outside_is_printable() -> None:
    """A name with control characters is printable in the reason."""
    assert "\x1b" not in unknown('p99("\x1b") < 1', TTFT)


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        (
            "p99(errors) < 1",
            "`p99` applies to a series, but `errors` is a counter; use `count(errors)`, `rate(errors)`",
        ),
        ("value(ttft) < 1", "`value` applies to a counter or a gauge, but `ttft` is a series; use `p99(ttft)`"),
        ("rate(heat) < 1", "`rate` applies to a series or a counter, but `heat` is a gauge; use `min(heat)`"),
    ],
)
def test_a_function_of_another_kind_is_an_error(gate: str, said: str) -> None:
    """The error for a function of another kind has a caret under the name.

    It lists the functions for the kind of the instrument.
    """
    with pytest.raises(UsageError) as caught:
        bindings(parse(gate), [TTFT, ERRORS, HEAT])
    lines = str(caught.value).splitlines()
    assert lines[0].startswith(said)
    assert lines[2].index("^") - 2 == gate.index("(") + 1


def test_the_same_instruments_of_another_run() -> None:
    """An instrument of another run is found by kind, name and labels, though its unit may be another."""
    (binding,) = bindings(parse("p99(ttft{route=/fast}) < 1"), [FAST])
    other = replace(FAST, unit="s")
    assert list(elsewhere(binding.bound, [SLOW, other], "the baseline").values()) == [other]
    with pytest.raises(Unknown, match="the baseline has no series ttft"):
        elsewhere(binding.bound, [SLOW], "the baseline")


FAILED = [
    counter("failed", model="a"),
    counter("failed", model="a", reason="busy"),
    counter("failed", model="a", window="w"),
    counter("failed", model="a", window="w", reason="busy"),
    counter("failed", model="b", reason="slow"),
]
ISSUED = [counter("issued", model="a"), counter("issued", model="a", window="w"), counter("issued", model="b")]


def summed(gate: str, *instruments: GateInstrument) -> dict[str, list[GateInstrument]]:
    """Text → counters of the first sum."""
    found = bindings(parse(gate), instruments)
    return {
        one.text: list(next(item.counters for item in one.bound.values() if isinstance(item, CounterSum)))
        for one in found
    }


def test_a_sum_alone_is_of_all_that_have_its_labels() -> None:
    """A sum alone covers all counters with its labels and gives one result for them."""
    assert summed("sum(failed) == 0", *FAILED) == {"sum(failed) == 0": FAILED}
    assert list(summed("sum(failed{reason=busy}) == 0", *FAILED).values()) == [[FAILED[1], FAILED[3]]]
    assert list(summed("sum(failed{model=a}) == 0", *FAILED).values()) == [FAILED[:4]]
    assert "no counter is named faild; did you mean failed?" in unknown("sum(faild) == 0", *FAILED)
    assert "no counter matches failed{model=c}" in unknown("sum(failed{model=c}) == 0", *FAILED)


def test_a_sum_beside_others_has_their_labels() -> None:
    """A sum beside other terms takes their labels, and its counters lack a label that they lack.

    A label given to the sum itself goes before theirs.
    """
    assert summed("sum(failed)/value(issued) < 1%", *FAILED, *ISSUED) == {
        'sum(failed{model=a,window=""}) / value(issued{model=a,window=""}) < 1%': FAILED[:2],
        "sum(failed{model=a,window=w}) / value(issued{model=a,window=w}) < 1%": FAILED[2:4],
        'sum(failed{model=b,window=""}) / value(issued{model=b,window=""}) < 1%': FAILED[4:],
    }
    in_a_window = "sum(failed{window=w})/value(issued{window=w}) < 1%"
    assert summed(in_a_window, *FAILED, *ISSUED) == {in_a_window: FAILED[2:4]}
    routed = [counter("issued", route=route) for route in ("/x", "/y")]
    assert list(summed("sum(failed)/value(issued) < 1%", *FAILED, *routed).values()) == [FAILED, FAILED]


def test_a_sum_of_nothing_says_so() -> None:
    """A sum of no counters says what is missing, because it is unknown whether that model failed."""
    (one, other) = bindings(parse("sum(failed)/value(issued) < 1%"), [*FAILED[:4], ISSUED[2]])
    assert one.missing == "failed{model=b} is missing for the other terms"
    assert other.text == "sum(failed{model=a}) / value(issued) < 1%"
    assert other.missing == ("no match for failed{model=a}; use `sum` for the other terms too, to add them all up")
    with_c = [*FAILED, *ISSUED, counter("issued", model="c")]
    assert [found.missing for found in bindings(parse("sum(failed)/value(issued) < 1%"), with_c)] == [
        "",
        "",
        "",
        'failed{model=c,window=""} is missing for the other terms',
    ]


def test_a_sum_elsewhere_is_of_what_is_there() -> None:
    """Another run may have other reasons."""
    found = bindings(parse("sum(failed)/value(issued) < baseline"), [*FAILED, *ISSUED])
    others = [counter("failed", model="a"), counter("failed", model="a", reason="gone"), FAILED[2], *ISSUED]
    there = elsewhere(found[0].bound, others, "the baseline")
    assert list(each(there)) == [*others[:2], ISSUED[0]]
    with pytest.raises(Unknown, match=r'the baseline has no counter failed{model=b,window=""}'):
        elsewhere(found[2].bound, others, "the baseline")


def test_a_sum_of_a_series_is_called_total() -> None:
    """The error for `sum` of a series offers `total`. The error for `total` of a counter offers `sum`."""
    with pytest.raises(UsageError, match=r"`sum` applies to a counter.*use `total\(ttft\)`"):
        bindings(parse("sum(ttft) < 1"), [TTFT])
    with pytest.raises(UsageError, match=r"use `sum\(errors\)`"):
        bindings(parse("total(errors) < 1"), [ERRORS])


def test_a_throughput_is_of_requests() -> None:
    """Throughput applies to requests that something issued, and not to turns."""
    issued = GateInstrument("counter", "llm.issued", (), "requests")
    latency = GateInstrument("series", "llm.latency", (), "ns")
    assert texts("throughput(llm.latency) > 1", issued, latency) == ["throughput(llm.latency) > 1"]
    turn = GateInstrument("series", "llm.turn.latency", (("turn", "1"),), "ns")
    for instruments, name in (
        ([latency], "llm.latency"),
        ([issued, replace(latency, name="llm.ttft")], "llm.ttft"),
        ([issued, turn], "llm.turn.latency"),
    ):
        with pytest.raises(UsageError, match=r"applies to the latency or the output_tokens of requests.*`rate\("):
            bindings(parse(f"throughput({name}) > 1"), instruments)


def test_requests_outside_of_any_window_don_t_stand_for_those_within() -> None:
    """However their name is written; nor does a counter without a reason for those with one."""
    issued = [
        counter("llm.issued", "requests", model="m"),
        counter("llm.issued", "requests", model="m", window="w"),
    ]
    failed = [counter("llm.failed", "requests", model="m", window="w", **more) for more in ({}, {"reason": "busy"})]
    latency = [GateInstrument("series", "llm.latency", one.labels, "ns") for one in issued]
    assert len(texts("max(llm.latency{model=m}) < 1ms", *issued, *latency)) == 2
    assert texts("value(llm.failed{window=w}) == 0", *issued, *failed) == [
        'value(llm.failed{model=m,reason="",window=w}) == 0',
        "value(llm.failed{model=m,reason=busy,window=w}) == 0",
    ]
    share = "sum(llm.failed{model=m})/value(llm.issued) < 1%"
    assert summed(share, *issued, *failed) == {
        'sum(llm.failed{model=m,window=""}) / value(llm.issued{model=m,window=""}) < 1%': [],
        "sum(llm.failed{model=m,window=w}) / value(llm.issued{model=m,window=w}) < 1%": failed,
    }


def test_a_window_is_compared_with_another_and_not_with_itself() -> None:
    """A label that is given to one use of a name is not that of its other one."""
    latency = [GateInstrument("series", "llm.latency", (("window", window),), "ns") for window in ("warm", "w")]
    issued = [counter("llm.issued", "requests", window=window) for window in ("warm", "w")]
    found = bindings(parse("mean(llm.latency)/mean(llm.latency{window=warm}) < 2"), [*issued, *latency])
    assert [(binding.text, list(each(binding.bound))) for binding in found] == [
        ("mean(llm.latency{window=warm}) / mean(llm.latency{window=warm}) < 2", [latency[0]] * 2),
        ("mean(llm.latency{window=w}) / mean(llm.latency{window=warm}) < 2", [latency[1], latency[0]]),
    ]
    share = "sum(llm.issued{window=warm})/sum(llm.issued) < 70%"
    (binding,) = bindings(parse(share), issued)
    assert (binding.text, list(each(binding.bound))) == (share, [issued[0], *issued])


def test_requests_of_one_window_do_not_go_with_those_of_another() -> None:
    """Outside of all windows is a place of its own: of two instruments, and of one beside several."""
    issued = [counter("llm.issued", "requests", window="w"), counter("llm.issued", "requests")]
    within, outside = (GateInstrument("series", "llm.latency", item.labels, "ns") for item in issued)
    failed = GateInstrument("series", "llm.failed_latency", issued[0].labels, "ns")
    found = bindings(parse("max(llm.latency)/value(llm.issued) < 1s"), [*issued, within])
    assert [(list(binding.bound.values()), binding.missing) for binding in found] == [
        ([within, issued[0]], ""),
        ([issued[1]], 'llm.latency{window=""} is missing for the other terms'),
    ]
    found = bindings(parse("count(llm.latency)/value(llm.issued) > 90%"), [*issued, within])
    assert [list(binding.bound.values()) for binding in found] == [[within, issued[0]], [outside, issued[1]]]
    found = bindings(parse("max(llm.latency)/max(llm.failed_latency) < 1"), [*issued, outside, failed])
    assert [binding.missing for binding in found] == [
        'llm.failed_latency{window=""} is missing for the other terms',
        "llm.latency{window=w} is missing for the other terms",
    ]


def test_labels_given_to_requests_hold_for_both_sides_of_a_share() -> None:
    """Labels of one side of a share hold for both.

    Otherwise failures of the warm-up would be over the issues of another window.
    """
    issued = [counter("llm.issued", "requests", window=window) for window in ("warm", "w")]
    failed = [counter("llm.failed", "requests", window=window, reason="busy") for window in ("warm", "w")]
    for share in (
        "sum(llm.failed)/value(llm.issued{window=w}) < 1%",
        "sum(llm.failed{window=w})/value(llm.issued) < 1%",
    ):
        read = "sum(llm.failed{window=w}) / value(llm.issued{window=w}) < 1%"
        assert summed(share, *issued, *failed) == {read: [failed[1]]}
        (binding,) = bindings(parse(share), [*issued, *failed])
        assert list(each(binding.bound)) == [failed[1], issued[1]]


def test_a_short_name_finds_the_only_request() -> None:
    """A figure of the only kind of request there is; the result has its whole name."""
    kind = [counter("llm.issued", "requests"), GateInstrument("series", "llm.ttft", (), "ns")]
    (found,) = bindings(parse("p99(ttft) < 250ms"), kind)
    assert found.text == "p99(llm.ttft) < 250ms"
    assert [item.name for item in found.bound.values() if isinstance(item, GateInstrument)] == ["llm.ttft"]
    (found,) = bindings(parse("count(latency) > 1"), kind)
    assert found.text == "count(llm.latency) > 1"
    (found,) = bindings(parse("sum(failed)/value(issued) < 1%"), [*kind, counter("llm.failed", "requests")])
    assert found.text == "sum(llm.failed) / value(llm.issued) < 1%"


def test_a_short_name_of_several_is_asked_back() -> None:
    """All of them are named. A series that has the very name is meant by it."""
    kinds = [
        item
        for kind in ("chat", "embed")
        for item in (counter(f"{kind}.issued", "requests"), GateInstrument("series", f"{kind}.ttft", (), "ns"))
    ]
    with pytest.raises(Unknown, match=r"^ttft may be chat.ttft or embed.ttft: write one of them$"):
        bindings(parse("p99(ttft) < 250ms"), kinds)
    (found,) = bindings(parse("p99(ttft) < 250ms"), [*kinds, GateInstrument("series", "ttft", (), "ms")])
    assert found.text == "p99(ttft) < 250ms"


def test_a_short_name_finds_the_only_series_that_ends_so() -> None:
    """A short name finds the only series that ends in it after a dot or a slash. The programs need no requests."""
    series = [GateInstrument("series", "server.ttft", (), "ms"), GateInstrument("series", "attft", (), "ms")]
    (found,) = bindings(parse("p99(ttft) < 250ms"), series)
    assert found.text == "p99(server.ttft) < 250ms"


def test_the_time_between_chunks_has_two_names() -> None:
    """Runs of earlier versions have `chunk_gap`; gates find it by either name, and that of new runs too."""
    for recorded in ("chunk_gap", "itl"):
        kind = [counter("llm.issued", "requests"), GateInstrument("series", f"llm.{recorded}", (), "ns")]
        for written in ("llm.chunk_gap", "llm.itl", "chunk_gap", "itl"):
            (found,) = bindings(parse(f"p99({written}) < 250ms"), kind)
            assert [item.name for item in found.bound.values() if isinstance(item, GateInstrument)] == [
                f"llm.{recorded}"
            ]
