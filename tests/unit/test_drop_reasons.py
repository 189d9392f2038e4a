"""The ledger: every event has a fate."""

from __future__ import annotations

from telemetry.wire.drop_reasons import (
    EVENT_REASONS,
    FRAME_REASONS,
    PRODUCER_REASONS,
    Ledger,
    Reason,
    merge_reasons,
)


def test_every_reason_has_one_owner() -> None:
    """Producer, event or frame: the three sets cover all reasons and share none."""
    assert frozenset(Reason) == PRODUCER_REASONS | EVENT_REASONS | FRAME_REASONS
    assert len(PRODUCER_REASONS) + len(EVENT_REASONS) + len(FRAME_REASONS) == len(Reason)


def test_reasons_are_words_of_the_wire() -> None:
    """Lower case with underscores, the same as the member's name."""
    assert all(reason.value == reason.name.lower() for reason in Reason)


def test_received_is_applied_plus_dropped() -> None:
    """The law holds once every received event has its fate."""
    ledger = Ledger()
    ledger.receive(10)
    assert not ledger.balanced()
    ledger.apply(7)
    ledger.drop(Reason.NEGATIVE, 2)
    ledger.drop(Reason.NOT_FINITE)
    assert ledger.balanced()
    assert ledger.dropped_total == 3
    assert ledger.by_reason() == {"negative": 2, "not_finite": 1}


def test_a_drop_of_nothing_leaves_no_trace() -> None:
    """A report lists only reasons that happened."""
    ledger = Ledger()
    ledger.drop(Reason.NEGATIVE, 0)
    assert ledger.by_reason() == {}


def test_reasons_of_several_sources_add_up() -> None:
    """Sorted, so that two reports compare line by line."""
    merged = merge_reasons({"b": 1}, {"a": 2, "b": 3}, {})
    assert list(merged.items()) == [("a", 2), ("b", 4)]
