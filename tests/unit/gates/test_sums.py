"""Which counters a sum is of."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.gates.fakes import TTFT

from telemetry.gates.evidence import Instrument
from telemetry.gates.sums import Summing, summed, with_labels
from telemetry.gates.tree import Metric


def counter(name: str, unit: str = "", **labels: str) -> Instrument:
    return Instrument("counter", name, tuple(sorted(labels.items())), unit)


def metric(name: str, **labels: str) -> Metric:
    return Metric(name, tuple(sorted(labels.items())))


ISSUED = counter("chat.issued", "requests", window="w")
NONE = counter("chat.failed", "requests", window="w")
BUSY = counter("chat.failed", "requests", window="w", reason="busy")
OTHER = counter("chat.failed", "requests", window="v", reason="busy")
FAILED = metric("chat.failed")


def test_it_is_of_all_that_have_the_labels() -> None:
    """Whatever others they have; None: only of those without that label."""
    counters = [ISSUED, NONE, BUSY, OTHER]
    everything = summed(FAILED, (), counters)
    assert everything is not None
    assert (everything.counters, everything.unit) == ((NONE, BUSY, OTHER), "requests")
    for wanted, apart, found in (
        (FAILED, (("window", "w"),), (NONE, BUSY)),
        (metric("chat.failed", reason="busy"), (), (BUSY, OTHER)),
        (metric("chat.failed", reason="busy"), (("window", "v"),), (OTHER,)),
        (FAILED, (("reason", None),), (NONE,)),
    ):
        some = summed(wanted, apart, counters)
        assert some is not None
        assert (some.counters, some.apart) == (found, apart)


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
def test_what_never_happened_to_requests_is_nothing(wanted: Metric, known: bool) -> None:
    """If such requests were issued, so that somebody would have counted it."""
    some = summed(wanted, (), [ISSUED])
    assert (some is not None) == known
    if some is not None:
        assert (some.counters, some.unit) == ((), "requests")


def test_a_counter_that_issues_something_else_issues_no_requests() -> None:
    """And a name that is something else is no counter of them."""
    assert summed(metric("stock.failed"), (), [counter("stock.issued", "shares")]) is None
    assert summed(FAILED, (), [ISSUED, replace(TTFT, name="chat.failed")]) is None


def test_its_name_has_the_labels_that_it_has() -> None:
    """In their order."""
    apart = (("window", "w"), ("route", None))
    assert with_labels(metric("chat.failed", reason="busy"), apart) == metric(
        "chat.failed", reason="busy", window="w"
    )


def test_beside_others_their_labels_tell_its_own_apart() -> None:
    """Labels that its counters don't have tell nothing, nor do those that were given."""
    others = [(("model", "m"), ("window", "w")), (("model", "m"), ("window", "v"))]
    summing = Summing(FAILED, others, [ISSUED, NONE, BUSY, OTHER])
    assert summing.apart(others[0]) == (("window", "w"),)
    for labels, found in zip(others, [(NONE, BUSY), (OTHER,)], strict=True):
        some = summing.beside(labels)
        assert some is not None
        assert some.counters == found
    assert summing.beside((("window", "typo"),)) is None
    assert summing.lonely() == []
    given = Summing(metric("chat.failed", window="w"), others, [ISSUED, NONE, BUSY, OTHER])
    assert given.apart(others[1]) == ()


def test_what_goes_with_nothing_is_told() -> None:
    """Also those without the label that others have."""
    bare = counter("chat.failed", "requests")
    summing = Summing(FAILED, [(("window", "w"),)], [bare, NONE, OTHER])
    assert summing.lonely() == [(("window", None),), (("window", "v"),)]


def test_beside_requests_to_which_it_never_happened_it_is_nothing() -> None:
    """Others failed."""
    more = counter("chat.issued", "requests", window="calm")
    summing = Summing(FAILED, [(("window", "w"),), (("window", "calm"),)], [ISSUED, more, NONE])
    some = summing.beside((("window", "calm"),))
    assert some is not None
    assert some.counters == ()
