"""Addition of the intervals of leaves to the tables of the root."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from telemetry import limits
from telemetry.aggregator.checkpoint import PART
from telemetry.aggregator.counters import CounterTable
from telemetry.aggregator.gauges import GaugeTable
from telemetry.aggregator.nodes.columns import (
    CounterArrays,
    ExtentArrays,
    GaugeArrays,
    Integers,
    SeriesArrays,
    check_counters,
    check_extents,
    check_gauges,
    check_series,
    first_slots_of,
    last_slots_of,
    lines_of,
    read_counters,
    read_extents,
    read_gauges,
    read_series,
)
from telemetry.aggregator.nodes.folded_gauges import FOLDED, FoldedGauges
from telemetry.aggregator.nodes.interval_sums import join_counters, join_extents, join_gauges, join_series
from telemetry.aggregator.producers.producer import Producer
from telemetry.aggregator.rows import INDEX_BITS, KIND_CODES, UNKNOWN
from telemetry.aggregator.run_clock import LATEST_NS, RunClock
from telemetry.aggregator.series.extents import Extents
from telemetry.aggregator.series.table import SeriesTable
from telemetry.aggregator.series.ticks import unbounded_slots
from telemetry.statistics.hdr.layout import DIGITS, Layout
from telemetry.wire.drop_reasons import Count
from telemetry.wire.events import Define, Natural, ProducerId
from telemetry.wire.nodes import CounterSums, ExtentSums, GaugeSums, NodeInterval, SeriesSums
from telemetry.wire.units import ticks_per_unit

_LEAVES: Final = 8
"""Number of leaves that share the room, at least."""
_LATEST: Final = np.int64(LATEST_NS)
_INDICES: Final = 1 << INDEX_BITS
_NO_SERIES_SUMS, _NO_COUNTER_SUMS, _NO_GAUGE_SUMS, _NO_EXTENT_SUMS = (
    SeriesSums(),
    CounterSums(),
    GaugeSums(),
    ExtentSums(),
)
_NO_SERIES, _NO_COUNTERS = read_series(_NO_SERIES_SUMS), read_counters(_NO_COUNTER_SUMS)
_NO_GAUGES, _NO_EXTENTS = read_gauges(_NO_GAUGE_SUMS), read_extents(_NO_EXTENT_SUMS)
_Timed = TypeVar("_Timed", SeriesArrays, CounterArrays)


class ArrivedInterval(NamedTuple):
    """An interval of a leaf. `shift_ns` leads from the leaf's wall clock to the run's clock."""

    producer: Producer
    record: NodeInterval
    shift_ns: int


class _Read(NamedTuple):
    """Checked columns of several intervals, with indices of the root in place of ids."""

    series: SeriesArrays
    """Lines with the ids of the leaves."""
    indices: NDArray[np.intp]
    """Index of each series."""
    counters: CounterArrays
    gauges: GaugeArrays
    folded: GaugeArrays
    """Gauges of nodes, with their numbers among these."""
    extents: ExtentArrays
    """With the numbers of followers."""
    values: list[int]
    """Number of values of each interval."""


class _DefinitionMissing(Exception):
    """An id is not bound yet."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.id = number


