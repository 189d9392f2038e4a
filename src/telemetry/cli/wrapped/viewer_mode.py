"""A wrapped command in a terminal of its own, with a viewer in the user's terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import termios
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final, Self

from telemetry.cli import console
from telemetry.cli.wrapped.relay import TerminalRelay
from telemetry.cli.wrapped.status_line import SpacedLines
from telemetry.cli.wrapped.terminal import GONE, Modes, Terminal
from telemetry.common.formatting import size
from telemetry.redaction import Redactor
from telemetry.report.live_line import LinePart
from telemetry.store.output_log import OutputLog
from telemetry.supervise.spawn import telemetry_command

_LAST_RESPECTS_S: Final = 2.0  # for a viewer that was asked to leave
_SETTLE_S: Final = 1.0  # for the last output of a command that has ended; its children may never stop writing
_HELD: Final = 100  # messages kept until the viewer leaves: one for each restart of the aggregator
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def viewer_command(directory: str, job_pid: int) -> list[str]:
    """Return the command line of a viewer whose stop key sends SIGTERM to `job_pid`.

    The viewer finds the run by its directory, even if the run ends before the viewer starts.
    """
    return [*telemetry_command(), "top", directory, "--job-pid", str(job_pid)]


class ViewerProcess:
    """A viewer process.

    `on_left` is called once, from a separate thread, with the reason of the exit: see `departure`. The terminal has
    been restored by then.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        terminal: Terminal,
        on_left: Callable[[str], object],
    ) -> None:
        """Start the viewer. Raises OSError if it can't be started."""
        self._terminal = terminal
        self._on_left = on_left
        self._asked = False
        # The viewer reads the terminal size from its stdout, so stdout is the screen even if ours goes to a file.
        self._process = subprocess.Popen(
            command, stdin=terminal.keyboard, stdout=terminal.screen, stderr=terminal.screen, env=environment
        )
        self._thread = threading.Thread(target=self._wait, name="telemetry-viewer", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Ask the viewer to leave, kill it after a timeout, and wait for `on_left`.

        Blocks for a few seconds at most.
        """
        self._asked = True
        with suppress(ProcessLookupError):
            self._process.terminate()
        self._thread.join(_LAST_RESPECTS_S)
        if self._thread.is_alive():
            with suppress(ProcessLookupError):
                self._process.kill()
            self._thread.join(_LAST_RESPECTS_S)

    def _wait(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # SIGTTOU, and the main thread's signals
        code = self._process.wait()
        if code:
            self._terminal.leave_full_screen()
        self._terminal.restore()
        self._on_left("" if self._asked else departure(code))


def departure(code: int) -> str:
    """Return the reason why a viewer left, in words; empty if it was asked to leave."""
    if code == 0:
        return ""
    number = -code if code < 0 else code - 128  # a viewer that cleans up after a signal reports 128 + number
    try:
        return f"the viewer was killed by {signal.Signals(number).name}"
    except ValueError:
        return f"the viewer was killed by signal {number}" if code < 0 else f"the viewer exited with code {code}"


class ViewerMode:
    """A stage where the command has its own terminal and a viewer has the user's terminal.

    The command's output goes to the run directory. When the viewer has left for any reason, the user's terminal is
    connected to the command's: keys go to the command, and its output is shown from then on. Owns `terminal`.
    Signals of the user's terminal go to the viewer, not to the command. SIGTERM, SIGHUP and SIGQUIT to this process
    always end the viewer too.
    """

    def __init__(
        self,
        terminal: Terminal,
        streams: Sequence[int],
        viewer: Callable[[str, int], Sequence[str]] = viewer_command,
        *,
        redactor: Redactor | None = None,
    ) -> None:
        """Open the terminal for the command. `streams` are the standard streams it replaces. Raises OSError."""
        self._terminal = terminal
        self._streams = tuple(streams)
        self._viewer_command = viewer
        self._redactor = redactor
        self._job_terminal = JobTerminal(terminal.found, terminal.size())
        self._log: OutputLog | None = None
        self._relay: TerminalRelay | None = None
        self._viewer: ViewerProcess | None = None
        self._held: deque[str] = deque(maxlen=_HELD)
        # Reentrant: a signal may arrive while the main thread holds it.
        self._lock = threading.RLock()
        self._lines = SpacedLines(self.pass_by)
        self._alone = threading.Event()
        """Set while there is no viewer."""
        self._alone.set()
        self._running = False
        self._waiting = False
        self._before: dict[int, Any] = {}

    # --- the course of a run ---------------------------------------------------------------------

    def __enter__(self) -> Self:
        for number in _ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._end)
        self._before[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, self._resize)
        return self

    def launch(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        return self._job_terminal.launch(command, environment, self._streams)

    def begin(self, directory: str, environment: Mapping[str, str]) -> None:
        self._log = OutputLog(Path(directory), redactor=self._redactor)
        self._relay = TerminalRelay(
            self._job_terminal.master, self._log, keyboard=self._terminal.keyboard, screen=self._terminal.outlet
        )
        command = self._viewer_command(directory, os.getpid())
        with self._lock:
            self._running = True
            self._alone.clear()
            try:
                self._viewer = ViewerProcess(command, environment, self._terminal, self._left)
            except OSError as error:
                self._left(f"can't start the viewer: {error.strerror}")

    def say(self, message: str) -> None:
        with self._lock:
            if self._alone.is_set():
                self._begin_line()
                console.say(message)
            else:
                self._held.append(message)

    def pass_by(self, text: str) -> None:
        with self._lock:
            if self._alone.is_set():
                self._begin_line()
                console.talk(text)

    def show(self, parts: Sequence[LinePart]) -> None:
        # The relay writes the command's output in pieces, so a row of the terminal can't be updated in between.
        self._lines.show(parts)

    def _begin_line(self) -> None:
        if self._relay is not None and self._relay.breaks_line():
            console.talk("\n")

    def over(self) -> None:
        if self._relay is None:
            return
        self._relay.settle(_SETTLE_S)
        with self._lock:
            self._running = False
            if self._alone.is_set():
                self._relay.connect(keyboard=False, screen=True)
                self._terminal.restore()

    def await_leave(self, *, patient: bool) -> None:
        if self._viewer is not None and not patient:
            self._viewer.end()
        self._waiting = True
        self._alone.wait()
        self._waiting = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    # --- callbacks ---------------------------------------------------------------------------------

    def _left(self, message: str) -> None:
        """Take the terminal back; the viewer is gone. Called by the viewer's thread."""
        with self._lock:
            try:
                self._take_over(message)
            finally:
                self._alone.set()

    def _take_over(self, message: str) -> None:
        if message:
            console.say(message + ("; the command continues" if self._running else ""))
        if self._log is not None and self._log.path.exists():
            console.say(f"the output of the command is in {self._log.path}")
        if self._running and self._relay is not None:
            self._terminal.pass_keys()
            self._relay.connect(keyboard=True, screen=True)
        while self._held:
            console.say(self._held.popleft())

    def _resize(self, _number: int, _frame: FrameType | None) -> None:
        self._job_terminal.resize(self._terminal.size())

    def _end(self, number: int, _frame: FrameType | None) -> None:
        """Handle an ending signal before the command starts and after it has ended.

        In between, signals are forwarded to it.
        """
        if self._waiting:
            self._end_viewer()
            return
        self._close()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def _end_viewer(self) -> None:
        if self._viewer is not None and not self._alone.is_set():
            self._viewer.end()

    def _close(self) -> None:
        self._end_viewer()
        self._terminal.restore()
        if self._relay is not None:
            self._relay.close()
        self._job_terminal.close()
        self._terminal.close()
        if self._log is not None:
            self._log.close()
            if self._log.lost_bytes:
                lost = size(self._log.lost_bytes)
                console.say(f"{lost} of the command's output are missing in {self._log.path}: {self._log.failure}")
                self._log.lost_bytes = 0


class JobTerminal:
    """A pseudo-terminal. Its `master` side does not block.

    The other side stays open in this process too. A command may thus close its streams and open them again without
    an end of file in between.
    """

    def __init__(self, modes: Modes, size: tuple[int, int] | None) -> None:
        """Open a pseudo-terminal with these modes and this size. Raises OSError."""
        self.master, self._near = os.openpty()
        try:
            self._path = os.ttyname(self._near)
            os.set_blocking(self.master, False)
            with suppress(*GONE):  # a terminal that is being closed has no modes to copy
                termios.tcsetattr(self._near, termios.TCSANOW, modes)
            self.resize(size)
        except BaseException:
            self.close()
            raise

    def resize(self, size: tuple[int, int] | None) -> None:
        """Set the size; SIGWINCH tells the command.

        Has no effect without a size, or once the terminal is closed.
        """
        if size is not None and self.master >= 0:
            with suppress(*GONE):
                termios.tcsetwinsize(self.master, size)

    def launch(self, command: Sequence[str], environment: Mapping[str, str], streams: Sequence[int]) -> int:
        """Start a command in a session of its own and return its process id. Raises OSError.

        `streams` are the standard streams to connect to this terminal; the others are inherited. Opening the
        terminal makes it the controlling terminal of the session, so that keys typed here can interrupt the
        command.
        """
        actions = [(os.POSIX_SPAWN_OPEN, stream, self._path, os.O_RDWR, 0) for stream in streams]
        ignored_by_python = (signal.SIGPIPE, signal.SIGXFSZ)
        return os.posix_spawnp(
            command[0], list(command), environment, file_actions=actions, setsid=True, setsigdef=ignored_by_python
        )

    def close(self) -> None:
        """Close both sides. Processes still in the terminal lose it. May be called twice."""
        for fd in (self.master, self._near):
            if fd >= 0:
                os.close(fd)
        self.master = self._near = -1
