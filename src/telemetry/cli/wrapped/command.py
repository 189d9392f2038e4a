"""The wrapped command: start, signals, wait, and resource use."""

from __future__ import annotations

import errno
import os
import re
import resource
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Final

from telemetry import limits
from telemetry.cli import console
from telemetry.config.notify_urls import without_secrets
from telemetry.redaction import Redactor
from telemetry.wire.codec import carriable
from telemetry.wire.snapshot import CommandFacts

_OF_THE_TERMINAL: Final = (signal.SIGINT, signal.SIGQUIT)
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
_FORWARDED: Final = (*_OF_THE_TERMINAL, *_ENDING, signal.SIGUSR1, signal.SIGUSR2)
_SHOWN_CHARS: Final = 1_000  # of a command that can't be started: the reason a run ended is one line
_RSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024
_COUNTED_ROUGHLY_BYTES: Final = limits.MIB  # the kernel keeps page counts per processor and adds them up later
_NOT_FOUND: Final = 127
_NOT_EXECUTABLE: Final = 126

Launch = Callable[[Sequence[str], Mapping[str, str]], int]
"""A function that starts a command with an environment, in a session of its own. Returns its process id.

Raises OSError.
"""


def shown_argv(command: Sequence[str], redactor: Redactor) -> list[str]:
    """Return a command line as results have it: without secrets."""
    return redactor.arguments(without_secrets([carriable(argument) for argument in command]))


