"""Addition of the intervals of leaves to the tables of the root."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    read_counters,
    read_extents,
    read_gauges,
    read_series,
)
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
_Arrays = TypeVar("_Arrays", SeriesArrays, CounterArrays, GaugeArrays, ExtentArrays)
_Timed = TypeVar("_Timed", SeriesArrays, CounterArrays)


class _Read(NamedTuple):
    """Checked columns of one interval, with indices of the root in place of ids, each once except in `indices`."""

    series: SeriesArrays
    """Lines with the ids of the leaf."""
    indices: NDArray[np.intp]
    """Index of each series."""
    counters: CounterArrays
    gauges: GaugeArrays
    extents: ExtentArrays
    """With the numbers of followers."""


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
    DERIVED: ClassVar[tuple[str, ...]] = ("_series", "_counters", "_gauges", "_extents", "_clock")

    def __init__(
        self,
        series: SeriesTable,
        counters: CounterTable,
        gauges: GaugeTable,
        extents: Extents,
        *,
        clock: RunClock,
        warn: Callable[[str], None],
    ) -> None:
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

    def apply(self, producer: Producer, record: NodeInterval, shift_ns: int) -> int | None:
        """Add an interval of a leaf, or let it wait for its definitions.

        Return the number of values that were added, which is 0 if the interval has to wait. Return None if its
        columns don't fit together; then nothing was added. `shift_ns` leads from the leaf's wall clock to the run's
        clock.
        """
        try:
            return self._add(producer, record, shift_ns)
        except _DefinitionMissing as missing:
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
                added += self._add(producer, waiting.record, waiting.shift_ns)
            except _DefinitionMissing as missing:
                self._waiting.add(producer.key, WaitingInterval(waiting.record, waiting.shift_ns, missing.id))
            except ValueError:
                continue  # its values stay missing in the account of the node
        return added

    # --- reading ---------------------------------------------------------------------------------

    def _add(self, producer: Producer, record: NodeInterval, shift_ns: int) -> int:
        read = self._read(producer, record, shift_ns)
        series_values = int(read.series.count.sum())
        values = series_values + int(read.counters.events.sum()) + int(read.gauges.events.sum())
        events = values + int(read.extents.inside.sum())
        if self._events + events > limits.EVENT_NUMBERS:
            raise ValueError("more events than can be counted")
        self._events += events
        self.series_values += series_values
        if series_values:
            series = self._layouts.convert(producer.key, _node_of(producer), read.series, read.indices)
            self._series.add_sums(series if _are_distinct(series.id) else join_series([series]))
        if read.counters.id.size:
            self._counters.add_sums(read.counters)
        if read.gauges.id.size:
            self._gauges.add_sums(read.gauges)
        if read.extents.id.size:
            self._extents.nodes.add(read.extents.id, read.extents)
        return values

    def _read(self, producer: Producer, record: NodeInterval, shift_ns: int) -> _Read:
        """Check and translate all columns. Raises ValueError for impossible ones. Changes no number."""
        series = self._read_series(producer, record.series, shift_ns)
        counters = self._read_counters(producer, record.counters, shift_ns)
        gauges = self._read_gauges(producer, record.gauges, shift_ns)
        extents = self._read_extents(producer, record.extents, shift_ns)
        return _Read(*series, counters, gauges, extents)

    def _read_series(
        self, producer: Producer, sums: SeriesSums, shift_ns: int
    ) -> tuple[SeriesArrays, NDArray[np.intp]]:
        if sums == _NO_SERIES_SUMS:
            return _NO_SERIES, _NO_SERIES.id
        series = read_series(sums)
        check_series(series)
        series = self._with_run_times(series, shift_ns)
        indices = _indices(producer, series.id, KIND_CODES["series"])
        if (indices < 0).any():
            series, indices = series.take(indices >= 0), indices[indices >= 0]
        self._layouts.check(producer.key, series, indices)
        return series, indices

    def _read_counters(self, producer: Producer, sums: CounterSums, shift_ns: int) -> CounterArrays:
        if sums == _NO_COUNTER_SUMS:
            return _NO_COUNTERS
        counters = read_counters(sums)
        check_counters(counters)
        counters = self._with_run_times(counters, shift_ns)
        counters = _by_index(counters, _indices(producer, counters.id, KIND_CODES["counter"]))
        return counters if _are_distinct(counters.id) else join_counters([counters])

    def _read_gauges(self, producer: Producer, sums: GaugeSums, shift_ns: int) -> GaugeArrays:
        if sums == _NO_GAUGE_SUMS:
            return _NO_GAUGES
        gauges = read_gauges(sums)
        check_gauges(gauges)
        # a time in the future would hold the gauge until then
        gauges = replace(gauges, time_ns=self._shifted(gauges.time_ns, shift_ns))
        gauges = _by_index(gauges, _indices(producer, gauges.id, KIND_CODES["gauge"]))
        return gauges if _are_distinct(gauges.id) else join_gauges([gauges])

    def _read_extents(self, producer: Producer, sums: ExtentSums, shift_ns: int) -> ExtentArrays:
        if sums == _NO_EXTENT_SUMS:
            return _NO_EXTENTS
        extents = read_extents(sums)
        check_extents(extents)
        routes = _look_up(producer, extents.id)
        extents, routes = extents.take(routes >= 0), routes[routes >= 0]
        if (routes >> INDEX_BITS == KIND_CODES["gauge"]).any():
            raise ValueError("an extent of a gauge")
        places = self._extents.places_of(routes)
        columns = extents.columns()
        times = [self._shifted(column, shift_ns) for column in columns[1:5]]
        # an instrument beyond the cap, or one that was defined before within another series, has no extent here
        extents = ExtentArrays.of([places, *times, *columns[5:]]).take(places >= 0)
        return extents if _are_distinct(extents.id) else join_extents([extents])

    def _with_run_times(self, sums: _Timed, shift_ns: int) -> _Timed:
        """Return the columns with times of the run's clock. A beginning of 0 is unknown and stays 0."""
        first, last = (self._shifted(times, shift_ns) for times in (sums.first_ns, sums.last_ns))
        return replace(sums, first_ns=np.where(sums.first_ns == 0, 0, first), last_ns=last)

    def _shifted(self, times: Integers, shift_ns: int) -> Integers:
        """Return times of a leaf's wall clock on the run's clock, but none in the future."""
        shift = np.int64(min(max(shift_ns, -LATEST_NS), LATEST_NS))
        shifted = np.minimum(times, _LATEST - max(shift, np.int64(0))) + shift
        return np.clip(shifted, 0, self._clock.now_ns)


