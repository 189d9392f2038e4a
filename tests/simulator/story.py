"""A story: what happens in one simulated run, all of it decided by a seed."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields
from pathlib import Path
from random import Random
from typing import Any, Final, Literal

from msgspec.structs import replace
from tests.simulator.checks import NOT_WRITTEN, Observer, check_result, hold
from tests.simulator.disk import SimulatedDisk, simulated_disk
from tests.simulator.network import Network
from tests.simulator.processes import STOPPED, Recovery, SimulatedAggregator, SimulatedProducer, stop
from tests.simulator.threads import simulated_threads
from tests.simulator.world import SECOND_NS, World, virtual_time

from telemetry.client.sending.session import ProducerSession
from telemetry.config.schema import Config, EmitConfig
from telemetry.daemon.options import DaemonOptions
from telemetry.store.final_snapshot import find_final
from telemetry.store.journal import BATCH, JournalReader
from telemetry.store.run_directory import list_runs
from telemetry.wire import rows
from telemetry.wire.codec import decode_batch, encode_snapshot
from telemetry.wire.snapshot import MetricsSnapshot, SelfCost

_LONGEST_S: Final = 600.0
_PATIENCE_NS: Final = 15 * SECOND_NS
"""Time after which a person ends a run that waits, such as for its first producer."""
_SYNCED_NS: Final = SECOND_NS * 3 // 2
"""A journal is synced once a second."""
_RUN_ID: Final = "story"


@dataclass
class Outcome:
    """The end of a story."""

    seed: int
    failure: str = ""
    """The promise that does not hold, or the error; empty if the story is as it should be."""
    story: list[str] = field(default_factory=list)
    digest: str = ""
    """Digest of the story and of the result."""
    completeness: str = ""
    plan: Plan | None = None
    error: Exception | None = None

    @property
    def kind(self) -> str:
        """The failure without its numbers."""
        return re.sub(r"\d+", "#", self.failure)

    def without_story(self) -> Outcome:
        return replace_fields(self, story=[], plan=None, error=None)


@dataclass(frozen=True)
class Plan:
    """The choices of a story that are made before it begins."""

    producers: int
    """Number of producers."""
    bursts: int
    """Number of times that each of them records."""
    pipe_frames: int
    queue_frames: int
    kills: int
    """Number of times that the aggregator is killed."""
    restarts: float
    """Chance that somebody starts it again."""
    breaks: int
    """Number of connections that break."""
    disk_faults: int
    power_cuts: int
    clock_steps: int
    """Number of times that a wall clock is set."""
    pauses: int
    """Number of times that a process is stopped for a while, as by SIGSTOP or a busy machine."""
    producer_kills: int
    buffer_events: int
    ring_bytes: int
    """Size of the ring of batches that wait for their acknowledgement."""
    segment_bytes: int
    """Size of a segment of the journal."""
    cap_bytes: int
    """Cap of the journal's size."""
    policy: Literal["drop", "block"]
    has_journal: bool
    refresh_hz: float
    stops_early: bool
    interrupts: bool

    @staticmethod
    def of(random: Random) -> Plan:
        plan = Plan(
            producers=random.choice((1, 1, 1, 2, 3)),
            bursts=random.randint(1, 12),
            pipe_frames=random.choice((2, 5, 1_000)),
            queue_frames=random.choice((3, 1_000)),
            kills=random.choice((0, 0, 1, 1, 2)),
            restarts=random.choice((1.0, 1.0, 0.7)),
            breaks=random.choice((0, 0, 1, 3)),
            disk_faults=random.choice((0, 0, 0, 1)),
            power_cuts=random.choice((0, 0, 0, 0, 1)),
            clock_steps=random.choice((0, 0, 0, 1)),
            pauses=random.choice((0, 0, 1, 2)),
            producer_kills=random.choice((0, 0, 0, 1)),
            buffer_events=random.choice((100, 1_000, 100_000)),
            ring_bytes=random.choice((20_000, 1 << 20)),
            segment_bytes=random.choice((20_000, 1 << 20)),
            cap_bytes=random.choice((100_000, 1 << 24)),
            policy=random.choice(("drop", "drop", "block")),
            has_journal=random.random() < 0.95,
            refresh_hz=random.choice((1.0, 2.0, 10.0)),
            stops_early=random.random() < 0.3,
            interrupts=random.random() < 0.15,
        )
        choice = random.random()
        return plan.calm() if choice < 0.1 else plan.sturdy() if choice < 0.4 else plan

    def sturdy(self) -> Plan:
        """Return the plan without faults that may cost events of a producer that ends."""
        plan = replace_fields(self, disk_faults=0, power_cuts=0, has_journal=True)
        return replace_fields(plan, buffer_events=100_000, ring_bytes=1 << 20)

    def calm(self) -> Plan:
        """Return the plan without faults, and with room for all events."""
        faults = ("kills", "breaks", "disk_faults", "power_cuts", "clock_steps", "pauses", "producer_kills")
        plan = replace_fields(self, **dict.fromkeys(faults, 0))
        return replace_fields(plan, buffer_events=100_000, stops_early=False, interrupts=False)


