"""The collectors beside a run: one process for all of them, restarted if it is killed."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from telemetry import limits
from telemetry.cli.beside_run.participants import BegunRun, Participant
from telemetry.errors import UsageError
from telemetry.supervise.child import Child, ChildPolicy
from telemetry.supervise.spawn import environment
from telemetry.wire.exit_codes import Exit

if TYPE_CHECKING:
    from telemetry.cli.wrapped.command import Job

NONE: Final = "none"
"""Value of `collect.names` for no collectors, since an empty variable counts as not set."""
_SETTING: Final = "collect.names"
_END_S: Final = 0.3  # for the last samples and the producer's goodbye
_POLICY: Final = ChildPolicy(
    "collectors process",
    restart_codes=frozenset({Exit.ERROR}),
    told_codes=frozenset({Exit.BACKEND_FAILED}),
    pause_s=limits.RESTART_PAUSE_S,
    lasts_s=limits.RESTART_LASTS_S,
)


class RunCollectors(Participant):
    """The collectors of a run, or none. They start after the command, which they observe."""

    def __init__(
        self, asked: Sequence[str], defaults: Sequence[str], say: Callable[[str], object], *, node: str = ""
    ) -> None:
        """Check the collectors. A requested collector replaces the default collector of the same name.

        `node` is the name of this machine in a run on several machines. Raises UsageError for an unknown collector,
        a wrong option, two collectors of the same name, or too many collectors.
        """
        self._asked = list(asked)
        self._defaults = [text for text in defaults if text != NONE]
        if self._asked or self._defaults:
            self._check()
        self._say = say
        self._node = node
        self._endpoint = ""
        self._child: Child | None = None
        self._was_killed = False

    def _check(self) -> None:
        from telemetry.collectors.registry import parse, parse_all

        names = {choice.name for choice in parse_all(self._asked)}
        try:
            self._defaults = [text for text in self._defaults if parse(text).name not in names]
            parse_all(self._defaults)
        except UsageError as error:
            raise UsageError(f"the setting {_SETTING}: {error.message}", hint=error.hint) from error
        if (number := len(self._asked) + len(self._defaults)) > limits.COLLECTORS:
            raise UsageError(f"{number} collectors are too many", hint=f"the limit is {limits.COLLECTORS} per run")

    @property
    def pids(self) -> list[int]:
        return [self._child.pid] if self._child is not None else []

    @property
    def failed(self) -> bool:
        """True if a collector that the user asked for failed. Valid once the process has ended."""
        if self._child is None or not self._asked or self._was_killed:
            return False
        return self._child.code not in (0, -signal.SIGTERM)

    def begin(self, run: BegunRun) -> dict[str, str]:
        self._endpoint = run.endpoint
        return {}

    def accompany(self, job: Job) -> None:
        self.start(self._endpoint, job.pid)

    def start(self, endpoint: str, pid: int = 0) -> None:
        """Start the process for the run at `endpoint`, whose command is the process `pid`.

        A process that can't be started is reported; the run continues.
        """
        if not (self._asked or self._defaults):
            return
        command = [sys.executable, "-P", "-m", "telemetry.collectors.process", endpoint]
        command += [f"--pid={pid}"] if pid else []
        command += [f"--node={self._node}"] if self._node else []
        command += [f"--default={text}" for text in self._defaults]
        command += [f"--collect={text}" for text in self._asked]
        try:
            self._child = Child("collectors", command, _POLICY, self._say, environment=environment({}))
        except OSError as error:
            self._say(f"can't start the collectors: {error.strerror}")

    def end(self) -> None:
        """Let the collectors take a last sample, then end their process. Blocks for at most about 0.3 s.

        May be called twice. A process that is still starting ends at once.
        """
        child = self._child
        if child is None or child.ended:
            return
        child.ask_to_end()
        if not child.wait(time.monotonic() + _END_S):
            self._was_killed = True
            child.kill()
