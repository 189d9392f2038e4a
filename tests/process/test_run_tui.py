"""`telemetry run --tui` and `telemetry top` in a real terminal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.process.tmux import Tmux

ROUTES = """
import os, sys, time, telemetry
run = telemetry.start("ignored")
latency = {route: run.series("latency", unit="ms", route=route) for route in ("/cart", "/search")}
print("terminals", [os.isatty(fd) for fd in range(3)], flush=True)
for number in range(1, 12_000):
    for series in latency.values():
        series.record(number % 100)
    if number % 20 == 0:
        print("step", number, flush=True)
    if os.path.exists("go"):
        break
    time.sleep(0.01)
raise SystemExit(7)
"""
"""Records until it is told to end, with code 7; for two minutes at most."""

ASKS = """
import getpass, os, sys, telemetry
run = telemetry.start("ignored")
answers = run.counter("answers")
print("a size of", os.get_terminal_size(), flush=True)
name = input("name? ")
secret = getpass.getpass("secret? ")
answers.add(2)
print(f"{name} knows {len(secret)} letters", flush=True)
try:
    while True: input()
except KeyboardInterrupt:
    print("interrupted", flush=True)
raise SystemExit(5)
"""
"""Wants a person at its terminal."""


@pytest.fixture
def terminal(ground: Any) -> Iterator[Tmux]:
    """A shell, 100 columns wide, in the working directory; `$T` is the command, `$PY` the interpreter."""
    with Tmux(ground.folder, environ(ground)) as made:
        yield made


def environ(ground: Any) -> dict[str, str]:
    return ground.environ | {"PY": sys.executable, "T": f"{sys.executable} -m telemetry"}


def processes(ground: Any, word: str) -> list[int]:
    """`telemetry` processes of this test that have this argument."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            here = str(ground.folder).encode() in (entry / "environ").read_bytes()
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if here and word.encode() in words and b"telemetry" in words:
            found.append(int(entry.name))
    return found


def the_viewer(ground: Any) -> int:
    (pid,) = processes(ground, "top")
    return pid


def output_of(ground: Any) -> str:
    path = ground.folder / "runs" / "latest" / "output.log"
    return path.read_text() if path.exists() else ""


def filter_by(terminal: Tmux, words: str) -> None:
    """Type a filter without a look at the screen in between."""
    terminal.press("/")
    terminal.type(words)


def open_series(terminal: Tmux, name: str) -> None:
    """The only one that the filter has left, whose line is left as well."""
    terminal.press("Enter", "Enter")
    terminal.wait_for(name, "stddev")


def assert_tidy(terminal: Tmux, modes: str) -> None:
    """Check that the terminal is as before, for the shell."""
    assert not terminal.in_full_screen()
    assert not terminal.mouse_is_wanted()
    assert terminal.modes() == modes


def test_a_run_in_the_cockpit_from_begin_to_end(ground: Any, terminal: Tmux) -> None:
    """A filter, a series, the command's output, COMPLETE, `q`; then the report, and the command's own exit code."""
    program = ground.program("job.py", ROUTES)
    modes = terminal.modes()
    terminal.type(f"$T run --tui --name whole -- $PY {program}; echo shell saw $?\n")
    terminal.wait_for("LIVE", "whole", "latency{route=/cart}", "latency{route=/search}")
    filter_by(terminal, "search")
    terminal.wait_for("1 of 2 series")
    open_series(terminal, "latency{route=/search}")
    terminal.press("Escape")
    terminal.wait_until(lambda: "stddev" not in terminal.screen(), "the overview")
    terminal.press("3")
    terminal.wait_for("terminals [True, True, True]", "step 20")
    (ground.folder / "go").touch()
    terminal.wait_for("FAILED", "exit code 7")
    assert terminal.in_full_screen()
    assert "shell saw" not in terminal.screen()
    terminal.press("q")
    screen = terminal.wait_for("complete: whole, ", "files: ", "shell saw 7")
    assert "the output of the command is in" in screen
    assert_tidy(terminal, modes)
    assert ground.final()["command"]["exit_code"] == 7
    assert "step 20\n" in output_of(ground)


def test_a_size_in_the_environment_is_not_the_terminal_s(ground: Any, terminal: Tmux) -> None:
    """An interactive Python leaves one to its children, and it never changes: the cockpit has the terminal's."""

    def head() -> str:
        """Reaches from edge to edge."""
        return next((line.rstrip() for line in terminal.screen().splitlines() if " LIVE " in line), "")

    program = ground.program("job.py", ROUTES)
    terminal.type(f"COLUMNS=80 LINES=24 $T run --tui --name sized -- $PY {program}; echo shell saw $?\n")
    for columns in (100, 140, 90):
        terminal.resize(columns, 30)
        terminal.wait_until(lambda edge=columns - 3: edge <= len(head()) <= edge + 3, f"{columns} columns")
    (ground.folder / "go").touch()
    terminal.wait_for("FAILED")
    terminal.press("q")
    terminal.wait_for("complete: sized, ", "shell saw 7")


