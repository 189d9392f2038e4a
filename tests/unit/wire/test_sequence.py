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
    """A batch ahead opens a gap, and what lies between is asked for again."""
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
    """A gap of one closes, and everything is contiguous once nothing is missing."""
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


def test_batches_that_come_in_order_after_the_announced_end_are_not_repaired() -> None:
    """`end` has a way of its own, and overtakes the last ones. One that overtakes another still makes it late."""
    seen = tracker(0)
    seen.expect(5)
    assert [seen.admit(seq) for seq in (1, 3, 2, 4)] == [True] * 4
    assert (seen.repaired, seen.gaps, seen.duplicates) == (1, [], 0)


def test_a_number_that_nobody_heard_of_did_not_come() -> None:
    """Nor is it restored."""
    seen = tracker(2)
    seen._came_below = 4
    with pytest.raises(ValueError, match="unknown batches"):
        seen.restored()


@pytest.mark.parametrize(("seq", "since"), [(0, 0), (1, 0), (2, 2), (4, 4), (5, 4), (7, 7), (9, 7)])
def test_where_the_unbroken_part_below_a_batch_begins(seq: int, since: int) -> None:
    """The unbroken part begins behind the last batch that is missing below.

    A batch that is given up is not missing.
    """
    seen = tracker(0, 4, 5, 7)
    seen.give_up(2, 2)
    assert seen.gaps == [(1, 1), (3, 3), (6, 6)]
    assert seen.unbroken_from(seq) == since


def test_gaps_are_bounded_when_new_ones_open() -> None:
    """The oldest gap is given up, and its batches are counted."""
    seen = tracker(*range(0, 2 * (limits.SEQUENCE_GAPS + 2), 2))
    assert len(seen.gaps) == limits.SEQUENCE_GAPS
    assert (seen.unrepairable, seen.given_up) == (1, [(1, 1)])
    assert seen.contiguous == 3


def test_gaps_are_bounded_when_one_is_split() -> None:
    """A peer that fills every other batch of one large gap can't make the list grow."""
    seen = tracker(0, 1 << 30)
    for seq in range(2, 2 * limits.SEQUENCE_GAPS + 20, 2):
        assert seen.admit(seq)
    assert len(seen.gaps) == limits.SEQUENCE_GAPS
    assert seen.unrepairable > 0


def test_what_fills_a_gap_is_repaired() -> None:
    """Batches that came out of order are told apart from those that came in order, and from duplicates."""
    seen = tracker(0, 4, 2, 2)
    assert (seen.repaired, seen.duplicates, seen.unrepairable) == (1, 1, 0)


@pytest.mark.parametrize(
    ("first", "last", "count", "gaps", "given_up"),
    [
        (1, 3, 3, [(5, 5)], [(1, 3)]),
        (2, 2, 1, [(1, 1), (3, 3), (5, 5)], [(2, 2)]),
        (0, 1, 1, [(2, 3), (5, 5)], [(1, 1)]),
        (3, 99, 2, [(1, 2)], [(3, 3), (5, 5)]),
        (0, (1 << 63) - 1, 4, [], [(1, 3), (5, 5)]),
        (4, 4, 0, [(1, 3), (5, 5)], []),
        (3, 2, 0, [(1, 3), (5, 5)], []),
    ],
)
def test_only_gaps_can_be_given_up(
    first: int, last: int, count: int, gaps: list[tuple[int, int]], given_up: list[tuple[int, int]]
) -> None:
    """Only the missing parts of a named range are given up.

    Batches that have come stay, and those to come may come.
    """
    seen = tracker(0, 4, 6)
    assert seen.give_up(first, last) == count == seen.unrepairable
    assert (seen.gaps, seen.given_up) == (gaps, given_up)
    assert seen.contiguous == min((gap[0] for gap in gaps), default=7)
    assert seen.admit(7)


def test_what_was_given_up_and_comes_after_all_is_new() -> None:
    """A batch that was given up as lost, and arrives late, is new: it was never applied.

    The batch counts as repaired, once, and no longer as unrepairable.
    """
    seen = tracker(0, 4)
    seen.give_up(1, 3)
    assert [seen.admit(2), seen.admit(2)] == [True, False]
    assert (seen.unrepairable, seen.repaired, seen.duplicates) == (2, 1, 1)
    assert seen.given_up == [(1, 1), (3, 3)]
    assert seen.contiguous == 5


def test_after_closing_what_was_given_up_stays_so() -> None:
    """A closed account takes in nothing below its end."""
    seen = tracker(0, 2)
    seen.give_up(1, 1)
    seen.close()
    assert not seen.admit(1)
    assert (seen.unrepairable, seen.duplicates) == (1, 1)
    assert seen.admit(3)


def test_ranges_given_up_are_joined_and_bounded() -> None:
    """Neighbours become one range; of too many the last are remembered, and all are counted."""
    seen = tracker(9)
    for first, last in ((4, 5), (0, 1), (2, 3), (7, 8)):
        seen.give_up(first, last)
    assert seen.given_up == [(0, 5), (7, 8)]
    many = tracker(*range(0, 200, 2))
    assert many.give_up(0, 198) == many.unrepairable == 99
    assert many.given_up == [(seq, seq) for seq in range(197 - 2 * limits.GAPS_SHOWN + 2, 198, 2)]
    assert not many.admit(1)


def test_a_gap_that_reaches_far_ahead_can_be_filled() -> None:
    """A gap that reaches far ahead can be filled: its first batch fits however large its last number."""
    seen = tracker((1 << 62) + 1)
    assert seen.admit(0)
    assert seen.gaps == [(1, 1 << 62)]


def test_a_number_too_far_ahead_is_not_believed() -> None:
    """One hostile number must not blind us to all that follow."""
    seen = tracker(0)
    assert seen.believable(limits.FUTURE_BATCHES)
    assert not seen.believable(limits.FUTURE_BATCHES + 1)
    assert not tracker((1 << 63) - 3).believable((1 << 63) - 1)


@pytest.mark.parametrize(
    "ranges", [[(1, 3), (2, 4)], [(5, 6), (1, 2)], [(3, 2)], [(-2, -1)], [(8, 10)], [(1, 1), (1, 1)]]
)
def test_ranges_that_cant_be_are_not_restored(ranges: list[tuple[int, int]]) -> None:
    """Ranges out of order or not below the next number are refused, as look-up goes by halving."""
    for name in ("_gaps", "_given_up"):
        seen = tracker(9)
        setattr(seen, name, ranges)
        with pytest.raises(ValueError, match="invalid ranges"):
            seen.restored()
    tracker(0, 4, 6).restored()
