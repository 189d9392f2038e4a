"""A supervised child process: its output is passed on, and it is restarted if it dies."""

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
from telemetry.common import clock
from telemetry.common.formatting import printable
from telemetry.supervise.parent import PARENT_VARIABLE

_KILLED_S: Final = 10.0  # for the end of a process that was killed
_LINE_BYTES: Final = 4 * limits.KIB


@dataclass(frozen=True)
class ChildPolicy:
    """Policy for child processes of one kind."""

    noun: str
    """Word for such a process in messages."""
    restart_codes: frozenset[int] = frozenset()
    """Exit codes that lead to a restart, as any signal does."""
    told_codes: frozenset[int] = frozenset()
    """Exit codes that the process has already explained itself."""
    pause_s: float = 0.0
    """Pause before the second restart in a row. It doubles each time."""
    lasts_s: float = math.inf
    """Lifetime after which a process may again be restarted `limits.RESTARTS` times."""
    holds_term: bool = False
    """SIGTERM is blocked in the process from its start until the process unblocks it."""
    tells_stdout: bool = False
    """Lines of stdout are passed on too, as those of stderr are."""


class Child:
    """A supervised process. Any thread may use it. Its own thread reads the output and waits for the end."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        policy: ChildPolicy,
        say: Callable[[str], object],
        *,
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
        pass_fds: Sequence[int] = (),
        on_end: Callable[[Child], object] = lambda child: None,
    ) -> None:
        """Start the process. `say` gets one line at a time, from the child's thread. Raises OSError.

        Each process inherits the descriptors `pass_fds` under the same numbers. `on_end` is called from the child's
        thread once no other process will be started.
        """
        self.name = name
        self.code: int | None = None
        """Exit code of the last process, negative for a signal. None before its end."""
        self.restarts = 0
        self._command = command
        self._policy = policy
        self._say = say
        self._environment = environment
        self._folder = folder
        self._pass_fds = tuple(pass_fds)
        self._on_end = on_end
        self._lock = threading.Lock()
        self._ending = threading.Event()
        held = {signal.SIGTERM} if policy.holds_term else set()
        self._blocked = signal.pthread_sigmask(signal.SIG_BLOCK, []) | held
        """Signals that are blocked in each new process, whichever thread starts it."""
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
        """True if the last process has ended and no other will be started."""
        return not self._thread.is_alive()

    def ask_to_end(self) -> None:
        """Send SIGTERM and stop restarting. Does not block."""
        with self._lock:
            self._ending.set()
            with suppress(ProcessLookupError):
                self._process.terminate()

    def wait(self, deadline_s: float) -> bool:
        """Block until the process ends or `time.monotonic()` reaches `deadline_s`. Return True if it has ended."""
        self._thread.join(max(0.0, deadline_s - time.monotonic()))
        return self.ended

    def kill(self) -> None:
        """Kill the process, even a stopped one, and all processes it has started. Blocks briefly for its end."""
        with self._lock:
            self._ending.set()
            if not self.ended and self.code is None:
                _kill_group(self._process.pid)
        self._thread.join(_KILLED_S)

    # --- the thread ------------------------------------------------------------------------------

    def _look_after(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # signals belong to the main thread
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
            if not left or not self._another(clock.backoff_s(short_lives, self._policy.pause_s)):
                break
            short_lives += 1
        if code > 0 and code not in self._policy.told_codes | self._policy.restart_codes:
            self._say(f"{self._who} {_how(code)}")
        self.code = code
        self._on_end(self)

    @property
    def _who(self) -> str:
        return f"{printable(self.name)}: the {self._policy.noun}"

    def _another(self, pause_s: float) -> bool:
        """Start another process. Return False if the child is to end or no process can be started."""
        self._ending.wait(pause_s)
        with self._lock:
            if self._ending.is_set():
                return False
            try:
                self._process = self._start()
            except OSError as error:
                self._say(f"can't start {self._who}: {error.strerror}")
                return False
        self.restarts += 1
        return True

    def _until_it_ends(self) -> int:
        with self._process as process:
            output = process.stdout if self._policy.tells_stdout else process.stderr
            assert output is not None
            for line in _lines(output):
                self._say(line)
        _kill_group(process.pid)
        return process.returncode

    def _start(self) -> subprocess.Popen[bytes]:
        """Start a process in its own session.

        A terminal that ends the parent must not end the child at once: the parent still has messages for it.
        """
        both, parent = self._policy.tells_stdout, str(os.getpid())
        before = signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)
        try:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if both else subprocess.DEVNULL,
                stderr=subprocess.STDOUT if both else subprocess.PIPE,
                start_new_session=True,
                env={**(os.environ if self._environment is None else self._environment), PARENT_VARIABLE: parent},
                cwd=self._folder,
                pass_fds=self._pass_fds,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _kill_group(pid: int) -> None:
    """Kill the process group of a child.

    Processes that the child has started must not outlive it, or its successor would find its files in use. The pid
    stays the id of the group while a member lives, and the system does not reuse it so soon.
    """
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _how(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"


def _lines(stream: IO[bytes]) -> Iterator[str]:
    """Yield lines of output without their prefix, which is added again later."""
    while line := stream.readline(_LINE_BYTES):
        text = printable(line.decode(errors="replace").rstrip())
        if text:
            yield text.removeprefix("telemetry: ")
