"""Tests of the source of a report, and of the reason when it is not the best one."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from telemetry.supervise import run_files, spawn
from telemetry.supervise.outcome import await_report, second_best
from telemetry.supervise.run_files import FINAL_FILE, RunFiles
from telemetry.testing.aggregator import FakeAggregator
from telemetry.transport import Subscription, hello
from telemetry.wire.codec import snapshot_to_json
from telemetry.wire.snapshot import MetricsSnapshot

Instead = Callable[[str], None]


@pytest.fixture
def published(short_dir: Path) -> Iterator[FakeAggregator]:
    with FakeAggregator(short_dir) as made:
        yield made


@pytest.fixture
def snapshots(published: FakeAggregator) -> Iterator[Subscription]:
    with Subscription(hello(published.endpoint).snapshots) as made:
        yield made


@pytest.fixture(autouse=True)
def own_temporary_folder(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last resort of a final file."""
    (short_dir / "tmp").mkdir()
    monkeypatch.setattr(run_files.tempfile, "gettempdir", lambda: str(short_dir / "tmp"))


@pytest.fixture
def keeper(short_dir: Path) -> Any:
    """A keeper whose aggregator lives."""
    return SimpleNamespace(files=RunFiles(str(short_dir), "r", "job"), deserted=False, lost="", restarts=0)


@pytest.fixture
def instead(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Instead:
    """`instead(body)` makes the interpreter a script that sees the arguments as `words`."""

    def install(body: str) -> None:
        script = short_dir / "python"
        script.write_text(f"#!{sys.executable}\nimport os, shutil, sys, time\nwords = sys.argv[1:]\n{body}\n")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(spawn.sys, "executable", str(script))

    return install


def final_file(folder: Path, name: str = FINAL_FILE, **facts: Any) -> Path:
    snapshot = MetricsSnapshot(**({"run_id": "r", "name": "job", "state": "COMPLETE", "seq": 99} | facts))
    path = folder / name
    path.write_bytes(snapshot_to_json(snapshot))
    return path


def journal(folder: Path) -> None:
    (folder / "journal").mkdir()
    (folder / "journal" / "0").write_text("")


def test_the_published_final_snapshot_is_the_best_source(
    published: FakeAggregator, snapshots: Subscription, keeper: Any
) -> None:
    """The published final snapshot is the best source, so it needs no reason."""
    published.state = "COMPLETE"
    report = await_report(snapshots, keeper, 10.0, recovery_s=0.0)
    assert (report.source, report.source_reason, report.final) == ("pubsub", "", True)


def test_a_final_snapshot_that_was_taken_before_is_not_waited_for(
    published: FakeAggregator, snapshots: Subscription, keeper: Any
) -> None:
    """The final snapshot of a stopped run may come while the command goes on. The report then uses it at once."""
    published.state = "COMPLETE"
    assert snapshots.recv(10.0) is not None
    while snapshots.newest is None or snapshots.newest.state != "COMPLETE":
        assert snapshots.recv(10.0) is not None
    published.stop()
    keeper.deserted = True
    assert await_report(snapshots, keeper, 10.0, recovery_s=0.0).source == "pubsub"


def test_the_file_comes_next(snapshots: Subscription, keeper: Any, short_dir: Path) -> None:
    """The file is the source if no final snapshot is published in time."""
    final_file(short_dir)
    report = await_report(snapshots, keeper, 0.3, recovery_s=0.0)
    assert (report.source, report.snapshot.seq) == ("file", 99)
    assert "within 0.3 s" in report.source_reason


def test_the_journal_is_read_when_there_is_no_file(short_dir: Path, instead: Instead) -> None:
    """A process of its own reads the journal and leaves the file. It gets the directory as an argument."""
    journal(short_dir)
    source = final_file(short_dir / "tmp", "made")
    instead(
        f"assert words[-2:] == ['recover', {str(short_dir)!r}], words\n"
        f"shutil.copy({str(source)!r}, words[-1] + '/{FINAL_FILE}')"
    )
    newest = MetricsSnapshot(run_id="r", name="job", seq=3)
    report = second_best(RunFiles(str(short_dir), "r", "job"), newest, "it died", recovery_s=30.0)
    assert (report.source, report.snapshot.seq) == ("journal", 99)
    assert report.source_reason == f"it died; there is no {FINAL_FILE} in {short_dir}"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("sys.exit('the journal is damaged')", "the journal is damaged"),
        ("sys.exit(7)", "exit code 7"),
        ("time.sleep(60)", "it took longer than 0.5 s"),
        ("pass", f"there is no {FINAL_FILE}"),
    ],
)
def test_a_journal_that_gives_no_result_costs_bounded_time(
    short_dir: Path, instead: Instead, body: str, why: str
) -> None:
    """The last live snapshot takes its place; both reasons are told."""
    journal(short_dir)
    instead(body)
    newest = MetricsSnapshot(run_id="r", name="job", seq=3)
    recovery_s = 0.5 if "sleep" in body else 30.0
    report = second_best(RunFiles(str(short_dir), "r", "job"), newest, "it died", recovery_s=recovery_s)
    assert (report.source, report.snapshot.seq) == ("last_live", 3)
    assert f"can't read the journal: {why}" in report.source_reason


