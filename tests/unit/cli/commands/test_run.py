"""`telemetry run` beside an aggregator that lives in the test."""

from __future__ import annotations

import json
import re
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from telemetry.cli.beside_run.flight import FlightRecorder
from telemetry.cli.main import main
from telemetry.cli.wrapped.terminal_mode import PlainMode
from telemetry.supervise import spawn
from telemetry.testing.aggregator import FakeAggregator
from telemetry.transport import hello
from telemetry.wire.control import Stop, Watch
from telemetry.wire.report import Report
from telemetry.wire.snapshot import CommandFacts

HANDLED = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


@pytest.fixture
def aggregator(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAggregator]:
    """Yield the aggregator that `spawn` gives instead of a process.

    The name and flags of a call are kept in `asked`.
    """
    handlers = {number: signal.getsignal(number) for number in (*HANDLED, signal.SIGCHLD)}
    ended = threading.Event()
    with FakeAggregator(root.parent) as made:

        def start(name: str, flags: dict[str, object], **options: object) -> Any:
            made.asked = (name, flags, options)  # type: ignore[attr-defined]
            return SimpleNamespace(
                endpoint=made.endpoint,
                snapshots=hello(made.endpoint).snapshots,
                run_id="fake",
                name=name,
                directory=str(root),
                pid=0,
                process=SimpleNamespace(returncode=0, wait=ended.wait),
            )

        monkeypatch.setattr(spawn, "spawn", start)
        yield made
        ended.set()
    for number, handler in handlers.items():
        signal.signal(number, handler)


def requests(aggregator: FakeAggregator, kind: type) -> list[Any]:
    return [request for request in aggregator.requests if isinstance(request, kind)]


def test_the_command_is_watched_and_its_end_ends_the_run(
    aggregator: FakeAggregator, capsys: pytest.CaptureFixture[str]
) -> None:
    """The aggregator gets the process id of the command, and at the end its exit code and why it ended.

    The report goes to stderr.
    """
    assert main(["run", "--name", "mine", "--", sys.executable, "-c", "raise SystemExit(4)"]) == 4
    (watch,), (stop,) = requests(aggregator, Watch), requests(aggregator, Stop)
    assert (stop.reason, stop.interrupted) == ("the command exited with code 4", False)
    assert (stop.command.pid, stop.command.exit_code) == (watch.pid, 4)
    said = capsys.readouterr()
    assert said.out == ""
    assert "incomplete: fake, " in said.err


