"""Metric families about the run itself: its state, its account, its producers and writers, its steps. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, get_args

from telemetry.backends.prometheus.family import Kind, PrometheusFamily
from telemetry.backends.prometheus.names import OWN
from telemetry.backends.sources.snapshots import finite
from telemetry.wire.events import Rank
from telemetry.wire.snapshot import (
    AxisStat,
    BackendStat,
    BackendState,
    Completeness,
    MetricsSnapshot,
    ProducerStat,
    State,
)

NOT_A_NUMBER: Final = float("nan")
Samples = list[tuple[dict[str, str], float]]


@dataclass(frozen=True)
class Beside:
    """Facts that a writer knows beside the snapshot."""

    ranks: Mapping[str, Mapping[str, Sequence[tuple[Rank, float]]]] = field(default_factory=dict)
    """Axis → name → values of the ranks in the newest step that has them."""
    disk: tuple[int, int] | None = None
    """Free bytes and size of the disk with the run directory."""


def run_families(snapshot: MetricsSnapshot, host: str, beside: Beside) -> Iterator[PrometheusFamily]:
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


def _ranks(beside: Beside) -> Iterator[PrometheusFamily]:
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
