"""What one pass does with the values of a wanted slot: keep them all, or count them in finer bins."""

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
"""Share of the memory for kept values; the rest is for bins."""
KEPT_SPANS: Final = 1 << 16
"""Spans kept in one pass: their numbers fit 16 bits, which numpy sorts by radix."""
FEWEST_BINS: Final = 16
MOST_BINS: Final = 1 << 16


def ordinals(value: Floats) -> Integers:
    """Places of finite floats >= 0 among all floats: ordered like the values, without gaps. -0.0 counts as 0."""
    places: Integers = np.add(value, 0.0).view(np.int64)
    return places


def ordinal(value: float) -> int:
    """The same for one value; infinity counts as the largest float."""
    return min(int(np.float64(value).view(np.int64)), HIGHEST_ORDINAL)


def from_ordinal(place: int) -> float:
    return float(np.int64(place).view(np.float64))


@dataclass(frozen=True, slots=True)
class WantedPercentile:
    """One percentile of one series, at a rank (from 1) of the values of its span."""

    series: int
    key: int
    rank: int


@dataclass(frozen=True, slots=True)
class ValueRange:
    """A range of values of one slot that holds wanted ranks."""

    group: int
    row: int
    slot: int
    first: int
    """Ordinal of the smallest value it may hold."""
    last: int
    """Ordinal of the largest value it may hold."""
    count: int
    """Values it holds according to the histogram, or to the pass before."""
    wants: tuple[WantedPercentile, ...]
    whole: bool
    """It holds all values of its slot, also those that rounding puts outside its range."""


Resolved = list[tuple[WantedPercentile, float]]


class KeptValues:
    """All values of some spans, each in a region as long as its count."""

    def __init__(self, spans: list[ValueRange]) -> None:
        self._spans = spans
        counts = np.array([span.count for span in spans], dtype=np.int64)
        self._ends = np.cumsum(counts)
        self._starts = self._ends - counts
        self._next = self._starts.copy()
        self._values = np.empty(int(counts.sum()))

    def add(self, numbers: NDArray[np.uint16], value: Floats) -> None:
        """Stores values of the spans with the given numbers. Values beyond a span's count are left out."""
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

    def resolve(self, number: int) -> Resolved:
        """The wanted values of a span whose count arrived."""
        region = self._values[self._starts[number] : self._ends[number]]
        wants = self._spans[number].wants
        region.partition(sorted({want.rank - 1 for want in wants}))
        return [(want, float(region[want.rank - 1])) for want in wants]


class Narrowing:
    """Values of spans too large to keep, counted in bins of equally many floats.

    Each bin knows its smallest and largest value, so that repeated values are resolved at once, and the next pass
    looks at no more than the bin of a wanted rank.
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
        """Counts values of the spans with the given numbers. Values outside a span's range count at its ends."""
        places = ordinals(value)
        bins = (places - self._firsts[numbers]) >> self._shifts[numbers]
        np.clip(bins, 0, self._bins - 1, out=bins)
        bins += numbers * self._bins
        np.add.at(self._counts, bins, _ONE)
        np.minimum.at(self._lows, bins, places)
        np.maximum.at(self._highs, bins, places)

    def resolve(self, number: int) -> tuple[Resolved, list[ValueRange]]:
        """What is known of a span whose count arrived, and the narrower spans that hold the rest."""
        span, start = self._spans[number], number * self._bins
        running = np.cumsum(self._counts[start : start + self._bins])
        resolved: Resolved = []
        open_wants: dict[int, list[WantedPercentile]] = {}
        for want in span.wants:
            place = int(np.searchsorted(running, want.rank))
            if self._lows[start + place] == self._highs[start + place]:
                resolved.append((want, from_ordinal(self._lows[start + place])))
            else:
                before = int(running[place]) - int(self._counts[start + place])
                open_wants.setdefault(place, []).append(WantedPercentile(want.series, want.key, want.rank - before))
        return resolved, [self._narrower(span, start + place, wants) for place, wants in open_wants.items()]

    def _narrower(self, span: ValueRange, place: int, wants: list[WantedPercentile]) -> ValueRange:
        first, last = int(self._lows[place]), int(self._highs[place])
        return ValueRange(
            span.group, span.row, span.slot, first, last, int(self._counts[place]), tuple(wants), False
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """What one pass does with each open span."""

    kept: list[ValueRange]
    narrowed: list[ValueRange]
    bins: int
    waiting: list[ValueRange]


def plan_pass(spans: list[ValueRange], memory_bytes: int) -> Plan:
    """Keeps the smallest spans, narrows the others. At least one span makes progress in every pass."""
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
    return Plan(by_count[:fitting], narrowed, bins, large[len(narrowed) :])