def test_a_viewer_that_is_attached_and_left(ground: Any, terminal: Tmux) -> None:
    """`telemetry top` finds the only live run, shows it to its end, and its going changes nothing."""
    wrapper = ground.telemetry("run", "--name", "seen", "--", sys.executable, ground.program("job.py", ROUTES))
    wrapper.stdout.readline()
    terminal.type("$T top; echo viewer left with $?\n")
    terminal.wait_for("LIVE", "seen", "latency{route=/cart}")
    terminal.press("q")
    terminal.wait_for("viewer left with 0")
    terminal.type("clear; $T top; echo viewer left again with $?\n")
    terminal.wait_for("LIVE", "latency{route=/cart}")
    filter_by(terminal, "cart")
    terminal.wait_until(lambda: "latency{route=/search}" not in terminal.screen(), "the filter")
    open_series(terminal, "latency{route=/cart}")
    (ground.folder / "go").touch()
    terminal.wait_for("FAILED")
    _, err = wrapper.communicate(timeout=60)
    assert (wrapper.returncode, "complete: seen, " in err) == (7, True), err
    terminal.press("q")
    terminal.wait_for("viewer left again with 0")


def test_q_gives_the_terminal_to_the_command(ground: Any, terminal: Tmux) -> None:
    """The command gets the keyboard for its questions, and Ctrl-C is its own.

    Secrets are not shown, and the wrapper says how it goes.
    """
    modes = terminal.modes()
    terminal.type(f"$T run --tui --name asks -- $PY {ground.program('job.py', ASKS)}; echo shell saw $?\n")
    terminal.wait_for("Overview")
    terminal.resize(90, 25)
    terminal.press("q")
    terminal.wait_for("telemetry: the output of the command is in", "name?")
    terminal.type("annabel\n")
    terminal.wait_for("secret?")
    terminal.type("xyzzy\n")
    terminal.wait_for("annabel knows 5 letters", "  answers ")
    terminal.press("C-c")
    screen = terminal.wait_for("complete: asks, ", "shell saw 5")
    assert screen.count("interrupted") == 1
    assert screen.count("annabel") == 2
    assert "xyzzy" not in screen + output_of(ground)
    assert_tidy(terminal, modes)


def test_a_viewer_that_is_killed_leaves_no_trace(ground: Any, terminal: Tmux) -> None:
    """The terminal is the shell's again, it is said, and the command runs on to its own exit code."""
    modes = terminal.modes()
    terminal.type(f"$T run --tui --name hit -- $PY {ground.program('job.py', ROUTES)}; echo shell saw $?\n")
    terminal.wait_for("LIVE", "latency{route=/cart}")
    os.kill(the_viewer(ground), signal.SIGKILL)
    terminal.wait_for("telemetry: the viewer was killed by SIGKILL; the command continues", "step", "telemetry: 0:")
    assert not terminal.in_full_screen()
    assert not terminal.mouse_is_wanted()
    (ground.folder / "go").touch()
    terminal.wait_for("complete: hit, ", "shell saw 7")
    assert_tidy(terminal, modes)


def test_the_key_that_stops_the_command(ground: Any, terminal: Tmux) -> None:
    """The key that stops the command asks first.

    Then the command gets SIGTERM, and its end is reported without another key.
    """
    modes = terminal.modes()
    terminal.type(f"$T run --tui --name cut -- $PY {ground.program('job.py', ROUTES)}; echo shell saw $?\n")
    terminal.wait_for("LIVE", "latency{route=/cart}")
    terminal.press("C-x")
    terminal.wait_for("Stop the command? This sends it SIGTERM.")
    terminal.press("Escape")
    terminal.wait_until(lambda: "Stop the command? This sends it SIGTERM." not in terminal.screen(), "the answer")
    terminal.press("C-x")
    terminal.wait_for("Stop the command? This sends it SIGTERM.")
    terminal.press("y")
    terminal.wait_for("command ended by SIGTERM", "shell saw 143")
    assert_tidy(terminal, modes)
    assert ground.final()["command"]["signal"] == "SIGTERM"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_command_and_viewer(ground: Any, terminal: Tmux, number: signal.Signals) -> None:
    """A signal to the wrapper is for the command, and ends the viewer without a key."""
    modes = terminal.modes()
    terminal.type(f"$T run --tui -- $PY {ground.program('job.py', ROUTES)}; echo shell saw $?\n")
    terminal.wait_for("LIVE", "latency{route=/cart}")
    (wrapper,) = processes(ground, "--tui")
    os.kill(wrapper, number)
    terminal.wait_for(f"command ended by {number.name}", f"shell saw {128 + number}")
    assert_tidy(terminal, modes)
    assert processes(ground, "top") == []