class IncomingIntervals:
    """Intervals of leaves, added to the tables.

    An interval whose definitions have not arrived waits for them, because batches may come out of order.
    """

    STATE: ClassVar[Mapping[str, Any]] = {
        "_layouts": PART,
        "_waiting": PART,
        "series_values": Count,
        "_events": Count,
    }
    DERIVED: ClassVar[tuple[str, ...]] = ("folded", "_series", "_counters", "_gauges", "_extents", "_clock")

    def __init__(
        self,
        series: SeriesTable,
        counters: CounterTable,
        gauges: GaugeTable,
        extents: Extents,
        *,
        folded: FoldedGauges,
        clock: RunClock,
        warn: Callable[[str], None],
    ) -> None:
        self.folded = folded
        self._series = series
        self._counters = counters
        self._gauges = gauges
        self._extents = extents
        self._clock = clock
        self._layouts = LeafLayouts(series, warn)
        self._waiting = WaitingIntervals()
        self.series_values = 0
        """Number of series values of leaves in the tables."""
        self._events = 0
        """Number of all events of leaves in the tables. It bounds each of their columns."""

    @property
    def other_layouts(self) -> Mapping[int, str]:
        """Series index → first node whose definition has other digits or ticks, among those with values."""
        return self._layouts.other

    def define(self, leaf: Producer, define: Define, route: int) -> None:
        """Remember the layout of a leaf's series, if it isn't that of the root."""
        if define.kind == "series" and route >= 0:
            self._layouts.define(leaf.key, define, route)

    def apply(self, arrived: Sequence[ArrivedInterval]) -> list[int | None]:
        """Add intervals of leaves, or let them wait for their definitions.

        Return for each the number of values that were added, which is 0 if the interval has to wait, and None if
        its columns don't fit together; then nothing of it was added. All are added together, because that costs
        little more than one. If one of them can't be added, each is added alone.
        """
        if len(arrived) > 1 and not any(self._layouts.differ(interval.producer.key) for interval in arrived):
            try:
                return [*self._add(arrived)]
            except (_DefinitionMissing, ValueError):
                pass
        return [self._apply_one(interval) for interval in arrived]

    def _apply_one(self, arrived: ArrivedInterval) -> int | None:
        try:
            return self._add([arrived])[0]
        except _DefinitionMissing as missing:
            producer, record, shift_ns = arrived
            waits = self._waiting.add(producer.key, WaitingInterval(record, shift_ns, missing.id))
            return 0 if waits else None
        except ValueError:
            return None

    def add_waiting(self, producer: Producer) -> int:
        """Add the waiting intervals of a leaf whose definitions have arrived. Return the number of their values.

        Call it after new definitions.
        """
        added = 0
        for waiting in self._waiting.take(producer.key, lambda number: producer.ids[number] != UNKNOWN):
            try:
                _check_bound(producer, waiting.record)
                added += self._add([ArrivedInterval(producer, waiting.record, waiting.shift_ns)])[0]
            except _DefinitionMissing as missing:
                self._waiting.add(producer.key, WaitingInterval(waiting.record, waiting.shift_ns, missing.id))
            except ValueError:
                continue  # its values stay missing in the account of the node
        return added

    # --- reading ---------------------------------------------------------------------------------

    def _add(self, arrived: Sequence[ArrivedInterval]) -> list[int]:
        """Add intervals, and return the number of values of each. Several may not have layouts of their own."""
        read = self._read(arrived)
        values = sum(read.values)
        events = values + int(read.extents.inside.sum())
        if self._events + events > limits.EVENT_NUMBERS:
            raise ValueError("more events than can be counted")
        self._events += events
        if read.series.id.size:
            self.series_values += int(read.series.count.sum())
            leaf = arrived[0].producer
            series = self._layouts.convert(leaf.key, _node_of(leaf), read.series, read.indices)
            self._series.add_sums(series if _are_distinct(series.id) else join_series([series]))
        if read.counters.id.size:
            self._counters.add_sums(read.counters)
        if read.gauges.id.size:
            self._gauges.add_sums(read.gauges)
        if read.folded.id.size:
            self.folded.add(read.folded)
        if read.extents.id.size:
            self._extents.nodes.add(read.extents.id, read.extents)
        return read.values

    def _read(self, arrived: Sequence[ArrivedInterval]) -> _Read:
        """Check and translate all columns. Raises ValueError for impossible ones. Changes no number."""
        records = [interval.record for interval in arrived]
        series, indices, of_series = self._read_series([record.series for record in records], arrived)
        counters, of_counters = self._read_counters([record.counters for record in records], arrived)
        gauges, folded, of_gauges = self._read_gauges([record.gauges for record in records], arrived)
        extents = self._read_extents([record.extents for record in records], arrived)
        values = [sum(counts) for counts in zip(of_series, of_counters, of_gauges, strict=True)]
        return _Read(series, indices, counters, gauges, folded, extents, values)

    def _read_series(
        self, parts: list[SeriesSums], arrived: Sequence[ArrivedInterval]
    ) -> tuple[SeriesArrays, NDArray[np.intp], list[int]]:
        if _are_empty(parts, _NO_SERIES_SUMS):
            return _NO_SERIES, _NO_SERIES.id, [0] * len(parts)
        series, lines = read_series(*parts), _Lines.of(parts, arrived)
        check_series(series, lines.owner)
        series = self._with_run_times(series, lines)
        routes, kept = lines.routes(series.id, KIND_CODES["series"], KIND_CODES["series"])
        if kept is not None:
            series, routes, lines = series.take(kept), routes[kept], lines.take(kept)
        self._layouts.check(arrived[0].producer.key, series, routes)
        return series, routes, lines.sums(series.count)

    def _read_counters(
        self, parts: list[CounterSums], arrived: Sequence[ArrivedInterval]
    ) -> tuple[CounterArrays, list[int]]:
        if _are_empty(parts, _NO_COUNTER_SUMS):
            return _NO_COUNTERS, [0] * len(parts)
        counters, lines = read_counters(*parts), _Lines.of(parts, arrived)
        check_counters(counters, lines.owner)
        counters = self._with_run_times(counters, lines)
        routes, kept = lines.routes(counters.id, KIND_CODES["counter"], KIND_CODES["counter"])
        counters = counters.with_ids(routes - (KIND_CODES["counter"] << INDEX_BITS))
        if kept is not None:
            counters, lines = counters.take(kept), lines.take(kept)
        values = lines.sums(counters.events)
        return (counters if _are_distinct(counters.id) else join_counters([counters])), values

    def _read_gauges(
        self, parts: list[GaugeSums], arrived: Sequence[ArrivedInterval]
    ) -> tuple[GaugeArrays, GaugeArrays, list[int]]:
        if _are_empty(parts, _NO_GAUGE_SUMS):
            return _NO_GAUGES, _NO_GAUGES, [0] * len(parts)
        gauges, lines = read_gauges(*parts), _Lines.of(parts, arrived)
        check_gauges(gauges, lines.owner)
        # a time in the future would hold the gauge until then
        gauges = replace(gauges, time_ns=self._shifted(gauges.time_ns, lines.shift_ns))
        routes, kept = lines.routes(gauges.id, KIND_CODES["gauge"], FOLDED)
        is_folded = routes >> INDEX_BITS == FOLDED
        gauges = gauges.with_ids(routes & _INDICES - 1)
        if kept is not None:
            gauges, is_folded, lines = gauges.take(kept), is_folded[kept], lines.take(kept)
        values = lines.sums(gauges.events)
        apart, folded = (
            (gauges.take(~is_folded), gauges.take(is_folded)) if is_folded.any() else (gauges, _NO_GAUGES)
        )
        if not _are_distinct(apart.id):
            apart = join_gauges([apart])
        return apart, folded if _are_distinct(folded.id) else join_gauges([folded]), values

    def _read_extents(self, parts: list[ExtentSums], arrived: Sequence[ArrivedInterval]) -> ExtentArrays:
        if _are_empty(parts, _NO_EXTENT_SUMS):
            return _NO_EXTENTS
        extents, lines = read_extents(*parts), _Lines.of(parts, arrived)
        check_extents(extents, lines.owner)
        routes, kept = lines.routes(extents.id, KIND_CODES["series"], KIND_CODES["counter"])
        if kept is not None:
            extents, routes, lines = extents.take(kept), routes[kept], lines.take(kept)
        places = self._extents.places_of(routes)
        columns = extents.columns()
        times = [self._shifted(column, lines.shift_ns) for column in columns[1:5]]
        # an instrument beyond the cap, or one that was defined before within another series, has no extent here
        extents = ExtentArrays.of([places, *times, *columns[5:]]).take(places >= 0)
        return extents if _are_distinct(extents.id) else join_extents([extents])

    def _with_run_times(self, sums: _Timed, lines: _Lines) -> _Timed:
        """Return the columns with times of the run's clock. A beginning of 0 is unknown and stays 0."""
        first, last = (self._shifted(times, lines.shift_ns) for times in (sums.first_ns, sums.last_ns))
        return replace(sums, first_ns=np.where(sums.first_ns == 0, 0, first), last_ns=last)

    def _shifted(self, times: Integers, shift_ns: Integers) -> Integers:
        """Return times of a leaf's wall clock on the run's clock, but none in the future."""
        shifted = np.minimum(times, _LATEST - np.maximum(shift_ns, 0)) + shift_ns
        return np.clip(shifted, 0, self._clock.now_ns)


