"""The processes of a pair: their time, and the signals that they share with this process."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

from telemetry.cli.wrapped.command import signal_name
from telemetry.common.formatting import printable
from telemetry.errors import UsageError

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildCommand:
    """A command to run."""

    argv: Sequence[str]
    cwd: str
    cores: frozenset[int] = frozenset()
    """Cores that it may use; empty for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedChild:
    """A process that has ended, with its time and that of all processes that it waited for."""

    wall_s: float
    cpu_s: float
    code: int
    """Exit code; negative for the signal that ended it."""

    @property
    def failure(self) -> str:
        """Reason why it failed; empty if it did not."""
        if self.code < 0:
            return f"ended by {signal_name(-self.code)}"
        return f"exit code {self.code}" if self.code else ""


class Children:
    """Starts processes and waits for them. A signal that ends this process goes to them first. Main thread only.

    Each process has a session of its own, so that the signal reaches all processes that it started.
    """

    def __init__(self) -> None:
        self.ended_by = 0
        """Signal that ends the work; 0 while it goes on."""
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def run(self, commands: Sequence[ChildCommand], output: Path) -> list[EndedChild]:
        """Run commands at the same time, with their output in a file that is emptied before.

        Once a signal has ended the work, no further command is started. Raises UsageError if one can't be started.
        """
        ended: dict[int, EndedChild] = {}
        begun: dict[int, float] = {}
        with output.open("wb") as log:
            try:
                for command in commands:
                    if self.ended_by:
                        break
                    begin_s = time.perf_counter()
                    begun[self._start(command, log.fileno())] = begin_s
            except OSError as error:
                self._send(signal.SIGKILL)
                program = printable(command.argv[0])
                raise UsageError(f"{program} can't be started: {error.strerror or error}") from error
            finally:
                if self.ended_by:  # it came while a child was started
                    self._send(self.ended_by)
                while self._running:
                    pid, status, usage = os.wait4(-1, 0)
                    end_s = time.perf_counter()
                    if (child := self._running.pop(pid, None)) is not None:
                        child.returncode = os.waitstatus_to_exitcode(status)
                        cpu_s = usage.ru_utime + usage.ru_stime
                        wall_s = end_s - begun.get(pid, end_s)
                        ended[pid] = EndedChild(wall_s=wall_s, cpu_s=cpu_s, code=child.returncode)
        return [ended[pid] for pid in begun]

    @contextmanager
    def heeding(self) -> Iterator[None]:
        """Pass signals on inside the block, and end the work.

        A parent that ignores SIGCHLD leaves that to this process. Then the kernel would keep no ended child.
        """
        heeded = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, self._end) for number in heeded}
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _start(self, command: ChildCommand, output: int) -> int:
        with _on(command.cores):  # a child inherits the cores of its parent
            child = subprocess.Popen(
                command.argv,
                cwd=command.cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._running[child.pid] = child
        return child.pid

    def _end(self, number: int, _frame: FrameType | None) -> None:
        self.ended_by = self.ended_by or number
        self._send(number)

    def _send(self, number: int) -> None:
        for pid in self._running:
            with suppress(ProcessLookupError, PermissionError):  # it has just ended, or runs as another user (sudo)
                os.killpg(pid, number)


@contextmanager
def _on(cores: frozenset[int]) -> Iterator[None]:
    """Keep this thread on some cores inside the block; on all that it had if there are none."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
