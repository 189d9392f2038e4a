"""The whole state of the aggregator as one MetricsSnapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from telemetry import limits
from telemetry.aggregator.nodes.stats import NO_NODES, Nodes
from telemetry.aggregator.notes import Notes
from telemetry.aggregator.registry import Registry
from telemetry.aggregator.snapshot_numbers import bounded
from telemetry.aggregator.text_queue import TextQueue
from telemetry.common.formatting import listed, number_of, process
from telemetry.wire.drop_reasons import Reason, merge_reasons
from telemetry.wire.feeds import missing_messages
from telemetry.wire.snapshot import (
    TERMINAL,
    Accounting,
    AxisStat,
    BackendStat,
    CommandFacts,
    Completeness,
    CounterStat,
    FoldedProducers,
    GaugeStat,
    MetricsSnapshot,
    NodeStat,
    Pending,
    ProducerStat,
    Progress,
    RequestLogStat,
    RootStat,
    SelfCost,
    SeriesStat,
    State,
)

_NAMED: Final = 5  # producers named in one warning
_MOST_BATCHES: Final = (1 << 63) - 1  # maximum on the wire; producers may claim more than that
_UNACCOUNTED: Final = (
    "the journal is incomplete: it could not be written or read from some time on; later events of that aggregator "
    "are not in the result"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFacts:
    """Facts for a snapshot that the aggregator can't know by itself."""

    run_id: str
    name: str
    epoch: str = ""
    directory: str = ""
    started_ns: int = 0
    """Start of the run on the wall clock."""
    started_mono_ns: int = 0
    seq: int = 0
    state: State = "INITIALIZE"
    reason: str = ""
    refresh_hz: float = 0.0
    command: CommandFacts | None = None
    cost: SelfCost = field(default_factory=SelfCost)
    pending_deadline_s: float | None = None
    unaccounted: bool = False
    """True if events may be lost that appear in no account."""
    lost_power: bool = False
    """True if the machine restarted before the books were closed. Whole producers may be missing."""
    exact: bool = False
    exact_reason: str = ""
    warnings: Sequence[str] = field(default_factory=list)
    backends: Sequence[BackendStat] = ()
    root: RootStat | None = None
    """Root of a run that is a leaf."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotParts:
    """State that the aggregator provides for one snapshot."""

    registry: Registry
    notes: Notes
    counters: list[CounterStat]
    gauges: list[GaugeStat]
    series: list[SeriesStat]
    producers: list[ProducerStat]
    folded: FoldedProducers | None = None
    nodes: Nodes = NO_NODES
    waiting_for: list[str]
    bad_frames: dict[str, int]
    texts: TextQueue
    axes: list[AxisStat]
    requests: RequestLogStat | None = None
    window_s: float


def build_snapshot(facts: SnapshotFacts, parts: SnapshotParts, now_ns: int, wall_ns: int) -> MetricsSnapshot:
    """Return the snapshot of this moment. `now_ns` is monotonic."""
    accounting = account_for(parts.producers, parts.bad_frames, parts.folded, parts.nodes.stats)
    rounded = _rounded(parts)
    return MetricsSnapshot(
        run_id=facts.run_id,
        name=facts.name,
        epoch=facts.epoch,
        seq=facts.seq,
        state=facts.state,
        completeness=completeness(
            facts,
            [*_owing(parts), *missing_messages(parts.counters)] if facts.state in TERMINAL else (),
            accounting,
            parts.texts.pending,
            nodes_lack=bool(parts.nodes.lacks),
        ),
        reason=facts.reason,
        exact=facts.exact and not rounded,
        exact_reason=rounded if facts.exact and rounded else facts.exact_reason,
        started_ns=facts.started_ns,
        time_ns=wall_ns,
        elapsed_s=max(0, now_ns - facts.started_mono_ns) / 1e9,
        refresh_hz=facts.refresh_hz,
        window_s=parts.window_s,
        pending=_pending(facts, parts, accounting),
        accounting=accounting,
        producers=parts.producers,
        progress=_progress(parts, over=facts.state in TERMINAL),
        counters=parts.counters,
        gauges=parts.gauges,
        series=parts.series,
        marks=list(parts.notes.marks),
        params=dict(parts.notes.params),
        command=facts.command,
        cost=facts.cost,
        axes=parts.axes,
        backends=list(facts.backends),
        overflow=parts.registry.overflow,
        warnings=_warnings(facts, parts, accounting),
        directory=facts.directory,
        folded=parts.folded,
        nodes=parts.nodes.stats,
        missing_nodes=parts.nodes.missing,
        request_log=parts.requests,
        root=facts.root,
    )


def _rounded(parts: SnapshotParts) -> str:
    """Return why the numbers are rounded although no value is missing; empty if they are exact."""
    stats: dict[str, Sequence[SeriesStat | CounterStat | GaugeStat]] = {
        "series": parts.series,
        "counters": parts.counters,
        "gauges": parts.gauges,
    }
    kinds = [kind for kind, kind_stats in stats.items() if any(stat.imprecise for stat in kind_stats)]
    return f"some {' and '.join(kinds)} hold integers beyond 2**53" if kinds else ""


def account_for(
    producers: Sequence[ProducerStat],
    bad_frames: dict[str, int],
    folded: FoldedProducers | None = None,
    nodes: Sequence[NodeStat] = (),
) -> Accounting:
    """Return the account of all producers together, and of those of all nodes. Collectors are left out."""
    complete = folded or FoldedProducers()
    own = (stat for stat in producers if not stat.is_collector)
    rows: list[ProducerStat | Accounting] = [*own, *(node.account for node in nodes)]
    return Accounting(
        emitted=complete.events + sum(row.emitted for row in rows),
        received=complete.events + sum(row.received for row in rows),
        applied=complete.events + sum(row.applied for row in rows),
        waiting=sum(row.waiting for row in rows),
        dropped=merge_reasons(*(row.dropped for row in rows)),
        dropped_by_producer=merge_reasons(*(row.dropped_by_producer for row in rows)),
        missing=sum(row.missing for row in rows),
        repaired=complete.repaired + sum(row.repaired for row in rows),
        unrepairable=min(sum(row.unrepairable for row in rows), _MOST_BATCHES),
        duplicates=complete.duplicates + sum(row.duplicates for row in rows),
        bad_frames=merge_reasons(bad_frames, *(node.account.bad_frames for node in nodes)),
        salvaged=complete.salvaged + sum(row.salvaged for row in rows),
    )


def _owing(parts: SnapshotParts) -> list[str]:
    """Return producers and nodes that may have recorded more events than the numbers hold.

    They have not ended, or were still recording at the end of the run.
    """
    unfinished = (stat.producer for stat in parts.producers if stat.unfinished and not stat.is_collector)
    return [*parts.waiting_for, *unfinished, *parts.nodes.owing]


def completeness(
    facts: SnapshotFacts,
    pending_names: Sequence[str],
    accounting: Accounting,
    uncounted: int,
    *,
    nodes_lack: bool = False,
) -> Completeness:
    """Return the completeness of the numbers, which is final only at the end of the run.

    `pending_names` names producers, nodes and sessions of feeds that may have recorded or sent more than the
    numbers hold. Unreadable frames are missing in their producers' accounts. A refused producer has no account.
    Uncounted tokens are missing in the numbers. `nodes_lack` says that a node is not complete, whatever its account
    says.
    """
    if facts.state == "INTERRUPTED":
        return "interrupted"
    if facts.state not in TERMINAL or pending_names or uncounted or facts.unaccounted or facts.lost_power:
        return "incomplete"
    turned_away = Reason.TOO_MANY_PRODUCERS in accounting.bad_frames
    return "lossy" if accounting.lost or accounting.waiting or turned_away or nodes_lack else "complete"


def _pending(facts: SnapshotFacts, parts: SnapshotParts, accounting: Accounting) -> Pending:
    deferred = parts.texts.pending
    if facts.state != "DRAINING" and facts.state not in TERMINAL:
        return Pending(deferred=deferred)
    return Pending(
        producers=parts.waiting_for,
        events=accounting.waiting,
        deferred=deferred,
        deadline_s=facts.pending_deadline_s,
    )


def _progress(parts: SnapshotParts, *, over: bool) -> list[Progress]:
    """Return the progress of expected totals.

    Done is a counter's value or a series' count, over all labels of the name, or the newest step of an axis.
    """
    progress = []
    axes = {axis.name: axis for axis in parts.axes}
    for name, total in parts.notes.expected.items():
        entry = parts.registry.names.get(name)
        done: int | float = 0
        if entry is not None and entry.kind == "counter":
            done = sum(parts.counters[index].value for index in entry.indices)
        elif entry is not None and entry.kind == "series":
            done = sum(parts.series[index].count for index in entry.indices)
        elif name in axes:
            done = _steps_done(axes[name], total, over=over)
        progress.append(Progress(name=name, done=float(bounded(done)), total=total))
    return progress


def _steps_done(axis: AxisStat, total: float, *, over: bool) -> float:
    """Return the newest step; of a run that is over the total, if the next recorded step would reach it.

    A loop that counts from 0, or records each 50th step, never records the step of its total.
    """
    newest = axis.newest or 0
    distance = (newest + 1) / max(axis.closed, 1)
    return total if over and newest < total <= newest + distance else newest


def _warnings(facts: SnapshotFacts, parts: SnapshotParts, accounting: Accounting) -> list[str]:
    warnings = [*([_UNACCOUNTED] if facts.unaccounted else []), *facts.warnings, *parts.notes.warnings]
    if unfinished := [
        producer for producer in parts.producers if producer.unfinished and not producer.is_collector
    ]:
        warnings.append(_still_recording(unfinished, parts.producers))
    silent = [producer.producer for producer in parts.producers if producer.completeness == "unknown"]
    if silent:
        names = ", ".join(silent[:_NAMED]) + (f" and {len(silent) - _NAMED:,} more" if len(silent) > _NAMED else "")
        warnings.append(f"producers sent events without a hello, so some of their events may be missing: {names}")
    warnings += parts.nodes.warnings(over=facts.state in TERMINAL)
    warnings += _text_warnings(facts, parts.texts)
    for reason, count in accounting.bad_frames.items():
        warnings.append(f"{number_of(count, 'frame was', 'frames were')} refused: {reason}")
    return warnings[: 2 * limits.WARNINGS_KEPT]


def _still_recording(unfinished: Sequence[ProducerStat], everyone: Sequence[ProducerStat]) -> str:
    several_hosts = len({producer.host for producer in everyone}) > 1
    names = listed(
        [process(stat.name or stat.producer, stat.pid, stat.host if several_hosts else "") for stat in unfinished],
        _NAMED,
    )
    was = "was" if len(unfinished) == 1 else "were"
    return f"{names} {was} still recording when the run ended; events recorded afterwards are not in the result"


def _text_warnings(facts: SnapshotFacts, texts: TextQueue) -> list[str]:
    """Return warnings about texts whose tokens are in no figure."""
    warnings = []
    if texts.pending and facts.state in TERMINAL:
        warnings.append(f"the tokens of {number_of(texts.pending, 'text was', 'texts were')} not counted in time")
    if texts.failed:
        warnings.append(f"the tokens of {number_of(texts.failed, 'text')} could not be counted")
    if texts.refused:
        warnings.append(f"no room to count the tokens of {number_of(texts.refused, 'text')}")
    return warnings