class _Lines(NamedTuple):
    """Lines of one kind, of several intervals."""

    arrived: Sequence[ArrivedInterval]
    owner: Integers
    """Number of the interval of each line."""
    shift_ns: Integers
    """Shift of each line."""

    @classmethod
    def of(cls, parts: Sequence[Any], arrived: Sequence[ArrivedInterval]) -> _Lines:
        counts = [*map(lines_of, parts)]
        shifts = [min(max(interval.shift_ns, -LATEST_NS), LATEST_NS) for interval in arrived]
        owner = np.repeat(np.arange(len(parts)), counts)
        return cls(arrived, owner, np.array(shifts, np.int64)[owner])

    def take(self, kept: NDArray[np.bool_]) -> _Lines:
        return self._replace(owner=self.owner[kept], shift_ns=self.shift_ns[kept])

    def sums(self, counts: Integers) -> list[int]:
        """Return the sum of counts for each interval. All together fit in a float."""
        sums: list[int] = np.bincount(self.owner, counts, len(self.arrived)).astype(np.int64).tolist()
        return sums

    def routes(self, ids: Integers, first: int, last: int) -> tuple[NDArray[np.intp], NDArray[np.bool_] | None]:
        """Return the routes, and which lines lead to an instrument if not all do.

        Raises _DefinitionMissing for an id that is not bound, ValueError for an instrument of other kinds than
        those from `first` to `last`.
        """
        if ids.max(initial=0) >= limits.PRODUCER_IDS:
            raise ValueError("no id of a producer")
        ends = np.cumsum(np.bincount(self.owner, minlength=len(self.arrived))).tolist()
        shifted_ids = ids + 1
        routes = np.concatenate(
            [
                interval.producer.ids.look_up(shifted_ids[start:end])
                for interval, start, end in zip(self.arrived, [0, *ends], ends, strict=False)
            ]
        )
        least = routes.item(routes.argmin())
        if least < 0 and (unbound := routes == UNKNOWN).any():
            raise _DefinitionMissing(ids.item(unbound.argmax()))
        if least >= first << INDEX_BITS and routes.item(routes.argmax()) < (last + 1) << INDEX_BITS:
            return routes, None
        leads = routes >= 0
        kinds = routes >> INDEX_BITS
        if (leads & ((kinds < first) | (kinds > last))).any():
            raise ValueError("an id of another kind")
        return routes, leads


