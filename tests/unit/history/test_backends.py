"""The last words of writers in the report of a run that is over."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from telemetry.history import load_report
from telemetry.history.backends import of_backends
from telemetry.store.backends import WriterFacts, WriterFolder, writer_folder
from telemetry.store.final_snapshot import write_final
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.report import Report
from telemetry.wire.snapshot import BackendStat, MetricsSnapshot

HOLDS = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """Whose result says of two backends what they had said until then."""
    directory = RunDirectory.create(tmp_path, "job", "aaaa1111", 10**18)
    told = [
        BackendStat(name="far", state="idle", next_record=90, queued=10),
        BackendStat(name="mine", state="writing", next_record=10, queued=5),
    ]
    snapshot = MetricsSnapshot(run_id="aaaa1111", name="job", state="COMPLETE", backends=told)
    write_final(snapshot, [directory.final])
    return directory


def writer(run: RunDirectory, stat: BackendStat) -> WriterFolder:
    folder = writer_folder(run.path, stat.name)
    folder.make()
    folder.write_facts(WriterFacts(name=stat.name, kind=stat.kind, to=stat.kind))
    folder.write_status(stat)
    return folder


def backends(run: RunDirectory) -> list[BackendStat]:
    return load_report(run.path).snapshot.backends


def test_without_writers_the_result_stays_as_it_was_written(run: RunDirectory) -> None:
    """The queue of a backend goes up to the newest record that any backend knows of."""
    assert [(stat.name, stat.state, stat.queued) for stat in backends(run)] == [
        ("far", "idle", 10),
        ("mine", "writing", 90),
    ]


def test_a_writer_s_last_word_is_newer_than_the_result(run: RunDirectory) -> None:
    """One that began after it is there too."""
    writer(run, BackendStat(name="mine", state="done", next_record=100, written=104))
    writer(run, BackendStat(name="new", state="failed"))
    assert [(stat.name, stat.state, stat.queued) for stat in backends(run)] == [
        ("far", "idle", 10),
        ("mine", "done", 0),
        ("new", "failed", 100),
    ]


def test_one_that_died_says_nothing_of_it(run: RunDirectory) -> None:
    """A dead writer's open records are undelivered; a living one may still deliver them."""
    folder = writer(run, BackendStat(name="mine", state="writing", next_record=40, queued=1))
    command = [sys.executable, "-c", HOLDS, str(folder.lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        assert folder.taken()
        assert backends(run)[1].state == "writing"
        child.communicate()
    assert not folder.taken()
    assert (backends(run)[1].state, backends(run)[1].queued) == ("undelivered", 60)


def test_a_lock_that_can_t_be_looked_at_is_taken(run: RunDirectory) -> None:
    """A lock that can't be read counts as taken, because its owner may be alive."""
    folder = writer(run, BackendStat(name="mine", state="writing"))
    assert not folder.taken()
    folder.lock.mkdir()
    assert folder.taken()


def test_a_damaged_report_of_a_writer_costs_no_result(run: RunDirectory) -> None:
    """A writer's damaged report leaves the state that the run knew."""
    writer(run, BackendStat(name="mine", state="done")).status.write_text("{")
    assert backends(run)[1].state == "writing"


def found(*stats: BackendStat, state: str = "COMPLETE") -> list[str]:
    snapshot = MetricsSnapshot(
        run_id="r",
        name="n",
        state=state,
        time_ns=10**18,
        directory="/d",
        backends=list(stats),  # type: ignore[arg-type]
    )
    return list(of_backends(Report(snapshot=snapshot, source="file")))


def test_what_is_not_delivered_is_a_finding() -> None:
    """A finding has the command that delivers the rest. A backend without problems has no finding."""
    assert found(
        BackendStat(name="a", state="undelivered", queued=3, last_error="refused"),
        BackendStat(name="b", state="done", dropped={"too_large": 2}),
        BackendStat(name="c", state="done"),
        BackendStat(name="d", state="failed", time_ns=1),
        BackendStat(name="e", state="failed"),
    ) == [
        "a: 3 records are not delivered (refused); telemetry export --resume /d",
        "b: 2 items were not accepted: 2 too_large",
        "d: its writer could not start; after fixing the cause, telemetry export --resume /d",
        "e: its writer could not start",
    ]


def test_of_one_that_had_not_ended_nobody_knows_the_rest() -> None:
    """The result of a writer that had not ended may lie on another machine."""
    assert found(
        BackendStat(name="a", state="retrying", queued=3, last_error="refused"),
        BackendStat(name="b", state="writing"),
        BackendStat(name="c", state="idle"),
        BackendStat(name="d", state="closing"),
    ) == [
        "a: 3 records were not delivered yet at its last report (refused)",
        "b: not all was delivered yet at its last report",
    ]


def test_while_a_run_goes_on_trouble_is_a_finding() -> None:
    """Records that wait for their delivery are no finding while a run goes on."""
    now = {"time_ns": 10**18}
    assert found(
        BackendStat(name="a", state="retrying", queued=3, last_error="refused", **now),
        BackendStat(name="b", state="writing", queued=3, **now),
        BackendStat(name="c", state="idle", time_ns=10**18 - 7 * 10**9),
        state="LIVE",
    ) == ["a: retrying, 3 queued: refused", "c: silent for 7 s"]
