"""The course of one run: its state, why it ends, and what else a snapshot has to say about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from telemetry import limits
from telemetry.aggregator import Lifecycle, RunFacts
from telemetry.wire.codec import carriable
from telemetry.wire.feeds import interruption
from telemetry.wire.journal import Ending, RunState
from telemetry.wire.snapshot import BackendStat, CommandFacts, CounterStat, MetricsSnapshot, SelfCost

_SILENT_NS: Final = int(limits.BACKEND_SILENT_S * 1e9)
_RESTARTED: Final = "the aggregator was restarted "


@dataclass
class RunStatus:
    """Owned by the service's thread."""

    name: str
    run_id: str
    epoch: str
    directory: str
    started_ns: int
    """Wall clock."""
    started_mono_ns: int
    refresh_hz: float = 0.0
    on_ending: Callable[[Ending], object] = lambda ending: None
    """Told how the run ends, each time that is asked for, before anybody else hears of it."""
    lifecycle: Lifecycle = field(default_factory=Lifecycle)
    ending: bool = False
    interrupted: bool = False
    interruptions: int = 0
    """How often somebody was in a hurry."""
    decided: bool = False
    """How the run ends, and why, does not change any more."""
    reason: str = ""
    command: CommandFacts | None = None
    drain_deadline_ns: int | None = None
    unaccounted: bool = False
    """Events may be lost that no account speaks of."""
    exact: bool = False
    exact_reason: str = "the run goes on"
    warnings: list[str] = field(default_factory=list)
    seq: int = 0
    newest: MetricsSnapshot | None = None
    backends: dict[str, tuple[int, BackendStat]] = field(default_factory=dict)
    """By name, the last word of each writer and when it came, on this process's monotonic clock. Nothing that the
    journal holds: writers that are still there say it again to the next aggregator."""

    @staticmethod
    def of(run: RunState, epoch: str, directory: str, refresh_hz: float = 0.0) -> RunStatus:
        """The course of a run that has come so far, and goes on to its end if somebody has asked for that."""
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
            warnings=[said for said in run.warnings if not said.startswith(_RESTARTED)],
        )
        if run.restarts:
            run_status.warn([_restarted(run)])
        if run.ending is not None:
            run_status.follow(run.ending)
        return run_status

    def follow(self, ending: Ending) -> None:
        """Asks the run to end as a journal says that it did."""
        self.end(ending.reason, interrupted=ending.interrupted, command=ending.command)

    def end(self, reason: str, *, interrupted: bool = False, command: CommandFacts | None = None) -> None:
        """Asks the run to end. The first reason and the first command stay; an interruption overrides a drain that
        goes on."""
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
        """Makes a run that ends in order an interrupted one if a benchmark that was fed says that it was."""
        said = interruption(counters)
        if said and not self.interrupted:
            self.end(f"{said}; {self.reason}" if self.reason else said, interrupted=True)

    def warn(self, messages: Iterable[str]) -> None:
        """Adds warnings, each once, up to the bound."""
        for message in map(carriable, messages):
            if message not in self.warnings and len(self.warnings) < limits.WARNINGS_KEPT:
                self.warnings.append(message)

    def warn_anew(self, beginning: str, message: str) -> None:
        """Adds a warning in place of the earlier one with this beginning."""
        others = [warning for warning in self.warnings if not warning.startswith(beginning)]
        if others != self.warnings or len(others) < limits.WARNINGS_KEPT:
            self.warnings[:] = [*others, message]

    def tell(self, stat: BackendStat, heard_ns: int) -> bool:
        """Notes the last word of a writer. False if there are too many to note another's."""
        if stat.name not in self.backends and len(self.backends) >= limits.BACKENDS:
            return False
        self.backends[stat.name] = heard_ns, stat
        return True

    def backend_stats(self, now_ns: int, records: int) -> list[BackendStat]:
        """Of each writer its last word, in the order in which they began. One that is silent does not know how many
        of the stream's `records` it has to deliver yet; in the result all of them are known."""
        return [
            replace(stat, queued=max(0, records - stat.next_record))
            if self.lifecycle.terminal or now_ns - heard_ns > _SILENT_NS
            else stat
            for heard_ns, stat in self.backends.values()
        ]

    def facts(self, now_ns: int, cost: SelfCost, backends: Sequence[BackendStat] = ()) -> RunFacts:
        """What the aggregator needs to know of the run to build a snapshot."""
        left_s = None if self.drain_deadline_ns is None else max(0.0, (self.drain_deadline_ns - now_ns) / 1e9)
        return RunFacts(
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
            pending_deadline_s=left_s,
            unaccounted=self.unaccounted,
            exact=self.exact,
            exact_reason=self.exact_reason,
            warnings=list(self.warnings),
            backends=backends,
        )


def _restarted(run: RunState) -> str:
    if run.restarts == 1:
        return f"{_RESTARTED}once, after process {run.died} had died"
    return f"{_RESTARTED}{run.restarts:,} times, the last time after process {run.died} had died"
