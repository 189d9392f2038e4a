"""The gap machine against a set of numbers."""

from __future__ import annotations

from collections.abc import Iterable
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from telemetry import limits
from telemetry.wire.sequence import SequenceTracker

NUMBERS = st.integers(0, 60)


def _ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Neighbouring numbers joined."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges


class SequenceMachine(RuleBasedStateMachine):
    """Any order of batches, duplicates and announcements."""

    def __init__(self) -> None:
        super().__init__()
        self.tracker = SequenceTracker()
        self.seen: set[int] = set()
        self.end = 0
        self.duplicates = 0

    @rule(seq=NUMBERS)
    def admit(self, seq: int) -> None:
        """A batch is new exactly if its number was not seen before."""
        new = seq not in self.seen
        assert self.tracker.admit(seq) == new
        self.seen.add(seq)
        self.end = max(self.end, seq + 1)
        self.duplicates += not new

    @rule(batches=NUMBERS)
    def expect(self, batches: int) -> None:
        """An announced number moves the end, never back."""
        self.tracker.expect(batches)
        self.end = max(self.end, batches)

    @invariant()
    def agrees_with_the_set(self) -> None:
        """Gaps, end, contiguity and duplicates are those of the set of numbers seen."""
        missing = set(range(self.end)) - self.seen
        assert _ranges(number for gap in self.tracker.gaps for number in range(gap[0], gap[1] + 1)) == _ranges(
            missing
        )
        assert self.tracker.gaps == sorted(self.tracker.gaps)
        assert self.tracker.contiguous == min(missing, default=self.end)
        assert self.tracker.next_seq == self.end
        assert self.tracker.duplicates == self.duplicates
        assert self.tracker.abandoned_batches == 0


TestSequence = SequenceMachine.TestCase


@given(st.lists(st.integers(0, limits.FUTURE_BATCHES), max_size=60))
def test_numbers_far_apart_are_told_apart(jumps: list[int]) -> None:
    """Gaps of any believable width are filled by their first, last and middle numbers, each once."""
    tracker = SequenceTracker()
    for jump in jumps:
        seq = tracker.next_seq + jump
        assert tracker.believable(seq) == (jump < limits.FUTURE_BATCHES)
        assert tracker.admit(seq)
    for first, last in tracker.gaps:
        inside = {first, last, (first + last) // 2}
        assert [tracker.admit(seq) for seq in sorted(inside)] == [True] * len(inside)
        assert not tracker.admit(first)


@given(st.lists(st.integers(0, 200), max_size=120), st.integers(1, 6))
def test_the_number_of_gaps_is_bounded_and_nothing_is_admitted_twice(numbers: list[int], bound: int) -> None:
    """Beyond the bound the oldest gaps are given up: every number is seen, missing, or given up."""
    with patch.object(limits, "SEQUENCE_GAPS", bound):
        tracker = SequenceTracker()
        seen: set[int] = set()
        for seq in numbers:
            if tracker.admit(seq):
                assert seq not in seen
                seen.add(seq)
            assert len(tracker.gaps) <= bound
            missing = sum(last - first + 1 for first, last in tracker.gaps)
            assert tracker.next_seq == len(seen) + missing + tracker.abandoned_batches