@pytest.mark.slow
def test_flags_reach_the_aggregator(aggregator: FakeAggregator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags reach the aggregator as settings, and a flag that is not given changes nothing."""
    monkeypatch.setenv("TELEMETRY_UPSTREAM__LINGER_S", "0")  # the fake stays, as a leaf does whose root goes on
    given = [
        "--dir",
        "there",
        "--no-journal",
        "--tokenizer",
        "t.json",
        "--worker-grace",
        "3",
        "--token-workers",
        "2",
        "--token-budget",
        "9",
        "--upstream",
        "ipc:///root",
        "--node",
        "a",
    ]
    assert main(["run", *given, "--quiet", "true"]) == 0
    name, flags, _ = aggregator.asked  # type: ignore[attr-defined]
    assert name == "true"
    assert flags == {
        "run.dir": "there",
        "run.refresh_hz": None,
        "run.worker_grace_s": 3.0,
        "transport.bind": None,
        "transport.insecure": None,
        "journal.enabled": False,
        "tokens.tokenizer": "t.json",
        "tokens.workers": 2,
        "tokens.budget_s": 9.0,
        "upstream.address": "ipc:///root",
        "upstream.node": "a",
        "run.nodes": None,
        "redact.personal": None,
        "redact.patterns": None,
    }


@pytest.mark.parametrize(
    ("command", "name"),
    [("/bin/true", "true"), ("a\nb", "a?b"), ("/", "run"), ("x" * 300, "x" * 200), ("..", "..")],
)
def test_a_run_without_a_name_is_called_like_its_command(
    aggregator: FakeAggregator, command: str, name: str
) -> None:
    """A run without a name is called like its command, whatever that is."""
    main(["run", "--quiet", "--", command])
    assert aggregator.asked[0] == name  # type: ignore[attr-defined]


def test_a_command_that_is_not_there_still_ends_the_run(aggregator: FakeAggregator) -> None:
    """A command that can't be started gives exit code 127. The aggregator gets the reason and watches nothing."""
    assert main(["run", "--quiet", "--", "no-such-command"]) == 127
    assert requests(aggregator, Watch) == []
    (stop,) = requests(aggregator, Stop)
    assert stop.reason == (
        "the command could not be started: no-such-command: command not found: is it installed, and in a folder of "
        "PATH?"
    )


@pytest.mark.parametrize(
    ("signalled", "steps"),
    [(True, ["leave at once", "flight recording", "leave"]), (False, ["flight recording", "leave"])],
)
def test_a_signalled_cockpit_leaves_before_the_flight_recording(
    aggregator: FakeAggregator, monkeypatch: pytest.MonkeyPatch, signalled: bool, steps: list[str]
) -> None:
    """After a signal the terminal is free at once, however long the recording takes."""
    done: list[str] = []

    class Cockpit(PlainMode):
        def await_leave(self, *, patient: bool) -> None:
            done.append("leave" if patient else "leave at once")

    def conclude(_recorder: FlightRecorder, report: Report) -> Report:
        done.append("flight recording")
        return report

    monkeypatch.setattr("telemetry.cli.commands.run.open_mode", lambda **_: Cockpit())
    monkeypatch.setattr(FlightRecorder, "conclude", conclude)
    program = "import os, signal, time; os.kill(os.getppid(), signal.SIGTERM); time.sleep(60)" if signalled else ""
    code = main(["run", "--quiet", "--", sys.executable, "-c", program])
    assert (code, done) == (128 + signal.SIGTERM if signalled else 0, steps)


@pytest.mark.parametrize(("code", "expected"), [(0, 4), (3, 3)])
def test_strict(aggregator: FakeAggregator, code: int, expected: int) -> None:
    """A result that is not complete is exit 4, unless the command itself failed."""
    assert main(["run", "--strict", "--quiet", "--", sys.executable, "-c", f"raise SystemExit({code})"]) == expected


def test_quiet_is_quiet(aggregator: FakeAggregator, capsys: pytest.CaptureFixture[str]) -> None:
    """A quiet run writes neither a report nor a live line."""
    assert main(["run", "--quiet", "--", "true"]) == 0
    said = capsys.readouterr().err
    assert "COMPLETE" not in said
    assert "run directory" not in said


def test_a_viewer_without_a_terminal_starts_nothing(
    aggregator: FakeAggregator, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--tui` without a terminal gives exit code 2, and the message says what to do instead."""
    assert main(["run", "--tui", "--", "true"]) == 2
    assert "--tui requires a terminal on stdin and stderr (remove --tui" in capsys.readouterr().err
    assert not hasattr(aggregator, "asked")


def test_no_command_starts_nothing(aggregator: FakeAggregator, capsys: pytest.CaptureFixture[str]) -> None:
    """A usage error comes before an aggregator."""
    for words in (["run"], ["run", "--"], ["run", "--name", "a\nb", "--", "true"]):
        assert main(words) == 2
    assert not hasattr(aggregator, "asked")


@pytest.mark.parametrize(
    ("gates", "code", "strict", "expected"),
    [
        (["value(nobody) > 0"], 0, False, 3),
        (["value(nobody) > 0"], 0, True, 3),
        (["value(nobody) > 0", "completeness == complete"], 0, True, 99),
        (["completeness == complete"], 7, True, 7),
        (["completeness == incomplete"], 0, False, 0),
        (["completeness == incomplete"], 0, True, 4),
    ],
)
def test_gates_have_a_place_among_the_exit_codes(
    aggregator: FakeAggregator, gates: list[str], code: int, strict: bool, expected: int
) -> None:
    """The exit code of a failed command comes first, then 99 (gate failed), 3 (inconclusive) and 4 (incomplete)."""
    flags = [word for gate in gates for word in ("--gate", gate)] + (["--strict"] if strict else [])
    command = [sys.executable, "-c", f"raise SystemExit({code})"]
    assert main(["run", "--quiet", *flags, "--", *command]) == expected


def test_a_gate_that_can_t_be_read_starts_nothing(
    aggregator: FakeAggregator, capsys: pytest.CaptureFixture[str]
) -> None:
    """A gate that can't be parsed gives exit code 2. So does a flag for gates if there is no gate."""
    assert main(["run", "--gate", "lost = 0", "--", "true"]) == 2
    assert main(["run", "--abort-on-fail", "--", "true"]) == 2
    assert main(["run", "--baseline", "latest", "--", "true"]) == 2
    assert "--baseline requires a gate" in capsys.readouterr().err
    assert not hasattr(aggregator, "asked")


def test_without_gates_nothing_of_them_is_imported(
    aggregator: FakeAggregator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run without gates imports nothing of them, so it pays nothing for them."""
    ours = ("telemetry.judge.gates", "telemetry.cli.beside_run.gates")
    for name in [name for name in sys.modules if name.startswith(ours)]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["run", "--quiet", "--", "true"]) == 0
    assert [name for name in sys.modules if name.startswith(ours)] == []


WRITER = """
import json, pathlib, sys
_, export, directory, writer, to, text, endpoint, _, *every = sys.argv
folder = pathlib.Path(directory, "backends", "mine")
folder.mkdir(parents=True)
(folder / "asked").write_text(json.dumps([export, writer, to, text, endpoint, *every]))
state = "done" if "done" in text else "undelivered"
status = {"name": "mine", "state": state, "next_record": 4, "queued": 3, "last_error": "no route"}
(folder / "status.json").write_text(json.dumps({"schema_version": 1, "status": status}))
sys.exit(0 if state == "done" else 6)
"""


@pytest.fixture
def writer(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace the program that writes to the backend `mine` by a script, and return the backend's folder.

    The script delivers nothing. Its status file says `done` if the options contain "done", and `undelivered`
    otherwise.
    """
    program = root.parent / "writer.py"
    program.write_text(WRITER)
    monkeypatch.setattr("telemetry.supervise.writers.telemetry_command", lambda: [sys.executable, str(program)])
    return root / "backends" / "mine"


@pytest.fixture
def whole_run(aggregator: FakeAggregator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the result of the run complete, which it never is with the fake aggregator."""

    def complete(report: Report, command: CommandFacts) -> Report:
        return replace(report, snapshot=replace(report.snapshot, completeness="complete", command=command))

    monkeypatch.setattr("telemetry.cli.commands.run._with_bill", complete)


def test_a_backend_gets_the_run(
    aggregator: FakeAggregator, writer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A backend gets the address of the run, the options it was asked with, and the interval."""
    assert main(["run", "--to", "jsonl:as=mine,path=done", "--every", "2", "--quiet", "true"]) == 0
    asked = json.loads((writer / "asked").read_text())
    assert asked == ["export", "--writer", "--to", "jsonl:as=mine,path=done", "--endpoint", "--every", "2.0"]
    assert "mine" not in capsys.readouterr().err


@pytest.mark.parametrize(("flags", "expected"), [([], 0), (["--strict"], 6)])
def test_what_a_backend_has_not_got_is_said(
    whole_run: None, writer: Path, capsys: pytest.CaptureFixture[str], flags: list[str], expected: int
) -> None:
    """Undelivered records are reported even with `--quiet`, with the command that delivers them.

    They change the exit code only with `--strict`.
    """
    assert main(["run", "--to", "jsonl:as=mine", "--quiet", *flags, "true"]) == expected
    said = capsys.readouterr().err
    assert f"mine: 3 records are not delivered (no route); telemetry export --resume {writer.parents[1]}\n" in said


def test_a_backend_that_is_waited_for_is_said_once(
    whole_run: None, writer: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that takes; and once more what came of it."""
    monkeypatch.setattr("telemetry.supervise.writers._TELL_S", 0.01)
    monkeypatch.setenv("TELEMETRY_BACKENDS__FINISH_TIMEOUT_S", "0.4")
    program = writer.parents[2] / "writer.py"
    program.write_text(WRITER.replace("sys.exit(", "import time\ntime.sleep(60)\nsys.exit("))
    assert main(["run", "--to", "jsonl:as=mine", "true"]) == 0
    said = capsys.readouterr().err
    assert said.count("waiting for mine") == 1
    assert said.count("telemetry: mine: 3 records are not delivered") == 1
    assert re.search(r"^ *mine +undelivered ", said, re.MULTILINE), said


def test_the_settings_name_backends_too(
    aggregator: FakeAggregator, writer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless some are given, or none are wanted."""
    monkeypatch.setenv("TELEMETRY_BACKENDS__TO", "jsonl:as=mine,path=done")
    assert main(["run", "--no-backends", "--quiet", "true"]) == 0
    assert not writer.exists()
    assert main(["run", "--quiet", "true"]) == 0
    assert json.loads((writer / "asked").read_text())[3] == "jsonl:as=mine,path=done"


@pytest.mark.parametrize(
    "flags", [["--to", "jsnl"], ["--to", "jsonl", "--to", "jsonl"], ["--to", "jsonl", "--every", "0.5"]]
)
def test_backends_that_can_t_be_start_nothing(aggregator: FakeAggregator, flags: list[str]) -> None:
    """An unknown backend, two backends of one name, and an interval that is too short give exit code 2."""
    assert main(["run", *flags, "true"]) == 2
    assert not hasattr(aggregator, "asked")
