"""Definition of a series, and the rows of one precision: histograms, window, range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry import limits
from telemetry.aggregator.checkpoint import PART
from telemetry.aggregator.compiled import Columns
from telemetry.aggregator.nodes.columns import SeriesArrays, divide_counts
from telemetry.aggregator.series.moments import Moments
from telemetry.aggregator.series.ticks import Indices, TickColumns, highest_tick
from telemetry.aggregator.snapshot_numbers import grown
from telemetry.errors import InstrumentError
from telemetry.statistics.hdr.layout import DIGITS, PAGE_BITS, Floats, Integers, Layout
from telemetry.statistics.hdr.pages import PagedCounts, WindowCounts
from telemetry.statistics.hdr.percentiles import PageIndex, RankSlots, SearchedCounts, find_ranks
from telemetry.statistics.hdr.sparse import NO_COUNTS, SparseCounts
from telemetry.wire.units import ticks_per_unit

_RESERVED: Final = 1 << 30
"""Room in the fresh counts that is kept for rows of producers. An aggregator takes far fewer between two rolls."""
_SLICES: Final = 16  # kept apart: joining ten at once is cheaper than one by one
_WORD: Final = 4  # bytes of a count in columns

UsualColumns = tuple[Any, ...]
"""Columns of series, see `_compiled.pyi`."""


@dataclass(frozen=True, slots=True)
class Definition:
    """Definition of a series.

    Raises InstrumentError for digits outside 1 to 5, or a range that is empty or not positive.
    """

    name: str
    labels: dict[str, str]
    unit: str
    digits: int = limits.DIGITS
    low: float | None = None
    high: float | None = None
    ticks_per_unit: float = field(init=False)
    """Number of histogram ticks in one unit."""
    resolution: float = field(init=False)
    """Size of a histogram tick in units."""
    cell_unit: float = field(init=False)
    """Size of a tick of the display histogram in units. It depends only on the unit."""
    error_bound: float = field(init=False)
    """Largest relative error of a percentile within the range."""

    def __post_init__(self) -> None:
        if self.digits not in DIGITS:
            raise InstrumentError(f"series {self.name!r}: digits must be 1 to 5, not {self.digits}")
        for bound in (self.low, self.high):
            if bound is not None and not limits.LOWEST_BOUND <= bound <= limits.HIGHEST_BOUND:
                raise InstrumentError(f"series {self.name!r}: {bound} is no bound of a range")
        if self.high is not None and self.high <= (self.low or 0.0):
            raise InstrumentError(f"series {self.name!r}: high {self.high} is not above low {self.low}")
        object.__setattr__(self, "ticks_per_unit", ticks_per_unit(self.unit, self.low))
        object.__setattr__(self, "resolution", 1.0 / self.ticks_per_unit)
        object.__setattr__(self, "cell_unit", 1.0 / ticks_per_unit(self.unit))
        object.__setattr__(self, "error_bound", Layout.of(self.digits).error_bound)

    @property
    def smallest(self) -> float:
        """Smallest value that is distinguished from 0."""
        return self.low if self.low is not None else self.resolution

    @property
    def most_pages(self) -> int:
        """Maximum number of histogram pages, for values from the whole range."""
        return (self.last_slot >> PAGE_BITS) + 1

    @property
    def last_slot(self) -> int:
        """Slot of the last tick of the range."""
        last = np.array([highest_tick(self.ticks_per_unit, self.high)], dtype=np.int64)
        return int(Layout.of(self.digits).slot_of(last)[0])

    @property
    def cells_per_tick(self) -> float:
        """Ticks of the display histogram in one tick of the histogram."""
        return 1.0 if self.low is None else ticks_per_unit(self.unit) * self.low


class IntervalSlots(NamedTuple):
    """Occupied slots of one interval, by ascending row and slot."""

    rows: Integers
    """Row of each entry of `occupied`."""
    occupied: Integers
    """Number of slots of that row in `slots`."""
    slots: NDArray[np.uint32]
    counts: NDArray[np.uint32]


class SeriesGroup:
    """Series of one layout. Rows are dense from 0 and know their series index."""

    STATE: ClassVar[Mapping[str, Any]] = {
        "ticks": PART,
        "counts": PART,
        "window": PART,
        "_early": SparseCounts,
        "_sliced": list[SparseCounts],
    }
    ADDED: ClassVar[tuple[str, ...]] = ("_early", "_sliced")
    DERIVED: ClassVar[tuple[str, ...]] = ("layout", "_members", "_cells_per_tick", "_held", "_held_state")

    def __init__(self, layout: Layout, window_rolls: int) -> None:
        self.layout = layout
        self.ticks = TickColumns(layout)
        self.counts = PagedCounts(layout)
        self.window = WindowCounts(self.counts, window_rolls)
        self._early = NO_COUNTS
        """Counts of this slice that are settled already, because too many came at once."""
        self._sliced: list[SparseCounts] = []
        """Counts of the earlier slices of this interval."""
        self._members = np.zeros(0, dtype=np.intp)
        self._cells_per_tick = np.zeros(0)
        self._held: Any = None
        """Columns that compiled code has."""
        self._held_state = (0, 0)

    def restored(self) -> None:
        if len(self._sliced) > _SLICES:
            raise ValueError("too many slices of an interval")
        for part in (self._early, *self._sliced):
            if not part.fit(self.counts.used):
                raise ValueError("these are no counts of this group")
            self.window.exclude(part)  # raises for a part that was never counted
        for part in (self._early, *self._sliced):
            self.window.postpone(part)

    @property
    def members(self) -> Indices:
        """The series index of each row."""
        return self._members[: self.counts.rows]

    @property
    def cells_per_tick(self) -> Floats:
        return self._cells_per_tick[: self.counts.rows]

    def add(self, index: int, definition: Definition) -> int:
        row = self.counts.add_row()
        self._members = grown(self._members, row + 1)
        self._cells_per_tick = grown(self._cells_per_tick, row + 1)
        self._members[row] = index
        self._cells_per_tick[row] = definition.cells_per_tick
        self.ticks.add_row(definition.ticks_per_unit, definition.smallest, definition.high)
        return row

    def record(self, rows: Indices, value: Floats, smallest: float, largest: float) -> None:
        """Count finite values >= 0 with the given minimum and maximum."""
        slots = self.ticks.slots(rows, value, smallest, largest, count=True)
        self.counts.add(rows, slots)

    def record_usual(self, index: Indices, value: Floats, moments: Moments) -> bool:
        """Record values in the histograms and in `moments` if no row has a special case. Return False if one has.

        In that case nothing is recorded. Only for a group that has all series.
        """
        state = self.usual_state(index.size, moments)
        if Columns is None or state is None:
            return False
        if state != self._held_state:
            self._held = Columns(self.usual_columns(moments), None, None, None, None, None)
            self._held_state = state
        reach = self._held.record(index, value, moments.reach)
        if reach < 0:
            return False
        moments.collected(index.size, reach)
        self.counts.added(index.size)
        return True

    def usual_state(self, events: int, moments: Moments) -> tuple[int, int] | None:
        """Return a state that changes with every array of `usual_columns`.

        Return None if compiled code may not add so many more values.
        """
        counts = self.counts
        if events > counts.room or not moments.has_room_for(events):
            return None
        return counts.rows, len(counts.fresh)

    def usual_columns(self, moments: Moments) -> UsualColumns:
        """Return the columns that compiled code adds values to. Only for a group that has all series."""
        return (
            *moments.collecting,
            *(self.ticks.scale, self.ticks.highest_tick),
            *(self.counts.table, self.counts.fresh, self.counts.fresh_sums),
            *(self.layout.pages, self.layout.half_bits),
        )

    def add_sums(self, rows: Indices, sums: SeriesArrays) -> None:
        """Add histograms that another aggregator has counted.

        They have the slots of this group's layout. `rows` must not name a row twice.
        """
        self.ticks.below[rows] += sums.below
        self.ticks.above[rows] += sums.above
        slot_rows = np.repeat(rows, sums.occupied)
        if int(sums.count.sum()) <= self.counts.room - _RESERVED:
            self.counts.add_counts(slot_rows, sums.slots, sums.counts)
        else:
            added = self.counts.settle_counts(slot_rows, sums.slots, sums.counts)
            self.window.postpone(added)
            self._early = self.counts.join(self._early, added)

    def roll(self) -> IntervalSlots:
        """End an interval: move the window, and return the counts since the last roll."""
        earlier = [*self._sliced, self._early]
        self._early, self._sliced = NO_COUNTS, []
        sparse = self.counts.join(*earlier, self.counts.settle())
        self.window.push(sparse, postponed=earlier)
        return self._slots_of(sparse)

    def slice(self) -> IntervalSlots:
        """End a slice of the interval: return the counts since the last slice or roll."""
        settled = self.counts.settle()
        self.window.postpone(settled)
        sparse = self.counts.join(self._early, settled)
        self._early = NO_COUNTS
        if sparse.pages.size:
            self._sliced = (
                [*self._sliced, sparse]
                if len(self._sliced) < _SLICES
                else [self.counts.join(*self._sliced, sparse)]
            )
        return self._slots_of(sparse)

    def _slots_of(self, sparse: SparseCounts) -> IntervalSlots:
        page_rows, numbers = self.counts.keys_of(sparse.pages)
        slots = np.repeat((numbers << PAGE_BITS).astype(np.uint32), sparse.occupied)
        slots += sparse.offsets
        occupied: NDArray[Any] = sparse.occupied
        counts: NDArray[Any] = sparse.counts
        if counts.itemsize > _WORD:
            slot_pieces, slots, counts = divide_counts(slots, counts)
            occupied = np.add.reduceat(slot_pieces, np.cumsum(occupied, dtype=np.int64) - occupied)
        per_row = np.bincount(page_rows, weights=occupied).astype(np.int64)
        rows = np.flatnonzero(per_row)
        return IntervalSlots(rows, per_row[rows], slots, counts.astype(np.uint32))

    def index(self, counts: SearchedCounts) -> PageIndex:
        return PageIndex(self.counts, counts)

    def percentiles(self, index: PageIndex, rows: Indices, ranks: Integers) -> Floats:
        """Return the highest value, in units, of the slots that hold the ranks. One line per row."""
        rank_slots = find_ranks(index, rows, ranks)
        return self.values_of(rank_slots, rows)

    def values_of(self, rank_slots: RankSlots, rows: Indices) -> Floats:
        """Return the highest value, in units, of each slot found."""
        highest = self.layout.highest_of(rank_slots.slots).astype(np.float64)
        values: Floats = highest / self.ticks.scale[rows][:, None]
        return values


def slots_by_index(
    groups: Sequence[SeriesGroup], parts: Sequence[IntervalSlots]
) -> tuple[Integers, NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the occupied slots of all groups, each with its part, in the order of series indices."""
    if len(parts) == 1:
        return parts[0].occupied, parts[0].slots, parts[0].counts
    if not parts:
        none = np.zeros(0, dtype=np.uint32)
        return np.zeros(0, dtype=np.int64), none, none
    pairs = zip(groups, parts, strict=True)
    indices = np.concatenate([group.members[part.rows] for group, part in pairs])
    occupied = np.concatenate([part.occupied for part in parts])
    order = np.argsort(indices)
    moved = np.argsort(np.repeat(indices, occupied), kind="stable")
    slots = np.concatenate([part.slots for part in parts])[moved]
    counts = np.concatenate([part.counts for part in parts])[moved]
    return occupied[order], slots, counts
