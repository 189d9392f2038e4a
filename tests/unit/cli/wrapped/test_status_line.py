"""The live line on a terminal and elsewhere."""

from __future__ import annotations

import io
import os
import signal
import termios
from collections.abc import Callable, Iterator
from typing import Any, TextIO

import pytest
from tests.unit.cli.terminals import Desk, desk

from telemetry.cli.wrapped.status_line import SpacedLines, StatusRow, open_display
from telemetry.report.live_line import LinePart

LINE = [LinePart("1:23"), LinePart("24.1 req/s"), LinePart("3 failed", "warn"), LinePart("4 lost", "bad")]
ROWS, COLUMNS = 10, 60


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A terminal of 10 by 60 whose foreground is this process."""
    with desk() as made:
        termios.tcsetwinsize(made.near, (ROWS, COLUMNS))
        monkeypatch.setattr(os, "tcgetpgrp", lambda _fd: os.getpgrp())
        yield made


@pytest.fixture
def row(screen: Desk) -> Iterator[StatusRow]:
    made = StatusRow(screen.near, color=False)
    yield made
    made.end()


def new(screen: Desk) -> bytes:
    """Return what has come to the screen since the last look."""
    screen.look()
    seen, screen.seen = screen.seen, b""
    return seen


def test_the_line_is_in_the_last_row_and_the_others_scroll(screen: Desk, row: StatusRow) -> None:
    """Each update is one piece that restores the cursor; the first makes room, and the end gives the row back."""
    row.show(LINE)
    first = new(screen)
    assert first == (b"\x1bD\x1b[A\x1b7\x1b[1;9r\x1b[10;1H\x1b[0m\x1b[2K1:23  24.1 req/s  3 failed  4 lost\x1b8")
    row.show(LINE[:1])
    assert new(screen) == b"\x1b7\x1b[1;9r\x1b[10;1H\x1b[0m\x1b[2K1:23\x1b8"
    row.end()
    assert new(screen) == b"\x1b7\x1b[10;1H\x1b[0m\x1b[2K\x1b[r\x1b8"
    row.end()
    assert new(screen) == b""


def test_a_narrow_terminal_has_the_first_parts(screen: Desk, row: StatusRow) -> None:
    """The last column stays free, since a terminal may wrap there."""
    termios.tcsetwinsize(screen.near, (ROWS, 27))
    row.show(LINE)
    assert b"1:23  24.1 req/s  3 failed\x1b8" in new(screen)
    termios.tcsetwinsize(screen.near, (ROWS, 26))
    row.show(LINE)
    assert b"1:23  24.1 req/s\x1b8" in new(screen)


@pytest.mark.parametrize("size", [(3, 80), (10, 19), (0, 0)])
def test_a_tiny_terminal_is_left_alone(screen: Desk, row: StatusRow, size: tuple[int, int]) -> None:
    """There is no room for a row of ours."""
    termios.tcsetwinsize(screen.near, size)
    row.show(LINE)
    assert new(screen) == b""


def test_colours_show_what_is_wrong(screen: Desk) -> None:
    """The rest is dim, so that the command's output stands out."""
    row = StatusRow(screen.near, color=True)
    row.show(LINE)
    seen = new(screen)
    row.end()
    for painted in (b"\x1b[2m1:23\x1b[0m", b"\x1b[33m3 failed\x1b[0m", b"\x1b[31m4 lost\x1b[0m"):
        assert painted in seen


def canonical(attributes: list[Any]) -> None:
    attributes[3] &= ~termios.ICANON


def silent(attributes: list[Any]) -> None:
    attributes[3] &= ~termios.ECHO


