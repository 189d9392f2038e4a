"""Output is read whoever looks, and keys are passed on."""

from __future__ import annotations

import os
import select
import termios
import tty
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.terminals import DEADLINE_S, Desk, desk, read_until, wait_until

from telemetry.cli.wrapped import relay as relay_module
from telemetry.cli.wrapped.relay import TerminalRelay, _Screen
from telemetry.store.output_log import OutputLog

pytestmark = pytest.mark.slow

MIB = 1 << 20


@pytest.fixture
def job() -> Iterator[Desk]:
    """The command's terminal: the test writes at `near` what the command would."""
    with desk() as made:
        tty.setraw(made.near)
        os.set_blocking(made.far, False)
        yield made


@pytest.fixture
def log(tmp_path: Path) -> Iterator[OutputLog]:
    made = OutputLog(tmp_path)
    yield made
    made.close()


class Ends:
    """The ends that the relay is connected to. A test types on `keyboard` and looks at `screen`."""

    def __init__(self) -> None:
        self.keyboard_out, self.keyboard = os.pipe()
        self.screen, self.screen_in = os.pipe()
        os.set_blocking(self.screen_in, False)

    def close(self) -> None:
        for fd in (self.keyboard_out, self.keyboard, self.screen, self.screen_in):
            if fd >= 0:
                os.close(fd)


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.close()


@pytest.fixture
def relay(job: Desk, log: OutputLog, ends: Ends) -> Iterator[TerminalRelay]:
    made = TerminalRelay(job.far, log, keyboard=ends.keyboard_out, screen=ends.screen_in)
    yield made
    made.close()


def write_all(fd: int, data: bytes) -> None:
    """Write all data as a command does, and wait until all of it is taken."""
    left = memoryview(data)
    while left:
        assert select.select([], [fd], [], DEADLINE_S)[1], "nobody reads what the command writes"
        left = left[os.write(fd, left[:1_024]) :]


def test_a_command_never_waits_for_a_reader(relay: TerminalRelay, job: Desk, log: OutputLog, ends: Ends) -> None:
    """Far more than a terminal holds goes to the log, and none of it to the screen."""
    output = bytes(range(256)) * (MIB // 256)
    write_all(job.near, output)
    relay.settle(DEADLINE_S)
    assert log.path.read_bytes() == output
    assert select.select([ends.screen], [], [], 0)[0] == []


def test_from_then_on_output_is_seen(relay: TerminalRelay, job: Desk, log: OutputLog, ends: Ends) -> None:
    """The screen shows no finished lines from before it was connected. The log has all."""
    os.write(job.near, b"before\r\n")
    relay.settle(DEADLINE_S)
    relay.connect(keyboard=False, screen=True)
    os.write(job.near, b"after")
    assert read_until(ends.screen, b"after") == b"after"
    relay.settle(DEADLINE_S)
    assert log.path.read_bytes() == b"before\r\nafter"


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ([b"one\r\n", b"na", b"me? "], b"name? "),
        ([b"1 %\r", b"2 %"], b"2 %"),
        ([b"x" * 10_000], b"x" * 4_096),
    ],
    ids=["question", "progress", "endless"],
)
def test_a_line_that_is_not_finished_is_shown(
    relay: TerminalRelay, job: Desk, ends: Ends, written: list[bytes], seen: bytes
) -> None:
    """The screen shows an unfinished line, since the command may wait for an answer to it."""
    for piece in written:
        os.write(job.near, piece)
        relay.settle(DEADLINE_S)
    relay.connect(keyboard=True, screen=True)
    os.write(job.near, b".")
    assert read_until(ends.screen, b".") == seen + b"."


def test_a_line_of_talk_does_not_go_on_after_a_question(relay: TerminalRelay, job: Desk, ends: Ends) -> None:
    """A writer between the command's lines learns, once, that a line is not finished."""
    os.write(job.near, b"one\n")
    relay.settle(DEADLINE_S)
    assert not relay.breaks_line()
    for written, breaks in ((b"name? ", True), (b"\r\n", False), (b"1 %\r", True)):
        relay.connect(keyboard=True, screen=True)
        os.write(job.near, written)
        relay.settle(DEADLINE_S)
        assert relay.breaks_line() is breaks, written
        assert not relay.breaks_line()


def test_a_question_that_was_asked_before_is_not_finished_either(
    relay: TerminalRelay, job: Desk, ends: Ends
) -> None:
    """An earlier question is on the screen from the connection on, so its line is not finished."""
    os.write(job.near, b"name? ")
    relay.settle(DEADLINE_S)
    assert not relay.breaks_line()
    relay.connect(keyboard=True, screen=True)
    assert read_until(ends.screen, b"? ") == b"name? "
    assert relay.breaks_line()


def test_keys_reach_the_command_while_they_are_its(relay: TerminalRelay, job: Desk, ends: Ends) -> None:
    """Keys for another program stay unread until the relay is connected to the keyboard."""
    os.write(ends.keyboard, b"q")
    relay.settle(DEADLINE_S)
    assert os.read(ends.keyboard_out, 1) == b"q"
    relay.connect(keyboard=True, screen=False)
    os.write(ends.keyboard, b"yes\r")
    assert read_until(job.near, b"yes\r") == b"yes\r"


