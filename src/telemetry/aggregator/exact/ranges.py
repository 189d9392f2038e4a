"""Handling of the values of a wanted slot in one pass: keep them all, or count them in finer bins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

HIGHEST_ORDINAL: Final = int(np.float64(np.finfo(np.float64).max).view(np.int64))
_ONE: Final = np.int64(1)
VALUE_BYTES: Final = 8
BIN_BYTES: Final = 24
KEPT_SHARE: Final = 0.75
"""Share of the memory for kept values. The rest is for bins."""
KEPT_SPANS: Final = 1 << 16
"""Maximum number of spans kept in one pass. Their numbers fit in 16 bits, which numpy sorts by radix."""
FEWEST_BINS: Final = 16
MOST_BINS: Final = 1 << 16


def ordinals(value: Floats) -> Integers:
    """Return the ordinals of finite floats >= 0 among all floats.

    They have the order of the values, without gaps. -0.0 counts as 0.
    """
    places: Integers = np.add(value, 0.0).view(np.int64)
    return places


def ordinal(value: float) -> int:
    """Return the ordinal of one value. Infinity counts as the largest float."""
    return min(int(np.float64(value).view(np.int64)), HIGHEST_ORDINAL)


def from_ordinal(number: int) -> float:
    return float(np.int64(number).view(np.float64))


@dataclass(frozen=True, slots=True)
class WantedPercentile:
    """A percentile of one series, at a rank (from 1) among the values of its span."""

    series: int
    key: int
    rank: int


@dataclass(frozen=True, slots=True)
class ValueRange:
    """A range of values of one slot that holds wanted ranks."""

    series: int
    group: int
    row: int
    slot: int
    first: int
    """Ordinal of the smallest possible value."""
    last: int
    """Ordinal of the largest possible value."""
    count: int
    """Number of values according to the histogram, or to the pass before."""
    wants: tuple[WantedPercentile, ...]
    whole: bool
    """True if the range holds all values of its slot, even those that rounding puts outside its bounds."""


Resolved = list[tuple[WantedPercentile, float]]


class KeptValues:
    """Store of all values of some spans, each in a region as long as its count."""

    def __init__(self, spans: list[ValueRange]) -> None:
        self._spans = spans
        counts = np.array([span.count for span in spans], dtype=np.int64)
        self._ends = np.cumsum(counts)
        self._starts = self._ends - counts
        self._next = self._starts.copy()
        self._values = np.empty(int(counts.sum()))

    def add(self, numbers: NDArray[np.uint16 | np.uint32], value: Floats) -> None:
        """Store values of the spans with the given numbers. Values beyond a span's count are left out."""
        order = np.argsort(numbers, kind="stable")
        numbers, value = numbers[order], value[order]
        counts = np.bincount(numbers, minlength=self._next.size)
        befores = np.cumsum(counts) - counts
        places = (self._next - befores)[numbers] + np.arange(numbers.size)
        self._next += counts
        if (self._next > self._ends).any():
            fitting = places < self._ends[numbers]
            places, value = places[fitting], value[fitting]
        self._values[places] = value

    def region(self, number: int) -> Floats:
        """Return the values of a span that have arrived."""
        return self._values[self._starts[number] : min(self._next[number], self._ends[number])]

    def resolve(self, number: int) -> Resolved:
        """Return the wanted values of a span whose values have all arrived."""
        region = self._values[self._starts[number] : self._ends[number]]
        wants = self._spans[number].wants
        region.partition(sorted({want.rank - 1 for want in wants}))
        return [(want, float(region[want.rank - 1])) for want in wants]


