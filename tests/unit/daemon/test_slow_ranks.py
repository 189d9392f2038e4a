"""Causes of slow steps, judged beside the run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from telemetry.aggregator import StreamedRecord
from telemetry.daemon import slow_ranks
from telemetry.daemon.slow_ranks import SlowRanks
from telemetry.daemon.worker_thread import Worker
from telemetry.history.stragglers import stragglers
from telemetry.store.records import RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.store.stragglers_file import STRAGGLERS, read_stragglers
from telemetry.testing.slow_ranks import SimulatedRanks
from telemetry.wire.events import ClosedStep, StreamRecord
from telemetry.wire.snapshot import AxisStat, MetricsSnapshot
from telemetry.wire.stragglers import WAIT, WORK
from telemetry.wire.version import PROTOCOL

SNAPSHOT = MetricsSnapshot(
    run_id="r1", name="job", state="COMPLETE", axes=[AxisStat(name="step", values={WORK: 0.3, WAIT: 0.1})]
)


class AtOnce:
    """A worker that runs each job when it is submitted, or has no room."""

    has_room = True

    def submit(self, job: Callable[[], Any]) -> bool:
        if self.has_room:
            job()
        return self.has_room


class Run:
    """A run whose steps are written and judged."""

    def __init__(self, folder: Path) -> None:
        self.directory = RunDirectory.create(folder, "job", "r1", 10**18)
        self.worker = AtOnce()
        self.log = RecordLog(self.directory.records)

    def watch(self) -> SlowRanks:
        return SlowRanks(self.directory, cast(Worker, self.worker), self.log.next_seq)

    def play(self, watch: SlowRanks, job: SimulatedRanks, steps: int) -> None:
        for step in job.steps(steps):
            closed = step.closed()
            self.log.append([StreamRecord(PROTOCOL, "r1", self.log.next_seq, "", 10**18, closed)])
            watch.take([StreamedRecord("", 10**18, closed)], {})


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


SLOW = SimulatedRanks(ranks=80, slow={3: 1.3})


def test_the_file_has_the_verdict_that_the_record_log_gives(run: Run) -> None:
    """For ranks whose values are packed, too. A reader takes it from there."""
    watch = run.watch()
    run.play(watch, SLOW, 60)
    watch.write(SNAPSHOT)
    written = read_stragglers(run.directory)
    assert written is not None
    assert [cause.rank for cause in written.stragglers[0].slow] == [3]
    assert stragglers(run.directory, SNAPSHOT) == written.stragglers
    (run.directory.path / STRAGGLERS).unlink()
    [again], [before] = stragglers(run.directory, SNAPSHOT), written.stragglers
    assert (again.steps, again.ranks) == (before.steps, before.ranks)
    assert again.slow[0].rank == before.slow[0].rank
    assert again.slow[0].cost_s == pytest.approx(before.slow[0].cost_s, rel=1e-5)


def test_a_verdict_on_a_part_of_the_steps_is_not_used(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart of the aggregator, and before the last steps, the record log is read."""
    early = run.watch()
    run.play(early, SimulatedRanks(ranks=4), 60)
    early.write(SNAPSHOT)
    run.play(early, SLOW, 3)
    assert stragglers(run.directory, SNAPSHOT)[0].steps == 63
    resumed = run.watch()
    run.play(resumed, SLOW, 60)
    resumed.write(SNAPSHOT)
    assert stragglers(run.directory, SNAPSHOT)[0].steps == 123
    monkeypatch.setattr("telemetry.limits.READ_SPANS_BYTES", 10)
    assert stragglers(run.directory, SNAPSHOT)[0].steps == 60


def test_steps_that_come_too_fast_have_no_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Judging takes a twentieth of a core at most, and a worker without room loses no step silently."""
    crowded = run.watch()
    run.worker.has_room = False
    run.play(crowded, SLOW, 1)
    run.worker.has_room = True
    run.play(crowded, SLOW, 60)
    crowded.write(SNAPSHOT)
    monkeypatch.setattr(slow_ranks, "_AT_FIRST_S", 0.0)
    monkeypatch.setattr(slow_ranks, "_SHARE", 0.0)
    fast = run.watch()
    run.play(fast, SLOW, 60)
    fast.write(SNAPSHOT)
    assert read_stragglers(run.directory) is None


def test_a_run_without_ranked_steps_has_no_file(run: Run) -> None:
    """Steps without work and wait need no verdict."""
    watch = run.watch()
    closed = ClosedStep("step", 1, {"loss": 1.0})
    run.log.append([StreamRecord(PROTOCOL, "r1", 0, "", 10**18, closed)])
    watch.take([StreamedRecord("", 1, closed)], {})
    watch.write(SNAPSHOT)
    assert read_stragglers(run.directory) is None


def test_the_file_is_written_once_a_minute(run: Run) -> None:
    """So that a run that is killed has a verdict of its last minute."""
    watch = run.watch()
    run.play(watch, SLOW, 20)
    for _ in range(59):
        watch.each_second(SNAPSHOT)
    assert read_stragglers(run.directory) is None
    watch.each_second(SNAPSHOT)
    assert read_stragglers(run.directory) is not None


def test_a_damaged_file_is_passed_over(run: Run) -> None:
    """The record log has the steps."""
    watch = run.watch()
    run.play(watch, SLOW, 60)
    watch.write(SNAPSHOT)
    path = run.directory.path / STRAGGLERS
    path.write_bytes(path.read_bytes().replace(b'"rank": 3', b'"rank": 4'))
    assert [cause.rank for cause in stragglers(run.directory, SNAPSHOT)[0].slow] == [3]