def _look_up(producer: Producer, ids: Integers) -> NDArray[np.intp]:
    if ids.max(initial=0) >= limits.PRODUCER_IDS:
        raise ValueError("no id of a producer")
    routes = producer.ids.look_up(ids + 1)
    if routes.size and routes.item(routes.argmin()) < 0 and (unbound := routes == UNKNOWN).any():
        raise _DefinitionMissing(ids.item(unbound.argmax()))
    return routes


def _check_bound(producer: Producer, record: NodeInterval) -> None:
    """Raise _DefinitionMissing if an id is not bound. Fast, because an interval may have to wait many times."""
    for sums in (record.series, record.counters, record.gauges, record.extents):
        if sums.id:
            _look_up(producer, np.frombuffer(sums.id, "<u4").astype(np.int64))


def _indices(producer: Producer, ids: Integers, code: int) -> NDArray[np.intp]:
    """Return the indices of instruments of a kind. Negative: the instrument is refused."""
    routes = _look_up(producer, ids)
    first = code << INDEX_BITS
    if routes.item(routes.argmin()) >= first and routes.item(routes.argmax()) < first + _INDICES:
        return routes - first
    if ((routes >= 0) & (routes >> INDEX_BITS != code)).any():
        raise ValueError("an id of another kind")
    return np.where(routes >= 0, routes - first, -1)


def _by_index(sums: _Arrays, indices: NDArray[np.intp]) -> _Arrays:
    """Return the lines of instruments that exist, with indices in place of ids."""
    sums = sums.with_ids(indices)
    return sums.take(indices >= 0) if (indices < 0).any() else sums


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