def test_a_terminal_that_is_closed(ground: Any, terminal: Tmux, wait_until: Any) -> None:
    """The command is hung up on as in any terminal; the result is on disk, and nobody is left."""
    terminal.type(f"$T run --tui --name gone -- $PY {ground.program('job.py', ROUTES)}\n")
    terminal.wait_for("LIVE", "latency{route=/cart}")
    terminal.hang_up()
    wait_until((ground.folder / "runs" / "latest" / "final_snapshot.json").exists, 30.0, "the final file")
    assert ground.final()["reason"] == "the command was killed by SIGHUP"
    wait_until(lambda: not processes(ground, "--tui") + processes(ground, "top"), 30.0, "the end of all")


def test_a_command_that_is_faster_than_its_viewer(ground: Any, terminal: Tmux) -> None:
    """The run is over before anybody could look: its result is shown all the same."""
    terminal.type("$T run --tui --name brief -- echo briefly; echo shell saw $?\n")
    terminal.wait_for("COMPLETE", "brief")
    terminal.press("3")
    terminal.wait_for("briefly")
    terminal.press("q")
    terminal.wait_for("complete: brief, 0 of 0 events applied", "shell saw 0")


def test_a_command_that_is_not_there(ground: Any, terminal: Tmux) -> None:
    """127 and one line, and no viewer was in between."""
    terminal.type("$T run --tui --quiet -- no-such-command; echo shell saw $?\n")
    screen = terminal.wait_for("shell saw 127")
    assert "telemetry: no-such-command: command not found" in screen


def test_streams_that_lead_elsewhere(ground: Any, terminal: Tmux) -> None:
    """The file has what the command wrote there and nothing else; the terminal has the rest."""
    script = "echo to the file; echo to the terminal >&2; test -t 0 && echo typed"
    terminal.type(f"$T run --tui -- sh -c '{script}' > out.txt; echo shell saw $?\n")
    terminal.wait_for("COMPLETE")
    terminal.press("q")
    terminal.wait_for("shell saw 0")
    assert (ground.folder / "out.txt").read_text() == "to the file\ntyped\n"
    assert output_of(ground) == "to the terminal\n"


def test_a_flood_of_output_is_nobody_s_burden(ground: Any, terminal: Tmux) -> None:
    """Tens of megabytes are taken while a viewer looks; the newest of them stay, in files of bounded size."""
    lines = 1_500_000
    terminal.type(f"$T run --tui --name flood -- sh -c 'seq -f line-%016.0f {lines}'; echo shell saw $?\n")
    terminal.wait_for("COMPLETE")
    terminal.press("q")
    terminal.wait_for("complete: flood, ", "shell saw 0")
    folder = ground.folder / "runs" / "latest"
    kept = (folder / "output.1.log").read_bytes() + (folder / "output.log").read_bytes()
    assert kept.endswith(b"line-%016d\r\n" % lines)
    assert 8 << 20 < len(kept) <= 16 << 20
    numbers = [int(line) for line in re.findall(rb"line-(\d{16})\r\n", kept)]
    assert numbers == list(range(numbers[0], lines + 1))


@pytest.mark.parametrize("line", ["$T run --tui -- true < /dev/null", "TERM=dumb $T run --tui -- true"])
def test_no_terminal_is_a_usage_error(ground: Any, terminal: Tmux, line: str) -> None:
    """Exit 2 before anything is started, and what to do instead."""
    terminal.type(f"{line}; echo shell saw $?\n")
    screen = terminal.wait_for("shell saw 2")
    assert "telemetry: --tui requires a terminal on stdin and stderr" in screen
    assert not (ground.folder / "runs").exists()


def test_restarts_of_the_aggregator_are_said_afterwards(ground: Any, terminal: Tmux, wait_until: Any) -> None:
    """A restart is not written over the viewer, but reported when the viewer has left."""
    terminal.type(f"$T run --tui --name twice -- $PY {ground.program('job.py', ROUTES)}; echo shell saw $?\n")
    terminal.wait_for("LIVE", "latency{route=/cart}")
    (live,) = ground.live()
    os.kill(live["pid"], signal.SIGKILL)
    wait_until(lambda: [run for run in ground.live() if run["pid"] != live["pid"]], 30.0, "the next aggregator")
    assert "restarted" not in terminal.screen()
    terminal.press("q")
    terminal.wait_for(f"the aggregator (pid {live['pid']}) was killed by SIGKILL; restarted, the run continues")
    (ground.folder / "go").touch()
    terminal.wait_for("complete: twice, ", "shell saw 7")


def test_the_plain_run_needs_no_terminal_of_its_own(ground: Any) -> None:
    """The command without `--tui` is in the process group of `run` and has its streams.

    The run keeps no log of the output.
    """
    script = "import os; print(os.getpgrp() == os.getpgid(os.getppid()), os.isatty(1))"
    code, out, err = ground.run("run", "--", sys.executable, "-c", script, stdin=subprocess.DEVNULL)
    assert (code, out) == (0, "True False\n"), err
    assert not (ground.folder / "runs" / "latest" / "output.log").exists()