def _are_empty(parts: Sequence[Any], empty: Any) -> bool:
    return all(part == empty for part in parts)


def _check_bound(producer: Producer, record: NodeInterval) -> None:
    """Raise _DefinitionMissing if an id is not bound. Fast, because an interval may have to wait many times."""
    for sums in (record.series, record.counters, record.gauges, record.extents):
        ids = np.frombuffer(sums.id, "<u4").astype(np.int64)
        if ids.max(initial=0) >= limits.PRODUCER_IDS:
            raise ValueError("no id of a producer")
        if (unbound := producer.ids.look_up(ids + 1) == UNKNOWN).any():
            raise _DefinitionMissing(ids.item(unbound.argmax()))


def _node_of(producer: Producer) -> str:
    return producer.node.name if producer.node is not None else ""


def _are_distinct(index: NDArray[np.intp]) -> bool:
    if (index[1:] > index[:-1]).all():  # the usual case
        return True
    return bool(np.unique(index).size == index.size)


class WaitingInterval(Struct, array_like=True, frozen=True):
    """An interval, and one of the ids that have no definition yet."""

    record: NodeInterval
    shift_ns: int
    missing: Natural


class WaitingIntervals:
    """Waiting intervals by leaf, in order of arrival. They take at most NODE_WAITING_BYTES."""

    STATE: ClassVar[Mapping[str, Any]] = {"_by_leaf": dict[ProducerId, list[WaitingInterval]]}
    DERIVED: ClassVar[tuple[str, ...]] = ("_bytes",)

    def __init__(self) -> None:
        self._by_leaf: dict[str, list[WaitingInterval]] = {}
        self._bytes: dict[str, int] = {}
        """Size of the intervals of each leaf."""

    def restored(self) -> None:
        self._bytes = {
            leaf: sum(_size(waiting.record) for waiting in several) for leaf, several in self._by_leaf.items()
        }
        if not all(self._by_leaf.values()) or sum(self._bytes.values()) > limits.NODE_WAITING_BYTES:
            raise ValueError("intervals that can't be waiting")

    def add(self, leaf: str, waiting: WaitingInterval) -> bool:
        """Add an interval. Return False if there is no room for it."""
        size = _size(waiting.record)
        of_leaf = self._bytes.get(leaf, 0) + size
        of_all = sum(self._bytes.values()) + size
        if of_leaf > limits.NODE_WAITING_BYTES // _LEAVES or of_all > limits.NODE_WAITING_BYTES:
            return False
        self._by_leaf.setdefault(leaf, []).append(waiting)
        self._bytes[leaf] = of_leaf
        return True

    def take(self, leaf: str, is_bound: Callable[[int], bool]) -> list[WaitingInterval]:
        """Remove and return the intervals of a leaf whose missing id is bound now. Others may be missing too."""
        waiting = self._by_leaf.pop(leaf, [])
        taken = [interval for interval in waiting if is_bound(interval.missing)]
        if len(taken) < len(waiting):
            self._by_leaf[leaf] = [interval for interval in waiting if not is_bound(interval.missing)]
            self._bytes[leaf] -= sum(_size(interval.record) for interval in taken)
        else:
            self._bytes.pop(leaf, None)
        return taken


def _size(record: NodeInterval) -> int:
    columns = (record.series, record.counters, record.gauges, record.extents)
    return 200 + sum(len(getattr(sums, name)) for sums in columns for name in sums.__struct_fields__)


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

    def differ(self, leaf: str) -> bool:
        """Return whether a series of a leaf has another layout than that of the root."""
        return bool(self._differing.get(leaf))

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
