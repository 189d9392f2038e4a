"""The viewer beside a wrapped command: a child process that has the terminal, and may die in any way."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from telemetry.cli.wrapped.terminal import Terminal
from telemetry.supervise.spawn import telemetry_command

_LAST_RESPECTS_S: Final = 2.0  # for a viewer that was asked to leave


def viewer_command(directory: str, job_pid: int) -> list[str]:
    """Return the command line of a viewer whose stop key sends SIGTERM to `job_pid`.

    The viewer finds the run by its directory, even if the run ends before the viewer starts.
    """
    return [*telemetry_command(), "top", directory, "--job-pid", str(job_pid)]


class Viewer:
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
