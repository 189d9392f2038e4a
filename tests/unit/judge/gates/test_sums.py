"""Tests of which counters a sum covers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.judge.gates.fakes import TTFT, counter, metric

from telemetry.judge.gates.catalog import GateCatalog, Summing, summed
from telemetry.judge.gates.tree import GateMetric

ISSUED = counter("chat.issued", "requests", window="w")
NONE = counter("chat.failed", "requests", window="w")
BUSY = counter("chat.failed", "requests", window="w", reason="busy")
OTHER = counter("chat.failed", "requests", window="v", reason="busy")
FAILED = metric("chat.failed")


def test_it_is_of_all_that_have_the_labels() -> None:
    """A sum covers all counters with its labels, whatever others they have.

    An empty label chooses only counters without that label.
    """
    known = GateCatalog([ISSUED, NONE, BUSY, OTHER])
    for wanted, found in (
        (FAILED, (NONE, BUSY, OTHER)),
        (metric("chat.failed", window="w"), (NONE, BUSY)),
        (metric("chat.failed", reason="busy"), (BUSY, OTHER)),
        (metric("chat.failed", reason="busy", window="v"), (OTHER,)),
        (metric("chat.failed", reason=""), (NONE,)),
    ):
        some = summed(wanted, known)
        assert some is not None
        assert (some.metric, some.counters, some.unit) == (wanted, found, "requests")


@pytest.mark.parametrize(
    ("wanted", "known"),
    [
        (metric("chat.failed", reason="timeout"), True),
        (metric("chat.failed", reason="timeout", window="w"), True),
        (metric("chat.completed", finish="stop"), True),
        (metric("chat.expired"), True),
        (metric("chat.failed", window="typo"), False),
        (metric("chat.expired", reason="busy"), False),
        (metric("chat.failde"), False),
        (metric("chat.latency"), False),
        (metric("chta.failed"), False),
        (metric("failed"), False),
        (metric(".failed"), False),
    ],
)
def test_what_never_happened_to_requests_is_nothing(wanted: GateMetric, known: bool) -> None:
    """A sum of an outcome that never happened has no counters if such requests were issued.

    Otherwise there is no sum, because no program would have counted it.
    """
    some = summed(wanted, GateCatalog([ISSUED]))
    assert (some is not None) == known
    if some is not None:
        assert (some.counters, some.unit) == ((), "requests")


def test_a_counter_that_issues_something_else_issues_no_requests() -> None:
    """A counter that issues something else issues no requests.

    A series with the name of an outcome is no counter of requests.
    """
    assert summed(metric("stock.failed"), GateCatalog([counter("stock.issued", "shares")])) is None
    assert summed(FAILED, GateCatalog([ISSUED, replace(TTFT, name="chat.failed")])) is None


def test_beside_others_their_labels_tell_its_own_apart() -> None:
    """Labels that its counters don't have tell nothing, nor do those that were given."""
    others = [(("model", "m"), ("window", "w")), (("model", "m"), ("window", "v"))]
    known = GateCatalog([ISSUED, NONE, BUSY, OTHER])
    summing = Summing(FAILED, others, known)
    assert [summing.named(labels) for labels in others] == [
        metric("chat.failed", window="w"),
        metric("chat.failed", window="v"),
    ]
    for labels, found in zip(others, [(NONE, BUSY), (OTHER,)], strict=True):
        some = summing.beside(labels)
        assert some is not None
        assert some.counters == found
    assert summing.beside((("window", "typo"),)) is None
    assert summing.lonely() == []
    given = metric("chat.failed", window="w")
    assert Summing(given, others, known).named(others[1]) == given


def test_what_goes_with_nothing_is_told() -> None:
    """The counters that match no other term are named, also those without a label that others have."""
    known = GateCatalog([counter("errors"), counter("errors", route="/a"), counter("errors", route="/b")])
    summing = Summing(metric("errors"), [(("route", "/a"),)], known)
    assert summing.lonely() == [metric("errors", route=""), metric("errors", route="/b")]


def test_beside_requests_to_which_it_never_happened_it_is_nothing() -> None:
    """A sum beside requests has no counters if the outcome never happened to them.

    This holds even if it happened outside of their window.
    """
    calm = counter("chat.issued", "requests", window="calm")
    outside = counter("chat.issued", "requests")
    late = counter("chat.after_end", "requests")
    others = [(("window", "calm"),), ()]
    summing = Summing(metric("chat.after_end"), others, GateCatalog([calm, outside, late]))
    found = [summing.beside(labels) for labels in others]
    assert [some.counters for some in found if some is not None] == [(), (late,)]
    assert summing.named(()) == metric("chat.after_end", window="")


def test_beside_reasons_it_is_of_requests_that_were_issued() -> None:
    """A sum beside reasons covers the issued requests, which have no reason. That label is the counter's own."""
    busy, gone = ((("reason", reason), ("window", "w")) for reason in ("busy", "gone"))
    some = Summing(FAILED, [busy, gone], GateCatalog([ISSUED, NONE, BUSY])).beside(gone)
    assert some is not None
    assert some.counters == ()
