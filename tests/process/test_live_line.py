"""The live line of `telemetry run` in a real terminal, and how runs end there."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.process.tmux import Tmux

LOAD = """
import os, sys, time, telemetry
run = telemetry.start("ignored")
search = run.requests("search")
for number in range(1, 12_000):
    with search.issue():
        time.sleep(0.005)
    if number % 20 == 0:
        sys.stdout.write(f"row {number // 20} ")
        sys.stdout.flush()
        time.sleep(0.05)
        sys.stdout.write("is whole\\n")
        sys.stdout.flush()
    if os.path.exists("go"):
        break
"""
"""Writes its lines in halves until it is told to end; for a few minutes at most."""

ASKS = """
import getpass, telemetry
run = telemetry.start("ignored")
run.counter("asked").add()
secret = getpass.getpass("secret? ")
print(f"{len(secret)} letters", flush=True)
name = input("name? ")
print(f"hello {name}", flush=True)
"""

PLAIN = """
import multiprocessing, telemetry
def child():
    telemetry.counter("calls").add(5)
if __name__ == "__main__":
    with telemetry.start("load-test" OPTIONS) as run:
        latency = run.series("latency", unit="ms")
        for value in range(1, 101):
            latency.record(value)
        worker = multiprocessing.get_context("spawn").Process(target=child)
        worker.start()
        worker.join()
    print("the program's own")
