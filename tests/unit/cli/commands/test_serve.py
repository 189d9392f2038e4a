"""Tests of the way from the command line to the options of the aggregator."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

import telemetry.daemon
from telemetry.cli.commands import serve
from telemetry.cli.commands.serve import RootWatch, check_name
from telemetry.cli.main import main
from telemetry.daemon import DaemonOptions
from telemetry.errors import EndpointError, UsageError
from telemetry.wire.snapshot import MetricsSnapshot, RootStat, RootState

HERE = {"name": "job", "run_id": "r1", "dir": "/d", "endpoint": "ipc:///c", "pid": 1, "epoch": "e"}


@pytest.fixture
def started(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[DaemonOptions]:
    """Options with which an aggregator would have run; it writes its file."""
    found: list[DaemonOptions] = []

    def run_daemon(options: DaemonOptions, on_ready: Any, on_root: Any) -> tuple[bool, MetricsSnapshot]:
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
    """The address and the end are on stderr, with the variable to export. Standard output stays empty."""
    assert main(["serve", "--name", "job", "--bind", "ipc:///c", "--insecure"]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "telemetry: run job (r1) in /d",
        "telemetry: export TELEMETRY_ENDPOINT=ipc:///c",
        "telemetry: incomplete: job, 0 of 0 events applied, 0 lost",
        "telemetry: careful",
        "telemetry: /d",
    ]
    assert (started[0].config.transport.bind, started[0].config.transport.insecure) == ("ipc:///c", True)


def test_a_run_that_goes_on_is_told_from_a_new_one(capsys: pytest.CaptureFixture[str]) -> None:
    """A run that goes on tells how many events it had."""
    serve.say_where(HERE | {"resumed_with": 250_886})
    said = capsys.readouterr().err.splitlines()[0]
    assert said == "telemetry: run job (r1) continues with 250,886 events in /d"
    serve.say_where(HERE | {"resumed_with": 1})
    assert "continues with 1 event in /d" in capsys.readouterr().err


def test_an_address_with_a_key_is_quoted(capsys: pytest.CaptureFixture[str]) -> None:
    """A shell would take half of Z85's characters for its own; and it is said who gets in."""
    key = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]y$7"
    for trusted, words in (
        (0, "accepts this user's own key only"),
        (3, "accepts this user's own key and 3 trusted"),
    ):
        serve.say_where(HERE | {"endpoint": f"tcp://0.0.0.0:5#{key}", "trusted": trusted})
        _, export, keys = capsys.readouterr().err.splitlines()
        assert shlex.split(export)[-1] == f"TELEMETRY_ENDPOINT=tcp://0.0.0.0:5#{key}"
        assert words in keys


def test_started_by_a_program_it_is_silent(
    started: list[DaemonOptions], capsys: pytest.CaptureFixture[str]
) -> None:
    """The ready line is the daemon's business."""
    assert main(["serve", "--ready-fd", "77", "--owner-pid", "5", "--run-id", "abc"]) == 0
    assert capsys.readouterr().err == ""
    assert (started[0].ready_fd, started[0].owner_pid, started[0].run_id) == (77, 5, "abc")


WRITER = """
import pathlib, sys
pathlib.Path(sys.argv[2], "asked").write_text(sys.argv[5])
sys.exit(6)
"""


