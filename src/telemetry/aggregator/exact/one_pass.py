"""One pass of the search for exact values: for each range it keeps all values, or counts them in finer bins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from telemetry import limits
from telemetry.aggregator.series.ticks import Indices, TickColumns
from telemetry.statistics.hdr.layout import PAGE_BITS, PAGE_SLOTS, Floats, Integers

_OFFSET_MASK: Final = np.int64(PAGE_SLOTS - 1)
_PAGE_SHIFT: Final = np.int64(PAGE_BITS)


@dataclass(frozen=True, slots=True)
class SlotColumns:
    """Mapping from values of series to slots. Series of one layout are a group."""

    ticks: tuple[TickColumns, ...]
    """Ticks of each group."""
    group_of: NDArray[np.uint8]
    """Group of each series."""
    row_of: Indices
    """Row of each series in its group."""


class OnePass:
    """A pass over all values. A span is identified by its place in a list ordered by slot and range."""

    def __init__(self, plan: PassPlan, columns: SlotColumns) -> None:
        self._columns = columns
        self._waiting_spans = plan.waiting
        self.spans = sorted(
            plan.kept + plan.narrowed, key=lambda span: (span.group, span.row, span.slot, span.first)
        )
        self.bins = plan.bins
        index_by_span = {id(span): number for number, span in enumerate(self.spans)}
        self.kept = KeptValues(plan.kept)
        self.narrowing = Narrowing(plan.narrowed, plan.bins)
        self.kept_places = np.array([index_by_span[id(span)] for span in plan.kept], dtype=np.int64)
        """Place of each span whose values are kept."""
        self.narrowed_places = np.array([index_by_span[id(span)] for span in plan.narrowed], dtype=np.int64)
        """Place of each span whose values are counted in finer bins."""
        self.number = np.zeros(len(self.spans), dtype=np.int64)
        """Number of each span among those that are kept, or among those that are narrowed."""
        self.number[self.kept_places] = np.arange(len(plan.kept))
        self.number[self.narrowed_places] = np.arange(len(plan.narrowed))
        self.is_kept = np.zeros(len(self.spans), dtype=np.bool_)
        self.is_kept[self.kept_places] = True
        self._all_kept = not plan.narrowed
        # a leaf may keep more: several of its series may be one of the root
        self._number_type: type[np.uint16] | type[np.uint32] = (
            np.uint16 if len(plan.kept) <= KEPT_SPANS else np.uint32
        )
        self.seen = np.zeros(len(self.spans), dtype=np.int64)
        """Number of values that were fed, for each span."""
        self._too_many = np.array([span.count + 1 for span in self.spans], dtype=np.int64)
        self._ranges = _Ranges(self.spans)
        self._lookups = [_Lookup(number, ticks, self.spans) for number, ticks in enumerate(columns.ticks)]
        self._waiting: list[tuple[Indices, Floats]] = []
        self._waiting_events = 0

    def feed(self, index: Indices, value: Floats) -> None:
        """Process values of series, in any order and portions.

        Small portions wait for others, so the arrays must not be changed afterwards.
        """
        self._waiting.append((index, value))
        self._waiting_events += value.size
        if self._waiting_events >= limits.EXACT_EVENTS:
            self.work_off()

    def work_off(self) -> None:
        """Process the portions that wait."""
        if not self._waiting_events:
            return
        index, value = self._waiting[0]
        if len(self._waiting) > 1:
            indices, values = zip(*self._waiting, strict=True)
            index, value = np.concatenate(indices), np.concatenate(values)
        self._waiting.clear()
        self._waiting_events = 0
        for start in range(0, value.size, limits.EXACT_EVENTS):
            end = start + limits.EXACT_EVENTS
            with np.errstate(over="ignore"):
                self._feed_chunk(index[start:end], value[start:end])

    def _feed_chunk(self, index: Indices, value: Floats) -> None:
        smallest, largest = value.item(value.argmin()), value.item(value.argmax())
        if len(self._lookups) == 1:
            self._feed_group(0, index, value, smallest, largest)
            return
        numbers = self._columns.group_of.take(index)
        for number in range(len(self._lookups)):
            chosen = np.flatnonzero(numbers == number)
            if chosen.size:
                rows = self._columns.row_of.take(index[chosen])
                self._feed_group(number, rows, value[chosen], smallest, largest)

    def _feed_group(self, group: int, rows: Indices, value: Floats, smallest: float, largest: float) -> None:
        positions, places = self._lookups[group].find(rows, value, smallest, largest)
        if not positions.size:
            return
        value = value[positions]
        for chosen, members in self._ranges.divide(places, value):
            self._take(members, chosen)

    def _take(self, places: Integers, value: Floats) -> None:
        self.seen += np.bincount(places, minlength=self.seen.size)
        numbers = self.number[places]
        if self._all_kept:
            self.kept.add(numbers.astype(self._number_type), value)
            return
        kept = self.is_kept[places]
        if kept.any():
            self.kept.add(numbers[kept].astype(self._number_type), value[kept])
        rest = ~kept
        self.narrowing.add(numbers[rest], value[rest])

    def add_bins(self, places: Integers, bins: Integers, counts: Integers, lows: Integers, highs: Integers) -> None:
        """Add counts of values that were counted elsewhere, for narrowed spans."""
        np.add.at(self.seen, places, counts)
        np.minimum(self.seen, self._too_many, out=self.seen)  # so that no sum overflows
        self.narrowing.merge(self.number[places], bins, counts, lows, highs)

    def end(self) -> tuple[Resolved, list[ValueRange], list[tuple[int, str]]]:
        """Return values found, spans for the next pass, and series that disagree."""
        self.work_off()
        resolved: Resolved = []
        spans = list(self._waiting_spans)
        for number, index in enumerate(self.kept_places.tolist()):
            if self._complete(index):
                resolved += self.kept.resolve(number)
        for number, index in enumerate(self.narrowed_places.tolist()):
            if self._complete(index):
                values, narrower = self.narrowing.resolve(number)
                resolved += values
                spans += narrower
        return resolved, spans, self._problems()

    def _complete(self, index: int) -> bool:
        return int(self.seen[index]) == self.spans[index].count

    def _problems(self) -> list[tuple[int, str]]:
        return [
            (span.series, f"the journal has {seen} values, but the histogram has {span.count}")
            for span, seen in zip(self.spans, self.seen.tolist(), strict=True)
            if seen != span.count
        ]


class _Lookup:
    """Mapping from a value to the first span of its slot: by page, then by slot within a wanted page."""

    def __init__(self, group: int, ticks: TickColumns, spans: list[ValueRange]) -> None:
        self._ticks = ticks
        pages = ticks.layout.pages
        self._pages_per_row = np.int64(pages)
        own = [(index, span) for index, span in enumerate(spans) if span.group == group]
        keys = [span.row * pages + (span.slot >> PAGE_BITS) for _, span in own]
        wanted = {key: number for number, key in enumerate(dict.fromkeys(keys), start=1)}
        self._wanted_pages = np.zeros(ticks.rows * pages, dtype=np.int32)
        self._wanted_pages[list(wanted)] = list(wanted.values())
        self._spans = np.full((len(wanted) + 1) << PAGE_BITS, -1, dtype=np.int64)
        for (index, span), key in zip(reversed(own), reversed(keys), strict=True):
            self._spans[(wanted[key] << PAGE_BITS) + (span.slot & (PAGE_SLOTS - 1))] = index

    def find(self, rows: Indices, value: Floats, smallest: float, largest: float) -> tuple[Indices, Integers]:
        """Return the positions of values in wanted slots, and the first span of each slot."""
        slots = self._ticks.slots(rows, value, smallest, largest, count=False)
        keys = np.multiply(rows, self._pages_per_row)
        keys += np.right_shift(slots, _PAGE_SHIFT)
        pages = self._wanted_pages.take(keys)
        positions = np.flatnonzero(pages)
        flat = pages[positions].astype(np.int64)
        flat <<= _PAGE_SHIFT
        flat += np.bitwise_and(slots[positions], _OFFSET_MASK)
        places = self._spans.take(flat)
        wanted = np.flatnonzero(places >= 0)
        return positions[wanted], places[wanted]


class _Ranges:
    """Selector between the spans of one slot, of which narrowing makes several."""

    def __init__(self, spans: list[ValueRange]) -> None:
        self._whole = all(span.whole for span in spans)
        self._firsts = np.array([0 if span.whole else span.first for span in spans], dtype=np.int64)
        self._lasts = np.array([HIGHEST_ORDINAL if span.whole else span.last for span in spans], dtype=np.int64)
        slots = Counter((span.group, span.row, span.slot) for span in spans)
        self._most = max(slots.values(), default=0)
        self._slot_ends = np.cumsum(np.array(list(slots.values()), dtype=np.int64)).repeat(list(slots.values()))

    def divide(self, places: Integers, value: Floats) -> Iterable[tuple[Floats, Integers]]:
        """Yield values with their spans, given the first span of each value's slot."""
        if self._whole:
            yield value, places
            return
        where = ordinals(value)
        for step in range(self._most):
            candidates = places + step
            inside = candidates < self._slot_ends[places]
            np.minimum(candidates, self._firsts.size - 1, out=candidates)
            inside &= where >= self._firsts[candidates]
            inside &= where <= self._lasts[candidates]
            if inside.any():
                yield value[inside], candidates[inside]


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
