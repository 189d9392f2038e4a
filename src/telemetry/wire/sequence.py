"""Batch numbers of one producer as sets of ranges: received, missing, duplicate and lost.

admit(new batch)   → True, and its events count
admit(known batch) → False, a duplicate
a batch ahead      → a gap, kept as a range until it is filled or given up
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from telemetry import limits
from telemetry.wire.drop_reasons import Count

Range = tuple[int, int]
"""A range `[first, last]`."""

_MOST = (1 << 63) - 1  # the largest number that the wire can carry
_Batches = Annotated[int, Meta(ge=0, le=_MOST)]
_FIRST = itemgetter(0)


class SequenceTracker:
    """The batch numbers received so far. Bounded: beyond `most_gaps` gaps the oldest gap is given up.

    A batch that arrives after it was given up is new, because it was never applied. It is recognized while its
    range is remembered and before `close`; otherwise it counts as a duplicate.
    """

    __slots__ = (
        *("_came_below", "_closed", "_gaps", "_given_up", "_most_gaps"),
        *("duplicates", "next_seq", "repaired", "unrepairable"),
    )

    STATE: ClassVar[Mapping[str, Any]] = {
        "next_seq": _Batches,
        "duplicates": Count,
        "repaired": Count,
        "unrepairable": _Batches,
        "_came_below": _Batches,
        "_gaps": list[Range],
        "_given_up": list[Range],
        "_closed": bool,
    }
    DERIVED: ClassVar[tuple[str, ...]] = ("_most_gaps",)

    def __init__(self, most_gaps: Callable[[], int] = lambda: limits.SEQUENCE_GAPS) -> None:
        self._most_gaps = most_gaps
        self.next_seq = 0
        """One above the highest number received or announced."""
        self.duplicates = 0
        self.repaired = 0
        """Number of batches that arrived after a later one."""
        self.unrepairable = 0
        """Number of batches given up."""
        self._came_below = 0
        """One above the highest number received: numbers from here to `next_seq` were only announced."""
        self._gaps: list[Range] = []
        self._given_up: list[Range] = []
        self._closed = False

    def restored(self) -> None:
        if not (_ascend(self._gaps, self.next_seq) and _ascend(self._given_up, self.next_seq)):
            raise ValueError("invalid ranges of batches")
        if self._came_below > self.next_seq:
            raise ValueError("unknown batches")

    @property
    def contiguous(self) -> int:
        """First number that may still arrive: all batches below it have arrived or were given up."""
        return self._gaps[0][0] if self._gaps else self.next_seq

    @property
    def gaps(self) -> list[Range]:
        """Missing ranges that may still arrive, ascending."""
        return list(self._gaps)

    @property
    def given_up(self) -> list[Range]:
        """List of the ranges that were given up, ascending: the last `limits.GAPS_SHOWN` of them."""
        return list(self._given_up)

    def unbroken_from(self, seq: int) -> int:
        """Return the first number of the gap-free range that ends at the received batch `seq`.

        Return 0 if no gap is below it.
        """
        at = bisect_left(self._gaps, seq, key=_FIRST)
        return self._gaps[at - 1][1] + 1 if at else 0

    def expect(self, batches: int) -> None:
        """Record that the producer made this many batches: those not received yet are a gap."""
        if batches > self.next_seq:
            self._open_gap(self.next_seq, batches - 1)
            self.next_seq = batches

    def believable(self, seq: int) -> bool:
        return seq < self.next_seq + limits.FUTURE_BATCHES and seq < _MOST

    def admit(self, seq: int) -> bool:
        """Return whether this batch is new, and record it."""
        if seq == self.next_seq:
            self.next_seq = self._came_below = seq + 1
            return True
        if seq > self.next_seq:
            self._open_gap(self.next_seq, seq - 1)
            self.next_seq = self._came_below = seq + 1
            return True
        if _take_out(self._gaps, seq):
            self.repaired += seq < self._came_below
            self._give_up_beyond_bound()  # filling the middle of a gap makes two gaps
        elif not self._closed and _take_out(self._given_up, seq):
            self.repaired += 1
            self.unrepairable -= 1
            self._forget_beyond_bound()
        else:
            self.duplicates += 1
            return False
        self._came_below = max(self._came_below, seq + 1)
        return True

    def give_up(self, first: int, last: int) -> int:
        """Give up the missing batches within `[first, last]`. Returns their number."""
        before = self.unrepairable
        kept: list[Range] = []
        for gap in self._gaps:
            within = max(first, gap[0]), min(last, gap[1])
            if within[0] > within[1]:
                kept.append(gap)
            else:
                kept += _parts((gap[0], within[0] - 1), (within[1] + 1, gap[1]))
                self._note_given_up(within)
        self._gaps = kept
        self._give_up_beyond_bound()
        return self.unrepairable - before

    def close(self) -> None:
        """Refuse batches that were given up, from now on."""
        self._closed = True

    def _open_gap(self, first: int, last: int) -> None:
        self._gaps.append((first, last))
        self._give_up_beyond_bound()

    def _give_up_beyond_bound(self) -> None:
        most = self._most_gaps()
        while len(self._gaps) > most:
            self._note_given_up(self._gaps.pop(0))

    def _note_given_up(self, gap: Range) -> None:
        """Merge the range with its neighbours, so that no number is in two ranges."""
        first, last = gap
        self.unrepairable += last - first + 1
        at = bisect_right(self._given_up, first, key=_FIRST)
        start, end = at, at
        if at and self._given_up[at - 1][1] == first - 1:
            start, first = at - 1, self._given_up[at - 1][0]
        if at < len(self._given_up) and self._given_up[at][0] == last + 1:
            end, last = at + 1, self._given_up[at][1]
        self._given_up[start:end] = [(first, last)]
        self._forget_beyond_bound()

    def _forget_beyond_bound(self) -> None:
        del self._given_up[: max(0, len(self._given_up) - limits.GAPS_SHOWN)]


def _take_out(ranges: list[Range], seq: int) -> bool:
    """Remove a number from the range that holds it; return False if it is in no range."""
    at = bisect_right(ranges, seq, key=_FIRST) - 1
    if at < 0 or ranges[at][1] < seq:
        return False
    first, last = ranges[at]
    ranges[at : at + 1] = _parts((first, seq - 1), (seq + 1, last))
    return True


def _ascend(ranges: list[Range], end: int) -> bool:
    """Return whether the ranges lie below `end`, in order and without overlap."""
    before = -1
    for first, last in ranges:
        if not before < first <= last:
            return False
        before = last
    return before < end


def _parts(*ranges: Range) -> Iterator[Range]:
    """Yield the ranges that are not empty."""
    return (part for part in ranges if part[0] <= part[1])
