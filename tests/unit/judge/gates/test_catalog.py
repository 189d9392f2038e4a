"""Tests of what a gate can name of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.judge.gates.fakes import counter, metric

from telemetry.judge.gates.catalog import GateCatalog, with_labels
from telemetry.judge.gates.evidence import GateInstrument, Labels
from telemetry.judge.gates.parser import parse

ISSUED = counter("chat.issued", "requests", model="m", window="w")
OUTSIDE = counter("chat.issued", "requests", model="m")
TURNS = counter("chat.turn.issued", "requests")
LATENCY = GateInstrument("series", "chat.latency", (("model", "m"),), "ns")
KNOWN = GateCatalog([ISSUED, OUTSIDE, TURNS, LATENCY, counter("errors", route="/a")])


@pytest.mark.parametrize(
    ("gate", "names"),
    [
        ("value(chat.issued{window=w}) > count(chat.latency)", ["chat.issued{window=w}", "chat.latency{window=w}"]),
        (
            "sum(chat.failed{reason=busy})/value(chat.issued{model=m,window=w}) < 1",
            ["chat.failed{model=m,reason=busy,window=w}", "chat.issued{model=m,window=w}"],
        ),
        (
            "value(chat.issued{window=v}) > value(chat.issued{window=w})",
            ["chat.issued{window=v}", "chat.issued{window=w}"],
        ),
        (
            "count(chat.latency{window=v}) + count(chat.ttft{window=w}) > sum(chat.failed)",
            ["chat.latency{window=v}", "chat.ttft{window=w}", "chat.failed"],
        ),
        (
            "count(chat.turn.ttft{turn=1,window=w}) > sum(chat.failed)",
            ["chat.turn.ttft{turn=1,window=w}", "chat.failed{window=w}"],
        ),
        ('value(chat.issued{window=""}) > sum(chat.failed)', ['chat.issued{window=""}', 'chat.failed{window=""}']),
        (
            "mean(chat.latency) / mean(chat.latency{window=w}) < 2",
            ["chat.latency", "chat.latency{window=w}"],
        ),
        (
            "sum(chat.failed{window=w}) / (sum(chat.failed) + sum(chat.completed)) < 1%",
            ["chat.failed{window=w}", "chat.failed", "chat.completed"],
        ),
        ("value(chat.issued{window=w}) > value(errors)", ["chat.issued{window=w}", "errors"]),
        ("value(errors{route=/a}) > value(other)", ["errors{route=/a}", "other"]),
        ("value(chat.issued{window=w}) > value(chat.tokens)", ["chat.issued{window=w}", "chat.tokens"]),
    ],
)
def test_labels_of_requests_hold_for_all_figures_of_a_kind(gate: str, names: list[str]) -> None:
    """Unless they differ, also among those of one name; a reason, a finish and a turn are of one figure alone."""
    assert [str(name) for name in KNOWN.meant(parse(gate).terms).values()] == names


def test_what_counts_the_issues_of_an_outcome() -> None:
    """The issues of an outcome are those with its labels. A series and any other name has none."""
    assert list(KNOWN.issued(metric("chat.failed", reason="x"))) == [ISSUED, OUTSIDE]
    assert list(KNOWN.issued(metric("chat.expired", window=""))) == [OUTSIDE]
    assert list(KNOWN.issued(metric("chat.expired", reason="x"))) == []
    for name in ("chat.latency", "errors", "chat.tokens", "other.failed"):
        assert list(KNOWN.issued(metric(name))) == []


def test_what_never_happened_to_requests_is_where_they_were_issued() -> None:
    """An outcome that never happened has the labels of the requests and any label of its own.

    It is unseen nowhere if the outcome did happen.
    """
    busy = counter("chat.failed", "requests", model="m", reason="busy", window="w")
    known = GateCatalog([ISSUED, OUTSIDE, LATENCY, busy])
    assert known.unseen(metric("chat.latency")) == [replace(LATENCY, labels=ISSUED.labels)]
    assert known.unseen(metric("chat.failed", window="w")) == [replace(OUTSIDE, name="chat.failed")]
    assert known.unseen(metric("chat.failed", reason="busy"))[0].labels == (("model", "m"), ("reason", "busy"))
    assert len(known.unseen(metric("chat.failed", reason="gone"))) == 2
    assert known.unseen(metric("chat.expired", reason="")) == [
        replace(item, name="chat.expired") for item in (ISSUED, OUTSIDE)
    ]
    for name in ("chat.issued", "chat.latncy", "errors", "other.latency"):
        assert known.unseen(metric(name)) == []
    assert GateCatalog([ISSUED, replace(LATENCY, kind="gauge")]).unseen(metric("chat.latency")) == []


def test_a_request_is_in_no_window_where_others_are_in_one() -> None:
    """A request outside of windows has an empty window label if others of its kind are in one.

    Other instruments keep their labels.
    """
    assert KNOWN.told(LATENCY) == (("model", "m"), ("window", ""))
    assert KNOWN.told(ISSUED) == ISSUED.labels
    assert KNOWN.told(counter("errors")) == ()
    assert KNOWN.told(TURNS) == ()


def test_whose_rates_are_told() -> None:
    """Latencies and output tokens of requests."""
    assert KNOWN.paced(LATENCY)
    turn: Labels = (("turn", "1"),)
    for name, labels in (("chat.ttft", ()), ("other.latency", ()), ("chat.turn.latency", turn)):
        assert not KNOWN.paced(GateInstrument("series", name, labels, "ns"))


def test_labels_are_added_in_order() -> None:
    """Labels are added in order, and the metric's own labels win."""
    found = with_labels(metric("a", b="1"), (("c", ""), ("b", "2"), ("a", "3")))
    assert found == metric("a", a="3", b="1", c="")
