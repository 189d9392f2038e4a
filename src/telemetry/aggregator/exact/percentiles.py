"""Exact percentiles in constant memory.

The histogram gives slot and rank of each percentile. A pass over all values then picks the value. Only values in
wanted slots are processed further. A slot too full for the memory needs further passes, each over a range thousands
of times narrower. A slot that holds only one integer, in a series of integers, needs no pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from telemetry import limits
from telemetry.aggregator.exact.ranges import (
    HIGHEST_ORDINAL,
    KeptValues,
    Narrowing,
    Resolved,
    ValueRange,
    WantedPercentile,
    ordinal,
    ordinals,
    plan_pass,
)
from telemetry.aggregator.series.ticks import Indices, TickColumns
from telemetry.hdr.layout import PAGE_BITS, PAGE_SLOTS, Floats, Integers
from telemetry.hdr.percentiles import Found

_OFFSET_MASK: Final = np.int64(PAGE_SLOTS - 1)
_PAGE_SHIFT: Final = np.int64(PAGE_BITS)


@dataclass(frozen=True, slots=True)
class GroupTargets:
    """Wanted slots of the series of one layout."""

    ticks: TickColumns
    members: Indices
    """Series index of each row."""
    rows: Indices
    """Rows that have values, one per line of `found`."""
    found: Found


@dataclass(frozen=True, slots=True)
class ExactTargets:
    """Targets of the exact pass, and the mapping from values to slots."""

    percentiles: tuple[str, ...]
    groups: tuple[GroupTargets, ...]
    group_of: NDArray[np.uint8]
    row_of: Indices
    integral: NDArray[np.bool_]
    """True for series whose values are all integers below 2**53."""


class ExactPass:
    """A search for exact values. Feed it all recorded values, call `end_pass`, and repeat until that returns True.

    For one thread.
    """

    def __init__(self, targets: ExactTargets, memory_bytes: int = limits.EXACT_MEMORY_BYTES) -> None:
        self._targets = targets
        self._memory_bytes = memory_bytes
        self._values: dict[int, dict[str, float]] = {}
        self.problems: dict[int, str] = {}
        """Series whose values disagree with the histogram, and the disagreement."""
        self._waiting: list[tuple[Indices, Floats]] = []
        self._waiting_events = 0
        resolved, spans = _first_spans(targets)
        self._note(resolved)
        self._begin(spans)

    @property
    def done(self) -> bool:
        """True if all wanted values were found, so that no further pass is needed."""
        return not self._pass.open

    def feed(self, index: Indices, value: Floats) -> None:
        """Process values that `SeriesTable.record` got, in any order and portions.

        Small portions wait for others, so the arrays must not be changed afterwards.
        """
        if self.done:
            return
        self._waiting.append((index, value))
        self._waiting_events += value.size
        if self._waiting_events >= limits.EXACT_EVENTS:
            self._work_off()

    def _work_off(self) -> None:
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

    def end_pass(self) -> bool:
        """End a pass. Return True if all wanted values were found, False if all values must be fed once more."""
        self._work_off()
        resolved, spans, problems = self._pass.end()
        for index, problem in problems:
            self.problems.setdefault(index, problem)
        self._note(resolved)
        self._begin([span for span in spans if span.wants[0].series not in self.problems])
        return self.done

    def values(self) -> dict[int, dict[str, float]]:
        """Return series index → percentile → value, for series whose percentiles are all known."""
        size = len(self._targets.percentiles)
        return {
            index: values
            for index, values in self._values.items()
            if len(values) == size and index not in self.problems
        }

    def _note(self, resolved: Resolved) -> None:
        for want, value in resolved:
            self._values.setdefault(want.series, {})[self._targets.percentiles[want.key]] = value

    def _begin(self, spans: list[ValueRange]) -> None:
        self._pass = _Pass(spans, self._targets, self._memory_bytes)

    def _feed_chunk(self, index: Indices, value: Floats) -> None:
        smallest, largest = value.item(value.argmin()), value.item(value.argmax())
        groups = self._targets.groups
        if len(groups) == 1:
            self._pass.feed(0, index, value, smallest, largest)
            return
        numbers = self._targets.group_of.take(index)
        for number in range(len(groups)):
            chosen = np.flatnonzero(numbers == number)
            if chosen.size:
                rows = self._targets.row_of.take(index[chosen])
                self._pass.feed(number, rows, value[chosen], smallest, largest)


class _Pass:
    """A pass over the data. A span is identified by its position in a list ordered by slot and range."""

    def __init__(self, spans: list[ValueRange], targets: ExactTargets, memory_bytes: int) -> None:
        plan = plan_pass(spans, memory_bytes)
        self._waiting = plan.waiting
        self._spans = sorted(
            plan.kept + plan.narrowed, key=lambda span: (span.group, span.row, span.slot, span.first)
        )
        self.open = bool(self._spans)
        place = {id(span): number for number, span in enumerate(self._spans)}
        self._kept = KeptValues(plan.kept)
        self._narrowing = Narrowing(plan.narrowed, plan.bins)
        self._kept_places = [place[id(span)] for span in plan.kept]
        self._narrowed_places = [place[id(span)] for span in plan.narrowed]
        self._number = np.zeros(len(self._spans), dtype=np.int64)
        self._number[self._kept_places] = np.arange(len(plan.kept))
        self._number[self._narrowed_places] = np.arange(len(plan.narrowed))
        self._is_kept = np.zeros(len(self._spans), dtype=np.bool_)
        self._is_kept[self._kept_places] = True
        self._all_kept = not plan.narrowed
        self._seen = np.zeros(len(self._spans), dtype=np.int64)
        self._ranges = _Ranges(self._spans)
        self._lookups = [_Lookup(number, group.ticks, self._spans) for number, group in enumerate(targets.groups)]

    def feed(self, group: int, rows: Indices, value: Floats, smallest: float, largest: float) -> None:
        found, places = self._lookups[group].find(rows, value, smallest, largest)
        if not found.size:
            return
        value = value[found]
        for chosen, members in self._ranges.divide(places, value):
            self._take(members, chosen)

    def _take(self, places: Integers, value: Floats) -> None:
        self._seen += np.bincount(places, minlength=self._seen.size)
        numbers = self._number[places]
        if self._all_kept:
            self._kept.add(numbers.astype(np.uint16), value)
            return
        kept = self._is_kept[places]
        if kept.any():
            self._kept.add(numbers[kept].astype(np.uint16), value[kept])
        rest = ~kept
        self._narrowing.add(numbers[rest], value[rest])

    def end(self) -> tuple[Resolved, list[ValueRange], list[tuple[int, str]]]:
        """Return values found, spans for the next pass, and series that disagree."""
        resolved: Resolved = []
        spans = list(self._waiting)
        for number, place in enumerate(self._kept_places):
            if self._complete(place):
                resolved += self._kept.resolve(number)
        for number, place in enumerate(self._narrowed_places):
            if self._complete(place):
                values, narrower = self._narrowing.resolve(number)
                resolved += values
                spans += narrower
        return resolved, spans, self._problems()

    def _complete(self, place: int) -> bool:
        return int(self._seen[place]) == self._spans[place].count

    def _problems(self) -> list[tuple[int, str]]:
        return [
            (span.wants[0].series, f"the journal has {seen} values, but the histogram has {span.count}")
            for span, seen in zip(self._spans, self._seen.tolist(), strict=True)
            if seen != span.count
        ]


class _Lookup:
    """Mapping from a value to the first span of its slot: by page, then by slot within a wanted page."""

    def __init__(self, group: int, ticks: TickColumns, spans: list[ValueRange]) -> None:
        self._ticks = ticks
        pages = ticks.layout.pages
        self._pages_per_row = np.int64(pages)
        own = [(place, span) for place, span in enumerate(spans) if span.group == group]
        keys = [span.row * pages + (span.slot >> PAGE_BITS) for _, span in own]
        wanted = {key: number for number, key in enumerate(dict.fromkeys(keys), start=1)}
        self._wanted_pages = np.zeros(ticks.rows * pages, dtype=np.int32)
        self._wanted_pages[list(wanted)] = list(wanted.values())
        self._spans = np.full((len(wanted) + 1) << PAGE_BITS, -1, dtype=np.int64)
        for (place, span), key in zip(reversed(own), reversed(keys), strict=True):
            self._spans[(wanted[key] << PAGE_BITS) + (span.slot & (PAGE_SLOTS - 1))] = place

    def find(self, rows: Indices, value: Floats, smallest: float, largest: float) -> tuple[Indices, Integers]:
        """Return the positions of values in wanted slots, and the first span of each slot."""
        slots = self._ticks.slots(rows, value, smallest, largest, count=False)
        keys = np.multiply(rows, self._pages_per_row)
        keys += np.right_shift(slots, _PAGE_SHIFT)
        pages = self._wanted_pages.take(keys)
        found = np.flatnonzero(pages)
        flat = pages[found].astype(np.int64)
        flat <<= _PAGE_SHIFT
        flat += np.bitwise_and(slots[found], _OFFSET_MASK)
        places = self._spans.take(flat)
        wanted = np.flatnonzero(places >= 0)
        return found[wanted], places[wanted]


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


def _first_spans(targets: ExactTargets) -> tuple[Resolved, list[ValueRange]]:
    """Return values that are already known, and one span for each other wanted slot."""
    resolved: Resolved = []
    spans = []
    for number, group in enumerate(targets.groups):
        for span in _group_spans(number, group):
            integral = targets.integral[span.wants[0].series]
            known = group.ticks.only_integer(span.row, span.slot) if integral else None
            if known is None:
                spans.append(span)
            else:
                resolved += [(want, known) for want in span.wants]
    return resolved, spans


def _group_spans(number: int, group: GroupTargets) -> Iterable[ValueRange]:
    """Yield a span for each wanted slot."""
    found = group.found
    columns = (group.rows, found.slots, found.within, found.counts)
    lines = zip(*(column.tolist() for column in columns), strict=True)
    for row, slots, ranks, counts in lines:
        series = int(group.members[row])
        by_slot: dict[int, list[WantedPercentile]] = {}
        for key, (slot, rank) in enumerate(zip(slots, ranks, strict=True)):
            by_slot.setdefault(slot, []).append(WantedPercentile(series, key, rank))
        slot_counts = dict(zip(slots, counts, strict=True))
        for slot, wants in by_slot.items():
            first, last = group.ticks.range_of(row, slot)
            count = slot_counts[slot]
            yield ValueRange(number, row, slot, ordinal(first), ordinal(last), count, tuple(wants), True)
