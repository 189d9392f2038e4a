"""The conversion of a snapshot to metric families, of its instruments and of the run itself. Pure."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal, TypeVar, get_args

from telemetry.backends.prometheus.names import OWN, Names, PrometheusUnit, labels, unit_of
from telemetry.backends.sources.snapshots import finite
from telemetry.wire.cells import CELLS, PER_DOUBLING, edge
from telemetry.wire.events import Rank
from telemetry.wire.snapshot import (
    AxisStat,
    BackendStat,
    BackendState,
    Completeness,
    CounterStat,
    GaugeStat,
    MetricsSnapshot,
    ProducerStat,
    SeriesStat,
    State,
)

Kind = Literal["counter", "gauge", "histogram"]
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PrometheusHistogram:
    """A series as a histogram."""

    labels: Labels
    count: int
    total: float
    buckets: Sequence[tuple[float, int]]
    """(upper bound, number of values up to it), ascending, without the bound +Inf."""
    cells: Sequence[tuple[float, float, int]]
    """(from, to, count), for native histograms."""


@dataclass(slots=True)
class PrometheusFamily:
    name: str
    """Name without `_total`."""
    kind: Kind
    help: str
    unit: str = ""
    samples: list[tuple[Labels, float]] = field(default_factory=list)
    distributions: list[PrometheusHistogram] = field(default_factory=list)
    """Distributions of a histogram, which has no `samples`."""


NOT_A_NUMBER: Final = float("nan")
Samples = list[tuple[dict[str, str], float]]


@dataclass(frozen=True)
class HostFacts:
    """Facts that a writer knows beside the snapshot."""

    ranks: Mapping[str, Mapping[str, Sequence[tuple[Rank, float]]]] = field(default_factory=dict)
    """Axis → name → values of the ranks in the newest step that has them."""
    disk: tuple[int, int] | None = None
    """Free bytes and size of the disk with the run directory."""


def run_families(snapshot: MetricsSnapshot, host: str, beside: HostFacts) -> Iterator[PrometheusFamily]:
    """Yield the families whose names begin with `telemetry_`."""
    yield from _run(snapshot, host)
    yield from _account(snapshot)
    yield from _producers(snapshot.producers)
    yield from _backends(snapshot.backends)
    yield from _cost(snapshot, beside.disk)
    yield from _steps(snapshot.axes)
    yield from _ranks(beside)


def _run(snapshot: MetricsSnapshot, host: str) -> Iterator[PrometheusFamily]:
    facts = {"run_id": snapshot.run_id, "name": snapshot.name, "host": host}
    yield _own("run_info", "Name and id of the run", [(facts, 1.0)])
    states = [({"state": word}, float(word == snapshot.state)) for word in get_args(State)]
    yield _own("run_state", "1 for the current state", states)
    completeness = [
        ({"completeness": word}, float(word == snapshot.completeness)) for word in get_args(Completeness)
    ]
    yield _own("run_completeness", "1 for the current completeness", completeness)
    yield _own("run_exact", "1 if the percentiles are exact", [({}, float(snapshot.exact))])
    yield _own("run_start_time_seconds", "Start time", [({}, snapshot.started_ns / 1e9)], unit="seconds")
    yield _own("run_snapshot_time_seconds", "Time of these values", [({}, snapshot.time_ns / 1e9)], unit="seconds")
    newest_ns = max([stat.last_event_ns for stat in snapshot.own_producers], default=0)
    newest_ns = max([newest_ns, *(node.interval_ns for node in snapshot.nodes)])
    if newest_ns:
        newest: Samples = [({}, newest_ns / 1e9)]
        yield _own("run_last_event_time_seconds", "Time of the job's newest event", newest, unit="seconds")
    yield _own("run_elapsed_seconds", "Age at that time", [({}, finite(snapshot.elapsed_s))], unit="seconds")
    if snapshot.progress:
        done = [({"name": progress.name}, finite(progress.done)) for progress in snapshot.progress]
        yield _own("progress_done", "Progress", done)
        total = [({"name": progress.name}, finite(progress.total)) for progress in snapshot.progress]
        yield _own("progress_expected", "Expected total", total)


def _account(snapshot: MetricsSnapshot) -> Iterator[PrometheusFamily]:
    account = snapshot.accounting
    yield _own("events_emitted", "Events of all producers", [({}, float(account.emitted))], "counter")
    yield _own("events_applied", "Events that are counted", [({}, float(account.applied))], "counter")
    yield _own("events_lost", "Events that are not counted", [({}, float(account.lost))])
    yield _own("events_missing", "Of those, events that never arrived", [({}, float(account.missing))])
    yield _own("events_waiting", "Events whose definition has not arrived yet", [({}, float(account.waiting))])
    sides = {"aggregator": account.dropped, "producer": account.dropped_by_producer}
    dropped: Samples = [
        ({"by": side, "reason": reason}, float(number))
        for side, reasons in sides.items()
        for reason, number in reasons.items()
    ]
    if dropped:
        yield _own("events_dropped", "Of those, events that were dropped", dropped)
    if snapshot.producers:
        yield _own("producers", "Producers by status", _numbers(stat.status for stat in snapshot.producers))
    if snapshot.nodes:
        yield _own("nodes", "Nodes by status", _numbers(stat.status for stat in snapshot.nodes))


def _numbers(statuses: Iterable[str]) -> Samples:
    return [({"status": status}, float(number)) for status, number in Counter(statuses).items()]


def _producers(producers: Sequence[ProducerStat]) -> Iterator[PrometheusFamily]:
    if not producers:
        return
    labelled = [(_producer(stat), stat) for stat in producers]
    received = [(labels, float(stat.received)) for labels, stat in labelled]
    yield _own("producer_received", "Events received from a producer", received, "counter")
    lost = [
        (labels, float(stat.emitted - stat.applied - stat.waiting)) for labels, stat in labelled
    ]  # dropped by either side, or missing
    yield _own("producer_lost", "Events of a producer that are not counted", lost)
    lags = [(labels, finite(stat.lag_s)) for labels, stat in labelled if stat.lag_s is not None]
    if lags:
        yield _own("producer_lag_seconds", "Age of its newest event at arrival", lags, unit="seconds")


def _producer(stat: ProducerStat) -> dict[str, str]:
    labels = {"producer": stat.producer, "process": stat.name}
    return labels if stat.rank is None else {**labels, "rank": str(stat.rank)}


def _backends(backends: Sequence[BackendStat]) -> Iterator[PrometheusFamily]:
    if not backends:
        return
    states = [
        ({"backend": stat.name, "state": word}, float(word == stat.state))
        for stat in backends
        for word in get_args(BackendState)
    ]
    yield _own("backend_state", "1 for the current state of a writer", states)
    named = [({"backend": stat.name}, stat) for stat in backends]
    queued = [(labels, float(stat.queued)) for labels, stat in named]
    yield _own("backend_queued", "Records that are not delivered yet", queued)
    written = [(labels, float(stat.written)) for labels, stat in named]
    yield _own("backend_written", "Delivered items", written, "counter")
    dropped = [(labels, float(sum(stat.dropped.values()))) for labels, stat in named]
    yield _own("backend_dropped", "Items that will never be delivered", dropped)
    failures = [(labels, float(stat.failures)) for labels, stat in named]
    yield _own("backend_failures", "Failures in a row", failures)
    restarts = [(labels, float(stat.restarts)) for labels, stat in named]
    yield _own("backend_restarts", "Restarts of the writer", restarts, "counter")


def _cost(snapshot: MetricsSnapshot, disk: tuple[int, int] | None) -> Iterator[PrometheusFamily]:
    cost = snapshot.cost
    cpu: Samples = [({}, finite(cost.cpu_s))]
    yield _own("aggregator_cpu_seconds", "CPU time of the aggregator", cpu, "counter", "seconds")
    memory: Samples = [({}, float(cost.rss_bytes))]
    yield _own("aggregator_memory_bytes", "Resident memory of the aggregator", memory, unit="bytes")
    if disk is not None:
        free, size = disk
        yield _own("run_disk_free_bytes", "Free space beside the run directory", [({}, float(free))], unit="bytes")
        yield _own("run_disk_size_bytes", "Size of that disk", [({}, float(size))], unit="bytes")


def _steps(axes: Sequence[AxisStat]) -> Iterator[PrometheusFamily]:
    if not axes:
        return
    values: Samples = [
        ({"axis": axis.name, "name": name}, NOT_A_NUMBER if value is None else float(value))
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


def _ranks(beside: HostFacts) -> Iterator[PrometheusFamily]:
    values = [
        ({"axis": axis, "name": name, "rank": str(rank)}, value)
        for axis, names in beside.ranks.items()
        for name, ranked in names.items()
        for rank, value in ranked
    ]
    if values:
        yield _own("step_rank_value", "The value of a rank in the newest step that has it", values)


def _own(
    name: str,
    description: str,
    samples: Iterable[tuple[dict[str, str], float]],
    kind: Kind = "gauge",
    unit: str = "",
) -> PrometheusFamily:
    sorted_samples = [(tuple(sorted(some.items())), value) for some, value in samples]
    return PrometheusFamily(OWN + name, kind, description, unit, sorted_samples)


_GROUP: Final = 8 * PER_DOUBLING
"""Cells per group.

A whole group appears at once and then stays: buckets that appear in mid-run confuse `rate()`.
"""
_WHOLE_GROUPS: Final = (0, 2)  # ticks up to 131,071, for tokens and bytes
_FINE_GROUPS: Final = (2, 4)  # 131 µs to 8.6 s; 0.13 to 8,600 for values counted in millionths
_REMEMBERED: Final = 1 << 14
_NOTHING_BESIDE: Final = HostFacts()
_Stat = TypeVar("_Stat", CounterStat, GaugeStat, SeriesStat)


def families(
    snapshot: MetricsSnapshot,
    host: str,
    names: Names,
    per_doubling: int = PER_DOUBLING,
    beside: HostFacts = _NOTHING_BESIDE,
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
