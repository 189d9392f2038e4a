"""A child process that is looked after: what it says is passed on, and another takes its place if it dies."""

from __future__ import annotations

import errno
import math
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Final

from telemetry import limits
from telemetry.formatting import printable

_KILLED_S: Final = 10.0  # for the end of a process that was killed
_LINE_BYTES: Final = 4 * limits.KIB


@dataclass(frozen=True)
class ChildPolicy:
    """How companions of one kind are treated."""

    noun: str
    """What people call one."""
    restart_codes: frozenset[int] = frozenset()
    """Exit codes after which another is started, as after any signal."""
    told_codes: frozenset[int] = frozenset()
    """Exit codes about which the process itself has said all there is to say."""
    pause_s: float = 0.0
    """Before the second restart in a row; then twice as long each time."""
    lasts_s: float = math.inf
    """One that lived for so long has all `limits.RESTARTS` again."""
    holds_term: bool = False
    """SIGTERM is blocked in it from the beginning, until it says that it can be asked to end."""


class Child:
    """Any thread may use it. A thread of its own reads what the process says and waits for its end."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        policy: ChildPolicy,
        say: Callable[[str], object],
        *,
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
    ) -> None:
        """Starts it. `say` is given one line at a time, from its thread. Raises OSError."""
        self.name = name
        self.code: int | None = None
        """That the last of its processes ended with, negative for a signal; None before."""
        self.restarts = 0
        self._command = command
        self._policy = policy
        self._say = say
        self._environment = environment
        self._folder = folder
        self._lock = threading.Lock()
        self._ending = threading.Event()
        held = {signal.SIGTERM} if policy.holds_term else set()
        self._blocked = signal.pthread_sigmask(signal.SIG_BLOCK, []) | held
        """Signals that each process begins with blocked, whichever thread starts it."""
        self._process = self._start()
        self._thread = threading.Thread(target=self._look_after, name=f"telemetry-{policy.noun}", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            with self._process as process:
                process.kill()
            raise OSError(errno.EAGAIN, str(error)) from error

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Its last process has, and no other will be started."""
        return not self._thread.is_alive()

    def ask_to_end(self) -> None:
        """By SIGTERM; no other is started any more. Does not block."""
        with self._lock:
            self._ending.set()
            with suppress(ProcessLookupError):
                self._process.terminate()

    def wait(self, deadline_s: float) -> bool:
        """Whether it has ended; blocks until then, or until `time.monotonic()` is `deadline_s`."""
        self._thread.join(max(0.0, deadline_s - time.monotonic()))
        return self.ended

    def kill(self) -> None:
        """Ends it, stopped or not, with what it started itself. Blocks for its end, briefly."""
        with self._lock:
            self._ending.set()
            if not self.ended:
                _kill_group(self._process.pid)
        self._thread.join(_KILLED_S)

    # --- the thread ------------------------------------------------------------------------------

    def _look_after(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are the main thread's
        short_lives = 0
        while True:
            began_s = time.monotonic()
            code = self._until_it_ends()
            if time.monotonic() - began_s >= self._policy.lasts_s:
                short_lives = 0
            if self._ending.is_set() or not (code < 0 or code in self._policy.restart_codes):
                break
            left = short_lives < limits.RESTARTS
            self._say(f"{self._who} {_how(code)}{'; it is started again' if left else ''}")
            if not left or not self._another(self._policy.pause_s * 2 ** (short_lives - 1) if short_lives else 0.0):
                break
            short_lives += 1
        if code > 0 and code not in self._policy.told_codes | self._policy.restart_codes:
            self._say(f"{self._who} {_how(code)}")
        self.code = code

    @property
    def _who(self) -> str:
        return f"{printable(self.name)}: the {self._policy.noun}"

    def _another(self, pause_s: float) -> bool:
        """Starts another process, unless it is to end or there can't be one."""
        self._ending.wait(pause_s)
        with self._lock:
            if self._ending.is_set():
                return False
            try:
                self._process = self._start()
            except OSError as error:
                self._say(f"{self._who} can't be started: {error.strerror}")
                return False
        self.restarts += 1
        return True

    def _until_it_ends(self) -> int:
        with self._process as process:
            assert process.stderr is not None
            for line in _lines(process.stderr):
                self._say(line)
        _kill_group(process.pid)
        return process.returncode

    def _start(self) -> subprocess.Popen[bytes]:
        """In a session of its own: whoever started it has still something to say when a terminal ends both."""
        before = signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)
        try:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env=self._environment,
                cwd=self._folder,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _kill_group(pid: int) -> None:
    """What a companion has started itself does not outlive it: another would find its files in use. The number is
    that of a group as long as one of it is there, and no number is given again so soon."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _how(code: int) -> str:
    return f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"


def _lines(stream: IO[bytes]) -> Iterator[str]:
    """What a companion says, without who says it: that is said again."""
    while line := stream.readline(_LINE_BYTES):
        words = printable(line.decode(errors="replace").rstrip())
        if words:
            yield words.removeprefix("telemetry: ")
