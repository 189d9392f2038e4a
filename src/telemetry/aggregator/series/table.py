"""Table of all series of a run: recorded values, contents of each second, and stats.

A series is one row in the group of its precision. Groups exist because histograms of different digits have
different layouts. Most runs have one group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from telemetry import limits
from telemetry.aggregator.budgets import Budget
from telemetry.aggregator.checkpoint import PART, PARTS, ArrayColumn
from telemetry.aggregator.event_times import EventTimes
from telemetry.aggregator.exact.one_pass import SlotColumns
from telemetry.aggregator.exact.percentiles import ExactTargets, GroupTargets
from telemetry.aggregator.nodes.columns import SeriesArrays
from telemetry.aggregator.series.group import Definition, IntervalSlots, SeriesGroup, UsualColumns, slots_by_index
from telemetry.aggregator.series.moments import SQUARABLE, Moments
from telemetry.aggregator.series.stats import RollWindow, StatBuilder
from telemetry.aggregator.series.ticks import Indices, TickColumns, unbounded_slots
from telemetry.statistics.hdr.layout import Floats, Integers, Layout
from telemetry.statistics.hdr.pages import grown
from telemetry.statistics.hdr.percentiles import find_ranks, ranks
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import SeriesColumns
from telemetry.wire.snapshot import SeriesStat

_CHEAP_DIGITS: Final = 3
"""Digits up to which the number of series is a sufficient bound: 700 KB for a series that fills its whole range."""

_SLICED: Final = ("_sliced_count", "_sliced_total", "_sliced_rest", "_sliced_min", "_sliced_max")


class SlotLayout(NamedTuple):
    """Digits, ticks and upper bound of a series. Equal layouts have the same slot for the same value."""

    digits: int
    ticks: float
    """Number of ticks in one unit."""
    highest: float
    """Last tick of the range. All higher ticks are in its slot."""


class SeriesTable:
    """Series by dense index. One thread owns it. Its methods never block.

    Raises UsageError for a percentile outside (0, 100].
    """

    STATE: ClassVar[Mapping[str, Any]] = {
        "_groups": PARTS,
        "_moments": PART,
        "_rolls": list[RollWindow],
        "_rolled_count": ArrayColumn(np.int64),
        "_rolled_total": ArrayColumn(np.float64),
        "_rolled_rest": ArrayColumn(np.float64),
        "_stats": PART,
        "_sliced_count": ArrayColumn(np.int64),
        "_sliced_total": ArrayColumn(np.float64),
        "_sliced_rest": ArrayColumn(np.float64),
        "_sliced_min": ArrayColumn(np.float64),
        "_sliced_max": ArrayColumn(np.float64),
        "times": PART,
    }
    ADDED: ClassVar[tuple[str, ...]] = (*_SLICED, "times")
    DERIVED: ClassVar[tuple[str, ...]] = (
        *("_definitions", "_fine_pages", "_group_of", "_row_of", "_last_slots", "_window_rolls", "_window_moved"),
    )

    def __init__(self, percentiles: tuple[str, ...], window_rolls: int, *, leaf: bool = False) -> None:
        self._definitions: list[Definition] = []
        self._fine_pages = Budget(limits.FINE_PAGES)
        self._groups: list[SeriesGroup] = []
        self._group_of = np.zeros(16, dtype=np.uint8)
        self._row_of = np.zeros(16, dtype=np.intp)
        self._last_slots = np.zeros(16, dtype=np.int64)
        self._moments = Moments(self._counts, leaf=leaf)
        self.times = EventTimes()
        self._stats = StatBuilder(percentiles, self.times)
        self._window_rolls = window_rolls
        self._rolls: deque[RollWindow] = deque(maxlen=window_rolls)
        self._window_moved = False
        self._rolled_count = np.zeros(16, dtype=np.int64)
        """Counts at the last roll. The next two columns hold the totals."""
        self._rolled_total = np.zeros(16)
        self._rolled_rest = np.zeros(16)
        self._sliced_count = np.zeros(16, dtype=np.int64)
        """Counts at the end of the last slice or roll. The next two columns hold the totals."""
        self._sliced_total = np.zeros(16)
        self._sliced_rest = np.zeros(16)
        self._sliced_min = np.full(16, np.inf)
        """Smallest value of the earlier slices of the interval. The next column holds the largest."""
        self._sliced_max = np.full(16, -np.inf)

    def restored(self) -> None:
        size = 0
        for seconds, least, most in self._rolls:
            if not (seconds > 0.0 and size <= len(least) == len(most) <= len(self)):
                raise ValueError("an invalid roll")
            size = len(least)
        self._window_moved = bool(self._rolls)
        self.times.forget_before(self._counts())

    def __len__(self) -> int:
        return len(self._definitions)

    @property
    def values(self) -> int:
        """Number of values of all series."""
        return int(self._counts().sum())

    @property
    def pages(self) -> int:
        """Number of histogram pages in use, of 256 slots each."""
        return sum(group.counts.used - 1 for group in self._groups)

    def add(  # noqa: PLR0917 - what defines a series
        self,
        name: str,
        labels: dict[str, str],
        unit: str,
        digits: int = limits.DIGITS,
        low: float | None = None,
        high: float | None = None,
    ) -> int:
        """Add a series and return its index. Raise InstrumentError for invalid digits or bounds.

        The series gets fewer digits if FINE_PAGES are used up; its key has the actual number.
        """
        definition = self._affordable(Definition(name, labels, unit, digits, low, high))
        index = len(self._definitions)
        if index == self._row_of.size:
            self._group_of = grown(self._group_of, 2 * index)
            self._row_of = grown(self._row_of, 2 * index)
            self._last_slots = grown(self._last_slots, 2 * index)
            self._rolled_count = grown(self._rolled_count, 2 * index)
            self._rolled_total = grown(self._rolled_total, 2 * index)
            self._rolled_rest = grown(self._rolled_rest, 2 * index)
            for column in _SLICED:
                setattr(self, column, grown(getattr(self, column), 2 * index))
            self._sliced_min[index:], self._sliced_max[index:] = np.inf, -np.inf
        number = self._group_number(Layout.of(definition.digits))
        self._group_of[index] = number
        self._row_of[index] = self._groups[number].add(index, definition)
        self._last_slots[index] = definition.last_slot
        self._moments.add_series()
        self.times.add(unit)
        self._stats.add(definition)
        self._definitions.append(definition)
        return index

    def _affordable(self, definition: Definition) -> Definition:
        while definition.digits > _CHEAP_DIGITS and not self._fine_pages.take(definition.most_pages):
            definition = replace(definition, digits=definition.digits - 1)
        return definition

    def key(self, index: int) -> SeriesKey:
        """Return the key of an index in history columns."""
        definition = self._definitions[index]
        return SeriesKey(
            index=index,
            name=definition.name,
            kind="series",
            unit=definition.unit,
            labels=definition.labels,
            digits=definition.digits,
            ticks_per_unit=definition.ticks_per_unit,
        )

    def record(self, index: Indices, value: Floats) -> None:
        """Add any number of finite values >= 0 to series. Raise OverflowError after 2**32 values without `roll`."""
        for start in range(0, value.size, limits.CHUNK_EVENTS):
            chunk = slice(start, start + limits.CHUNK_EVENTS)
            self._record_chunk(index[chunk], value[chunk])

    def _record_chunk(self, index: Indices, value: Floats) -> None:
        if len(self._groups) == 1 and self._groups[0].record_usual(index, value, self._moments):
            return
        smallest, largest = value.item(value.argmin()), value.item(value.argmax())
        if largest < SQUARABLE:
            self._count(index, value, smallest, largest)
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                self._count(index, value, smallest, largest)

    def _count(self, index: Indices, value: Floats, smallest: float, largest: float) -> None:
        self._moments.record(index, value, largest)
        if len(self._groups) == 1:
            self._groups[0].record(index, value, smallest, largest)
            return
        numbers = self._group_of.take(index)
        for number, group in enumerate(self._groups):
            chosen = np.flatnonzero(numbers == number)
            if chosen.size:
                group.record(self._row_of.take(index[chosen]), value[chosen], smallest, largest)

    def usual_state(self, events: int) -> tuple[int, int] | None:
        """Return a state that changes with every array of `usual_columns`.

        Return None if compiled code may not add so many more values.
        """
        if len(self._groups) != 1:
            return (0, 0)
        return self._groups[0].usual_state(events, self._moments)

    @property
    def usual_columns(self) -> UsualColumns | None:
        """Columns that compiled code adds values to, or None if the series have several layouts."""
        return self._groups[0].usual_columns(self._moments) if len(self._groups) == 1 else None

    def allocate(self, pages: list[list[int]]) -> None:
        """Allocate pages of the columns of `usual_columns`, given as a list of keys for each chunk of values."""
        for keys in pages:
            self._groups[0].counts.allocate(keys)

    def collected(self, events: int, reach: float) -> None:
        """Register values that compiled code has added to the columns, and the new bound of their sums."""
        self._moments.collected(events, reach)
        self._groups[0].counts.added(events)

    def add_sums(self, sums: SeriesArrays) -> None:
        """Add values that another aggregator has counted, in slots of this table. `sums.id` are distinct."""
        self._moments.merge(sums.id, sums)
        self.times.join(sums.id, sums.first_ns, sums.last_ns)
        if len(self._groups) == 1:
            self._groups[0].add_sums(sums.id, sums)
            return
        numbers = self._group_of.take(sums.id)
        for number, group in enumerate(self._groups):
            lines = np.flatnonzero(numbers == number)
            if lines.size:
                part = sums.take(lines)
                group.add_sums(self._row_of.take(part.id), part)

    @property
    def moments(self) -> Moments:
        return self._moments

    def outside(self) -> tuple[Integers, Integers]:
        """Return how many values of each series were below and above its range."""
        below, above = np.zeros(len(self), np.int64), np.zeros(len(self), np.int64)
        for group in self._groups:
            below[group.members] = group.ticks.below[: len(group.ticks)]
            above[group.members] = group.ticks.above[: len(group.ticks)]
        return below, above

    def definition(self, index: int) -> Definition:
        """Return the definition of a series, with the digits that it got."""
        return self._definitions[index]

    def unbounded_slots(self, index: Indices, value: Floats) -> Integers:
        """Return the slot of one value of each series, if the range of the series had no end."""
        slots, numbers = np.zeros(index.size, np.int64), self._group_of.take(index)
        for number, group in enumerate(self._groups):
            own = np.flatnonzero(numbers == number)
            scale = group.ticks.scale.take(self._row_of.take(index[own]))
            slots[own] = unbounded_slots(group.layout, scale, value[own])
        return slots

    def ticks_of(self, index: int) -> tuple[TickColumns, int]:
        """Return the ticks of a series, and its row in them."""
        return self._groups[int(self._group_of[index])].ticks, int(self._row_of[index])

    def last_slots(self, index: Indices) -> Integers:
        """Return the last slot of the range of each series."""
        return self._last_slots.take(index)

    def loosen(self, index: int, error_bound: float, resolution: float) -> None:
        """Widen the bounds that the stat of a series states, because slots of another layout were converted."""
        self._stats.loosen(index, error_bound, resolution)

    def _counts(self) -> Integers:
        counts = np.zeros(len(self), dtype=np.int64)
        for group in self._groups:
            counts[group.members] = group.counts.row_counts()
        return counts

    def roll(self, seconds: float, end_ns: int = 0) -> SeriesColumns:
        """End an interval of `seconds` at `end_ns`: return its contents and move the window."""
        self.times.rolled_ns = end_ns
        self._moments.fold()
        parts = [group.roll() for group in self._groups]
        size = len(self)
        least, most = self._extremes()
        self._rolls.append(RollWindow(seconds, least[:size], most[:size]))
        self._window_moved = True
        columns = self._columns_since(parts, self._rolled, least, most)
        for column, rolled in zip(self._sliced, self._rolled, strict=True):
            column[:size] = rolled[:size]
        self._sliced_min.fill(np.inf)
        self._sliced_max.fill(-np.inf)
        self._moments.start_interval()
        return columns

    def slice(self) -> SeriesColumns:
        """End a slice of the interval, and return its contents. The window stays."""
        self._moments.fold()
        parts = [group.slice() for group in self._groups]
        moments = self._moments
        columns = self._columns_since(parts, self._sliced, moments.interval_min, moments.interval_max)
        self._sliced_min, self._sliced_max = self._extremes()
        self._moments.start_interval()
        return columns

    @property
    def _rolled(self) -> tuple[Integers, Floats, Floats]:
        return self._rolled_count, self._rolled_total, self._rolled_rest

    @property
    def _sliced(self) -> tuple[Integers, Floats, Floats]:
        return self._sliced_count, self._sliced_total, self._sliced_rest

    def _extremes(self) -> tuple[Floats, Floats]:
        """Return the smallest and the largest value of each series in the interval so far."""
        moments, rows = self._moments, self._sliced_min.size
        least, most = np.full(rows, np.inf), np.full(rows, -np.inf)
        size = len(self)
        least[:size] = np.minimum(self._sliced_min[:size], moments.interval_min[:size])
        most[:size] = np.maximum(self._sliced_max[:size], moments.interval_max[:size])
        return least, most

    def _columns_since(
        self, parts: list[IntervalSlots], since: tuple[Integers, Floats, Floats], least: Floats, most: Floats
    ) -> SeriesColumns:
        """Return the values since a moment, and make `since` the present."""
        size, moments = len(self), self._moments
        past_count, past_total, past_rest = since
        counts = moments.count[:size] - past_count[:size]
        with np.errstate(invalid="ignore"):
            total = moments.total[:size] - past_total[:size]
            total += moments.total_rest[:size] - past_rest[:size]
        past_count[:size] = moments.count[:size]
        past_total[:size] = moments.total[:size]
        past_rest[:size] = moments.total_rest[:size]
        used = np.flatnonzero(counts)
        occupied, slots, slot_counts = slots_by_index(self._groups, parts)
        return SeriesColumns(
            index=used.astype("<u4").tobytes(),
            count=counts[used].astype("<u8").tobytes(),
            total=total[used].astype("<f8").tobytes(),
            min=least[used].astype("<f8").tobytes(),
            max=most[used].astype("<f8").tobytes(),
            occupied=occupied.astype("<u4").tobytes(),
            slots=slots.astype("<u4", copy=False).tobytes(),
            counts=slot_counts.astype("<u4", copy=False).tobytes(),
        )

    def stats(self) -> list[SeriesStat]:
        """Return all series by index. Recomputes only changes since the last call."""
        window = self._window() if self._window_moved else None
        self._window_moved = False
        return self._stats.build(self._groups, self._moments.summary(), window)

    def _window(self) -> RollWindow:
        size = len(self._rolls[-1].min)
        least, most = np.full(size, np.inf), np.full(size, -np.inf)
        for _, roll_min, roll_max in self._rolls:
            np.minimum(least[: roll_min.size], roll_min, out=least[: roll_min.size])
            np.maximum(most[: roll_max.size], roll_max, out=most[: roll_max.size])
        return RollWindow(sum(roll.seconds for roll in self._rolls), least, most)

    def targets(self) -> ExactTargets:
        """Return the targets of the exact pass: the slot of each percentile, and its rank within the slot."""
        summary = self._moments.summary()
        groups = []
        for group in self._groups:
            counts = summary.count[group.members]
            rows = np.flatnonzero(counts)
            wanted = ranks(self._stats.ratios, counts[rows])
            rank_slots = find_ranks(group.index(group.counts), rows, wanted)
            groups.append(GroupTargets(group.ticks, group.members, rows, rank_slots))
        return ExactTargets(self._stats.keys, tuple(groups), self.slot_columns(), summary.integral)

    def slot_columns(self) -> SlotColumns:
        """Return the mapping from values to slots of all series that exist now."""
        size = len(self)
        ticks = tuple(group.ticks for group in self._groups)
        return SlotColumns(ticks, self._group_of[:size], self._row_of[:size])

    def layout_of(self, index: int) -> SlotLayout:
        """Return what decides the slot of a value of a series."""
        group = self._groups[self._group_of[index]]
        row = self._row_of[index]
        return SlotLayout(group.layout.digits, float(group.ticks.scale[row]), float(group.ticks.highest_tick[row]))

    def slots_of(self, index: Indices) -> Integers:
        """Return the number of slots of each series."""
        slots = np.array([group.layout.slots for group in self._groups], dtype=np.int64)
        return slots[self._group_of[index]]

    def slot_counts(self, index: Indices, slots: Integers) -> Integers:
        """Return the count of each slot of a series. The slots must exist in the layout of their series."""
        counts = np.zeros(index.size, dtype=np.int64)
        numbers = self._group_of[index]
        for number, group in enumerate(self._groups):
            own = np.flatnonzero(numbers == number)
            counts[own] = group.counts.counts_at(self._row_of[index[own]], slots[own])
        return counts

    def apply_exact(self, values: dict[int, dict[str, float]]) -> None:
        """Replace bucket bounds by order statistics: series index → percentile key → value in units."""
        self.stats()
        self._stats.set_exact(values, self._moments.summary())

    def _group_number(self, layout: Layout) -> int:
        for number, group in enumerate(self._groups):
            if group.layout is layout:
                return number
        self._groups.append(SeriesGroup(layout, self._window_rolls))
        return len(self._groups) - 1
