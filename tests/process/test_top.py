"""`telemetry top` beside live runs: in lines, once, and on a real terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import IO

import psutil
from tests.process.conftest import DEADLINE_S, Ground
from tests.process.tmux import Tmux

TELEMETRY = f"{sys.executable} -m telemetry"
WORK = """
import sys
import telemetry

run = telemetry.start()
latency = run.series("latency", unit="ms", route="/search")
for value in range(1, 101):
    latency.record(value)
sys.stdin.read()
"""


STEPS = """
import sys
import telemetry

run = telemetry.start()
for step in range(201):
    run.log({"loss": 200.0 - step, "accuracy": step / 200}, step=step)
sys.stdin.read()
"""
DETACHED = """
import os, sys
if os.fork():
    os._exit(0)
os.setsid()  # no signal comes when the terminal goes
os.execv(sys.executable, [sys.executable, "-m", "telemetry", "top"])
"""


def line_with(stream: IO[str] | None, words: str) -> str:
    """Reads on until a line holds these words. Blocks until then, or fails at the end."""
    assert stream is not None
    seen = []
    for line in stream:
        if words in line:
            return line
        seen.append(line)
    raise AssertionError(f"{words!r} is not in {seen}")


def recorded(ground: Ground, endpoint: str) -> None:
    """A hundred values of `latency` are in the numbers of the run, which has a producer until the test ends."""
    ground.popen(sys.executable, "-c", WORK, environ={"TELEMETRY_ENDPOINT": endpoint}, stdin=subprocess.PIPE)
    deadline = time.monotonic() + DEADLINE_S
    while json.loads(ground.run("status", endpoint, "--json")[1])["accounting"]["applied"] < 100:
        assert time.monotonic() < deadline


def test_lines_go_on_through_a_silence(ground: Ground) -> None:
    """A stopped aggregator is missed and waited for; the end is the run's result, and exit code 0."""
    aggregator, _ = ground.serve()
    watch = ground.telemetry("top", "--plain")
    line_with(watch.stdout, "  nothing recorded yet")
    aggregator.send_signal(signal.SIGSTOP)
    line_with(watch.stderr, "telemetry: last snapshot ")
    aggregator.send_signal(signal.SIGCONT)
    line_with(watch.stderr, "telemetry: snapshots arrive again")
    line_with(watch.stdout, "  nothing recorded yet")
    assert ground.run("stop", "job")[0] == 0
    line_with(watch.stdout, "complete: job, 0 of 0 events applied, 0 lost")
    assert watch.wait(DEADLINE_S) == 0


def test_lines_without_a_terminal(ground: Ground) -> None:
    """Somebody who pipes the cockpit gets lines, and is told so; who stops reading stops it."""
    ground.serve()
    watch = ground.telemetry("top", "job")
    line_with(watch.stderr, "no terminal to draw on")
    line_with(watch.stdout, "  nothing recorded yet")
    watch.stdout.close()  # type: ignore[union-attr]
    assert watch.wait(DEADLINE_S) == 141


def test_once_tells_of_now(ground: Ground) -> None:
    """The tables as text, the snapshot as JSON; the run goes on."""
    _, endpoint = ground.serve()
    recorded(ground, endpoint)
    code, out, _ = ground.run("top", endpoint, "--once")
    assert code == 0
    assert out.startswith("live: job, 100 of 100 events applied, 0 lost\n")
    assert "latency{route=/search}" in out
    code, out, _ = ground.run("top", "--once", "--json")
    told = json.loads(out)
    assert (code, told["state"], told["series"][0]["count"]) == (0, "LIVE", 100)
    assert len(ground.live()) == 1


def test_several_live_runs_without_a_terminal(ground: Ground) -> None:
    """The command `top` names the live runs if there are several, with exit code 2. A name makes it clear."""
    ground.serve()
    other = ground.telemetry("serve", "--name", "training")
    line_with(other.stderr, "TELEMETRY_ENDPOINT")
    code, out, err = ground.run("top", "--once")
    assert (code, out) == (2, "")
    assert "2 runs are live: training (" in err
    assert "job (" in err
    assert ground.run("top", "--once", "training")[0] == 0