class Story:
    """One run from its begin to its result."""

    def __init__(self, seed: int, folder: Path, plan: Plan | None = None) -> None:
        """Prepare the story of a seed, with another plan if one is given."""
        self.world = World(seed)
        self.random = self.world.random
        drawn = Plan.of(self.random)
        self.plan = plan or drawn
        self.disk = SimulatedDisk(self.world)
        self.network = Network(self.world, pipe_frames=self.plan.pipe_frames, queue_frames=self.plan.queue_frames)
        self.observer = Observer()
        self.network.on_snapshot = self.observer.take
        self.producers: list[SimulatedProducer] = []
        self.aggregators: list[SimulatedAggregator] = []
        self.folder = folder
        self._values = iter(range(1, 1_000_000))
        self._kills = self.plan.kills
        self._restarts = 0
        """Number of aggregators or recoveries that are about to be started."""
        self._synced: list[SimulatedProducer] = []
        """Producers that a power cut takes nothing of."""
        self.recovery: Recovery | None = None
        self._was_stopped = False
        """True once an aggregator has answered that it stops the run for this reason, and no earlier one."""
        self._doomed: SimulatedAggregator | None = None
        """Aggregator that is killed soon after a producer has recorded."""
        self._has_tried_again = False
        """True once a recovery failed without a fault of the disk."""

    # --- the cast ------------------------------------------------------------------------------------

    def begin(self) -> None:
        plan, random, world = self.plan, self.random, self.world
        world.tell("story", str(plan))
        self._start_aggregator()
        endpoint = f"ipc://{self.folder}/telemetry/{_RUN_ID}/ctl"
        for number in range(plan.producers):
            config = EmitConfig(
                flush_ms=random.choice((5.0, 50.0)),
                buffer_events=plan.buffer_events,
                policy=plan.policy,
                block_timeout_s=0.5,
            )
            producer = SimulatedProducer(world, self.network, f"producer {number}", endpoint, config)
            self.producers.append(producer)
            world.after(random.randrange(2 * SECOND_NS), lambda producer=producer: producer.start(self._record))
        self.network.traps = plan.breaks
        for _ in range(plan.pauses):
            world.after(random.randrange(6 * SECOND_NS), self._pause)
        for _ in range(plan.clock_steps):
            world.after(random.randrange(6 * SECOND_NS), self._set_clock)
        for _ in range(plan.power_cuts):
            world.after(random.randrange(6 * SECOND_NS), self._cut_power)
        for _ in range(plan.producer_kills):
            world.after(random.randrange(6 * SECOND_NS), self._kill_producer)
        for _ in range(plan.disk_faults):
            world.after(random.randrange(5 * SECOND_NS), self._spoil_disk)
        begin_ns = random.randrange(5 * SECOND_NS) if plan.stops_early or plan.interrupts else _PATIENCE_NS

        def stop_run() -> None:
            stop(world, self.network, endpoint, interrupted=plan.interrupts, on_answer=self._note_stop)

        world.after(begin_ns, stop_run)

    def _note_stop(self) -> None:
        service = self.aggregators[-1].service
        self._was_stopped = service is not None and service.run_status.reason == STOPPED

    def _start_aggregator(self, resume: Path | None = None) -> None:
        config = Config()
        plan = self.plan
        run = replace(
            config.run, drain_timeout_s=3.0, terminal_grace_s=0.2, orphan_grace_s=1.0, refresh_hz=plan.refresh_hz
        )
        journal = replace(
            config.journal, enabled=plan.has_journal, segment_bytes=plan.segment_bytes, cap_bytes=plan.cap_bytes
        )
        options = DaemonOptions(
            name="job",
            run_id=_RUN_ID,
            epoch=f"e{len(self.aggregators)}",
            root=self.folder / "runs",
            config=replace(config, run=run, journal=journal),
            resume=resume,
        )
        aggregator = SimulatedAggregator(self.world, self.network, options)
        self.aggregators.append(aggregator)
        aggregator.process.at_death.append(lambda: self._after_death(aggregator))
        if self._kills:
            self._kills -= 1
            choice = self.random.randrange(3)
            if choice == 0:
                self.disk.kill_at[aggregator.process] = self.random.randrange(60)
            elif choice == 1:
                self.world.after(self.random.randrange(6 * SECOND_NS), aggregator.process.kill)
            else:
                self._doomed = aggregator

    def _after_death(self, aggregator: SimulatedAggregator) -> None:
        if aggregator.wrote is not None or aggregator.failure is not None or aggregator.has_nothing_to_do:
            return
        directories = list_runs(self.folder / "runs")
        if directories and self.random.random() < self.plan.restarts:
            self._restarts += 1
            self.world.after(self.random.randrange(3 * SECOND_NS), lambda: self._restart(directories[0].path))
        elif directories:
            self._restarts += 1
            self.world.after(self.random.randrange(3 * SECOND_NS), lambda: self._recover(directories[0].path))

    def _restart(self, directory: Path) -> None:
        self._restarts -= 1
        self._start_aggregator(directory)

    def _recover(self, directory: Path) -> None:
        """Make the result of a run that nobody goes on with. A person tries again once the disk works."""
        self._restarts -= 1
        self.recovery = Recovery(self.world, directory)
        self.recovery.process.at_death.append(lambda: self._recover_again(directory))

    def _recover_again(self, directory: Path) -> None:
        is_over = max(self.disk.full_until_ns, self.disk.failing_until_ns) < self.world.now_ns
        has_failed = self.recovery is not None and self.recovery.failure is not None
        if has_failed and not (is_over and self._has_tried_again):
            self._has_tried_again = is_over
            self._restarts += 1
            self.world.after(SECOND_NS, lambda: self._recover(directory))

    def _record(self, producer: SimulatedProducer) -> None:
        """Do what the program of a producer does."""
        for _ in range(self.plan.bursts):
            self.world.sleep(self.random.choice((0.01, 0.2, 1.0)) * self.random.random())
            if self.random.random() < 0.2:
                producer.mark(f"mark {len(producer.marks)} of {producer.name}")
            if self._doomed is not None and self.random.random() < 0.2:
                doomed, self._doomed = self._doomed, None
                self.world.after(self.random.randrange(SECOND_NS // 10), doomed.process.kill)
            producer.record([float(next(self._values)) for _ in range(self.random.choice((1, 3, 40, 400)))])

    def _pause(self) -> None:
        living = [process for process in self.world.processes if not process.is_dead]
        if living:
            process = self.random.choice(living)
            pause_ns = self.random.choice((SECOND_NS // 10, SECOND_NS, 8 * SECOND_NS))
            self.world.tell(process.name, f"is stopped for {pause_ns / SECOND_NS:g} s")
            process.paused_until_ns = self.world.now_ns + pause_ns

    def _set_clock(self) -> None:
        process = self.random.choice(self.world.processes)
        seconds = self.random.choice((-3_600, -1, 1, 86_400))
        self.world.tell(process.name, f"has its wall clock set by {seconds} s")
        process.wall_offset_ns += seconds * SECOND_NS

    def _cut_power(self) -> None:
        """Cut the power of the machine of the aggregator. Producers are on other ones."""
        aggregator = self.aggregators[-1]
        if not aggregator.process.is_dead:
            self.world.tell("machine", "has no power")
            self.world.boots += 1
            self.observer.had_power_cut = True
            self._synced += [producer for producer in self.producers if self._is_synced(producer)]
            aggregator.process.kill()
            self.disk.cut_power(self.folder / "runs")

    def _is_synced(self, producer: SimulatedProducer) -> bool:
        """Return whether all of a producer must be on the disk: an aggregator lived long enough after its end."""
        ending = producer.ending
        if ending is None or ending.account is None or self.plan.pauses or self.plan.disk_faults:
            return False
        lives = [
            (each.process.died_ns or self.world.now_ns) - max(each.began_ns, producer.ended_ns)
            for each in self.aggregators
            if each.began_ns is not None
        ]
        return max(lives) >= _SYNCED_NS and self.plan.has_journal

    def _kill_producer(self) -> None:
        producer = self.random.choice(self.producers)
        if not producer.process.is_dead:
            producer.is_over = producer.is_killed = True
            producer.process.kill()

    def _spoil_disk(self) -> None:
        until_ns = self.world.now_ns + self.random.randrange(3 * SECOND_NS)
        if self.random.random() < 0.5:
            self.world.tell("disk", "is full for a while")
            self.disk.full_until_ns = until_ns
        else:
            self.world.tell("disk", "fails for a while")
            self.disk.failing_until_ns = until_ns

    # --- the end -------------------------------------------------------------------------------------

    def is_over(self) -> bool:
        """Return whether all aggregators and producers have ended, and nobody will start another one."""
        if self._restarts or not all(aggregator.process.is_dead for aggregator in self.aggregators):
            return False
        if self.recovery is not None and not self.recovery.process.is_dead:
            return False
        return all(producer.is_over for producer in self.producers)

    def check(self) -> MetricsSnapshot | None:
        """Check the end. Returns the result; None if nobody made one. Raises BrokenPromiseError."""
        for error in (*self.world.errors, self.observer.failure):
            if error is not None:
                raise error
        directories = list_runs(self.folder / "runs")
        final = find_final(directories[0], ()) if directories else None
        last = self.recovery or self.aggregators[-1]
        if final is None:
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
            must_be_kept = last.failure is not None and self.plan.has_journal and not self.world.boots
            for producer in self.producers if must_be_kept else ():
                hold(not producer.acknowledged, f"events were acknowledged, but the run is lost: {last.failure}")
            return None
        snapshot = final.read()
        journal = directories[0].journal
        values = self._journaled(journal) if self.plan.has_journal else None
        check_result(
            snapshot,
            self.producers,
            values,
            had_power_cut=self.world.boots > 0,
            is_sturdy=self.plan == self.plan.sturdy(),
        )
        if self.plan == self.plan.sturdy():
            self._check_sturdy(snapshot)
        if self.plan == self.plan.calm():
            is_complete = snapshot.completeness == "complete"
            hold(is_complete, f"nothing went wrong, and the result is {snapshot.completeness}")
        for producer in self._synced:
            stat = next((each for each in snapshot.producers if each.producer == producer.name), None)
            applied = stat.applied if stat is not None else 0
            is_kept = applied >= producer.events - producer.dropped
            hold(is_kept, f"{producer.name} lost events that were on the disk: {applied} of {producer.events}")
        return snapshot

    def _check_sturdy(self, snapshot: MetricsSnapshot) -> None:
        """Check what only faults of the disk, or bounds that are met, may spoil."""
        if snapshot.state == "COMPLETE":
            is_cut = self.plan.cap_bytes < 1 << 24  # the journal loses its oldest segments then
            hold(snapshot.exact or is_cut, f"the percentiles are not exact: {snapshot.exact_reason}")
        if self._was_stopped:
            hold(STOPPED in snapshot.reason, f"the run was stopped, and its reason is {snapshot.reason!r}")
        was_undisturbed = not (self.plan.kills or self.plan.breaks or self.plan.pauses or self.plan.producer_kills)
        if was_undisturbed and not self.plan.interrupts:
            waiting = [stat.producer for stat in snapshot.producers if stat.status != "ended"]
            hold(not waiting, f"the drain did not wait for {waiting}")

    def _journaled(self, journal: Path) -> list[float] | None:
        """Return the values of the series in the journal; None if it lacks some, and its files say so."""
        reader, values = JournalReader(journal), list[float]()
        for frame in reader.frames():
            if frame.kind == BATCH:
                loose = rows.loose(decode_batch(bytes(frame.data)).rows)
                values += [value for row, value in zip(loose[::3], loose[2::3], strict=True) if row == 0.0]
        return None if reader.failed or reader.dropped_segments else values


def simpler(plan: Plan | None) -> Iterator[Plan]:
    """Yield plans that differ from this one by a simpler choice."""
    if plan is None:
        return
    for name in ("kills", "breaks", "disk_faults", "power_cuts", "clock_steps", "pauses", "producer_kills"):
        if number := getattr(plan, name):
            yield replace_fields(plan, **{name: number - 1})
    for name, least in (("producers", 1), ("bursts", 1)):
        if (number := getattr(plan, name)) > least:
            yield replace_fields(plan, **{name: number // 2})
            yield replace_fields(plan, **{name: number - 1})
    usual = {"pipe_frames": 1_000, "queue_frames": 1_000, "buffer_events": 100_000, "ring_bytes": 1 << 20}
    usual |= {"segment_bytes": 1 << 20, "cap_bytes": 1 << 24, "refresh_hz": 10.0, "policy": "drop"}
    usual |= {"has_journal": True, "stops_early": False, "interrupts": False}
    for name, value in usual.items():
        if getattr(plan, name) != value:
            yield replace_fields(plan, **{name: value})


def play(seed: int, plan: Plan | None = None) -> Outcome:
    """Play the story of a seed, with another plan if one is given."""
    outcome = Outcome(seed)
    folder = Path(tempfile.mkdtemp(prefix="story-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    story = Story(seed, folder, plan)
    outcome.plan = story.plan
    try:
        with (
            _private(folder),
            virtual_time(story.world),
            simulated_threads(story.world),
            simulated_disk(story.disk, story.world),
            _ring(story.plan.ring_bytes),
        ):
            story.begin()
            story.world.run(story.is_over, _LONGEST_S)
            snapshot = story.check()
    except Exception as error:  # noqa: BLE001 – it is the outcome of the story
        outcome.failure = f"{type(error).__name__}: {error}".replace(str(folder), "FOLDER")
        outcome.error = error
        snapshot = None
    finally:
        for process in story.world.processes:
            process.end()
        shutil.rmtree(folder, ignore_errors=True)
    outcome.story = [line.replace(str(folder), "FOLDER") for line in story.world.story]
    outcome.completeness = snapshot.completeness if snapshot else "none"
    digest = hashlib.sha256("\n".join(outcome.story).encode())
    if snapshot is not None:
        plain = replace(snapshot, cost=SelfCost(), directory="")  # these depend on the machine
        digest.update(encode_snapshot(plain).replace(os.fsencode(folder), b"FOLDER"))
    outcome.digest = digest.hexdigest()[:16]
    return outcome


@contextmanager
def _ring(ring_bytes: int) -> Iterator[None]:
    """Let sessions of producers have a ring of this size."""
    class_init: Any = ProducerSession.__init__
    defaults = dict(class_init.__kwdefaults__)
    class_init.__kwdefaults__ = {**defaults, "ring_bytes": ring_bytes}
    try:
        yield
    finally:
        class_init.__kwdefaults__ = defaults


@contextmanager
def _private(folder: Path) -> Iterator[None]:
    """Keep the files of a story in its folder, and the log of the package out of the terminal."""
    logger = logging.getLogger("telemetry")
    before, handlers, level = os.environ.get("XDG_RUNTIME_DIR"), list(logger.handlers), logger.level
    propagates, logger.propagate = logger.propagate, False
    os.environ["XDG_RUNTIME_DIR"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["XDG_RUNTIME_DIR"]
        else:
            os.environ["XDG_RUNTIME_DIR"] = before
        for handler in set(logger.handlers) - set(handlers):
            logger.removeHandler(handler)
            handler.close()
        logger.setLevel(level)
        logger.propagate = propagates
