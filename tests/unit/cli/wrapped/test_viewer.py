"""The viewer: real children in a terminal."""

from __future__ import annotations

import os
import queue
import sys
import termios
from collections.abc import Callable, Iterator

import pytest
from tests.unit.cli.terminals import DEADLINE_S, Desk, desk

from telemetry.cli.wrapped import viewer_mode
from telemetry.cli.wrapped.terminal import Terminal
from telemetry.cli.wrapped.viewer_mode import ViewerProcess, departure, viewer_command

FULL_SCREEN = """
import os, sys, termios, tty
before = termios.tcgetattr(0)
tty.setraw(0)
os.write(2, b"\\x1b[?1049hon %d columns" % os.get_terminal_size(1).columns)
os.read(0, 1)
"""


@pytest.fixture
def user() -> Iterator[Desk]:
    with desk() as made:
        termios.tcsetwinsize(made.far, (24, 77))
        yield made


Start = Callable[[str], tuple[ViewerProcess, "queue.Queue[str]"]]


@pytest.fixture
def start(user: Desk) -> Iterator[Start]:
    """Starts a viewer that is this program; gives it, and how it left."""
    terminal = Terminal(user.near, user.near)
    started: list[ViewerProcess] = []

    def make(text: str) -> tuple[ViewerProcess, queue.Queue[str]]:
        left: queue.Queue[str] = queue.Queue()
        started.append(ViewerProcess([sys.executable, "-c", text], os.environ, terminal, left.put))
        return started[-1], left

    yield make
    for made in started:
        made.end()
    terminal.close()


def test_the_command_line() -> None:
    """The run by its directory, and whom the key to stop the job means."""
    assert viewer_command("/runs/x", 17) == [
        sys.executable, "-P", "-m", "telemetry", "top", "/runs/x", "--job-pid", "17"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, ""),
        (1, "the viewer exited with code 1"),
        (143, "the viewer was killed by SIGTERM"),
        (255, "the viewer exited with code 255"),
        (-9, "the viewer was killed by SIGKILL"),
        (-35, "the viewer was killed by signal 35"),
    ],
)
def test_how_it_left(code: int, words: str) -> None:
    """A viewer that was left with a key needs no words. Any other end is named."""
    assert departure(code) == words


def test_a_viewer_that_is_left(user: Desk, start: Start) -> None:
    """A viewer leaves the screen as it likes when a key ends it. The terminal's modes are restored."""
    before = termios.tcgetattr(user.near)
    _, left = start(FULL_SCREEN)
    user.wait_for(b"on 77 columns")
    user.type(b"q")
    assert left.get(timeout=DEADLINE_S) == ""
    assert termios.tcgetattr(user.near) == before
    assert b"\x1b[?1049l" not in user.look()


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("os.kill(os.getpid(), 9)", "the viewer was killed by SIGKILL"),
        ("os._exit(3)", "the viewer exited with code 3"),
    ],
)
def test_a_viewer_that_falls(user: Desk, start: Start, end: str, words: str) -> None:
    """The terminal is tidied up behind it before anybody hears of it."""
    before = termios.tcgetattr(user.near)
    _, left = start(FULL_SCREEN + end)
    user.wait_for(b"columns")
    user.type(b"x")
    assert left.get(timeout=DEADLINE_S) == words
    assert termios.tcgetattr(user.near) == before
    assert b"\x1b[?1049l\x1b[?25h" in user.look()


def test_a_viewer_that_is_asked_to_leave(user: Desk, start: Start) -> None:
    """A viewer that is asked to leave gives no reason, since the one who asked knows it."""
    made, left = start(FULL_SCREEN)
    user.wait_for(b"columns")
    made.end()
    assert left.get_nowait() == ""
    made.end()
    assert left.empty()


def test_a_viewer_that_does_not_leave_is_killed(user: Desk, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A viewer that doesn't leave is killed after a while."""
    monkeypatch.setattr(viewer_mode, "_LAST_RESPECTS_S", 0.1)
    made, left = start("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + FULL_SCREEN)
    user.wait_for(b"columns")
    made.end()
    assert left.get(timeout=DEADLINE_S) == ""


def test_a_viewer_that_cannot_be_started(user: Desk) -> None:
    """Raises what the system says."""
    terminal = Terminal(user.near, user.near)
    with pytest.raises(FileNotFoundError):
        ViewerProcess(["no-such-viewer"], os.environ, terminal, print)
    terminal.close()