"""

LINE = re.compile(r"^\d:\d\d  .*req/s.*$", re.MULTILINE)


@pytest.fixture
def terminal(ground: Any) -> Iterator[Tmux]:
    """A shell, 100 columns wide, in the working directory; `$T` is the command, `$PY` the interpreter."""
    environ = ground.environ | {"PY": sys.executable, "T": f"{sys.executable} -m telemetry"}
    environ.pop("CI", None)
    with Tmux(ground.folder, environ) as made:
        yield made


def last_row(terminal: Tmux) -> str:
    return terminal.visible()[-1]


def assert_rows_whole(screen: str) -> None:
    """Each line of the command is as it wrote it, and none is missing."""
    numbers = [int(number) for number in re.findall(r"^row (\d+) is whole$", screen, re.MULTILINE)]
    assert len(numbers) >= 3
    assert numbers == list(range(1, numbers[-1] + 1)), screen


def test_the_line_has_the_last_row_and_the_command_the_others(ground: Any, terminal: Tmux) -> None:
    """The line is redrawn in the last row while the output scrolls. It is gone when the report comes."""
    program = ground.program("load.py", LOAD)
    terminal.type(f"$T run --name whole -- $PY {program}; echo shell saw $?\n")
    terminal.wait_until(lambda: LINE.match(last_row(terminal)), "the live line")
    first = last_row(terminal)
    terminal.wait_until(lambda: LINE.match(last_row(terminal)) and last_row(terminal) != first, "a newer line")
    terminal.wait_until(lambda: "row 40 is whole" in terminal.screen(), "a full screen")
    assert "0 failed" in last_row(terminal)
    (ground.folder / "go").touch()
    screen = terminal.wait_for("complete: whole, ", "shell saw 0")
    assert_rows_whole(screen)
    assert not LINE.search(screen), screen
    assert "row " not in screen[screen.index("complete: whole, ") :]
    terminal.type("seq 100 150\n")
    terminal.wait_until(lambda: terminal.visible()[-2:-1] == ["150"], "all rows to scroll again")


def test_ctrl_z_and_a_new_size(ground: Any, terminal: Tmux) -> None:
    """The shell gets the whole terminal; the line comes back with the job, in the new last row."""
    program = ground.program("load.py", LOAD)
    modes = terminal.modes()
    terminal.type(f"$T run --name whole -- $PY {program}; echo shell saw $?\n")
    terminal.wait_until(lambda: LINE.match(last_row(terminal)), "the live line")
    terminal.press("C-z")
    terminal.wait_for("shell saw 148")
    assert not LINE.search(terminal.screen())
    terminal.type("seq 100 150\n")
    terminal.wait_until(lambda: terminal.visible()[-2:-1] == ["150"], "all rows to scroll")
    terminal.type("fg\n")
    terminal.wait_until(lambda: LINE.match(last_row(terminal)), "the live line again")
    terminal.resize(60, 14)
    terminal.wait_until(lambda: len(terminal.visible()) == 14 and LINE.match(last_row(terminal)), "the line below")
    assert len(last_row(terminal)) < 60
    terminal.press("C-c")
    terminal.wait_for("command ended by SIGINT (interrupted)", "files: ")
    assert terminal.modes() == modes
    assert not LINE.match(last_row(terminal))


def test_a_program_that_asks_has_the_terminal_alone(ground: Any, terminal: Tmux) -> None:
    """A program that asks for a password has no live line beside it.

    The question and the answer are where they belong.
    """
    program = ground.program("asks.py", ASKS)
    terminal.type(f"clear; $T run --name asks -- $PY {program}; echo shell saw $?\n")
    terminal.wait_for("secret?")
    terminal.wait_until(lambda: terminal.visible()[-1] == "", "the last row to be empty")
    terminal.type("hidden\n")
    terminal.wait_for("6 letters", "name? ")
    terminal.wait_until(lambda: last_row(terminal).startswith("0:"), "the live line")
    terminal.type("bob\n")
    screen = terminal.wait_for("hello bob", "shell saw 0")
    assert "name? bob\nhello bob\n" in screen
    assert "hidden" not in screen


def test_quiet_has_no_line_and_a_dumb_terminal_no_row(ground: Any, terminal: Tmux) -> None:
    """A run with --quiet or in a dumb terminal shows no live line and leaves the terminal untouched."""
    program = ground.program("load.py", LOAD)
    terminal.type(f"$T run --quiet -- $PY {program}; echo shell saw $?\n")
    terminal.wait_for("row 20 is whole")
    assert not LINE.search(terminal.screen())
    (ground.folder / "go").touch()
    terminal.wait_for("shell saw 0")
    (ground.folder / "go").unlink()
    terminal.type(f"clear; TERM=dumb $T run -- $PY {program}; echo shell saw $?\n")
    terminal.wait_for("row 40 is whole")
    assert not LINE.search(terminal.screen())
    (ground.folder / "go").touch()
    assert_rows_whole(terminal.wait_for("complete: ").rpartition("TERM=dumb")[2])


def test_a_file_gets_few_lines(ground: Any) -> None:
    """The first one after ten seconds, without any control character."""
    program = ground.program("load.py", LOAD.replace("12_000", "1_700"))
    code, _, err = ground.run("run", "--name", "log", "--", sys.executable, program)
    assert code == 0
    assert len(re.findall(r"^telemetry: 0:1\d  .*req/s  p50 .*  p99 .*  0 failed", err, re.MULTILINE)) == 1
    assert "\x1b" not in err
    assert len(err.splitlines()) < 30


@pytest.mark.parametrize(
    ("command", "code", "first"),
    [
        ("exit 3", 3, "command failed: exit code 3 · sh -c 'exit 3'"),
        ("kill -SEGV $$", 139, "command ended by SIGSEGV (segmentation fault) · "),
        ("kill -KILL $$", 137, "command ended by SIGKILL (perhaps out of memory) · "),
        (
            "sh -c 'kill -KILL $$'; exit $?",
            137,
            "command failed: exit code 137 (SIGKILL, perhaps out of memory) · ",
        ),
    ],
)
def test_a_failed_command_comes_first(ground: Any, command: str, code: int, first: str) -> None:
    """A failed command is the first line, in red, with what is known of the cause.

    Then a line says that nothing was recorded and what to look at.
    """
    found, _, err = ground.run("run", "--", "sh", "-c", command, environ={"FORCE_COLOR": "1"})
    assert found == code
    lines = [line for line in err.splitlines() if line != "Killed"]
    assert lines[0].startswith(f"\x1b[1;31m{first}")
    assert lines[1] == "\x1b[1;31mnothing was recorded: does the program call telemetry.start()?\x1b[0m"


def test_a_plain_script_ends_with_two_lines_on_stderr(ground: Any) -> None:
    """A plain script ends with two lines on stderr, from the process that owns the run.

    The stdout is the program's.
    """
    child = ground.popen(sys.executable, ground.program("plain.py", PLAIN.replace("OPTIONS", "")))
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out) == (0, "the program's own\n"), err
    first, second = err.splitlines()
    assert re.match(r"telemetry: load-test complete, 101 events in \S+ m?s · ", first)
    assert " · p50 50.0 ms · p99 99.0 ms · " in first
    (found,) = re.findall(r"`telemetry report (\w+)`", second)
    code, shown, _ = ground.run("report", found)
    assert (code, "complete: load-test, 101 of 101 events" in shown) == (0, True)


@pytest.mark.parametrize(
    ("options", "environ"),
    [(", quiet=True", {}), ("", {"TELEMETRY_EMIT__QUIET": "true"})],
    ids=["argument", "variable"],
)
def test_a_setting_silences_the_two_lines(ground: Any, options: str, environ: dict[str, str]) -> None:
    """A setting in the program or in the environment silences the two lines."""
    program = ground.program("plain.py", PLAIN.replace("OPTIONS", options))
    child = ground.popen(sys.executable, program, environ=environ)
    assert child.communicate(timeout=60) == ("the program's own\n", "")


def test_under_run_there_is_one_report(ground: Any) -> None:
    """A program that joined a run leaves the last word to `telemetry run`."""
    program = ground.program("plain.py", PLAIN.replace("OPTIONS", ""))
    code, out, err = ground.run("run", "--name", "one", "--", sys.executable, program)
    assert (code, out) == (0, "the program's own\n")
    assert err.count("complete: ") == 1
    assert "open it with" not in err


def test_a_program_without_stderr_ends_as_always(ground: Any) -> None:
    """A daemon may have closed it."""
    program = ground.program("plain.py", PLAIN.replace("OPTIONS", ""))
    child = ground.popen("sh", "-c", f"{sys.executable} {program} 2>&-")
    assert child.communicate(timeout=60) == ("the program's own\n", "")
    assert child.returncode == 0
    assert ground.final()["completeness"] == "complete"
