"""The gap machine against sets of numbers."""

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


def _numbers(ranges: Iterable[tuple[int, int]]) -> set[int]:
    return {number for first, last in ranges for number in range(first, last + 1)}


class SequenceMachine(RuleBasedStateMachine):
    """Any order of batches, duplicates, announcements and batches given up."""

    def __init__(self) -> None:
        super().__init__()
        self.tracker = SequenceTracker()
        self.seen: set[int] = set()
        self.given_up: set[int] = set()
        self.end = 0
        self.duplicates = 0
        self.repaired = 0
        self.came_below = 0
        self.closed = False

    @property
    def missing(self) -> set[int]:
        return set(range(self.end)) - self.seen - self.given_up

    @rule(seq=NUMBERS)
    def admit(self, seq: int) -> None:
        """A batch is new exactly if its number was not seen before, nor given up when the account was closed."""
        new = seq not in self.seen and not (self.closed and seq in self.given_up)
        late = new and (seq < self.came_below or seq in self.given_up)
        assert self.tracker.admit(seq) == new
        if new:
            self.seen.add(seq)
            self.given_up.discard(seq)
            self.came_below = max(self.came_below, seq + 1)
        self.end = max(self.end, seq + 1)
        self.duplicates += not new
        self.repaired += late

    @rule(batches=NUMBERS)
    def expect(self, batches: int) -> None:
        """An announced number moves the end, never back."""
        self.tracker.expect(batches)
        self.end = max(self.end, batches)

    @rule(first=NUMBERS, last=NUMBERS)
    def give_up(self, first: int, last: int) -> None:
        """Exactly the missing ones of a range are given up."""
        gone = {number for number in self.missing if first <= number <= last}
        assert self.tracker.give_up(first, last) == len(gone)
        self.given_up |= gone

    @rule()
    def close(self) -> None:
        self.tracker.close()
        self.closed = True

    @rule(seq=NUMBERS)
    def look_below(self, seq: int) -> None:
        """Check from where on nothing is missing below a number that came."""
        if seq in self.seen:
            since = max((gone + 1 for gone in self.missing if gone < seq), default=0)
            assert self.tracker.unbroken_from(seq) == since

    @invariant()
    def agrees_with_the_sets(self) -> None:
        """Gaps, end, contiguity and all counts are those of the sets of numbers."""
        assert _ranges(_numbers(self.tracker.gaps)) == _ranges(self.missing)
        assert self.tracker.gaps == sorted(self.tracker.gaps)
        assert self.tracker.given_up == _ranges(self.given_up)
        assert self.tracker.contiguous == min(self.missing, default=self.end)
        assert self.tracker.next_seq == self.end
        assert self.tracker.duplicates == self.duplicates
        assert self.tracker.repaired == self.repaired
        assert self.tracker.unrepairable == len(self.given_up)


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


@given(
    st.lists(st.integers(0, 200) | st.tuples(st.integers(0, 200), st.integers(0, 200)), max_size=120),
    st.integers(1, 6),
    st.integers(1, 4),
)
def test_all_ranges_are_bounded_and_nothing_is_admitted_twice(
    steps: list[int | tuple[int, int]], gaps: int, given_up: int
) -> None:
    """Beyond the bounds the oldest are given up, then forgotten: every number is seen, missing, or unrepairable."""
    with patch.multiple(limits, SEQUENCE_GAPS=gaps, GAPS_SHOWN=given_up):
        tracker = SequenceTracker()
        seen: set[int] = set()
        for step in steps:
            if isinstance(step, tuple):
                tracker.give_up(*step)
            elif tracker.admit(step):
                assert step not in seen
                seen.add(step)
            assert len(tracker.gaps) <= gaps
            assert len(tracker.given_up) <= given_up
            missing, known = _numbers(tracker.gaps), _numbers(tracker.given_up)
            assert not missing & known
            assert not (missing | known) & seen
            assert tracker.next_seq == len(seen) + len(missing) + tracker.unrepairable
