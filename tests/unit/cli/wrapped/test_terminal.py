"""A terminal that is lent and taken back."""

from __future__ import annotations

import os
import termios
from collections.abc import Iterator
from contextlib import suppress

import pytest
from tests.unit.cli.terminals import Desk, desk, read_until

from telemetry.cli.wrapped.terminal import Terminal, ask_the_terminal


@pytest.fixture
def user() -> Iterator[Desk]:
    with desk() as made:
        yield made


@pytest.fixture
def terminal(user: Desk) -> Iterator[Terminal]:
    made = Terminal(user.near, user.near)
    yield made
    made.close()


def test_keys_are_passed_as_they_are(user: Desk, terminal: Terminal) -> None:
    """Neither Ctrl-C nor a line's end has a meaning while keys are passed. No key is echoed."""
    terminal.pass_keys()
    user.type(b"a\x03\x04\r\x13")
    assert read_until(user.near, b"\x13") == b"a\x03\x04\r\x13"
    assert user.look() == b""


def test_lines_still_begin_at_the_left(user: Desk, terminal: Terminal) -> None:
    """A line's end still returns to the left, since other programs may write text meanwhile."""
    terminal.pass_keys()
    os.write(user.near, b"one\ntwo\n")
    assert user.wait_for(b"two\r\n") == b"one\r\ntwo\r\n"


def test_modes_are_restored(user: Desk, terminal: Terminal) -> None:
    """`restore` brings the modes back, whatever they have become, and may be called again."""
    before = termios.tcgetattr(user.near)
    terminal.pass_keys()
    assert termios.tcgetattr(user.near) != before
    terminal.restore()
    terminal.restore()
    assert termios.tcgetattr(user.near) == before


def test_a_full_screen_is_left(user: Desk, terminal: Terminal) -> None:
    """Screen, cursor and mouse are the shell's again, and keys for a program that is gone go nowhere."""
    terminal.pass_keys()
    user.type(b"q")
    terminal.leave_full_screen()
    seen = user.wait_for(b"\x1b[?25h")
    assert seen.index(b"\x1b7") < seen.index(b"\x1b[?1049l")
    for mode in (1000, 1002, 1003, 1004, 1006, 2004):
        assert b"\x1b[?%dl" % mode in seen
    user.type(b"z")
    assert read_until(user.near, b"z") == b"z"


def test_a_screen_that_takes_nothing_makes_nobody_wait(user: Desk, terminal: Terminal) -> None:
    """The outlet says so instead; the descriptor of others still blocks."""
    with suppress(BlockingIOError):
        while True:
            os.write(terminal.outlet, b"x" * 4_096)
    terminal.leave_full_screen()
    assert os.get_blocking(user.near)


def test_the_size_is_the_screen_s(user: Desk, terminal: Terminal) -> None:
    """Rows first."""
    termios.tcsetwinsize(user.far, (24, 80))
    assert terminal.size() == (24, 80)


@pytest.mark.parametrize(
    ("rows", "columns", "left"),
    [
        (30, 100, {}),
        (0, 0, {"COLUMNS": "80", "LINES": "24"}),
        (0, 100, {"LINES": "24"}),
        (30, 0, {"COLUMNS": "80"}),
    ],
)
def test_a_size_in_the_environment_stays_where_there_is_no_other(
    user: Desk, rows: int, columns: int, left: dict[str, str]
) -> None:
    """A serial line has none to tell, or half of one."""
    termios.tcsetwinsize(user.far, (rows, columns))
    environ = {"COLUMNS": "80", "LINES": "24", "TERM": "xterm"}
    ask_the_terminal(user.near, environ)
    assert environ == {"TERM": "xterm", **left}


def test_a_pipe_has_the_size_of_the_environment() -> None:
    """A pipe keeps the size of the environment. The pipe leads to the screen of another process, a browser."""
    reader, writer = os.pipe()
    environ = {"COLUMNS": "80", "LINES": "24"}
    ask_the_terminal(writer, environ)
    assert environ == {"COLUMNS": "80", "LINES": "24"}
    os.close(reader)
    os.close(writer)


def test_a_terminal_that_is_gone_raises_nothing(user: Desk, terminal: Terminal) -> None:
    """There is nobody left to be kept tidy for."""
    user.leave()
    terminal.pass_keys()
    terminal.leave_full_screen()
    terminal.restore()
    assert terminal.size() is None
    terminal.close()
    terminal.close()


def test_a_terminal_that_has_no_name_can_be_written_to(user: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """One from outside of a container, where nothing but the descriptor leads to it."""

    def nowhere(*_: object) -> str:
        raise OSError

    with monkeypatch.context() as outside:
        outside.setattr(os, "ttyname", nowhere)
        outside.setattr(os, "open", nowhere)
        terminal = Terminal(user.near, user.near)
    os.write(terminal.outlet, b"seen")
    terminal.close()
    assert user.wait_for(b"seen") == b"seen"


def test_a_pipe_is_no_terminal() -> None:
    """A pipe has no modes, so the attempt to open it as a terminal raises."""
    reader, writer = os.pipe()
    with pytest.raises(termios.error):
        Terminal(reader, writer)
    os.close(reader)
    os.close(writer)
