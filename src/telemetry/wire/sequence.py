"""What came, what is missing, what came twice: one producer's batches as a set of ranges.

admit(new batch)   → True, and its events count
admit(known batch) → False, a duplicate
a batch ahead      → a gap, remembered as a range until it is filled
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter

from telemetry import limits

_FIRST = itemgetter(0)


class SequenceTracker:
    """Batch numbers seen so far. Bounded: past `limits.SEQUENCE_GAPS` gaps the oldest is given up."""

    __slots__ = ("_gaps", "abandoned_batches", "duplicates", "next_seq")

    def __init__(self) -> None:
        self.next_seq = 0
        """One above the highest number seen."""
        self.duplicates = 0
        self.abandoned_batches = 0
        self._gaps: list[tuple[int, int]] = []

    @property
    def contiguous(self) -> int:
        """All batches below this number have come or were given up."""
        return self._gaps[0][0] if self._gaps else self.next_seq

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Ranges `[first, last]` that never came, ascending."""
        return list(self._gaps)

    def expect(self, batches: int) -> None:
        """The producer says it made this many batches: what is not here yet is a gap."""
        if batches > self.next_seq:
            self._open_gap(self.next_seq, batches - 1)
            self.next_seq = batches

    def believable(self, seq: int) -> bool:
        return seq < self.next_seq + limits.FUTURE_BATCHES

    def admit(self, seq: int) -> bool:
        """Whether this batch is new."""
        if seq == self.next_seq:
            self.next_seq = seq + 1
            return True
        if seq > self.next_seq:
            self._open_gap(self.next_seq, seq - 1)
            self.next_seq = seq + 1
            return True
        return self._fill(seq)

    def _open_gap(self, first: int, last: int) -> None:
        self._gaps.append((first, last))
        self._give_up_beyond_bound()

    def _give_up_beyond_bound(self) -> None:
        while len(self._gaps) > limits.SEQUENCE_GAPS:
            first, last = self._gaps.pop(0)
            self.abandoned_batches += last - first + 1

    def _fill(self, seq: int) -> bool:
        at = bisect_right(self._gaps, seq, key=_FIRST) - 1
        if at < 0 or self._gaps[at][1] < seq:
            self.duplicates += 1
            return False
        first, last = self._gaps[at]
        self._gaps[at : at + 1] = [part for part in ((first, seq - 1), (seq + 1, last)) if part[0] <= part[1]]
        self._give_up_beyond_bound()  # a filled middle makes two gaps of one
        return True