def test_keys_wait_for_a_command_that_reads_nothing(
    relay: TerminalRelay, job: Desk, log: OutputLog, ends: Ends
) -> None:
    """No key gets lost, and the command's output flows meanwhile."""
    typed = bytes(range(256)) * 128
    relay.connect(keyboard=True, screen=False)
    os.write(ends.keyboard, typed)
    os.write(job.near, b"busy")
    relay.settle(DEADLINE_S)
    assert log.path.read_bytes() == b"busy"
    assert read_until(job.near, typed) == typed


def test_a_screen_that_stands_still_is_told_what_it_missed(
    relay: TerminalRelay, job: Desk, log: OutputLog, ends: Ends
) -> None:
    """The command is not held up, the log has all of it, and memory is bounded."""
    relay.connect(keyboard=False, screen=True)
    output = b"0123456789abcde\n" * (MIB // 4)
    write_all(job.near, output)
    relay.settle(0.0)
    seen = read_until(ends.screen, f"of output were too fast to show; they are in {log.path}\r\n".encode())
    assert seen.startswith(output[:MIB])
    assert len(seen) < 2 * MIB
    assert b"MiB of output" in seen
    relay.settle(DEADLINE_S)
    assert log.path.read_bytes() == output
    os.write(job.near, b"again")
    assert read_until(ends.screen, b"again") == b"again"


def test_what_a_screen_misses_is_one_piece(
    relay: TerminalRelay, job: Desk, log: OutputLog, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once output is missing, a message says so before any other output follows.

    This holds however little is missing.
    """
    monkeypatch.setattr("telemetry.cli.wrapped.relay._SCREEN_BYTES", 10)
    blank = b" " * 65_536
    assert os.write(ends.screen_in, blank) == len(blank)
    relay.connect(keyboard=False, screen=True)
    for piece in (b"01234", b"56789a", b"b"):
        os.write(job.near, piece)
        relay.settle(0.0)
        wait_until(lambda piece=piece: log.path.exists() and log.path.read_bytes().endswith(piece))
    seen = read_until(ends.screen, f" are in {log.path}\r\n".encode())
    assert seen.startswith(blank + b"0123456789\r\ntelemetry: 2 B of output were too fast to show")


def test_room_that_comes_before_it_is_said_is_not_used(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """A screen that reads on a little shows no later piece behind one that is missing."""
    monkeypatch.setattr("telemetry.cli.wrapped.relay._SCREEN_BYTES", 10_000)
    screen = _Screen(ends.screen_in, "output.log")
    blank = b" " * 65_536
    assert os.write(ends.screen_in, blank) == len(blank)
    screen.show(b"x" * 10_000 + b"missed")
    seen = os.read(ends.screen, 8_192)
    screen.give()
    screen.show(b"late")
    while screen.waiting:
        seen += os.read(ends.screen, 65_536)
        screen.give()
    seen += read_until(ends.screen, b"output.log\r\n") if not seen.endswith(b"output.log\r\n") else b""
    assert (
        seen
        == blank
        + b"x" * 10_000
        + b"\r\ntelemetry: 10 B of output were too fast to show; they are in output.log\r\n"
    )


def test_a_screen_that_is_gone_is_not_asked_again(
    relay: TerminalRelay, job: Desk, log: OutputLog, ends: Ends
) -> None:
    """The command and its log go on."""
    relay.connect(keyboard=False, screen=True)
    os.close(ends.screen)
    ends.screen = -1
    for piece in (b"one", b"two"):
        os.write(job.near, piece)
        relay.settle(DEADLINE_S)
    assert log.path.read_bytes() == b"onetwo"


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each time that the relay wakes up."""
    made: list[int] = []
    real = relay_module._ready

    def counted(*words: Any) -> tuple[set[int], set[int]]:
        made.append(1)
        return real(*words)

    monkeypatch.setattr(relay_module, "_ready", counted)
    return made


def test_a_keyboard_that_is_gone_keeps_nobody_awake(
    turns: list[int], relay: TerminalRelay, job: Desk, ends: Ends
) -> None:
    """The end of the keyboard is noted once, and output flows as before."""
    relay.connect(keyboard=True, screen=True)
    os.close(ends.keyboard)
    ends.keyboard = -1
    for number in range(10):
        os.write(job.near, b"%d" % number)
        read_until(ends.screen, b"%d" % number)
    relay.settle(DEADLINE_S)
    assert len(turns) < 60


def test_a_terminal_in_the_background_is_no_keyboard(
    job: Desk, log: OutputLog, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading fails there, and is not tried again and again."""
    real, failed = os.read, []

    def read(fd: int, size: int) -> bytes:
        if fd == ends.keyboard_out:
            failed.append(fd)
            raise OSError
        return real(fd, size)

    monkeypatch.setattr("telemetry.cli.wrapped.relay.os.read", read)
    relay = TerminalRelay(job.far, log, keyboard=ends.keyboard_out, screen=ends.screen_in)
    relay.connect(keyboard=True, screen=True)
    os.write(ends.keyboard, b"for the shell")
    os.write(job.near, b"up")
    read_until(ends.screen, b"up")
    relay.settle(DEADLINE_S)
    relay.settle(DEADLINE_S)
    relay.close()
    assert len(failed) == 1


def test_nothing_is_left(job: Desk, log: OutputLog, ends: Ends) -> None:
    """A closed relay leaves no thread and no descriptor, however often it is closed."""
    before = len(os.listdir("/proc/self/fd"))
    relay = TerminalRelay(job.far, log, keyboard=ends.keyboard_out, screen=ends.screen_in)
    relay.connect(keyboard=True, screen=True)
    relay.close()
    relay.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert termios.tcgetattr(job.near)
