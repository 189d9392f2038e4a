"""What came, what is missing, what came twice, what will never come: one producer's batches as sets of ranges.

admit(new batch)   → True, and its events count
admit(known batch) → False, a duplicate
a batch ahead      → a gap, remembered as a range until it is filled or given up
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from telemetry import limits
from telemetry.drop_reasons import Count

Range = tuple[int, int]
"""`[first, last]`"""

_MOST = (1 << 63) - 1  # the wire has no higher number
_Batches = Annotated[int, Meta(ge=0, le=_MOST)]
_FIRST = itemgetter(0)


class SequenceTracker:
    """Batch numbers seen so far. Bounded: past `most_gaps` gaps the oldest is given up.

    A batch that comes after it was given up is new: it never was applied. That can be told as long as its range is
    remembered, and until `close`; otherwise it counts as a duplicate.
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
        """One above the highest number heard of."""
        self.duplicates = 0
        self.repaired = 0
        """Batches that came after a later one."""
        self.unrepairable = 0
        """Batches given up."""
        self._came_below = 0
        """One above the highest number that came: those between it and `next_seq` were only announced."""
        self._gaps: list[Range] = []
        self._given_up: list[Range] = []
        self._closed = False

    def restored(self) -> None:
        if not (_ascend(self._gaps, self.next_seq) and _ascend(self._given_up, self.next_seq)):
            raise ValueError("ranges of batches that can't be")
        if self._came_below > self.next_seq:
            raise ValueError("batches that nobody has heard of")

    @property
    def contiguous(self) -> int:
        """All batches below this number have come or were given up."""
        return self._gaps[0][0] if self._gaps else self.next_seq

    @property
    def gaps(self) -> list[Range]:
        """What is missing and may still come, ascending."""
        return list(self._gaps)

    @property
    def given_up(self) -> list[Range]:
        """What will not come, ascending: the last `limits.GAPS_SHOWN` ranges of it."""
        return list(self._given_up)

    def unbroken_from(self, seq: int) -> int:
        """From this number up to `seq`, which came, nothing is missing; 0 if nothing is below it either."""
        at = bisect_left(self._gaps, seq, key=_FIRST)
        return self._gaps[at - 1][1] + 1 if at else 0

    def expect(self, batches: int) -> None:
        """The producer says it made this many batches: what is not here yet is a gap."""
        if batches > self.next_seq:
            self._open_gap(self.next_seq, batches - 1)
            self.next_seq = batches

    def believable(self, seq: int) -> bool:
        return seq < self.next_seq + limits.FUTURE_BATCHES and seq < _MOST

    def admit(self, seq: int) -> bool:
        """Whether this batch is new."""
        if seq == self.next_seq:
            self.next_seq = self._came_below = seq + 1
            return True
        if seq > self.next_seq:
            self._open_gap(self.next_seq, seq - 1)
            self.next_seq = self._came_below = seq + 1
            return True
        if _take_out(self._gaps, seq):
            self.repaired += seq < self._came_below
            self._give_up_beyond_bound()  # a filled middle makes two gaps of one
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
        """What is missing within `[first, last]` will not come. Returns how many batches that is."""
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
        """From here on a batch that was given up is not taken any more."""
        self._closed = True

    def _open_gap(self, first: int, last: int) -> None:
        self._gaps.append((first, last))
        self._give_up_beyond_bound()

    def _give_up_beyond_bound(self) -> None:
        most = self._most_gaps()
        while len(self._gaps) > most:
            self._note_given_up(self._gaps.pop(0))

    def _note_given_up(self, gap: Range) -> None:
        """Joins it with its neighbours: no number is in two ranges."""
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
    """Cuts a number out of the range it is in; False if it is in none."""
    at = bisect_right(ranges, seq, key=_FIRST) - 1
    if at < 0 or ranges[at][1] < seq:
        return False
    first, last = ranges[at]
    ranges[at : at + 1] = _parts((first, seq - 1), (seq + 1, last))
    return True


def _ascend(ranges: list[Range], end: int) -> bool:
    """Whether these are ranges below `end`, in order, none in another."""
    before = -1
    for first, last in ranges:
        if not before < first <= last:
            return False
        before = last
    return before < end


def _parts(*ranges: Range) -> Iterator[Range]:
    """Those that hold anything."""
    return (part for part in ranges if part[0] <= part[1])
