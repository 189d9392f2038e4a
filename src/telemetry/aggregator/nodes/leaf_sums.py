"""Sums of the newest interval of a leaf, from its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from telemetry.aggregator.counters import CounterTable
from telemetry.aggregator.gauges import GaugeTable
from telemetry.aggregator.nodes.columns import (
    CounterArrays,
    ExtentArrays,
    Integers,
    bounds_of_sums,
    write_counters,
    write_extents,
    write_gauges,
)
from telemetry.aggregator.nodes.interval_sums import split_integer
from telemetry.aggregator.nodes.outgoing import OutgoingInterval
from telemetry.aggregator.registry import RegisteredInstrument, Registry
from telemetry.aggregator.rows import KIND_CODES
from telemetry.aggregator.run_clock import LATEST_NS
from telemetry.aggregator.series.extents import Extents
from telemetry.aggregator.series.table import SeriesTable
from telemetry.wire.events import KINDS, Define, Kind
from telemetry.wire.history import Interval, SeriesColumns
from telemetry.wire.nodes import CounterSums, ExtentSums, GaugeSums, SeriesSums
from telemetry.wire.snapshot import Extent

_SentExtent = tuple[int, int, int, int, int, int | float]
_SERIES: Final = ("_series_imprecise", "_below", "_above")
_COUNTERS: Final = ("_counter_events", "_counter_imprecise", "_whole")
_GAUGES: Final = ("_gauge_events", "_gauge_imprecise")


def row_id(kind: Kind, index: int) -> int:
    """Return the id that a leaf gives to one of its instruments."""
    return len(KIND_CODES) * index + KIND_CODES[kind]


class LeafSums:
    """Totals that were sent so far. An interval is the difference between the tables and these totals.

    New instruments are not in the columns yet, so a column may be shorter than its table.
    """

    STATE: ClassVar[Mapping[str, Any]] = {
        **dict.fromkeys((*_SERIES, *_COUNTERS, *_GAUGES), NDArray[np.int64]),
        "huge": dict[int, str],
        "_sent_extents": dict[int, _SentExtent],
        "_defined": dict[Kind, int],
        "_followers": int,
    }
    DERIVED: ClassVar[tuple[str, ...]] = ("_registry", "_series", "_counters", "_gauges", "_extents", "_huge")

    def __init__(
        self,
        registry: Registry,
        series: SeriesTable,
        counters: CounterTable,
        gauges: GaugeTable,
        extents: Extents,
    ) -> None:
        self._registry = registry
        self._series = series
        self._counters = counters
        self._gauges = gauges
        self._extents = extents
        for name in (*_SERIES, *_COUNTERS, *_GAUGES):
            setattr(self, name, np.zeros(0, np.int64))
        self._huge: dict[int, int] = {}
        """Counter → the part of the sum so far that is not in `_whole`."""
        self._sent_extents: dict[int, _SentExtent] = {}
        """Id → times, number of rows inside, and their sum, as last sent."""
        self._defined: dict[Kind, int] = dict.fromkeys(KINDS, 0)
        self._followers = 0
        """Number of followers whose definition was sent with their leader."""

    def restored(self) -> None:
        sizes = {name: len(self._series) for name in _SERIES}
        sizes |= {name: len(self._counters) for name in _COUNTERS}
        sizes |= {name: len(self._gauges) for name in _GAUGES}
        instruments = self._registry.instruments
        possible = (
            all(len(getattr(self, name)) <= size for name, size in sizes.items())
            and all(0 <= index < len(self._counters) for index in self._huge)
            and self._defined.keys() == instruments.keys()
            and all(0 <= count <= len(instruments[kind]) for kind, count in self._defined.items())
            and 0 <= self._followers <= self._extents.follower_count
        )
        if not possible:
            raise ValueError("sums of instruments that do not exist")

    @property
    def huge(self) -> dict[int, str]:
        """The integers beyond 64 bits in hexadecimal, because msgpack can't hold them."""
        return {index: f"{number:x}" for index, number in self._huge.items()}

    @huge.setter
    def huge(self, huge: dict[int, str]) -> None:
        self._huge = {index: int(digits, 16) for index, digits in huge.items()}

    def define_again(self) -> None:
        """Send all definitions with the next interval, in case earlier ones did not arrive."""
        self._defined = dict.fromkeys(KINDS, 0)
        self._followers = 0

    def take(self, interval: Interval, shift_ns: int) -> OutgoingInterval:
        """Return the interval that has just ended. `shift_ns` leads from the run's clock to the wall clock."""
        return OutgoingInterval(
            defines=list(self._new_definitions()),
            series=self._series_sums(interval.series, shift_ns),
            counters=self._counter_sums(shift_ns),
            gauges=self._gauge_sums(np.frombuffer(interval.gauges.index, "<u4").astype(np.intp), shift_ns),
            extents=self._extent_sums(shift_ns),
            values=self._series.values + self._counters.values + self._gauges.values,
        )

    # --- definitions -----------------------------------------------------------------------------

    def _new_definitions(self) -> Iterator[Define]:
        """Yield instruments that are new, or have become followers since they were sent."""
        due: dict[tuple[Kind, int], str] = {}
        for kind, instruments in self._registry.instruments.items():
            due |= {(kind, index): "" for index in range(self._defined[kind], len(instruments))}
            self._defined[kind] = len(instruments)
        for kind, index, leader in self._extents.followers_from(self._followers):
            due[kind, index] = leader
        self._followers = self._extents.follower_count
        for (kind, index), within in due.items():
            yield self._definition(self._registry.instruments[kind][index], within)

    def _definition(self, item: RegisteredInstrument, within: str) -> Define:
        number = row_id(item.kind, item.index)
        if item.kind != "series":
            return Define(number, item.name, item.kind, item.unit, item.labels, within=within)
        series = self._series.definition(item.index)
        bounds = (series.digits, series.low, series.high)
        return Define(number, item.name, item.kind, item.unit, item.labels, *bounds, within=within)

    # --- sums ------------------------------------------------------------------------------------

    def _series_sums(self, columns: SeriesColumns, shift_ns: int) -> SeriesSums:
        moments, times = self._series.moments, self._series.times
        imprecise = self._increase("_series_imprecise", moments.imprecise[: len(self._series)])
        below, above = self._series.outside()
        below, above = self._increase("_below", below), self._increase("_above", above)
        used = np.frombuffer(columns.index, "<u4").astype(np.intp)
        total, rest, mean, squares = moments.interval.sums(used)
        moments.interval.start_interval()
        least, most = np.frombuffer(columns.min, "<f8"), np.frombuffer(columns.max, "<f8")
        # After an overflow, sums are infinite and a mean is not known. Where earlier values were much larger,
        # rounding may put sums and mean beyond what the extremes allow.
        mean = np.clip(np.where(np.isnan(mean), least, mean), least, most)
        lowest, highest, widest = bounds_of_sums(np.frombuffer(columns.count, "<i8"), least, most)
        total = _infinite_if_unknown(total)
        is_possible = (lowest <= total) & (total <= highest)
        total, rest = np.clip(total, lowest, highest), np.where(is_possible & np.isfinite(rest), rest, 0.0)
        squares = np.minimum(_infinite_if_unknown(squares), widest)
        return SeriesSums(
            id=(len(KIND_CODES) * used + KIND_CODES["series"]).astype("<u4").tobytes(),
            count=columns.count,
            total=total.astype("<f8", copy=False).tobytes(),
            rest=rest.astype("<f8", copy=False).tobytes(),
            mean=mean.astype("<f8", copy=False).tobytes(),
            squares=squares.astype("<f8", copy=False).tobytes(),
            min=columns.min,
            max=columns.max,
            integral=moments.integral[used].astype("u1").tobytes(),
            imprecise=imprecise[used].astype("<u8").tobytes(),
            below=below[used].astype("<u8").tobytes(),
            above=above[used].astype("<u8").tobytes(),
            occupied=columns.occupied,
            slots=columns.slots,
            counts=columns.counts,
            first_ns=_shifted(times.first[used], shift_ns).astype("<i8", copy=False).tobytes(),
            last_ns=_shifted(times.last[used], shift_ns).astype("<i8", copy=False).tobytes(),
        )

    def _counter_sums(self, shift_ns: int) -> CounterSums:
        totals = self._counters.totals()
        events = self._increase("_counter_events", totals.events)
        imprecise = self._increase("_counter_imprecise", totals.imprecise)
        whole = self._increase("_whole", totals.whole)
        used = np.flatnonzero(events)
        huge = np.zeros(len(self._counters))
        for index, number in self._counters.beyond.items():
            if events[index]:
                increase = number - self._huge.get(index, 0) + int(whole[index])
                whole[index], huge[index] = split_integer(increase)
                unsent = increase - int(whole[index]) - int(huge[index])
                self._huge[index] = number - unsent
        columns = CounterArrays(
            len(KIND_CODES) * used + KIND_CODES["counter"],
            events[used],
            whole[used],
            huge[used],
            totals.fraction[used],
            totals.fractional[used],
            imprecise[used],
            _shifted(totals.first_ns[used], shift_ns),
            _shifted(totals.last_ns[used], shift_ns),
        )
        self._counters.start_interval()
        return write_counters(columns)

    def _gauge_sums(self, touched: NDArray[np.intp], shift_ns: int) -> GaugeSums:
        totals = self._gauges.totals()
        events = self._increase("_gauge_events", totals.events)
        imprecise = self._increase("_gauge_imprecise", totals.imprecise)
        lines = replace(totals, events=events, imprecise=imprecise).take(touched)
        ids = len(KIND_CODES) * touched + KIND_CODES["gauge"]
        return write_gauges(replace(lines, id=ids, time_ns=_shifted(lines.time_ns, shift_ns)))

    def _extent_sums(self, shift_ns: int) -> ExtentSums:
        by_kind = self._extents.by_instrument() if self._followers else {}
        by_id = {
            row_id(kind, index): extent for kind, extents in by_kind.items() for index, extent in extents.items()
        }
        changed = [line for number in sorted(by_id) if (line := self._extent_increase(number, by_id[number]))]
        columns = [np.array(column) for column in zip(*changed, strict=True)] or [np.zeros(0, np.int64)] * 7
        times = [_shifted(column, shift_ns) for column in columns[1:5]]
        return write_extents(ExtentArrays.of([columns[0], *times, *columns[5:]]))

    def _extent_increase(self, number: int, extent: Extent) -> tuple[int | float, ...] | None:
        """Return id, times, and the increase of the other numbers. Return None if all are as last sent."""
        times = (extent.first_ns, extent.last_ns, extent.last_done_ns, extent.end_ns)
        before = self._sent_extents.get(number, (-1, -1, -1, -1, 0, 0))
        inside, total = extent.inside - before[4], extent.inside_total - before[5]
        if times == before[:4] and not inside and not total:
            return None
        self._sent_extents[number] = (*times, extent.inside, extent.inside_total)
        return (number, *times, inside, max(0.0, total))

    def _increase(self, name: str, now: Integers) -> Integers:
        """Return how far a column has grown since the last call."""
        before = getattr(self, name)
        increase = now.copy()
        increase[: before.size] -= before
        setattr(self, name, now.copy())
        return increase


def _infinite_if_unknown(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.isnan(sums), np.inf, sums)


def _shifted(times: Integers, shift_ns: int) -> Integers:
    """Return times on another clock. 0 means "unknown" and stays 0."""
    earliest, latest = max(0, -shift_ns), LATEST_NS - max(0, shift_ns)
    shifted: Integers = np.where(times == 0, 0, np.clip(times, earliest, latest) + shift_ns)
    return shifted
