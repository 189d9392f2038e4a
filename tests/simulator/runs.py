"""One simulated run: the aggregators that make it one after the other, on one machine, and its run directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace
from tests.simulator.checks import NOT_WRITTEN, Observer, hold
from tests.simulator.processes import STOPPED, Recovery, SimulatedAggregator, SimulatedProducer, stop
from tests.simulator.world import SECOND_NS

from telemetry.config.schema import Config
from telemetry.daemon.options import DaemonOptions
from telemetry.store.final_snapshot import find_final
from telemetry.store.journal import BATCH, JournalReader
from telemetry.store.run_directory import RunDirectory, list_runs
from telemetry.wire import rows
from telemetry.wire.codec import decode_batch
from telemetry.wire.snapshot import MetricsSnapshot

if TYPE_CHECKING:
    from tests.simulator.story import Story

_SYNCED_NS: Final = SECOND_NS * 3 // 2
"""A journal is synced once a second."""


class SimulatedRun:
    """A run on one machine: the only one of a story, its root, or one of its leaves."""

    def __init__(self, story: Story, run_id: str, root: SimulatedRun | None = None) -> None:
        """Prepare the run, as a leaf if it gets its root."""
        self.run_id = run_id
        self.root = root
        self.machine = story.world.machine(run_id)
        self.observer = Observer()
        self.producers: list[SimulatedProducer] = []
        self.aggregators: list[SimulatedAggregator] = []
        self.recovery: Recovery | None = None
        self.kills = 0
        """Number of aggregators that will be killed."""
        self.killed_soon: SimulatedAggregator | None = None
        """Aggregator that is killed soon after a producer has recorded."""
        self.was_stopped = False
        """True once an aggregator has answered that it stops the run for this reason, and no earlier one."""
        self.folder = story.folder / run_id
        self.endpoint = f"ipc://{story.folder}/telemetry/{run_id}/ctl"
        self._story = story
        self._world = story.world
        self._plan = story.plan
        self._restarts = 0
        """Number of aggregators or recoveries that are about to be started."""
        self._synced: list[SimulatedProducer] = []
        """Producers that a power cut takes nothing of."""
        self._has_tried_again = False
        """True once a recovery failed without a fault of the disk."""
        story.network.on_snapshot[self.endpoint] = self.observer.take

    @property
    def directory(self) -> RunDirectory | None:
        """The run directory; None before there is one."""
        return next(iter(list_runs(self.folder)), None)

    # --- what happens to it --------------------------------------------------------------------------

    def start(self, resume: Path | None = None) -> None:
        """Start an aggregator, of a new run or of one that goes on."""
        aggregator = SimulatedAggregator(self._world, self.machine, self._options(resume))
        self.aggregators.append(aggregator)
        aggregator.process.at_death.append(lambda: self._after_death(aggregator))
        if self.kills:
            self.kills -= 1
            random = self._story.random
            choice = random.randrange(3)
            if choice == 0:
                self._story.disks.kill_at[aggregator.process] = random.randrange(60)
            elif choice == 1:
                self._world.after(random.randrange(6 * SECOND_NS), aggregator.process.kill)
            else:
                self.killed_soon = aggregator

    def _options(self, resume: Path | None) -> DaemonOptions:
        plan, config = self._plan, Config()
        run = replace(
            config.run, drain_timeout_s=3.0, terminal_grace_s=0.2, orphan_grace_s=1.0, refresh_hz=plan.refresh_hz
        )
        journal = replace(
            config.journal, enabled=plan.has_journal, segment_bytes=plan.segment_bytes, cap_bytes=plan.cap_bytes
        )
        upstream = config.upstream
        if self.root is not None:
            upstream = replace(
                upstream,
                address=self.root.endpoint,
                node=self.run_id,
                cap_bytes=plan.outbox_bytes,
                linger_s=5.0,
                finish_timeout_s=5.0,
            )
        return DaemonOptions(
            name="job",
            run_id=self.run_id,
            epoch=f"e{len(self.aggregators)}",
            root=self.folder,
            config=replace(config, run=run, journal=journal, upstream=upstream),
            resume=resume,
        )

    def _after_death(self, aggregator: SimulatedAggregator) -> None:
        if aggregator.wrote is not None or aggregator.failure is not None or aggregator.has_nothing_to_do:
            return
        directory, random = self.directory, self._story.random
        if directory is not None:
            goes_on = random.random() < self._plan.restarts
            self._restarts += 1
            again = self._restart if goes_on else self._recover
            self._world.after(random.randrange(3 * SECOND_NS), lambda: again(directory.path))

    def _restart(self, directory: Path) -> None:
        self._restarts -= 1
        self.start(directory)

    def _recover(self, directory: Path) -> None:
        """Make the result of a run that nobody goes on with. A person tries again once the disk works."""
        self._restarts -= 1
        self.recovery = Recovery(self._world, self.machine, directory)
        self.recovery.process.at_death.append(lambda: self._recover_again(directory))

    def _recover_again(self, directory: Path) -> None:
        machine = self.machine
        is_over = max(machine.disk_full_until_ns, machine.disk_fails_until_ns) < self._world.now_ns
        has_failed = self.recovery is not None and self.recovery.failure is not None
        if has_failed and not (is_over and self._has_tried_again):
            self._has_tried_again = is_over
            self._restarts += 1
            self._world.after(SECOND_NS, lambda: self._recover(directory))

    def cut_power(self) -> None:
        """Cut the power of the machine. Its producers are on other ones."""
        if not self.aggregators or self.aggregators[-1].process.is_dead:
            return
        self._world.tell(self.run_id, "has no power")
        self.machine.boots += 1
        self.machine.monotonic_offset_ns = self._world.machine("").monotonic_offset_ns
        self.observer.may_fall = True
        self._synced += [producer for producer in self.producers if self._is_synced(producer)]
        self.aggregators[-1].process.kill()
        self._story.disks.cut_power(self.folder)

    def _is_synced(self, producer: SimulatedProducer) -> bool:
        """Return whether all of a producer must be on the disk: an aggregator lived long enough after its end."""
        ending = producer.ending
        if ending is None or ending.account is None or self._plan.pauses or self._plan.disk_faults:
            return False
        lives = [
            (each.process.died_ns or self._world.now_ns) - max(each.began_ns, producer.ended_ns)
            for each in self.aggregators
            if each.began_ns is not None
        ]
        return max(lives) >= _SYNCED_NS and self._plan.has_journal

    def spoil_disk(self) -> None:
        """Let the disk be full, or fail, for a while."""
        random = self._story.random
        self.observer.may_fall = True
        until_ns = self._world.now_ns + random.randrange(3 * SECOND_NS)
        if random.random() < 0.5:
            self._world.tell(self.run_id, "has a full disk for a while")
            self.machine.disk_full_until_ns = until_ns
        else:
            self._world.tell(self.run_id, "has a disk that fails for a while")
            self.machine.disk_fails_until_ns = until_ns

    def stop(self, *, interrupted: bool) -> None:
        """Let a person end the run."""
        stop(self._world, self._story.network, self.endpoint, interrupted=interrupted, on_answer=self._note_stop)

    def _note_stop(self) -> None:
        service = self.aggregators[-1].service
        self.was_stopped = service is not None and service.run_status.reason == STOPPED

    # --- the end -------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """True if all its aggregators have ended, and nobody will start another one."""
        if (
            self._restarts
            or not self.aggregators
            or not all(aggregator.process.is_dead for aggregator in self.aggregators)
        ):
            return False
        return self.recovery is None or self.recovery.process.is_dead

    def result(self) -> MetricsSnapshot | None:
        """Return the result, from its file or as it was published. None if nobody made one.

        Raises BrokenPromiseError if there is none, though there must be.
        """
        if self.observer.failure is not None:
            raise self.observer.failure
        directory = self.directory
        final = find_final(directory, ()) if directory is not None else None
        if final is not None:
            return final.read()
        last = self.recovery or self.aggregators[-1]
        hold(not self._synced, f"the run is lost, and {len(self._synced)} producers were on the disk")
        wrote = last.wrote if isinstance(last, SimulatedAggregator) else None
        hold(not wrote, "an aggregator says that it wrote a final file, and there is none")
        if wrote is False:
            terminal = self.observer.terminal
            hold(terminal is not None, "there is no final file, and no terminal snapshot was published")
            assert terminal is not None
            warnings = [warning for warning in terminal.warnings if NOT_WRITTEN in warning]
            hold(warnings, "the terminal snapshot does not say that there is no final file")
            return terminal
        may_be_lost = self.machine.boots or self._plan.disk_faults or not self._plan.has_journal
        must_be_kept = last.failure is not None and not may_be_lost
        for producer in self.producers if must_be_kept else ():
            hold(not producer.acknowledged, f"events were acknowledged, but the run is lost: {last.failure}")
        return None

    def check_synced(self, snapshot: MetricsSnapshot) -> None:
        """Check that the result has what was on the disk at each power cut."""
        for producer in self._synced:
            stat = next((each for each in snapshot.producers if each.producer == producer.name), None)
            applied = stat.applied if stat is not None else 0
            is_kept = applied >= producer.events - producer.dropped
            hold(is_kept, f"{producer.name} lost events that were on the disk: {applied} of {producer.events}")

    def journaled(self) -> list[float] | None:
        """Return the values of the series in the journal; None if it lacks some, and its files say so."""
        directory = self.directory
        if directory is None or not any(directory.journal.glob("*.seg")):
            return None
        reader, values = JournalReader(directory.journal), list[float]()
        for frame in reader.frames():
            if frame.kind == BATCH:
                loose = rows.loose(decode_batch(bytes(frame.data)).rows)
                values += [value for row, value in zip(loose[::3], loose[2::3], strict=True) if row == 0.0]
        return None if reader.failed or reader.dropped_segments else values
