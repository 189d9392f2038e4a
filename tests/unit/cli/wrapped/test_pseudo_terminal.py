"""A command in a terminal of its own: real children."""

from __future__ import annotations

import os
import signal
import sys
import termios
from collections.abc import Iterator, Sequence

import pytest
from tests.unit.cli.terminals import desk, read_until

from telemetry.cli.wrapped.viewer_mode import JobTerminal


@pytest.fixture
def modes() -> Iterator[list[int | list[bytes | int]]]:
    """Yield the modes of a terminal whose user erases with `#`."""
    with desk() as user:
        found = termios.tcgetattr(user.near)
        found[6][termios.VERASE] = b"#"
        yield found


@pytest.fixture
def terminal(modes: list[int | list[bytes | int]]) -> Iterator[JobTerminal]:
    made = JobTerminal(modes, (24, 80))
    yield made
    made.close()


def launch(terminal: JobTerminal, text: str, streams: Sequence[int] = (0, 1, 2)) -> int:
    return terminal.launch([sys.executable, "-c", text], os.environ, streams)


def wait(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_the_command_is_at_home(terminal: JobTerminal) -> None:
    """The command leads a session and its foreground. Its terminal has a name, a size and the user's habits."""
    pid = launch(
        terminal,
        "import os, termios\n"
        "print([os.isatty(fd) for fd in range(3)], os.getsid(0) == os.getpid() == os.tcgetpgrp(0))\n"
        "print(os.get_terminal_size(os.open('/dev/tty', os.O_RDWR)), termios.tcgetattr(0)[6][termios.VERASE])\n"
        "print('end')\n",
    )
    said = read_until(terminal.master, b"end").decode().splitlines()
    assert wait(pid) == 0
    assert said == ["[True, True, True] True", "os.terminal_size(columns=80, lines=24) b'#'", "end"]


def test_a_stream_that_leads_elsewhere_does_so_still(
    terminal: JobTerminal, capfd: pytest.CaptureFixture[str]
) -> None:
    """`telemetry run --tui -- CMD > file` puts in the file what CMD would."""
    pid = launch(terminal, "import sys; print('out', flush=True); print('err', file=sys.stderr)", streams=(0, 2))
    assert read_until(terminal.master, b"err\r\n") == b"err\r\n"
    assert wait(pid) == 0
    assert capfd.readouterr().out == "out\n"


def test_typing_interrupts_the_command(terminal: JobTerminal) -> None:
    """Ctrl-C is a signal to its whole foreground."""
    pid = launch(terminal, "import signal; signal.signal(2, signal.SIG_DFL); print('up'); signal.pause()")
    read_until(terminal.master, b"up")
    os.write(terminal.master, b"\x03")
    assert wait(pid) == -signal.SIGINT


def test_another_size_is_told(terminal: JobTerminal) -> None:
    """SIGWINCH announces another size to the command. An unknown size changes nothing."""
    pid = launch(
        terminal,
        "import os, signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])\nprint('up', flush=True)\n"
        "signal.sigwait([signal.SIGWINCH])\nprint(os.get_terminal_size(0))",
    )
    read_until(terminal.master, b"up")
    terminal.resize(None)
    terminal.resize((50, 132))
    assert b"columns=132, lines=50" in read_until(terminal.master, b"lines=50")
    assert wait(pid) == 0


def test_signals_mean_what_they_do_in_a_shell(terminal: JobTerminal) -> None:
    """A signal that Python ignores for itself is not ignored in the command."""
    pid = terminal.launch(["grep", "SigIgn", "/proc/self/status"], os.environ, (0, 1, 2))
    ignored = int(read_until(terminal.master, b"\n").split()[1], 16)
    assert ignored & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1) == 0
    assert wait(pid) == 0


@pytest.mark.parametrize(("command", "kind"), [("no-such-command", FileNotFoundError), ("/", PermissionError)])
def test_a_command_that_is_not_there(terminal: JobTerminal, command: str, kind: type[OSError]) -> None:
    """Raises as it does without a terminal."""
    with pytest.raises(kind):
        terminal.launch([command], os.environ, (0, 1, 2))


def test_output_of_a_command_that_has_ended_can_be_read(terminal: JobTerminal) -> None:
    """All of it, and then there is nothing, which is no error."""
    assert wait(launch(terminal, "print('last words')")) == 0
    assert read_until(terminal.master, b"words\r\n") == b"last words\r\n"
    with pytest.raises(BlockingIOError):
        os.read(terminal.master, 1)


def test_no_descriptor_is_left(modes: list[int | list[bytes | int]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that was closed twice leaves no descriptor. Neither does one that could not be made."""
    before = len(os.listdir("/proc/self/fd"))
    terminal = JobTerminal(modes, None)
    terminal.close()
    terminal.close()

    def nameless(fd: int) -> str:
        raise OSError

    monkeypatch.setattr(os, "ttyname", nameless)
    with pytest.raises(OSError):  # noqa: PT011 – whatever the system says
        JobTerminal(modes, None)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_terminal_is_lost_with_us(terminal: JobTerminal) -> None:
    """A process that is left in the terminal gets SIGHUP when the terminal is closed."""
    pid = launch(terminal, "import signal; print('up', flush=True); signal.pause()")
    read_until(terminal.master, b"up")
    terminal.close()
    assert wait(pid) == -signal.SIGHUP


def test_a_terminal_that_was_closed_has_no_size(terminal: JobTerminal) -> None:
    """The user's terminal may change its own at the last moment."""
    terminal.close()
    terminal.resize((1, 1))
