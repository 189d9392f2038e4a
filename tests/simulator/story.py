"""A story: what happens to one simulated run, or to a run on several nodes, all of it decided by a seed."""

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
from typing import Any, Final

from msgspec.structs import replace
from tests.simulator.checks import Evidence, check_lossless, check_result, check_root, hold
from tests.simulator.disk import SimulatedDisks, simulated_disks
from tests.simulator.network import Network, simulated_network
from tests.simulator.plan import Plan
from tests.simulator.processes import SimulatedProducer
from tests.simulator.runs import SimulatedRun
from tests.simulator.threads import simulated_threads
from tests.simulator.trackers import SimulatedWriter, Tracker, check_tracker, small_batches
from tests.simulator.world import SECOND_NS, World, virtual_time

from telemetry.backends.items import Mark, Reading, Span, Step
from telemetry.client.sending.session import ProducerSession
from telemetry.config.schema import EmitConfig
from telemetry.wire.codec import encode_snapshot
from telemetry.wire.snapshot import MetricsSnapshot, SelfCost

_LONGEST_S: Final = 600.0
_PATIENCE_NS: Final = 3 * SECOND_NS
"""Time between two looks of a person whether a run waits for nobody."""


@dataclass
class Outcome:
    """The end of a story."""

    seed: int
    failure: str = ""
    """The promise that does not hold, or the error; empty if the story is as it should be."""
    story: list[str] = field(default_factory=list)
    digest: str = ""
    """Digest of the story and of the results."""
    completeness: str = ""
    plan: Plan | None = None
    error: Exception | None = None

    @property
    def kind(self) -> str:
        """The failure without its numbers."""
        return re.sub(r"\d+", "#", self.failure)

    def without_story(self) -> Outcome:
        return replace_fields(self, story=[], plan=None, error=None)


