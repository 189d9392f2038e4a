"""Tests of the steps that a producer claims to have ended, and of when a claim counts."""

from __future__ import annotations

import pytest

from telemetry import limits
from telemetry.aggregator.steps.members import NOTHING_ENDED, AxisMember, EndClaim


def test_a_claim_counts_once_nothing_is_missing_below_it() -> None:
    """Each behind its own gap, whichever was made first."""
    member = AxisMember(3, 0)
    member.claim(9, 40, 1)
    member.claim(5, 20, 2)
    member.claim(9, 30, 3)
    member.claim(9, 50, 4)
    assert member.claims == [EndClaim(5, 20, 2), EndClaim(9, 50, 1)]
    assert member.settled(4) == 3
    assert member.settled(8) == 20
    assert member.claims == [EndClaim(9, 50, 1)]
    assert member.settled(9) == 50
    assert member.claims == []


def test_a_lower_claim_takes_nothing_back() -> None:
    """A lower claim takes back nothing that counted."""
    member = AxisMember(7, 0)
    member.claim(2, 5, 0)
    assert member.settled(2) == 7


def test_what_is_missing_for_too_long_is_not_waited_for() -> None:
    """Nor is any batch below it that turns out to be missing later."""
    member = AxisMember(NOTHING_ENDED, 0)
    member.claim(5, 20, 10)
    member.claim(9, 40, 30)
    member.waive(9)
    assert (member.waived, member.settled(0)) == (0, NOTHING_ENDED)
    member.waive(10)
    assert (member.waived, member.settled(0)) == (5, 20)
    member.waive(30)
    assert (member.waived, member.settled(0)) == (9, 40)


def test_claims_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest claims behind too many gaps become one, which waits for all of them.

    The others go on by themselves.
    """
    monkeypatch.setattr(limits, "STEP_CLAIMS", 3)
    member = AxisMember(0, 0)
    for number in range(1, 7):
        member.claim(10 * number, number, number)
    member.claim(65, 4, 7)
    assert member.claims == [EndClaim(10, 1, 1), EndClaim(20, 2, 2), EndClaim(65, 6, 7)]
    member.restored()
    assert member.settled(60) == 2
    assert member.settled(65) == 6


@pytest.mark.parametrize("since", [[2, 1], [1, 1], [1, 2, 3, 4]])
def test_claims_that_cannot_be_are_not_restored(monkeypatch: pytest.MonkeyPatch, since: list[int]) -> None:
    """Restored claims ascend and are not too many; others are refused."""
    monkeypatch.setattr(limits, "STEP_CLAIMS", 3)
    with pytest.raises(ValueError, match="claims on steps"):
        AxisMember(0, 0, claims=[EndClaim(number, 0, 0) for number in since]).restored()
