"""Series of leaves whose histograms have other slots than those of the root, and the conversion of their slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry.aggregator.nodes.checks import first_slots_of, last_slots_of
from telemetry.aggregator.nodes.columns import Integers, SeriesArrays
from telemetry.aggregator.series.table import SeriesTable
from telemetry.aggregator.series.ticks import unbounded_slots
from telemetry.hdr.layout import DIGITS, Layout
from telemetry.wire.events import Define
from telemetry.wire.units import ticks_per_unit


class LeafLayout(NamedTuple):
    """Slots of a series on a leaf."""

    digits: int
    ticks_per_unit: float


class LeafLayouts:
    """Layouts of leaves that differ from those of the root."""

    STATE: ClassVar[Mapping[str, Any]] = {
        "other": dict[int, str],
        "_differing": dict[str, dict[int, LeafLayout]],
    }
    DERIVED: ClassVar[tuple[str, ...]] = ("_series", "_warn")

    def __init__(self, series: SeriesTable, warn: Callable[[str], None]) -> None:
        self._series = series
        self._warn = warn
        self.other: dict[int, str] = {}
        """Series index → first node whose definition has another layout, among those with values."""
        self._differing: dict[str, dict[int, LeafLayout]] = {}
        """Leaf → id → layout."""

    def restored(self) -> None:
        layouts = [layout for of_leaf in self._differing.values() for layout in of_leaf.values()]
        if not all(layout.digits in DIGITS and 0.0 < layout.ticks_per_unit < np.inf for layout in layouts):
            raise ValueError("an invalid layout")
        if not all(0 <= index < len(self._series) for index in self.other):
            raise ValueError("a layout of no series")

    def define(self, leaf: str, define: Define, index: int) -> None:
        """Compare the layout of a leaf's definition with that of the root's series."""
        ticks = ticks_per_unit(define.unit, define.low)
        own = self._series.definition(index)
        if (define.digits, ticks) == (own.digits, own.ticks_per_unit):
            if define.id in self._differing.get(leaf, ()):
                del self._differing[leaf][define.id]
        elif 0.0 < ticks < np.inf:  # there is no series of other ticks on a leaf
            self._differing.setdefault(leaf, {})[define.id] = LeafLayout(define.digits, ticks)

    def check(self, leaf: str, sums: SeriesArrays, index: NDArray[np.intp]) -> None:
        """Check that all slots lie between those of the extremes in the leaf's layout. Raises ValueError.

        Values above the range of the leaf, which may be smaller than that of the root, are in its last slot.
        """
        differing = self._differing.get(leaf, {})
        lowest, highest = (
            self._series.unbounded_slots(index, sums.min),
            self._series.unbounded_slots(index, sums.max),
        )
        for line, number in enumerate(sums.id.tolist()) if differing else ():
            if layout := differing.get(number):
                extremes = np.array([sums.min[line], sums.max[line]])
                lowest[line], highest[line] = unbounded_slots(
                    Layout.of(layout.digits), layout.ticks_per_unit, extremes
                )
        too_low = (first_slots_of(sums) < lowest) & (sums.above < sums.count)
        if too_low.any() or (last_slots_of(sums) > highest).any():
            raise ValueError("a slot outside the range of the values")

    def convert(self, leaf: str, node: str, sums: SeriesArrays, index: NDArray[np.intp]) -> SeriesArrays:
        """Return the columns with the slots of the root's layout, and indices in place of ids.

        Slots above the root's range become its last.
        """
        differing = self._differing.get(leaf, {})
        lines = [line for line, number in enumerate(sums.id.tolist()) if number in differing] if differing else []
        for line in lines:
            self._meet(int(index[line]), node, differing[int(sums.id[line])])
        last = self._series.last_slots(index)
        beyond = last_slots_of(sums) > last
        if lines:
            beyond[lines] = True
        if not beyond.any():
            return sums.with_ids(index)
        ends = np.cumsum(sums.occupied)
        slots, above = sums.slots.copy(), sums.above.copy()
        for line in np.flatnonzero(beyond).tolist():
            part = slice(int(ends[line] - sums.occupied[line]), int(ends[line]))
            layout = differing.get(int(sums.id[line]))
            if layout is None:
                cut = slots[part] > last[line]
                np.minimum(slots[part], last[line], out=slots[part], casting="unsafe")
            else:
                slots[part], cut = self._converted(layout, int(index[line]), sums, line, part)
            above[line] = max(int(above[line]), int(sums.counts[part][cut].sum(dtype=np.int64)))
        return replace(sums, id=index, slots=slots, above=above)

    def _converted(
        self, layout: LeafLayout, index: int, sums: SeriesArrays, line: int, part: slice
    ) -> tuple[Integers, NDArray[np.bool_]]:
        """Return the slots of the highest value of each slot on the leaf, and which of them are above the range."""
        highest = Layout.of(layout.digits).highest_of(sums.slots[part].astype(np.int64)).astype(np.float64)
        ticks, row = self._series.ticks_of(index)
        with np.errstate(over="ignore"):
            values = np.clip(highest / layout.ticks_per_unit, sums.min[line], sums.max[line])
            own = np.rint(values * ticks.scale[row])
        ceiling = ticks.highest_tick[row]
        return ticks.layout.slot_of_whole(np.minimum(own, ceiling), small=True), own > ceiling

    def _meet(self, index: int, node: str, layout: LeafLayout) -> None:
        """Register that values of a series come in another layout."""
        if index not in self.other:
            self.other[index] = node
            name = self._series.definition(index).name
            self._warn(
                f"series {name!r} has other digits or bounds on node {node!r}: its values there are known less "
                "exactly; define the series in the same way everywhere"
            )
        own = self._series.definition(index)
        bound = Layout.of(layout.digits).error_bound
        self._series.loosen(
            index,
            own.error_bound + bound + own.error_bound * bound,
            own.resolution + 1.0 / layout.ticks_per_unit,
        )