class Story:
    """One run from its begin to its result."""

    def __init__(self, seed: int, folder: Path, plan: Plan | None = None) -> None:
        """Prepare the story of a seed, with another plan if one is given."""
        self.world = World(seed)
        self.random = self.world.random
        drawn = Plan.of(self.random)
        self.plan = plan or drawn
        self.folder = folder
        self.disks = SimulatedDisks(self.world)
        self.network = Network(self.world, pipe_frames=self.plan.pipe_frames, queue_frames=self.plan.queue_frames)
        self.root = SimulatedRun(self, "story")
        self.leaves = [SimulatedRun(self, f"leaf{number}", self.root) for number in range(self.plan.leaves)]
        self.runs = [self.root, *self.leaves]
        self.producers: list[SimulatedProducer] = []
        self.writers = [self._writer() for _ in range(self.plan.writers)]
        self._values = iter(range(1, 1_000_000))

    def _writer(self) -> SimulatedWriter:
        random, faults = self.random, self.plan.tracker_faults
        tracker = Tracker(
            self.world,
            idempotent=random.random() < 0.5,
            takes=random.choice(((Mark, Reading), (Mark, Step, Span), (Mark, Step, Reading), (Step,))),
            trouble=random.choice((0.0, 0.1, 0.4)) if faults else 0.0,
            refusals=random.choice((0.0, 0.1)) if faults else 0.0,
        )
        kills = random.randint(0, faults)
        for _ in range(faults - kills):
            self.world.after(random.randrange(8 * SECOND_NS), tracker.be_away)
        return SimulatedWriter(self.world, self.network, self.root, tracker, kills)

    # --- the cast ------------------------------------------------------------------------------------

    def begin(self) -> None:
        plan, random, world = self.plan, self.random, self.world
        world.tell("story", str(plan))
        for _ in range(plan.kills):
            random.choice(self.runs).kills += 1
        self.root.start()
        for leaf in self.leaves:
            world.after(random.randrange(2 * SECOND_NS), leaf.start)
        for writer in self.writers:
            world.after(random.randrange(3 * SECOND_NS), writer.start)
        for number in range(plan.producers):
            run = random.choice(self.runs if random.random() < 0.2 else self.leaves or self.runs)
            config = EmitConfig(
                flush_ms=random.choice((5.0, 50.0)),
                buffer_events=plan.buffer_events,
                policy=plan.policy,
                block_timeout_s=0.5,
            )
            producer = SimulatedProducer(world, self.network, f"producer {number}", run.endpoint, config)
            self.producers.append(producer)
            run.producers.append(producer)
            world.after(
                random.randrange(2 * SECOND_NS), lambda run=run, producer=producer: self._start(run, producer)
            )
        self.network.traps = plan.breaks
        faults = (
            (plan.pauses, self._pause),
            (plan.clock_steps, self._set_clock),
            (plan.power_cuts, lambda: random.choice(self.runs).cut_power()),
            (plan.producer_kills, self._kill_producer),
            (plan.disk_faults, lambda: random.choice(self.runs).spoil_disk()),
        )
        for number, fault in faults:
            for _ in range(number):
                world.after(random.randrange(6 * SECOND_NS), fault)
        if plan.stops_early or plan.interrupts:
            world.after(random.randrange(5 * SECOND_NS), self._stop)
        else:
            world.after(_PATIENCE_NS, self._stop_when_quiet)

    def _stop_when_quiet(self) -> None:
        """Let a person end what goes on though all producers have ended, such as a leaf that never had one."""
        if all(producer.is_over for producer in self.producers):
            self._stop()
        else:
            self.world.after(_PATIENCE_NS, self._stop_when_quiet)

    def _stop(self) -> None:
        stop_ns = 0
        for run in self.runs:
            self.world.after(stop_ns, lambda run=run: run.stop(interrupted=self.plan.interrupts))
            stop_ns += self.random.choice((0, 1, 10)) * SECOND_NS

    def _start(self, run: SimulatedRun, producer: SimulatedProducer) -> None:
        producer.start(lambda producer: self._record(run, producer))

    def _record(self, run: SimulatedRun, producer: SimulatedProducer) -> None:
        """Do what the program of a producer does."""
        random = self.random
        for _ in range(self.plan.bursts):
            self.world.sleep(random.choice((0.01, 0.2, 1.0)) * random.random())
            if run.killed_soon is not None and random.random() < 0.2:
                aggregator, run.killed_soon = run.killed_soon, None
                self.world.after(random.randrange(SECOND_NS // 10), aggregator.process.kill)
            producer.record([float(next(self._values)) for _ in range(random.choice((1, 3, 40, 400)))])
            for chance, record in (
                (0.2, producer.mark),
                (0.2, producer.span),
                (0.2, producer.request),
                (0.3, lambda: producer.set_level(float(next(self._values)))),
                (0.4, lambda: self._step(producer)),
                (0.1, producer.confirm),
            ):
                if random.random() < chance:
                    record()

    def _step(self, producer: SimulatedProducer) -> None:
        first = float(next(self._values)) if self.random.random() < 0.3 else None
        producer.step(float(next(self._values)), first=first, is_open=self.random.random() < 0.2)

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
        process.machine.wall_offset_ns += seconds * SECOND_NS

    def _kill_producer(self) -> None:
        producer = self.random.choice(self.producers)
        if not producer.process.is_dead:
            producer.is_over = producer.is_killed = True
            producer.process.kill()

    # --- the end -------------------------------------------------------------------------------------

    def is_over(self) -> bool:
        """Return whether all aggregators and producers have ended, and nobody will start another one."""
        return all(each.is_over for each in (*self.runs, *self.producers, *self.writers))

    def check(self) -> list[MetricsSnapshot]:
        """Check the end. Returns the results, that of the root first. Raises BrokenPromiseError."""
        for error in self.world.errors:
            raise error
        evidence = [self._evidence(run) for run in self.runs]
        for run, each in zip(self.runs, evidence, strict=True):
            if each.result is None:
                continue
            if run is self.root and self.leaves:
                check_root(each.result, each, evidence[1:])
            else:
                check_result(each.result, each)
                if each.is_lossless:
                    check_lossless(each.result, self.plan, was_stopped=run.was_stopped)
            run.check_synced(each.result)
        for writer in self.writers:
            if writer.process is not None:
                check_tracker(
                    writer,
                    evidence[0].result,
                    is_whole=not (self.plan.disk_faults or self.plan.power_cuts),
                    has_history=self.root.recovery is not None
                    or any(a.wrote is not None for a in self.root.aggregators),
                )
        if self.plan.costs_nothing:
            for each in evidence:
                completeness = each.result.completeness if each.result is not None else "missing"
                hold(
                    completeness == "complete",
                    f"nothing was lost, and the result of {each.run_id} is {completeness}",
                )
                is_exact = each.result is not None and each.result.exact
                may_be_rough = not self.plan.has_journal or self.plan.cap_bytes < 1 << 20
                hold(
                    is_exact or may_be_rough,
                    f"nothing was lost, and the percentiles of {each.run_id} are not exact",
                )
        return [each.result for each in evidence if each.result is not None]

    def _evidence(self, run: SimulatedRun) -> Evidence:
        return Evidence(
            run.run_id,
            run.producers,
            run.journaled(),
            had_power_cut=run.machine.boots > 0,
            had_clock_steps=self.plan.clock_steps > 0,
            was_recovered=run.recovery is not None,
            is_lossless=self.plan == self.plan.lossless(),
            directory=run.directory,
            result=run.result(),
        )


def play(seed: int, plan: Plan | None = None) -> Outcome:
    """Play the story of a seed, with another plan if one is given."""
    outcome = Outcome(seed)
    folder = Path(tempfile.mkdtemp(prefix="story-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    story = Story(seed, folder, plan)
    outcome.plan = story.plan
    results: list[MetricsSnapshot] = []
    try:
        with (
            _private(folder),
            virtual_time(story.world),
            simulated_threads(story.world),
            simulated_disks(story.disks, story.world),
            simulated_network(story.network),
            _ring(story.plan.ring_bytes),
            small_batches(story.random),
        ):
            try:
                story.begin()
                story.world.run(story.is_over, _LONGEST_S)
                results = story.check()
            finally:
                story.world.end()
    except Exception as error:  # noqa: BLE001 – it is the outcome of the story
        outcome.failure = f"{type(error).__name__}: {error}".replace(str(folder), "FOLDER")
        outcome.error = error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    outcome.story = [line.replace(str(folder), "FOLDER") for line in story.world.story]
    outcome.completeness = results[0].completeness if results else "none"
    digest = hashlib.sha256("\n".join(outcome.story).encode())
    for snapshot in results:
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