@pytest.mark.parametrize("change", [canonical, silent])
def test_a_program_that_reads_keys_or_a_password_has_the_terminal_alone(
    screen: Desk, row: StatusRow, change: Callable[[list[Any]], None]
) -> None:
    """The row is given back while it does, and taken again afterwards."""
    before = termios.tcgetattr(screen.near)
    row.show(LINE)
    new(screen)
    attributes = termios.tcgetattr(screen.near)
    change(attributes)
    termios.tcsetattr(screen.near, termios.TCSANOW, attributes)
    row.show(LINE)
    assert new(screen) == b"\x1b7\x1b[10;1H\x1b[0m\x1b[2K\x1b[r\x1b8"
    row.show(LINE)
    assert new(screen) == b""
    termios.tcsetattr(screen.near, termios.TCSANOW, before)
    row.show(LINE)
    assert b"\x1bD\x1b[A" in new(screen)


def test_a_job_in_the_background_draws_nothing(
    screen: Desk, row: StatusRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The terminal belongs to the shell, or to another job."""
    monkeypatch.setattr(os, "tcgetpgrp", lambda _fd: os.getpgrp() + 1)
    row.show(LINE)
    row.end()
    assert new(screen) == b""


def test_a_new_size_moves_the_row(screen: Desk, row: StatusRow) -> None:
    """The old one scrolls again at once."""
    row.show(LINE)
    new(screen)
    termios.tcsetwinsize(screen.near, (20, COLUMNS))
    os.kill(os.getpid(), signal.SIGWINCH)
    assert new(screen) == b"\x1b7\x1b[r\x1b8"
    row.show(LINE)
    assert b"\x1bD\x1b[A\x1b7\x1b[1;19r\x1b[20;1H" in new(screen)


def test_handlers_are_restored(screen: Desk) -> None:
    """The end of the status row restores the signal handlers. A signal that this process ignores stays ignored."""
    before = [signal.getsignal(number) for number in (signal.SIGTSTP, signal.SIGWINCH)]
    row = StatusRow(screen.near, color=False)
    assert signal.getsignal(signal.SIGTSTP) != before[0]
    row.end()
    assert [signal.getsignal(number) for number in (signal.SIGTSTP, signal.SIGWINCH)] == before
    signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    row = StatusRow(screen.near, color=False)
    assert signal.getsignal(signal.SIGTSTP) is signal.SIG_IGN
    row.end()
    signal.signal(signal.SIGTSTP, before[0])


def test_a_terminal_that_has_gone_is_no_error(screen: Desk, row: StatusRow) -> None:
    """The user has closed the window; the command goes on."""
    row.show(LINE)
    screen.leave()
    row.show(LINE)
    row.end()


@pytest.mark.parametrize(
    ("environ", "is_row"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True),
        ({"TERM": "dumb"}, False),
        ({}, False),
        ({"TERM": "xterm", "CI": "true"}, False),
    ],
)
def test_a_capable_terminal_gets_a_row(screen: Desk, environ: dict[str, str], is_row: bool) -> None:
    """NO_COLOR only takes the colours; a log of CI is for reading later."""
    with open(screen.near, "w", encoding="utf-8", closefd=False) as stream:
        shown = open_display(stream, environ)
    assert isinstance(shown, StatusRow if is_row else SpacedLines)
    shown.end()


def test_a_file_gets_lines() -> None:
    """A file gets spaced lines, since it is no terminal, whatever TERM is."""
    stream: TextIO = io.StringIO()
    assert isinstance(open_display(stream, {"TERM": "xterm"}), SpacedLines)


def test_lines_elsewhere_are_few() -> None:
    """One every 10 s, from the fourth on one every 30 s: 16 in 7 minutes."""
    now_s, lines = 0.0, []
    shown = SpacedLines(lambda text: lines.append((now_s, text)), lambda: now_s)
    for second in range(1, 421):
        now_s = float(second)
        shown.show([LinePart(f"{second}"), LinePart("a")])
    shown.end()
    assert [at_s for at_s, _ in lines[:5]] == [10.0, 20.0, 30.0, 60.0, 90.0]
    assert lines[0][1] == "telemetry: 10  a\n"
    assert len(lines) == 16