class Job:
    """A child process in the process group of this process, so that Ctrl-C in a terminal reaches it first.

    Main thread only: handles signals until the child has been waited for. The child inherits the standard streams,
    and ignores the signals that this process was started to ignore (`nohup`). A child started by `launch` has the
    streams that `launch` gives it. Signals that a terminal sends to a process group are then forwarded to the
    child's whole group.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        launch: Launch | None = None,
        *,
        redactor: Redactor | None = None,
    ) -> None:
        self.command = list(command)
        self._redactor = redactor or Redactor()
        self.exit_code = 0
        self.pid = 0
        self.told_to_end = False
        """True once SIGTERM or SIGHUP was forwarded."""
        self._apart = launch is not None
        self._ended = False
        self._kill_ns = 0
        """Monotonic time in ns at which the child is killed; 0 means never."""
        self._process: subprocess.Popen[bytes] | None = None
        self._begun_ns = time.monotonic_ns()
        self._ended_ns = self._begun_ns
        self._status = 0
        self._usage: tuple[float, float, int, int] = (0.0, 0.0, 0, 0)
        """CPU seconds of user and system, peak memory, and the bound of that peak."""
        self._failure = ""
        self._own_bytes = 0
        """Peak memory of this process when the command started.

        The kernel counts the child's peak from the fork on, when the child was a copy of this process. A child's
        peak is the command's own only if it is larger than this.
        """
        self._news, self._news_in = os.pipe()
        os.set_blocking(self._news, False)
        os.set_blocking(self._news_in, False)
        self._early: list[int] = []
        """Signals received before there was a child to forward them to."""
        signal.set_wakeup_fd(self._news_in, warn_on_full_buffer=False)
        self._before = {
            number: signal.signal(number, self._forward)
            for number in _FORWARDED
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        signal.signal(signal.SIGCHLD, _noted)
        try:
            self.pid = self._launched({**os.environ, **environment}, launch)
        except OSError as error:
            self.exit_code = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
            self._failure = carriable(f"{self.command[0][:_SHOWN_CHARS]}: {_not_started(self.command[0], error)}")
            self._let_go()
            console.alarm(self._failure)
            return
        self._own_bytes = _own_peak_bytes()
        for number in self._early:
            self._send(number)

    @property
    def started(self) -> bool:
        return self.pid > 0

    @property
    def ended_ns(self) -> int:
        """Monotonic time at which the child ended."""
        return self._ended_ns

    def wait(self, each_second: Callable[[], None]) -> None:
        """Block until the child has ended, and call `each_second` meanwhile."""
        next_ns = time.monotonic_ns() + 1_000_000_000
        news = select.poll()  # `select` takes no descriptor above 1,023
        news.register(self._news, select.POLLIN)
        while not self._reap():
            news.poll(max(0.0, (next_ns - time.monotonic_ns()) / 1e6))
            self._drain_news()
            if self._kill_ns and time.monotonic_ns() >= self._kill_ns:
                self._send(signal.SIGKILL)
            if time.monotonic_ns() >= next_ns:
                next_ns += 1_000_000_000
                each_second()
        self._let_go()

    def end(self) -> None:
        """Send SIGTERM, and SIGKILL `limits.ABORT_KILL_S` later if the child still runs.

        Called from `each_second`.
        """
        self._kill_ns = time.monotonic_ns() + int(limits.ABORT_KILL_S * 1e9)
        self._send(signal.SIGTERM)

    def ending(self) -> str:
        """Return the reason why the run ends, in words."""
        if not self.started:
            return f"the command could not be started: {self._redactor.text(self._failure)}"
        if os.WIFSIGNALED(self._status):
            return f"the command was killed by {signal_name(os.WTERMSIG(self._status))}"
        return f"the command exited with code {self.exit_code}"

    def facts(self) -> CommandFacts:
        user_s, system_s, rss_bytes, rss_bound_bytes = self._usage
        signalled = self.started and os.WIFSIGNALED(self._status)
        return CommandFacts(
            argv=shown_argv(self.command, self._redactor),
            pid=self.pid,
            exit_code=None if signalled else self.exit_code,
            signal=signal_name(os.WTERMSIG(self._status)) if signalled else None,
            wall_s=(self._ended_ns - self._begun_ns) / 1e9,
            cpu_user_s=user_s,
            cpu_system_s=system_s,
            max_rss_bytes=rss_bytes,
            max_rss_bound_bytes=rss_bound_bytes,
        )

    def _launched(self, environment: Mapping[str, str], launch: Launch | None) -> int:
        command = self.command
        if environment.get("LISTEN_PID") == str(os.getpid()):
            command = ["/bin/sh", "-c", 'export LISTEN_PID=$$; exec "$@"', "sh", *command]
        if launch is not None:
            return launch(command, environment)
        # what this process inherited is for the command; what it has opened itself is closed by `exec`
        self._process = subprocess.Popen(command, env=environment, close_fds=False)
        return self._process.pid

    def _reap(self) -> bool:
        pid, status, usage = os.wait4(self.pid, os.WNOHANG)
        if pid == 0:
            return False
        self._ended_ns = time.monotonic_ns()
        self._status = status
        self._ended = True
        if self._process is not None:
            self._process.returncode = os.waitstatus_to_exitcode(status)
        self.exit_code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        peak_bytes = usage.ru_maxrss * _RSS_UNIT
        is_its_own = peak_bytes > self._own_bytes + _COUNTED_ROUGHLY_BYTES
        memory = (peak_bytes, 0) if is_its_own else (0, peak_bytes)
        self._usage = (usage.ru_utime, usage.ru_stime, *memory)
        return True

    def _forward(self, number: int, _frame: FrameType | None) -> None:
        self.told_to_end |= number in _ENDING
        if not self.started:
            self._early.append(number)
        elif number in _OF_THE_TERMINAL and not self._apart and in_foreground():
            return  # the terminal has sent it to the whole group, including the child
        elif not self._ended:
            self._send(number)

    def _send(self, number: int) -> None:
        send = os.killpg if self._apart and number in _OF_THE_TERMINAL else os.kill
        with suppress(ProcessLookupError, PermissionError):  # it has just ended, or runs as another user (sudo)
            send(self.pid, number)

    def _let_go(self) -> None:
        """Restore the signal handlers, so that the user can stop the wait for the report."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        os.close(self._news)
        os.close(self._news_in)

    def _drain_news(self) -> None:
        try:
            while os.read(self._news, 256):
                pass
        except BlockingIOError:
            pass


def _not_started(program: str, error: OSError) -> str:
    """Return why a program can't be started, and what to do."""
    path = Path(program)
    if isinstance(error, FileNotFoundError) and os.sep not in program:
        return "command not found: is it installed, and in a folder of PATH?"
    if isinstance(error, FileNotFoundError):
        return "the interpreter that its first line names does not exist" if path.exists() else "no such file"
    if error.errno == errno.ENOEXEC:
        return "not a program: its first line names no interpreter, such as #!/usr/bin/env python3"
    if isinstance(error, PermissionError) and path.is_dir():
        return "a folder, not a program"
    if isinstance(error, PermissionError) and path.is_file() and not os.access(path, os.X_OK):
        return f"not executable: run chmod +x {shlex.quote(program)}, or name its interpreter first"
    return error.strerror or str(error)


def _own_peak_bytes() -> int:
    """Return the peak memory of this process. Without /proc it may be that of its parent."""
    try:
        match = re.search(rb"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_bytes())
    except OSError:
        match = None
    return int(match[1]) * 1024 if match else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT


def in_foreground() -> bool:
    """Return whether the terminal's Ctrl-C goes to the process group of this process."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _noted(_number: int, _frame: FrameType | None) -> None:
    """Do nothing. SIGCHLD needs a handler to be written to the wakeup descriptor."""


def signal_name(number: int) -> str:
    """Return the name of a signal, or its number if it has none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
