"""Where a report comes from, and the reason when it is not the best source."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from telemetry.emit.outcome import FINAL_FILE, await_report, second_best
from telemetry.emit.spawn import Aggregator
from telemetry.testing.aggregator import FakeAggregator
from telemetry.transport import Subscription, hello
from telemetry.wire.codec import snapshot_to_json
from telemetry.wire.snapshot import MetricsSnapshot


@pytest.fixture
def published(short_dir: Path) -> Iterator[FakeAggregator]:
    with FakeAggregator(short_dir) as made:
        yield made


def aggregator_of(published: FakeAggregator, directory: Path, code: str) -> Aggregator:
    """The facts of a spawned aggregator whose process runs `code`."""
    welcome = hello(published.endpoint)
    return Aggregator(
        endpoint=published.endpoint,
        snapshots=welcome.snapshots,
        run_id="r",
        name="job",
        directory=str(directory),
        pid=1,
        process=subprocess.Popen([sys.executable, "-c", code]),
    )


@pytest.fixture
def alive(published: FakeAggregator, short_dir: Path) -> Iterator[Aggregator]:
    made = aggregator_of(published, short_dir, "import time; time.sleep(60)")
    yield made
    made.process.kill()
    made.process.wait()


@pytest.fixture
def dead(published: FakeAggregator, short_dir: Path) -> Aggregator:
    made = aggregator_of(published, short_dir, "raise SystemExit(7)")
    made.process.wait()
    return made


def final_file(folder: Path) -> None:
    snapshot = MetricsSnapshot(run_id="r", name="job", state="COMPLETE", seq=99)
    (folder / FINAL_FILE).write_bytes(snapshot_to_json(snapshot))


def test_the_published_final_snapshot_is_the_best_source(published: FakeAggregator, alive: Aggregator) -> None:
    """No reason is given for it."""
    published.state = "COMPLETE"
    with Subscription(alive.snapshots) as snapshots:
        report = await_report(snapshots, alive, 10.0)
    assert (report.source, report.source_reason, report.final) == ("pubsub", "", True)


def test_the_file_comes_next(published: FakeAggregator, alive: Aggregator, short_dir: Path) -> None:
    """When nothing final is published in time."""
    final_file(short_dir)
    with Subscription(alive.snapshots) as snapshots:
        report = await_report(snapshots, alive, 0.3)
    assert (report.source, report.snapshot.seq) == ("file", 99)
    assert "within 0.3 s" in report.source_reason


def test_the_last_live_snapshot_comes_last(published: FakeAggregator, alive: Aggregator) -> None:
    """It says that it is none of the better ones, and why."""
    with Subscription(alive.snapshots) as snapshots:
        assert snapshots.recv(10.0) is not None
        report = await_report(snapshots, alive, 0.3)
    assert (report.source, report.state) == ("last_live", "LIVE")
    assert f"there is no {FINAL_FILE}" in report.source_reason


def test_an_aggregator_that_died_is_not_waited_for(
    published: FakeAggregator, dead: Aggregator, short_dir: Path
) -> None:
    """Its exit code is in the reason."""
    final_file(short_dir)
    published.stop()
    with Subscription(dead.snapshots) as snapshots:
        report = await_report(snapshots, dead, 60.0)
    assert report.source == "file"
    assert "ended with code 7" in report.source_reason


def test_a_file_that_cannot_be_read_is_no_source(short_dir: Path) -> None:
    """The next source takes its place, both reasons are told."""
    (short_dir / FINAL_FILE).write_text("{")
    newest = MetricsSnapshot(run_id="r", name="job", seq=3)
    report = second_best(str(short_dir), newest, "it is gone", "r", "job")
    assert (report.source, report.snapshot.seq) == ("last_live", 3)
    assert report.source_reason.startswith(f"it is gone; {FINAL_FILE} can't be read")


def test_with_no_source_at_all_there_is_still_a_report(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty one. A file in the working directory is not taken for it."""
    monkeypatch.chdir(short_dir)
    final_file(short_dir)
    report = second_best("", None, "no aggregator was reached", "", "job")
    assert (report.source, report.completeness) == ("last_live", "incomplete")
    assert "no snapshot was ever seen" in report.source_reason
