"""SequenceTracker: gaps, duplicates and their bounds."""

from __future__ import annotations

import pytest

from telemetry import limits
from telemetry.wire.sequence import SequenceTracker


def tracker(*seen: int) -> SequenceTracker:
    made = SequenceTracker()
    for seq in seen:
        made.admit(seq)
    return made


def test_batches_in_order_leave_no_gap() -> None:
    """The usual case: each number once, ascending."""
    seen = SequenceTracker()
    assert [seen.admit(seq) for seq in range(5)] == [True] * 5
    assert (seen.next_seq, seen.contiguous, seen.gaps, seen.duplicates) == (5, 5, [], 0)


def test_a_batch_ahead_opens_a_gap() -> None:
    """What lies between is asked for again."""
    seen = tracker(0, 4)
    assert seen.gaps == [(1, 3)]
    assert seen.contiguous == 1


@pytest.mark.parametrize(
    ("seq", "left"), [(1, [(2, 3)]), (3, [(1, 2)]), (2, [(1, 1), (3, 3)])], ids=["front", "back", "middle"]
)
def test_a_resent_batch_shrinks_its_gap(seq: int, left: list[tuple[int, int]]) -> None:
    """Wherever in the gap it lies."""
    seen = tracker(0, 4)
    assert seen.admit(seq)
    assert seen.gaps == left


def test_a_gap_of_one_closes() -> None:
    """Once nothing is missing, everything is contiguous again."""
    seen = tracker(0, 2)
    assert seen.admit(1)
    assert (seen.gaps, seen.contiguous) == ([], 3)


@pytest.mark.parametrize("seq", [0, 4])
def test_a_known_batch_is_a_duplicate(seq: int) -> None:
    """A batch that was sent twice counts once."""
    seen = tracker(0, 4)
    assert not seen.admit(seq)
    assert seen.duplicates == 1
    assert seen.gaps == [(1, 3)]


def test_the_announced_end_opens_the_last_gap() -> None:
    """`end` names batches that may never have been seen."""
    seen = tracker(0)
    seen.expect(3)
    assert seen.gaps == [(1, 2)]
    seen.expect(2)
    assert seen.gaps == [(1, 2)]


def test_gaps_are_bounded_when_new_ones_open() -> None:
    """The oldest gap is given up, and its batches are counted."""
    seen = tracker(*range(0, 2 * (limits.SEQUENCE_GAPS + 2), 2))
    assert len(seen.gaps) == limits.SEQUENCE_GAPS
    assert seen.abandoned_batches == 1
    assert not seen.admit(1)


def test_gaps_are_bounded_when_one_is_split() -> None:
    """A peer that fills every other batch of one large gap can't make the list grow."""
    seen = tracker(0, 1 << 30)
    for seq in range(2, 2 * limits.SEQUENCE_GAPS + 20, 2):
        assert seen.admit(seq)
    assert len(seen.gaps) == limits.SEQUENCE_GAPS
    assert seen.abandoned_batches > 0


def test_a_gap_that_reaches_far_ahead_can_be_filled() -> None:
    """Its first batch is found however large its last number is."""
    seen = tracker((1 << 62) + 1)
    assert seen.admit(0)
    assert seen.gaps == [(1, 1 << 62)]


def test_a_number_too_far_ahead_is_not_believed() -> None:
    """One hostile number must not blind us to all that follow."""
    seen = tracker(0)
    assert seen.believable(limits.FUTURE_BATCHES)
    assert not seen.believable(limits.FUTURE_BATCHES + 1)
