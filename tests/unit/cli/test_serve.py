"""From the command line to the options of the aggregator."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import telemetry.daemon
from telemetry.cli.main import main
from telemetry.cli.serve import check_name
from telemetry.daemon import DaemonOptions
from telemetry.errors import EndpointError, UsageError
from telemetry.wire.snapshot import MetricsSnapshot

HERE = {"name": "job", "run_id": "r1", "dir": "/d", "endpoint": "ipc:///c", "pid": 1, "epoch": "e"}


@pytest.fixture
def started(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[DaemonOptions]:
    """Options with which an aggregator would have run; it writes its file."""
    found: list[DaemonOptions] = []

    def run_daemon(options: DaemonOptions, on_ready: Any = None) -> tuple[bool, MetricsSnapshot]:
        found.append(options)
        if on_ready is not None:
            on_ready(HERE)
        return True, MetricsSnapshot(
            run_id="r1", name="job", state="COMPLETE", warnings=["careful"], directory="/d"
        )

    monkeypatch.setattr(telemetry.daemon, "run_daemon", run_daemon)
    return found


def test_flags_and_defaults(started: list[DaemonOptions], root: Path) -> None:
    """Each flag overrides its setting; ids are new each time; the command line is kept."""
    assert main(["serve"]) == 0
    assert main(["serve", "--name", "n", "--dir", "elsewhere", "--refresh-hz", "20", "--no-journal"]) == 0
    plain, asked = started
    assert plain.name
    assert (plain.root, plain.config.run.refresh_hz, plain.config.journal.enabled) == (root, 10.0, True)
    assert (plain.owner_pid, plain.ready_fd, plain.command_line) == (None, None, tuple(sys.argv))
    assert (asked.name, asked.root, asked.config.run.refresh_hz) == ("n", root.parent / "elsewhere", 20.0)
    assert not asked.config.journal.enabled
    assert plain.run_id != asked.run_id
    assert plain.epoch != asked.epoch


def test_in_the_foreground_it_says_where_and_how_it_ended(
    started: list[DaemonOptions], capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr, with the variable to export; stdout stays empty."""
    assert main(["serve", "--name", "job", "--bind", "ipc:///c", "--insecure"]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "telemetry: run job (r1) in /d",
        "telemetry: export TELEMETRY_ENDPOINT=ipc:///c",
        "telemetry: incomplete: job COMPLETE, 0 of 0 events applied, 0 lost",
        "telemetry: careful",
        "telemetry: /d",
    ]
    assert (started[0].config.transport.bind, started[0].config.transport.insecure) == ("ipc:///c", True)


def test_started_by_a_program_it_is_silent(
    started: list[DaemonOptions], capsys: pytest.CaptureFixture[str]
) -> None:
    """The ready line is the daemon's business."""
    assert main(["serve", "--ready-fd", "77", "--owner-pid", "5", "--run-id", "abc"]) == 0
    assert capsys.readouterr().err == ""
    assert (started[0].ready_fd, started[0].owner_pid, started[0].run_id) == (77, 5, "abc")


def test_no_file_is_an_error(started: list[DaemonOptions], monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 1: the result is nowhere on disk."""
    nowhere = MetricsSnapshot(run_id="r1", name="job")
    monkeypatch.setattr(telemetry.daemon, "run_daemon", lambda *_, **__: (False, nowhere))
    assert main(["serve"]) == 1


def test_what_cannot_begin_is_one_line(
    started: list[DaemonOptions], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error with its hint, and its exit code."""

    def fail(*_: object, **__: object) -> None:
        raise EndpointError("in use", hint="choose another")

    monkeypatch.setattr(telemetry.daemon, "run_daemon", fail)
    assert main(["serve"]) == 1
    assert capsys.readouterr().err == "telemetry: in use (choose another)\n"


@pytest.mark.parametrize("name", ["job", "a/b", "ü", "x" * 200, " padded "])
def test_names(name: str) -> None:
    """What a person can read is a name."""
    check_name(name)


@pytest.mark.parametrize("name", ["", "  ", "x" * 201, "a\nb", "a\x00", "a\udcff"])
def test_no_names(name: str) -> None:
    """Empty, endless, or not to be printed."""
    with pytest.raises(UsageError, match="can't be the name of a run"):
        check_name(name)
