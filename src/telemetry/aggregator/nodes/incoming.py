"""Addition of the intervals of leaves to the tables of the root."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from telemetry import limits
from telemetry.aggregator.counters import CounterTable
from telemetry.aggregator.gauges import GaugeTable
from telemetry.aggregator.nodes.checks import (
    check_counters,
    check_extents,
    check_gauges,
    check_series,
)
from telemetry.aggregator.nodes.columns import (
    CounterArrays,
    ExtentArrays,
    GaugeArrays,
    Integers,
    SeriesArrays,
    read_counters,
    read_extents,
    read_gauges,
    read_series,
)
from telemetry.aggregator.nodes.interval_sums import join_counters, join_extents, join_gauges, join_series
from telemetry.aggregator.nodes.layouts import LeafLayouts
from telemetry.aggregator.nodes.waiting_intervals import WaitingInterval, WaitingIntervals
from telemetry.aggregator.producers.producer import Producer
from telemetry.aggregator.routes import INDEX_BITS, KIND_CODES, UNKNOWN
from telemetry.aggregator.run_clock import LATEST_NS, RunClock
from telemetry.aggregator.series.extents import Extents
from telemetry.aggregator.series.table import SeriesTable
from telemetry.aggregator.state import PART
from telemetry.drop_reasons import Count
from telemetry.wire.events import Define
from telemetry.wire.nodes import CounterSums, ExtentSums, GaugeSums, NodeInterval, SeriesSums

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
