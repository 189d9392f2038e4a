"""Tests of what an account holds against any claim of a producer."""

from __future__ import annotations

from telemetry import limits
from telemetry.aggregator.producers.account import Account, ReasonWords, plausible
from telemetry.wire.drop_reasons import Reason, merge_reasons


def _balanced(account: Account) -> bool:
    return account.missing >= 0 and account.emitted == (
        account.ledger.received + account.dropped_by_producer_total + account.missing
    )


def test_a_gap_in_event_numbers_is_missing_until_it_is_filled() -> None:
    """Events of a batch that never came are counted, and no longer once it comes."""
    account = Account()
    account.receive(0, 10, {})
    account.receive(15, 5, {})
    assert (account.emitted, account.missing) == (20, 5)
    account.receive(10, 5, {})
    assert (account.emitted, account.missing) == (20, 0)
    assert account.lossless


def test_batches_that_come_late_leave_the_horizon_where_it_is() -> None:
    """The highest number seen says how many events there were, whatever comes after it."""
    account = Account()
    account.receive(15, 5, {})
    account.receive(0, 5, {})
    assert (account.emitted, account.missing) == (20, 10)


def test_producer_drops_are_not_missing() -> None:
    """Events that a producer dropped have numbers, and are told apart from events lost on the way."""
    account = Account()
    account.receive(0, 10, {})
    account.receive(17, 3, {Reason.BUFFER_FULL: 7})
    assert account.missing == 0
    assert account.dropped_by_producer == {"buffer_full": 7}
    assert not account.lossless


def test_drop_totals_of_late_batches_change_nothing() -> None:
    """A batch that comes late reports an older total; the larger one stays."""
    account = Account()
    account.receive(17, 3, {Reason.BUFFER_FULL: 7})
    account.receive(0, 10, {})
    assert (account.dropped_by_producer_total, account.missing) == (7, 0)


def test_more_drops_than_numbers_never_make_missing_negative() -> None:
    """A producer whose totals don't add up is taken at the larger of its numbers."""
    account = Account()
    account.receive(0, 3, {"buffer_full": 1_000})
    assert (account.emitted, account.missing) == (1_003, 0)
    assert _balanced(account)


def test_the_last_word_counts_the_lost_tail() -> None:
    """Events after the last batch that came are missing once the producer says how many there were."""
    account = Account()
    account.receive(0, 10, {})
    assert account.close(25, {"after_finish": 5}) == []
    assert (account.emitted, account.missing) == (25, 10)


def test_contradicting_last_words_are_told_and_clamped() -> None:
    """Fewer emitted than numbered, or than received and dropped, gives a complaint and keeps the law."""
    numbered, dropped = Account(), Account()
    numbered.receive(5, 10, {})
    assert "numbered 15" in numbered.close(3, {})[0]
    dropped.receive(0, 10, {})
    assert "dropped by it" in dropped.close(10, {"buffer_full": 4})[0]
    assert _balanced(numbered)
    assert _balanced(dropped)


def test_made_up_reasons_are_bounded() -> None:
    """A producer that invents a new drop reason in every batch fills one map of bounded size."""
    account = Account()
    for number in range(500):
        account.receive(0, 0, {f"reason{number}": 1})
    assert len(account.dropped_by_producer) == limits.DROP_REASONS + 1
    account.receive(0, 0, {Reason.BUFFER_FULL: 2})
    assert account.dropped_by_producer["buffer_full"] == 2


def test_numbers_no_producer_reaches_are_implausible() -> None:
    """The largest believable number passes, the next one does not; the same for drops."""
    assert plausible(limits.EVENT_NUMBERS, {"buffer_full": limits.EVENT_NUMBERS})
    assert not plausible(limits.EVENT_NUMBERS + 1, {})
    assert not plausible(0, {"a": limits.EVENT_NUMBERS, "b": 1})


def test_drop_totals_that_grow_reason_by_reason_stay_plausible() -> None:
    """Claims believable one by one and a lie together are not believed."""
    account = Account()
    for number in range(limits.DROP_REASONS):
        account.receive(0, 1, {f"r{number}": limits.EVENT_NUMBERS})
    assert account.dropped_by_producer == {"r0": limits.EVENT_NUMBERS}
    assert _balanced(account)


def test_reasons_of_all_producers_together_are_bounded() -> None:
    """Every snapshot repeats them: beyond the bound they are one reason, and known ones stay what they are."""
    words = ReasonWords()
    accounts = [Account(words) for _ in range(100)]
    for number, account in enumerate(accounts):
        account.receive(0, 1, {f"{number} a": 2, f"{number} b": 3, "buffer_full": 1, "idle": 0})
    told = merge_reasons(*(account.dropped_by_producer for account in accounts))
    assert len(told) == limits.DROP_REASONS + 2
    assert told["buffer_full"] == 100
    assert sum(told.values()) == 600
    assert accounts[-1].dropped_by_producer == {"buffer_full": 1, "other": 5}
