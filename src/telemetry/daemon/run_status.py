"""The course of one run: its state, the reason of its end, and other facts for snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from telemetry import limits
from telemetry.aggregator import Lifecycle, SnapshotFacts
from telemetry.wire.codec import carriable
from telemetry.wire.feeds import interruption
from telemetry.wire.journal import Ending, RunState
from telemetry.wire.snapshot import (
    BACKEND_ENDED,
    BackendStat,
    CommandFacts,
    CounterStat,
    MetricsSnapshot,
    RootStat,
    SelfCost,
)

_SILENT_NS: Final = int(limits.BACKEND_SILENT_S * 1e9)
_RESTARTED: Final = "the aggregator was restarted "


@dataclass
class RunStatus:
    """Mutable status of a run, owned by the service's thread."""

    name: str
    run_id: str
    epoch: str
    directory: str
    started_ns: int
    """Start of the run on the wall clock."""
    started_mono_ns: int
    refresh_hz: float = 0.0
    on_ending: Callable[[Ending], object] = lambda ending: None
    """Callback for the end of the run.

    Each request to end calls it, before any other component learns of the end.
    """
    lifecycle: Lifecycle = field(default_factory=Lifecycle)
    ending: bool = False
    interrupted: bool = False
    interruptions: int = 0
    """Number of interruptions."""
    root: RootStat | None = None
    """Root of this run. None if the run is no leaf."""
    on_root: Callable[[RootStat], object] = lambda root: None
    """Callback for what is known of the root, called at each tick."""
    decided: bool = False
    """True once the end and its reason are final."""
    reason: str = ""
    command: CommandFacts | None = None
    drain_deadline_ns: int | None = None
    unaccounted: bool = False
    """True if events may be lost that appear in no account."""
    lost_power: bool = False
    """True if the machine restarted before the books were closed. Whole producers may be missing."""
    exact: bool = False
    exact_reason: str = "the run is still going"
    warnings: list[str] = field(default_factory=list)
    seq: int = 0
    newest: MetricsSnapshot | None = None
    backends: dict[str, tuple[int, BackendStat]] = field(default_factory=dict)
    """Name → last report of each writer and its time, on this process's monotonic clock.

    The journal has the names of all writers, and the last reports of those that have ended. Living writers repeat
    theirs to the next aggregator.
    """

    @staticmethod
    def of(run: RunState, epoch: str, directory: str, refresh_hz: float = 0.0) -> RunStatus:
        """Return the status of a run so far. If its end was requested, it continues to end."""
        run_status = RunStatus(
            name=run.name,
            run_id=run.run_id,
            epoch=epoch,
            directory=directory,
            started_ns=run.started_ns,
            started_mono_ns=run.started_mono_ns,
            refresh_hz=refresh_hz,
            seq=run.snapshot_seq,
            unaccounted=run.unaccounted,
            lost_power=run.lost_power,
            warnings=[warning for warning in run.warnings if not warning.startswith(_RESTARTED)],
        )
        if run.restarts:
            run_status.warn([_restarted(run)])
        if run.ending is not None:
            run_status.follow(run.ending)
        return run_status

    def follow(self, ending: Ending) -> None:
        """End the run in the way that a journal recorded."""
        self.end(ending.reason, interrupted=ending.interrupted, command=ending.command)

    def end(self, reason: str, *, interrupted: bool = False, command: CommandFacts | None = None) -> None:
        """Request the end of the run.

        The first reason and the first command stay. An interruption overrides a drain in progress.
        """
        self.interruptions += interrupted
        self.command = self.command or command
        if self.decided:
            return
        if not self.ending or (interrupted and not self.interrupted):
            self.reason = reason
        self.ending = True
        self.interrupted = self.interrupted or interrupted
        self.on_ending(Ending(reason=self.reason, interrupted=self.interrupted, command=self.command))

    def heed_feeds(self, counters: Iterable[CounterStat]) -> None:
        """Mark an orderly end as interrupted if the counters of a fed benchmark report an interruption."""
        cause = interruption(counters)
        if cause and not self.interrupted:
            self.end(f"{cause}; {self.reason}" if self.reason else cause, interrupted=True)

    def drain_left_s(self, now_ns: int) -> float | None:
        """Return how long the drain still lasts at most, in seconds. Return None if there is no drain."""
        return None if self.drain_deadline_ns is None else max(0.0, (self.drain_deadline_ns - now_ns) / 1e9)

    def warn(self, messages: Iterable[str]) -> None:
        """Add warnings, each once, up to the bound."""
        for message in map(carriable, messages):
            if message not in self.warnings and len(self.warnings) < limits.WARNINGS_KEPT:
                self.warnings.append(message)

    def warn_anew(self, beginning: str, message: str) -> None:
        """Add a warning and remove earlier ones with the same beginning."""
        others = [warning for warning in self.warnings if not warning.startswith(beginning)]
        if others != self.warnings or len(others) < limits.WARNINGS_KEPT:
            self.warnings[:] = [*others, message]

    def take_back(self, beginning: str) -> None:
        """Remove warnings with this beginning, which no longer hold."""
        self.warnings[:] = [warning for warning in self.warnings if not warning.startswith(beginning)]

    def expect(self, backends: Iterable[BackendStat], now_ns: int, wall_ns: int) -> None:
        """Add backends that belong to the run, before their writers report to this aggregator.

        A writer that never does counts as silent after a while.
        """
        for stat in backends:
            self.tell(stat if stat.state in BACKEND_ENDED else replace(stat, time_ns=wall_ns), now_ns)

    def tell(self, stat: BackendStat, heard_ns: int) -> bool:
        """Store the last report of a writer. Return False if there are too many writers."""
        if stat.name not in self.backends and len(self.backends) >= limits.BACKENDS:
            return False
        self.backends[stat.name] = heard_ns, stat
        return True

    def backend_stats(self, now_ns: int, records: int) -> list[BackendStat]:
        """Return the last report of each writer, in the order in which they began.

        A silent writer can't report its backlog. So its queue is computed from `records`, the length of the stream,
        and so is every queue in the result.
        """
        return [
            replace(stat, queued=max(0, records - stat.next_record))
            if self.lifecycle.terminal or now_ns - heard_ns > _SILENT_NS
            else stat
            for heard_ns, stat in self.backends.values()
        ]

    def facts(self, now_ns: int, cost: SelfCost, backends: Sequence[BackendStat] = ()) -> SnapshotFacts:
        """Return the facts about the run that the aggregator needs for a snapshot."""
        return SnapshotFacts(
            run_id=self.run_id,
            name=self.name,
            epoch=self.epoch,
            directory=self.directory,
            started_ns=self.started_ns,
            started_mono_ns=self.started_mono_ns,
            seq=self.seq,
            state=self.lifecycle.state,
            reason=self.reason,
            refresh_hz=self.refresh_hz,
            command=self.command,
            cost=cost,
            pending_deadline_s=self.drain_left_s(now_ns),
            unaccounted=self.unaccounted,
            lost_power=self.lost_power,
            exact=self.exact,
            exact_reason=self.exact_reason,
            warnings=list(self.warnings),
            backends=backends,
            root=self.root,
        )


def _restarted(run: RunState) -> str:
    if run.restarts == 1:
        return f"{_RESTARTED}once, after process {run.died} had died"
    return f"{_RESTARTED}{run.restarts:,} times, the last time after process {run.died} had died"
