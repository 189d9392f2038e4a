"""The status of runs that have ended."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from telemetry.cli.main import main
from telemetry.store.backends import WriterFacts, writer_folder
from telemetry.store.final_snapshot import read_final, write_final
from telemetry.store.run_directory import RunDirectory
from telemetry.transport.keeper_lock import KeeperLock
from telemetry.wire.snapshot import AxisStat, BackendStat

STARTED_NS = 1_772_366_400_000_000_000
MakeRun = Callable[..., RunDirectory]


def test_status_of_a_finished_run(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """Status falls back to the disk: text in few lines, JSON whole."""
    make_run("job", "aaaa1111")
    assert main(["status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("complete: job, ")
    assert len(lines) < 8
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run_id"] == "aaaa1111"


def test_status_of_a_dead_run(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 1: one line with what is left and the command that makes a result of it, or the same as JSON."""
    directory = make_run("killed", "bbbb2222", ended=False, journal=True)
    os.utime(directory.journal / "00000000.seg", ns=(0, STARTED_NS))
    assert main(["status", "killed"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    for part in (
        "its aggregator died, last seen 2026-03-01 12:00:00 UTC",
        "38 B in 1 segment",
        "telemetry recover ",
        f"`telemetry serve --resume {directory.path}` continues the run",
    ):
        assert part in captured.err
    assert main(["status", "killed", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "run_id": "bbbb2222",
        "state": "DEAD",
        "dir": str(directory.path),
        "last_seen_ns": STARTED_NS,
        "journal_segments": 1,
        "journal_bytes": 38,
        "recoverable": True,
    }


def test_a_run_that_is_about_to_go_on_is_not_called_dead(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run with a dead aggregator that is about to restart is not called dead.

    No command is offered that would end the run.
    """
    make_run("killed", "bbbb2222", ended=False, journal=True)
    keeping = KeeperLock("bbbb2222")
    assert main(["status", "killed"]) == 1
    said = capsys.readouterr().err
    assert f"its aggregator died, and process {os.getpid()} is restarting it" in said
    assert "recover" not in said
    assert main(["status", "killed", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["recoverable"]) == ("RESTARTING", False)
    keeping.end()
    assert main(["status", "killed", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["state"] == "DEAD"


def test_status_of_a_run_that_is_unknown_or_alive_elsewhere(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that is unknown or alive elsewhere is not dead. JSON stays empty, and stderr says why."""
    lock = make_run("busy", "bbbb2222", ended=False, journal=True).lock()
    for name, why in (("busy", "still going, on "), ("nobody", "no run 'nobody'")):
        assert main(["status", name, "--json"]) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        assert why in captured.err
    lock.release()


def test_steps_and_backends_have_a_line_each(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """A line tells how far each axis is, and another the newest state of each backend.

    That state is newer than the result.
    """
    directory = make_run("job", "aaaa1111")
    axes = [AxisStat(name="train", newest=1_999), AxisStat(name="eval")]
    result = replace(read_final(directory.final), axes=axes)
    directory.final.unlink()
    write_final(result, [directory.final])
    folder = writer_folder(directory.path, "tb")
    folder.make()
    folder.write_facts(WriterFacts(name="tb", kind="tensorboard", to="tensorboard:as=tb"))
    folder.write_status(BackendStat(name="tb", state="undelivered", next_record=5, last_error="disk full"))
    assert main(["status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "newest steps: train 1,999" in lines
    assert "backends: tb undelivered: disk full" in lines