def test_coming_and_going_on_a_terminal(ground: Ground, require_tool: Callable[[str], str]) -> None:
    """The user chooses one of two live runs on a terminal.

    The key `q` and a signal leave the run alone and give the terminal back.
    """
    require_tool("tmux")
    aggregator, endpoint = ground.serve()
    other = ground.telemetry("serve", "--name", "training")
    line_with(other.stderr, "TELEMETRY_ENDPOINT")
    recorded(ground, endpoint)
    with Tmux(ground.folder, ground.environ) as terminal:
        before = terminal.modes()
        terminal.type(f"{TELEMETRY} top; echo left with $?\n")
        terminal.wait_for("which run? 1–2 [1]:", "training")
        terminal.type("2\n")
        terminal.wait_for("LIVE", "latency", "/search")
        terminal.press("q")
        terminal.wait_for("left with 0")
        assert not terminal.in_full_screen()
        assert terminal.modes() == before
        assert aggregator.poll() is None

        for number in (signal.SIGTERM, signal.SIGINT):
            terminal.type(f"clear; {TELEMETRY} top job & echo $! > viewer; fg; echo left with $?\n")
            terminal.wait_for("LIVE", "latency", "/search")
            os.kill(int((ground.folder / "viewer").read_text()), number)
            terminal.wait_for(f"left with {128 + number}")
            assert not terminal.in_full_screen()
            assert not terminal.mouse_is_wanted()
            assert terminal.modes() == before
    assert {run["name"] for run in ground.live()} == {"job", "training"}


def test_a_training_run_opens_on_its_curves(ground: Ground, require_tool: Callable[[str], str]) -> None:
    """A training run has its curves from the first step on, whenever `top` was opened.

    Keys enlarge one curve, read it, and show the tables.
    """
    require_tool("tmux")
    _, endpoint = ground.serve()
    ground.popen(sys.executable, "-c", STEPS, environ={"TELEMETRY_ENDPOINT": endpoint}, stdin=subprocess.PIPE)
    deadline = time.monotonic() + DEADLINE_S
    while not json.loads(ground.run("status", endpoint, "--json")[1])["axes"]:
        assert time.monotonic() < deadline
    with Tmux(ground.folder, ground.environ) as terminal:
        terminal.type(f"{TELEMETRY} top\n")
        terminal.wait_for("step 199", "from 200", "best 1", "accuracy")
        terminal.press("Enter")
        terminal.wait_for("loss · 200 → 1", "▏step 199", "by step")
        terminal.press("Home")
        terminal.wait_for("▏step 0 · 200")
        terminal.press("Right")
        terminal.wait_for("▏step 1 · 199")
        terminal.press("Down")
        terminal.wait_for("accuracy · 0 → 0.995")
        terminal.press("Escape")
        terminal.wait_for("from 200")
        terminal.press("v")
        terminal.wait_for("values of step", "over the run")
        terminal.press("q")


def test_nobody_is_left_when_the_terminal_goes(ground: Ground, require_tool: Callable[[str], str]) -> None:
    """A closed window, a lost connection: the viewer ends, the run goes on."""
    require_tool("tmux")
    aggregator, endpoint = ground.serve()
    recorded(ground, endpoint)
    detached = ground.program("detached.py", DETACHED)
    for command in (f"{TELEMETRY} top", f"{sys.executable} {detached}"):
        with Tmux(ground.folder, ground.environ) as terminal:
            terminal.type(f"{command}\n")
            terminal.wait_for("LIVE", "latency")
            viewers = [each for each in psutil.process_iter() if is_viewer(each, ground)]
            terminal.hang_up()
        assert len(viewers) == 1
        assert psutil.wait_procs(viewers, timeout=DEADLINE_S)[1] == []
    assert aggregator.poll() is None


def is_viewer(process: psutil.Process, ground: Ground) -> bool:
    try:
        return process.cmdline()[-1] == "top" and process.cwd() == str(ground.folder)
    except (psutil.Error, IndexError):
        return False


def test_a_finished_run_on_a_terminal(ground: Ground, require_tool: Callable[[str], str]) -> None:
    """The newest run is opened with its final figures if no run is live."""
    require_tool("tmux")
    aggregator, endpoint = ground.serve()
    recorded(ground, endpoint)
    assert ground.run("stop", "job")[0] == 0
    assert aggregator.wait(DEADLINE_S) == 0
    with Tmux(ground.folder, ground.environ) as terminal:
        terminal.type(f"{TELEMETRY} top; echo left with $?\n")
        terminal.wait_for("COMPLETE", "latency", "/search")
        terminal.press("q")
        terminal.wait_for("left with 0", "no live run; showing the newest run,")


def test_settings_that_are_wrong_are_said_before_anything_is_drawn(
    ground: Ground, require_tool: Callable[[str], str]
) -> None:
    """An unknown theme, an unknown action: one line with the near miss, exit code 2."""
    require_tool("tmux")
    ground.serve()
    with Tmux(ground.folder, ground.environ) as terminal:
        for setting, hint in (('theme = "textual-drak"', "textual-dark"), ('keys = { figure = "f" }', "figures")):
            (ground.folder / "telemetry.toml").write_text(f"[tui]\n{setting}\n")
            terminal.type(f"clear; {TELEMETRY} top job; echo left with $?\n")
            terminal.wait_for("left with 2", f"did you mean {hint}?")