class Narrowing:
    """Counter of values of spans too large to keep. Its bins hold equally many floats each.

    Each bin records its smallest and largest value. So repeated values are resolved at once, and the next pass
    examines only the bin of a wanted rank.
    """

    def __init__(self, spans: list[ValueRange], bins: int) -> None:
        self._spans = spans
        self._bins = bins
        self._firsts = np.array([span.first for span in spans], dtype=np.int64)
        widths = [(span.last - span.first) // bins for span in spans]
        self._shifts = np.array([width.bit_length() for width in widths], dtype=np.int64)
        size = len(spans) * bins
        self._counts = np.zeros(size, dtype=np.int64)
        self._lows = np.full(size, HIGHEST_ORDINAL, dtype=np.int64)
        self._highs = np.zeros(size, dtype=np.int64)

    def add(self, numbers: Integers, value: Floats) -> None:
        """Count values of the spans with the given numbers. Values outside a span's range count at its ends."""
        places = ordinals(value)
        bins = self.bins_of(numbers, places)
        bins += numbers * self._bins
        np.add.at(self._counts, bins, _ONE)
        np.minimum.at(self._lows, bins, places)
        np.maximum.at(self._highs, bins, places)

    def bins_of(self, numbers: Integers, places: Integers) -> Integers:
        """Return the bin of each ordinal in the span with the given number."""
        bins = (places - self._firsts[numbers]) >> self._shifts[numbers]
        np.clip(bins, 0, self._bins - 1, out=bins)
        return bins

    def occupied(self) -> tuple[Integers, Integers, Integers, Integers, Integers]:
        """Return the bins with values: number of the span, bin, count, smallest and largest ordinal."""
        used = np.flatnonzero(self._counts)
        numbers, bins = np.divmod(used, self._bins)
        return numbers, bins, self._counts[used], self._lows[used], self._highs[used]

    def merge(self, numbers: Integers, bins: Integers, counts: Integers, lows: Integers, highs: Integers) -> None:
        """Add the occupied bins of another counter with the same spans."""
        at = numbers * self._bins + bins
        np.add.at(self._counts, at, counts)
        np.minimum.at(self._lows, at, lows)
        np.maximum.at(self._highs, at, highs)

    def resolve(self, number: int) -> tuple[Resolved, list[ValueRange]]:
        """Return the resolved values of a span whose values have all arrived, and narrower spans for the rest."""
        span, start = self._spans[number], number * self._bins
        running = np.cumsum(self._counts[start : start + self._bins])
        resolved: Resolved = []
        open_wants: dict[int, list[WantedPercentile]] = {}
        for want in span.wants:
            offset = int(np.searchsorted(running, want.rank))
            if self._lows[start + offset] == self._highs[start + offset]:
                resolved.append((want, from_ordinal(self._lows[start + offset])))
            else:
                before = int(running[offset]) - int(self._counts[start + offset])
                open_wants.setdefault(offset, []).append(
                    WantedPercentile(want.series, want.key, want.rank - before)
                )
        return resolved, [self._narrower(span, start + offset, wants) for offset, wants in open_wants.items()]

    def _narrower(self, span: ValueRange, index: int, wants: list[WantedPercentile]) -> ValueRange:
        first, last = int(self._lows[index]), int(self._highs[index])
        return ValueRange(
            span.series, span.group, span.row, span.slot, first, last, int(self._counts[index]), tuple(wants), False
        )


@dataclass(frozen=True, slots=True)
class PassPlan:
    """Handling of each open span in one pass."""

    kept: list[ValueRange]
    narrowed: list[ValueRange]
    bins: int
    waiting: list[ValueRange]


def plan_pass(spans: list[ValueRange], memory_bytes: int) -> PassPlan:
    """Return a plan that keeps the smallest spans and narrows the others.

    Every pass makes progress with at least one.
    """
    by_count = sorted(spans, key=lambda span: span.count)
    room = int(memory_bytes * KEPT_SHARE) // VALUE_BYTES
    fitting = 0
    while fitting < min(len(by_count), KEPT_SPANS) and by_count[fitting].count <= room:
        room -= by_count[fitting].count
        fitting += 1
    large = by_count[fitting:]
    all_bins = max(int(memory_bytes * (1.0 - KEPT_SHARE)) // BIN_BYTES, FEWEST_BINS)
    narrowed = large[: all_bins // FEWEST_BINS]
    bins = min(all_bins // max(len(narrowed), 1), MOST_BINS)
    return PassPlan(by_count[:fitting], narrowed, bins, large[len(narrowed) :])