def test_an_interpreter_that_cannot_be_started_reads_no_journal(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report comes all the same."""
    journal(short_dir)
    monkeypatch.setattr(spawn.sys, "executable", "/no/python")
    report = second_best(RunFiles(str(short_dir), "r", "job"), None, "it died", recovery_s=30.0)
    assert "can't start a process:" in report.source_reason


def test_the_journal_of_an_aggregator_that_lives_is_left_alone(
    published: FakeAggregator, snapshots: Subscription, keeper: Any, short_dir: Path, instead: Instead
) -> None:
    """The journal of a silent aggregator that still writes is not read.

    Without a journal no process is started either.
    """
    instead(f"open({str(short_dir / 'started')!r}, 'w')")
    journal(short_dir)
    assert await_report(snapshots, keeper, 0.3, recovery_s=30.0).source == "last_live"
    second_best(RunFiles(str(short_dir / "none"), "r", "job"), None, "it died", recovery_s=30.0)
    second_best(RunFiles("", "", "job"), None, "it died", recovery_s=30.0)
    assert not (short_dir / "started").exists()


def test_the_last_live_snapshot_comes_last(snapshots: Subscription, keeper: Any) -> None:
    """The last live snapshot is the last source, and its reason says why no better one is there."""
    assert snapshots.recv(10.0) is not None
    report = await_report(snapshots, keeper, 0.3, recovery_s=0.0)
    assert (report.source, report.state) == ("last_live", "LIVE")
    assert f"there is no {FINAL_FILE}" in report.source_reason


def test_an_aggregator_that_is_gone_for_good_is_not_waited_for(
    published: FakeAggregator, snapshots: Subscription, keeper: Any, short_dir: Path
) -> None:
    """The reason says how an aggregator that is gone for good came to its end."""
    final_file(short_dir)
    published.stop()
    keeper.deserted, keeper.lost = (
        True,
        "the aggregator (pid 7) was killed by SIGKILL and can't be restarted: no journal",
    )
    report = await_report(snapshots, keeper, 60.0, recovery_s=0.0)
    assert (report.source, report.source_reason) == ("file", keeper.lost)


def test_an_aggregator_that_was_started_again_is_given_its_time(
    published: FakeAggregator, snapshots: Subscription, keeper: Any
) -> None:
    """A restarted aggregator gets time, because it drains and reads the journal anew.

    Without that patience the caller's bound holds.
    """

    class Restarted:
        """A keeper that restarts when it is first looked at again; the result comes two looks later."""

        files, deserted, lost = keeper.files, False, ""
        looks = 0

        @property
        def restarts(self) -> int:
            self.looks += 1
            if self.looks == 4:
                published.state = "COMPLETE"
            return min(1, self.looks - 1)

    reports = [
        await_report(snapshots, made, 0.01, recovery_s=0.0, patience_after_restart_s=after_s)  # type: ignore[arg-type]
        for made, after_s in ((Restarted(), 0.0), (Restarted(), 20.0))
    ]
    assert [report.source for report in reports] == ["last_live", "pubsub"]


@pytest.mark.slow
def test_restarts_without_end_are_not_waited_for(
    published: FakeAggregator, snapshots: Subscription, keeper: Any
) -> None:
    """Each of them is given its time, all together no more than a keeper starts in a row."""

    class Restarting:
        """Has restarted whenever it is looked at; would get to its end much later."""

        files, deserted, lost = keeper.files, False, ""
        looks = 0

        @property
        def restarts(self) -> int:
            self.looks += 1
            if self.looks == 300:
                published.state = "COMPLETE"
            return self.looks

    made: Any = Restarting()
    report = await_report(snapshots, made, 0.01, recovery_s=0.0, patience_after_restart_s=0.2)
    assert report.source == "last_live"


def test_a_file_that_cannot_be_read_is_no_source(short_dir: Path) -> None:
    """The next source takes its place, both reasons are told."""
    (short_dir / FINAL_FILE).write_text("{")
    newest = MetricsSnapshot(run_id="r", name="job", seq=3)
    report = second_best(RunFiles(str(short_dir), "r", "job"), newest, "it is gone")
    assert (report.source, report.snapshot.seq) == ("last_live", 3)
    assert report.source_reason.startswith(f"it is gone; can't read {FINAL_FILE}")


def test_with_no_source_at_all_there_is_still_a_report(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty one. A file in the working directory is not taken for it."""
    monkeypatch.chdir(short_dir)
    final_file(short_dir)
    report = second_best(RunFiles("", "", "job"), None, "no aggregator was reached")
    assert (report.source, report.completeness) == ("last_live", "incomplete")
    assert "no snapshot was ever received" in report.source_reason


def test_what_would_make_a_result_is_in_the_reason() -> None:
    """The reason names a command that would make a result if there is none yet."""
    report = second_best(
        RunFiles("", "", "job"), None, "no aggregator was reached", remedy="`telemetry recover X` makes one"
    )
    assert report.source_reason.startswith("no aggregator was reached; there is no ")
    assert report.source_reason.endswith("; `telemetry recover X` makes one")