@pytest.fixture
def asked(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which a writer that delivers nothing leaves what was asked of it."""
    program = root.parent / "writer.py"
    program.write_text(WRITER)
    monkeypatch.setattr("telemetry.supervise.writers.telemetry_command", lambda: [sys.executable, str(program)])
    monkeypatch.setitem(HERE, "dir", str(root.parent))
    return root.parent / "asked"


def test_backends_get_the_run(
    started: list[DaemonOptions], asked: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Backends of the flags come before those of the settings.

    An incomplete delivery is reported, and is a failure with `--strict`.
    """
    whole = MetricsSnapshot(run_id="r1", name="job", state="COMPLETE", completeness="complete")
    run_daemon = telemetry.daemon.run_daemon
    monkeypatch.setattr(
        telemetry.daemon, "run_daemon", lambda *given, **more: (run_daemon(*given, **more)[0], whole)
    )
    assert main(["serve", "--to", "jsonl:as=mine", "--strict"]) == 6
    assert asked.read_text() == "jsonl:as=mine"
    remedy = f"telemetry export --resume {asked.parent}"
    assert f"telemetry: mine: not all is delivered; {remedy}\n" in capsys.readouterr().err
    monkeypatch.setenv("TELEMETRY_BACKENDS__TO", "jsonl")
    assert main(["serve"]) == 0
    assert asked.read_text() == "jsonl"
    asked.unlink()
    assert main(["serve", "--no-backends"]) == 0
    assert main(["serve", "--to", "nobody"]) == 2
    assert not asked.exists()


def test_an_aggregator_of_a_program_starts_no_backends(
    started: list[DaemonOptions], asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program has them, and the settings are the same for both."""
    monkeypatch.setenv("TELEMETRY_BACKENDS__TO", "jsonl")
    assert main(["serve", "--ready-fd", "77"]) == 0
    assert not asked.exists()


def test_strict(started: list[DaemonOptions]) -> None:
    """A result that is not complete is exit 4."""
    assert main(["serve", "--strict"]) == 4


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


def test_a_run_to_go_on_with(started: list[DaemonOptions], make_run: Any) -> None:
    """A run to go on with is given by directory, id, name or `latest`. The owner's process number is given anew."""
    directory = make_run("job", "r1", ended=False)
    for spec in (str(directory.path), "r1", "job", "latest"):
        assert main(["serve", "--resume", spec, "--owner-pid", "5"]) == 0
    assert [options.resume for options in started] == [directory.path] * 4
    assert started[0].owner_pid == 5
    assert main(["serve", "--resume", "nobody"]) == 1
    assert main(["serve", "--resume", "/gone", "--ready-fd", "77"]) == 0
    assert started[-1].resume == Path("/gone"), "who waits at the pipe hears there that it is gone"


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--name", "n"], "--name"),
        (["--node", "b"], "--node"),
        (["--no-journal"], "--no-journal"),
        (["--run-id", "r2", "--name", "n"], "--name, --run-id"),
    ],
)
def test_what_a_run_decides_itself(
    started: list[DaemonOptions], make_run: Any, capsys: pytest.CaptureFixture[str], flags: list[str], named: str
) -> None:
    """Flags that would be ignored are refused."""
    make_run("job", "r1", ended=False)
    assert main(["serve", "--resume", "job", *flags]) == 2
    assert f"{named} can't be combined with --resume" in capsys.readouterr().err
    assert started == []


def test_nothing_to_resume_is_said(
    root: Path, make_run: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run has ended: no error."""
    make_run("job", "r1")
    result = MetricsSnapshot(run_id="r1", name="job", state="COMPLETE", directory="/d")
    monkeypatch.setattr(telemetry.daemon, "run_daemon", lambda *_, **__: (True, result))
    assert main(["serve", "--resume", "job"]) == 0
    assert capsys.readouterr().err.splitlines()[0] == "telemetry: nothing to resume: the run has already ended"


@pytest.mark.parametrize("name", ["job", "a/b", "ü", "x" * 200, " padded "])
def test_names(name: str) -> None:
    """A name is any text that a person can read."""
    check_name(name)


@pytest.mark.parametrize("name", ["", "  ", "x" * 201, "a\nb", "a\x00", "a\udcff"])
def test_no_names(name: str) -> None:
    """Empty, endless, or not to be printed."""
    with pytest.raises(UsageError, match="is not a valid name for a run"):
        check_name(name)


def test_a_root_that_is_away_is_told_each_minute() -> None:
    """A line comes at once, when the reason changes, after each minute, and when the root answers after all."""
    lines: list[str] = []
    now_s = 100.0
    watch = RootWatch(lines.append, lambda: now_s)

    def look(reason: str, state: RootState = "waiting") -> list[str]:
        watch.look(RootStat(address="tcp://head:1", node="a", state=state, reason=reason))
        said, lines[:] = list(lines), []
        return said

    watch.look(None)
    assert look("") == []
    assert look("away") == ["away"]
    now_s += 59
    assert look("away") == []
    now_s += 1
    assert look("away") == ["away"]
    assert look("refused", "refused") == ["refused"]
    assert look("", "connected") == ["connected to the root at tcp://head:1, which gets what it has missed"]
    assert look("", "connected") == []
    assert look("away", "silent") == ["away"]
    assert look("never got it", "undelivered") == [], "the end is told with the result"


@pytest.mark.parametrize(("state", "code"), [("delivered", 0), ("refused", 6), ("undelivered", 6)])
def test_strict_about_the_root(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], state: RootState, code: int
) -> None:
    """With --strict, a complete leaf fails if the root lacks its account. The reason comes last."""
    reason = "" if state == "delivered" else "the root never got node a"
    of_root = RootStat(address="tcp://head:1", node="a", state=state, reason=reason)
    result = MetricsSnapshot(
        run_id="r1",
        name="job",
        state="COMPLETE",
        completeness="complete",
        directory="/d",
        warnings=[reason, "careful"] if reason else ["careful"],
        root=of_root,
    )
    monkeypatch.setattr(telemetry.daemon, "run_daemon", lambda *_, **__: (True, result))
    assert main(["serve", "--upstream", "tcp://head:1"]) == 0
    assert main(["serve", "--strict", "--upstream", "tcp://head:1"]) == code
    lines = [line.removeprefix("telemetry: ") for line in capsys.readouterr().err.splitlines()]
    assert lines[-1] == (reason or "/d")
    assert lines.count(reason) == (2 if reason else 0)
