"""The conversion of a snapshot to metric families, for all formats of Prometheus. Pure."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Final, TypeVar

from telemetry.backends.prometheus.family import Labels, PrometheusFamily, PrometheusHistogram
from telemetry.backends.prometheus.names import Names, PrometheusUnit, labels, unit_of
from telemetry.backends.prometheus.run_families import NOT_A_NUMBER, Beside, run_families
from telemetry.backends.sources.snapshots import finite
from telemetry.wire.cells import CELLS, PER_DOUBLING, edge
from telemetry.wire.snapshot import CounterStat, GaugeStat, MetricsSnapshot, SeriesStat

_GROUP: Final = 8 * PER_DOUBLING
"""Cells per group.

A whole group appears at once and then stays: buckets that appear in mid-run confuse `rate()`.
"""
_WHOLE_GROUPS: Final = (0, 2)  # ticks up to 131,071, for tokens and bytes
_FINE_GROUPS: Final = (2, 4)  # 131 µs to 8.6 s; 0.13 to 8,600 for values counted in millionths
_REMEMBERED: Final = 1 << 14
_NOTHING_BESIDE: Final = Beside()
_Stat = TypeVar("_Stat", CounterStat, GaugeStat, SeriesStat)


def families(
    snapshot: MetricsSnapshot,
    host: str,
    names: Names,
    per_doubling: int = PER_DOUBLING,
    beside: Beside = _NOTHING_BESIDE,
) -> list[PrometheusFamily]:
    """Convert a snapshot. `per_doubling`: upper bounds of classic buckets for each doubling: 1, 2 or 4."""
    return [
        *run_families(snapshot, host, beside),
        *_counters(snapshot.counters, names),
        *_gauges(snapshot.gauges, names),
        *(_step_gauges(snapshot, names) if names.namespace else ()),
        *_series(snapshot.series, names, PER_DOUBLING // per_doubling),
    ]


# --- instruments ---------------------------------------------------------------------------------


def _counters(stats: Iterable[CounterStat], names: Names) -> Iterator[PrometheusFamily]:
    for name, unit, group in _by_name(stats, names):
        family = PrometheusFamily(names.family("counter", name, unit), "counter", _words(name, group[0].unit))
        family.unit = _last_word(family.name, unit)
        family.samples += [(labels(stat.labels), _scaled(stat.value, unit)) for stat in group]
        yield family


def _gauges(stats: Iterable[GaugeStat], names: Names) -> Iterator[PrometheusFamily]:
    for name, unit, group in _by_name(stats, names):
        family = PrometheusFamily(names.family("gauge", name, unit), "gauge", _words(name, group[0].unit))
        family.unit = _last_word(family.name, unit)
        family.samples += [
            (labels(stat.labels), _scaled(stat.value, unit)) for stat in group if stat.value is not None
        ]
        if family.samples:
            yield family


def _step_gauges(snapshot: MetricsSnapshot, names: Names) -> Iterator[PrometheusFamily]:
    """Yield the newest value of each name of steps as a gauge, unless an instrument of the run has that name."""
    instruments = {stat.name for stats in (snapshot.counters, snapshot.gauges, snapshot.series) for stat in stats}
    samples_by_name: dict[str, list[tuple[Labels, float]]] = {}
    for axis in snapshot.axes:
        for name, value in axis.values.items():
            if name not in instruments:
                number = NOT_A_NUMBER if value is None else float(value)
                samples_by_name.setdefault(name, []).append(((("axis", axis.name),), number))
    for name, samples in samples_by_name.items():
        yield PrometheusFamily(
            names.family("gauge", name, unit_of("")), "gauge", f"{name}: newest value", samples=samples
        )


def _series(stats: Iterable[SeriesStat], names: Names, every: int) -> Iterator[PrometheusFamily]:
    for name, unit, group in _by_name(stats, names):
        base, description = names.family("series", name, unit), _words(name, group[0].unit)
        family = PrometheusFamily(base, "histogram", description, _last_word(base, unit))
        percentiles = PrometheusFamily(
            f"{base}_percentile", "gauge", f"{description}: percentiles of the whole run"
        )
        least = PrometheusFamily(f"{base}_min", "gauge", f"{description}: minimum")
        most = PrometheusFamily(f"{base}_max", "gauge", f"{description}: maximum")
        for stat in group:
            own = labels(stat.labels)
            family.distributions.append(_distribution(stat, own, unit, every))
            for key, value in stat.percentiles.items():
                sample_labels = tuple(sorted((*own, ("percentile", key))))
                percentiles.samples.append((sample_labels, _scaled(value, unit)))
            if stat.min is not None and stat.max is not None:
                least.samples.append((own, _scaled(stat.min, unit)))
                most.samples.append((own, _scaled(stat.max, unit)))
        yield family
        yield from (gauge for gauge in (percentiles, least, most) if gauge.samples)


def _by_name(stats: Iterable[_Stat], names: Names) -> Iterator[tuple[str, PrometheusUnit, list[_Stat]]]:
    """Group stats by name. All stats of a name share a unit."""
    groups: dict[str, list[_Stat]] = {}
    for stat in stats:
        groups.setdefault(stat.name, []).append(stat)
    for name, group in groups.items():
        yield name, names.unit_of(name, group[0].unit), group


def _distribution(stat: SeriesStat, own: Labels, unit: PrometheusUnit, every: int) -> PrometheusHistogram:
    counts = {cell: count for cell, count in stat.histogram if count > 0 and 0 <= cell < CELLS}
    counts_things = stat.cell_unit >= 1.0 and unit.word != "seconds"  # a tick of a series in ns is 1 as well
    first, after = _WHOLE_GROUPS if counts_things else _FINE_GROUPS
    if counts:
        first, after = min(first, min(counts) // _GROUP), max(after, max(counts) // _GROUP + 1)
    tick = _tick(stat.cell_unit, unit.scale)
    below, buckets = 0, []
    for cell in range(first * _GROUP, min(after * _GROUP, CELLS)):
        below += counts.get(cell, 0)
        if (cell + 1) % every == 0:
            buckets.append((_ticks(edge(cell + 1) - 1, tick), below))
    cells = [(*_within(cell, tick), count) for cell, count in sorted(counts.items())]
    return PrometheusHistogram(own, stat.count, _scaled(stat.total, unit), buckets, cells)


@lru_cache(_REMEMBERED)
def _within(cell: int, tick: Fraction) -> tuple[float, float]:
    """Return the range of values in a cell before rounding to ticks.

    A cell with one tick has that tick as its range.
    """
    low, high = edge(cell), edge(cell + 1)
    if cell == 0:
        return 0.0, _ticks(Fraction(1, 2), tick)
    if high == low + 1:
        return _ticks(low, tick), _ticks(low, tick)
    return _ticks(low - Fraction(1, 2), tick), _ticks(high - Fraction(1, 2), tick)


@lru_cache(_REMEMBERED)
def _ticks(ticks: int | Fraction, tick: Fraction) -> float:
    """Convert ticks to units.

    The upper bound of a cell is its last tick, because the cell holds all values that round to ticks below the next
    cell. So integers are in the bucket whose `le` they equal.
    """
    return float(ticks * tick)


@lru_cache(_REMEMBERED)
def _tick(cell_unit: float, scale: Fraction) -> Fraction:
    """Return a tick in base units. Either a unit is a whole number of ticks, or a tick is one of units."""
    if cell_unit <= 0.0:
        return scale
    inverse = round(1.0 / cell_unit)
    exact = Fraction(1, inverse) if inverse and abs(inverse * cell_unit - 1.0) < 1e-9 else Fraction(cell_unit)
    return exact * scale


def _scaled(value: float, unit: PrometheusUnit) -> float:
    """Convert a value to the base unit, correctly rounded."""
    number = finite(value)
    if unit.scale == 1:
        return number
    try:
        return float(Fraction(number) * unit.scale)
    except OverflowError:
        return math.copysign(sys.float_info.max, number)


def _words(name: str, unit: str) -> str:
    return f"{name} in {unit}" if unit else name


def _last_word(name: str, unit: PrometheusUnit) -> str:
    """Return the unit for OpenMetrics, or an empty string if the name does not end with it."""
    return unit.word if unit.word and name.endswith(f"_{unit.word}") else ""
