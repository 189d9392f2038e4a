"""The snapshot of a merged run, apart from its series."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from telemetry import limits
from telemetry.history.instrument_ids import series_id
from telemetry.history.rates import Paces
from telemetry.history.request_model import joined, shifted, time_range_of
from telemetry.judge.merge.sources import Input, SeriesId
from telemetry.wire.events import Scalar
from telemetry.wire.snapshot import (
    Accounting,
    Completeness,
    CounterStat,
    FoldedProducers,
    GaugeStat,
    MarkStat,
    MetricsSnapshot,
    NodeStat,
    Pending,
    ProducerStat,
    Progress,
    RequestLogStat,
    SelfCost,
    SeriesStat,
)

_WORSE: Final[tuple[Completeness, ...]] = ("complete", "lossy", "incomplete", "interrupted")
_OWN_PARAMS: Final = ("slo.", "telemetry.")
"""Beginnings of the names of params that telemetry sends itself: limits of requests, and the chosen headline."""
_ADDED: Final = "percentiles of merged runs are computed from histograms"
_ROUNDED: Final = "the sum of some counters does not fit in an integer"

_Sum = TypeVar("_Sum", bound=Struct)
_Stat = TypeVar("_Stat", CounterStat, GaugeStat)


def merged_snapshot(
    inputs: Sequence[Input],
    series: Sequence[SeriesStat],
    *,
    run_id: str,
    name: str,
    directory: str,
    warnings: Sequence[str] = (),
) -> MetricsSnapshot:
    """Return the merged result. Its time is that from the first start to the last end."""
    began_ns, ended_ns = min(run.begin_ns for run in inputs), max(run.end_ns for run in inputs)
    elapsed_s = (ended_ns - began_ns) / 1e9
    producers = _Producers(inputs)
    snapshots = [run.snapshot for run in inputs]
    counters = _counters(inputs)
    rounded = any(stat.imprecise for stat in counters)
    exact = (
        all(snapshot.exact for snapshot in snapshots)
        and all(stat.exact for stat in series if stat.count)
        and not rounded
    )
    added = any(stat.count and not stat.exact for stat in series)
    why = _ADDED if added else _first(snapshot.exact_reason for snapshot in snapshots) or _ROUNDED
    merged = MetricsSnapshot(
        run_id=run_id,
        name=name,
        seq=1,
        state="INTERRUPTED" if any(snapshot.state == "INTERRUPTED" for snapshot in snapshots) else "COMPLETE",
        completeness=max((snapshot.completeness for snapshot in snapshots), key=_WORSE.index),
        reason=f"merged from {sum(len(run.sources) for run in inputs)} runs",
        exact=exact,
        exact_reason="" if exact else why,
        started_ns=began_ns,
        time_ns=max(run.snapshot.time_ns + run.shift_ns for run in inputs),
        elapsed_s=elapsed_s,
        pending=producers.pending(),
        accounting=_sum(Accounting, [snapshot.accounting for snapshot in snapshots]),
        producers=producers.stats(),
        folded=_folded(snapshots),
        nodes=_nodes(inputs),
        missing_nodes=sum(snapshot.missing_nodes for snapshot in snapshots),
        progress=_progress(snapshots),
        counters=counters,
        gauges=_gauges(inputs),
        series=list(series),
        marks=producers.marks(),
        params=_params(inputs),
        cost=_sum(SelfCost, [snapshot.cost for snapshot in snapshots], highest=("tick_ms", "tick_ms_max")),
        overflow=_added_up(snapshot.overflow for snapshot in snapshots),
        warnings=[*warnings, *_warnings(inputs)],
        directory=directory,
        request_log=_request_log(snapshots),
    )
    paces = Paces(merged)
    return replace(merged, counters=[replace(stat, rate=paces.of(stat).per_s or 0.0) for stat in counters])


def _sum(kind: type[_Sum], parts: Sequence[_Sum], highest: Sequence[str] = ()) -> _Sum:
    """Sum up each field, by name for dictionaries. Fields in `highest` take the maximum instead."""
    fields: dict[str, Any] = {}
    for name in kind.__struct_fields__:
        values = [getattr(part, name) for part in parts]
        if isinstance(values[0], dict):
            fields[name] = _added_up(values)
        else:
            fields[name] = max(values) if name in highest else carried(total_of(values))
    return kind(**fields)


def _added_up(parts: Iterable[dict[Any, int]]) -> dict[Any, int]:
    sums: dict[Any, int] = {}
    for part in parts:
        for name, count in part.items():
            sums[name] = sums.get(name, 0) + count
    return sums


def _first(texts: Iterable[str]) -> str:
    return next((text for text in texts if text), "")


class _Producers:
    """Producers with ids that are unique in the merged run. A duplicate id gets the label of the later run."""

    def __init__(self, inputs: Sequence[Input]) -> None:
        self._inputs = inputs
        self._ids: list[dict[str, str]] = []
        taken: set[str] = set()
        for run in inputs:
            ids = {}
            for stat in run.snapshot.producers:
                ids[stat.producer] = _free(stat.producer, run.label, taken)
            taken.update(ids.values())
            self._ids.append(ids)

    def stats(self) -> list[ProducerStat]:
        return [
            replace(
                stat,
                producer=ids[stat.producer],
                last_seen_ns=_moved(stat.last_seen_ns, run.shift_ns),
                last_event_ns=_moved(stat.last_event_ns, run.shift_ns),
            )
            for run, ids in zip(self._inputs, self._ids, strict=True)
            for stat in run.snapshot.producers
        ]

    def marks(self) -> list[MarkStat]:
        """Return the marks in order of time."""
        marks = [
            replace(
                mark, producer=ids.get(mark.producer, mark.producer), time_ns=_moved(mark.time_ns, run.shift_ns)
            )
            for run, ids in zip(self._inputs, self._ids, strict=True)
            for mark in run.snapshot.marks
        ]
        return sorted(marks, key=lambda mark: mark.time_ns)

    def pending(self) -> Pending:
        pending = [run.snapshot.pending for run in self._inputs]
        return Pending(
            producers=[
                ids.get(producer, producer)
                for part, ids in zip(pending, self._ids, strict=True)
                for producer in part.producers
            ],
            events=sum(part.events for part in pending),
            deferred=sum(part.deferred for part in pending),
        )


def _folded(snapshots: Sequence[MetricsSnapshot]) -> FoldedProducers | None:
    folded = [snapshot.folded for snapshot in snapshots if snapshot.folded is not None]
    return _sum(FoldedProducers, folded) if folded else None


def _request_log(snapshots: Sequence[MetricsSnapshot]) -> RequestLogStat | None:
    logs = [snapshot.request_log for snapshot in snapshots if snapshot.request_log is not None]
    return _sum(RequestLogStat, logs, highest=("cap_bytes",)) if logs else None


def _nodes(inputs: Sequence[Input]) -> list[NodeStat]:
    """Return the nodes of all runs. A node with the name of an earlier one gets the label of its run."""
    nodes: list[NodeStat] = []
    taken: set[str] = set()
    for run in inputs:
        own = [
            replace(
                stat,
                node=_free(stat.node, run.label, taken),
                interval_ns=_moved(stat.interval_ns, run.shift_ns),
                last_seen_ns=_moved(stat.last_seen_ns, run.shift_ns),
            )
            for stat in run.snapshot.nodes
        ]
        taken.update(stat.node for stat in own)
        nodes += own
    return nodes


def _free(name: str, label: str, taken: set[str]) -> str:
    while name in taken:
        name = f"{name} ({label})"
    return name


def _moved(time_ns: int, shift_ns: int) -> int:
    """Shift a time; 0 means no time and stays 0."""
    return time_ns + shift_ns if time_ns else 0


def _by_identity(stats: Iterable[_Stat]) -> dict[SeriesId, list[_Stat]]:
    groups: dict[SeriesId, list[_Stat]] = {}
    for stat in stats:
        groups.setdefault(series_id(stat), []).append(stat)
    return groups


def _counters(inputs: Sequence[Input]) -> list[CounterStat]:
    moved = (shifted(stat, run.shift_ns) for run in inputs for stat in run.snapshot.counters)
    merged = []
    for stats in _by_identity(moved).values():
        whole = total_of(stat.value for stat in stats)
        value = carried(whole)
        imprecise = sum(stat.imprecise for stat in stats) or int(value != whole)
        events = sum(stat.events for stat in stats)
        extent = joined([stat.extent for stat in stats if stat.events] or [stats[0].extent])
        began_ns, ended_ns = time_range_of(stats)
        merged.append(
            replace(
                stats[0],
                value=value,
                events=events,
                extent=extent,
                imprecise=imprecise,
                began_ns=began_ns,
                ended_ns=ended_ns,
            )
        )
    return merged


def _gauges(inputs: Sequence[Input]) -> list[GaugeStat]:
    moved = (
        replace(stat, time_ns=_moved(stat.time_ns, run.shift_ns)) for run in inputs for stat in run.snapshot.gauges
    )
    merged = []
    for stats in _by_identity(moved).values():
        last = max(
            (stat for stat in stats if stat.value is not None), key=lambda stat: stat.time_ns, default=stats[0]
        )
        least = min((stat.min for stat in stats if stat.min is not None), default=None)
        most = max((stat.max for stat in stats if stat.max is not None), default=None)
        events, imprecise = sum(stat.events for stat in stats), sum(stat.imprecise for stat in stats)
        merged.append(replace(last, min=least, max=most, events=events, imprecise=imprecise))
    return merged


def _progress(snapshots: Sequence[MetricsSnapshot]) -> list[Progress]:
    items_by_name: dict[str, list[Progress]] = {}
    for snapshot in snapshots:
        for item in snapshot.progress:
            items_by_name.setdefault(item.name, []).append(item)
    return [
        Progress(
            name=name,
            done=float(total_of(item.done for item in items)),
            total=float(total_of(item.total for item in items)),
        )
        for name, items in items_by_name.items()
    ]


def _params(inputs: Sequence[Input]) -> dict[str, Scalar]:
    """Return each param once if all runs agree, else once for each run.

    A run without a param disagrees, unless telemetry itself sends the param: such a run lacks what it describes.
    """
    params: dict[str, Scalar] = {}
    for name in dict.fromkeys(name for run in inputs for name in run.snapshot.params):
        pairs = [(run.label, run.snapshot.params[name]) for run in inputs if name in run.snapshot.params]
        values = [(type(value), value) for _, value in pairs]
        is_shared = len(pairs) == len(inputs) or name.startswith(_OWN_PARAMS)
        if is_shared and all(value == values[0] for value in values):
            params[name] = pairs[0][1]
        else:
            params.update((f"{name} ({label})", value) for label, value in pairs)
    return params


def _warnings(inputs: Sequence[Input]) -> Iterable[str]:
    """Yield the warnings of each run, and the reason if it was interrupted."""
    for run in inputs:
        if run.snapshot.state == "INTERRUPTED":
            yield f"{run.label}: interrupted: {run.snapshot.reason or 'unknown reason'}"
        yield from (f"{run.label}: {warning}" for warning in run.snapshot.warnings)


Number = int | float

LARGEST: Final = sys.float_info.max
_WIRE_INTEGER: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class MergedMoments:
    """Moments of some values. `stddev` is of the population. None means that it exceeds a float."""

    count: int
    total: Number
    stddev: float | None


def total_of(values: Iterable[Number]) -> Number:
    """Return the sum, rounded once. It is an integer of any size if all values are. LARGEST if it overflows."""
    numbers = list(values)
    if all(isinstance(value, int) for value in numbers):
        return sum(numbers)
    try:
        return math.fsum(numbers)
    except OverflowError:
        return LARGEST


def carried(value: Number) -> Number:
    """Return the value, or the nearest float for an integer that wire formats and JSON can't hold."""
    return value if isinstance(value, float) or -_WIRE_INTEGER <= value < _WIRE_INTEGER else float(value)


def plain(value: float) -> Number:
    """Convert to an int if that is exact."""
    return int(value) if 0.0 <= value < limits.EXACT_INTEGER and value == int(value) else value


def mean_of(total: Number, count: int) -> float | None:
    mean = total / count
    return mean if mean <= LARGEST else None


def stddev_of(parts: Sequence[MergedMoments]) -> float | None:
    """Return the standard deviation of all values together. `parts` must contain at least one value.

    It combines the spread within the parts and between their means, without subtracting large numbers.
    """
    count = sum(part.count for part in parts)
    mean = total_of(part.total for part in parts) / count
    squares = []
    for part in parts:
        if part.stddev is None:
            return None
        distance = part.total / part.count - mean
        squares += [part.count * (part.stddev * part.stddev), part.count * (distance * distance)]
    try:
        deviation = math.sqrt(math.fsum(squares) / count)
    except (OverflowError, ValueError):  # a sum of infinities, or NaN
        return None
    return deviation if deviation <= LARGEST else None
