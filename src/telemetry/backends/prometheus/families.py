"""The conversion of a snapshot to metric families, for all formats of Prometheus. Pure."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal, TypeVar, get_args

from telemetry.backends.prometheus.names import OWN, Names, Unit, labels, unit_of
from telemetry.backends.sources.snapshots import finite
from telemetry.wire.cells import CELLS, PER_DOUBLING, edge
from telemetry.wire.snapshot import (
    AxisStat,
    Completeness,
    CounterStat,
    GaugeStat,
    MetricsSnapshot,
    SeriesStat,
    State,
)

Kind = Literal["counter", "gauge", "histogram"]
Labels = tuple[tuple[str, str], ...]

_GROUP: Final = 8 * PER_DOUBLING
"""Cells per group.

A whole group appears at once and then stays: buckets that appear in mid-run confuse `rate()`.
"""
_WHOLE_GROUPS: Final = (0, 2)  # ticks up to 131,071, for tokens and bytes
_FINE_GROUPS: Final = (2, 4)  # 131 µs to 8.6 s; 0.13 to 8,600 for values counted in millionths
_REMEMBERED: Final = 1 << 14
_NOT_A_NUMBER: Final = float("nan")
_Stat = TypeVar("_Stat", CounterStat, GaugeStat, SeriesStat)


@dataclass(frozen=True, slots=True)
class Distribution:
    """A series as a histogram."""

    labels: Labels
    count: int
    total: float
    buckets: Sequence[tuple[float, int]]
    """(upper bound, number of values up to it), ascending, without the bound +Inf."""
    cells: Sequence[tuple[float, float, int]]
    """(from, to, count), for native histograms."""


@dataclass(slots=True)
class Family:
    name: str
    """Name without `_total`."""
    kind: Kind
    help: str
    unit: str = ""
    samples: list[tuple[Labels, float]] = field(default_factory=list)
    distributions: list[Distribution] = field(default_factory=list)
    """Distributions of a histogram, which has no `samples`."""


def families(snapshot: MetricsSnapshot, host: str, names: Names, per_doubling: int = PER_DOUBLING) -> list[Family]:
    """Convert a snapshot. `per_doubling`: upper bounds of classic buckets for each doubling: 1, 2 or 4."""
    return [
        *_run(snapshot, host),
        *_account(snapshot),
        *_steps(snapshot.axes),
        *_counters(snapshot.counters, names),
        *_gauges(snapshot.gauges, names),
        *(_step_gauges(snapshot, names) if names.namespace else ()),
        *_series(snapshot.series, names, PER_DOUBLING // per_doubling),
    ]


# --- run -----------------------------------------------------------------------------------------


def _run(snapshot: MetricsSnapshot, host: str) -> Iterator[Family]:
    facts = {"run_id": snapshot.run_id, "name": snapshot.name, "host": host}
    yield _own("run_info", "Name and id of the run", [(facts, 1.0)])
    states = [({"state": word}, float(word == snapshot.state)) for word in get_args(State)]
    yield _own("run_state", "1 for the current state", states)
    words = [({"completeness": word}, float(word == snapshot.completeness)) for word in get_args(Completeness)]
    yield _own("run_completeness", "1 for the current completeness", words)
    yield _own("run_exact", "1 if the percentiles are exact", [({}, float(snapshot.exact))])
    yield _own("run_start_time_seconds", "Start time", [({}, snapshot.started_ns / 1e9)], unit="seconds")
    yield _own("run_snapshot_time_seconds", "Time of these values", [({}, snapshot.time_ns / 1e9)], unit="seconds")
    yield _own("run_elapsed_seconds", "Age at that time", [({}, finite(snapshot.elapsed_s))], unit="seconds")
    if snapshot.progress:
        done = [({"name": one.name}, finite(one.done)) for one in snapshot.progress]
        yield _own("progress_done", "Progress", done)
        total = [({"name": one.name}, finite(one.total)) for one in snapshot.progress]
        yield _own("progress_expected", "Expected total", total)


def _account(snapshot: MetricsSnapshot) -> Iterator[Family]:
    account = snapshot.accounting
    yield _own("events_emitted", "Events of all producers", [({}, float(account.emitted))], "counter")
    yield _own("events_applied", "Events that are counted", [({}, float(account.applied))], "counter")
    yield _own("events_lost", "Events that are not counted", [({}, float(account.lost))])
    yield _own("events_missing", "Of those, events that never arrived", [({}, float(account.missing))])
    sides = {"aggregator": account.dropped, "producer": account.dropped_by_producer}
    dropped: list[tuple[dict[str, str], float]] = [
        ({"by": side, "reason": reason}, float(number))
        for side, reasons in sides.items()
        for reason, number in reasons.items()
    ]
    if dropped:
        yield _own("events_dropped", "Of those, events that were dropped", dropped)
    producers: dict[str, int] = {}
    for producer in snapshot.producers:
        producers[producer.status] = producers.get(producer.status, 0) + 1
    if producers:
        numbers = [({"status": status}, float(number)) for status, number in producers.items()]
        yield _own("producers", "Producers by status", numbers)
    nodes: dict[str, int] = {}
    for node in snapshot.nodes:
        nodes[node.status] = nodes.get(node.status, 0) + 1
    if nodes:
        yield _own(
            "nodes", "Nodes by status", [({"status": word}, float(number)) for word, number in nodes.items()]
        )


def _steps(axes: Sequence[AxisStat]) -> Iterator[Family]:
    if not axes:
        return
    values: list[tuple[dict[str, str], float]] = [
        ({"axis": axis.name, "name": name}, _NOT_A_NUMBER if value is None else float(value))
        for axis in axes
        for name, value in axis.values.items()
    ]
    yield _own("step_value", "The newest value of a name on an axis of steps", values)
    newest = [({"axis": axis.name}, float(axis.newest)) for axis in axes if axis.newest is not None]
    yield _own("step_newest", "Highest closed step", newest)
    closed = [({"axis": axis.name}, float(axis.closed)) for axis in axes]
    yield _own("steps_closed", "Closed steps", closed, "counter")
    yield _own("steps_open", "Open steps", [({"axis": axis.name}, float(axis.open)) for axis in axes])
    timeouts = [({"axis": axis.name}, float(axis.timeouts)) for axis in axes]
    yield _own("steps_timed_out", "Steps closed without all their producers", timeouts, "counter")


def _own(
    name: str,
    words: str,
    samples: Iterable[tuple[dict[str, str], float]],
    kind: Kind = "gauge",
    unit: str = "",
) -> Family:
    found = [(tuple(sorted(some.items())), value) for some, value in samples]
    return Family(OWN + name, kind, words, unit, found)


# --- instruments ---------------------------------------------------------------------------------


def _counters(stats: Iterable[CounterStat], names: Names) -> Iterator[Family]:
    for name, unit, group in _by_name(stats):
        family = Family(names.family("counter", name, unit), "counter", _words(name, group[0].unit))
        family.unit = _last_word(family.name, unit)
        family.samples += [(labels(stat.labels), _scaled(stat.value, unit)) for stat in group]
        yield family


def _gauges(stats: Iterable[GaugeStat], names: Names) -> Iterator[Family]:
    for name, unit, group in _by_name(stats):
        family = Family(names.family("gauge", name, unit), "gauge", _words(name, group[0].unit))
        family.unit = _last_word(family.name, unit)
        family.samples += [
            (labels(stat.labels), _scaled(stat.value, unit)) for stat in group if stat.value is not None
        ]
        if family.samples:
            yield family


def _step_gauges(snapshot: MetricsSnapshot, names: Names) -> Iterator[Family]:
    """Yield the newest value of each name of steps as a gauge, unless an instrument of the run has that name."""
    instruments = {stat.name for stats in (snapshot.counters, snapshot.gauges, snapshot.series) for stat in stats}
    found: dict[str, list[tuple[Labels, float]]] = {}
    for axis in snapshot.axes:
        for name, value in axis.values.items():
            if name not in instruments:
                number = _NOT_A_NUMBER if value is None else float(value)
                found.setdefault(name, []).append(((("axis", axis.name),), number))
    for name, samples in found.items():
        yield Family(names.family("gauge", name, unit_of("")), "gauge", f"{name}: newest value", samples=samples)


def _series(stats: Iterable[SeriesStat], names: Names, every: int) -> Iterator[Family]:
    for name, unit, group in _by_name(stats):
        base, words = names.family("series", name, unit), _words(name, group[0].unit)
        family = Family(base, "histogram", words, _last_word(base, unit))
        percentiles = Family(f"{base}_percentile", "gauge", f"{words}: percentiles of the whole run")
        least = Family(f"{base}_min", "gauge", f"{words}: minimum")
        most = Family(f"{base}_max", "gauge", f"{words}: maximum")
        for stat in group:
            own = labels(stat.labels)
            family.distributions.append(_distribution(stat, own, unit, every))
            for key, value in stat.percentiles.items():
                place = tuple(sorted((*own, ("percentile", key))))
                percentiles.samples.append((place, _scaled(value, unit)))
            if stat.min is not None and stat.max is not None:
                least.samples.append((own, _scaled(stat.min, unit)))
                most.samples.append((own, _scaled(stat.max, unit)))
        yield family
        yield from (gauge for gauge in (percentiles, least, most) if gauge.samples)


def _by_name(stats: Iterable[_Stat]) -> Iterator[tuple[str, Unit, list[_Stat]]]:
    """Group stats by name. All stats of a name share a unit."""
    found: dict[str, list[_Stat]] = {}
    for stat in stats:
        found.setdefault(stat.name, []).append(stat)
    for name, group in found.items():
        yield name, unit_of(group[0].unit), group


def _distribution(stat: SeriesStat, own: Labels, unit: Unit, every: int) -> Distribution:
    counts = {cell: count for cell, count in stat.histogram if count > 0 and 0 <= cell < CELLS}
    first, after = _WHOLE_GROUPS if stat.cell_unit >= 1.0 else _FINE_GROUPS
    if counts:
        first, after = min(first, min(counts) // _GROUP), max(after, max(counts) // _GROUP + 1)
    tick = _tick(stat.cell_unit, unit.scale)
    below, buckets = 0, []
    for cell in range(first * _GROUP, min(after * _GROUP, CELLS)):
        below += counts.get(cell, 0)
        if (cell + 1) % every == 0:
            buckets.append((_ticks(edge(cell + 1) - 1, tick), below))
    cells = [(*_within(cell, tick), count) for cell, count in sorted(counts.items())]
    return Distribution(own, stat.count, _scaled(stat.total, unit), buckets, cells)


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


def _scaled(value: float, unit: Unit) -> float:
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


def _last_word(name: str, unit: Unit) -> str:
    """Return the unit for OpenMetrics, or an empty string if the name does not end with it."""
    return unit.word if unit.word and name.endswith(f"_{unit.word}") else ""
