"""Participants of `telemetry run`: the interface of all that goes with a run beside its command, and their list."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

from telemetry.wire.report import Report
from telemetry.wire.snapshot import MetricsSnapshot

if TYPE_CHECKING:
    from telemetry.cli.wrapped.command import Job


class BegunRun(NamedTuple):
    """A run whose aggregator listens."""

    name: str
    endpoint: str
    directory: str


class Participant:
    """Something that goes with a run beside its command, such as the gateway or the gates.

    A method that a participant does not need does nothing. They are called in this order, from the main thread. A
    context manager that leaves no process behind.
    """

    @property
    def flags(self) -> dict[str, object]:
        """Configuration keys that the aggregator needs for it."""
        return {}

    @property
    def pids(self) -> list[int]:
        """Process ids of its recording processes. They are no workers of the command."""
        return []

    @property
    def failed(self) -> bool:
        """True if it failed. Valid once it has concluded."""
        return False

    def begin(self, run: BegunRun) -> dict[str, str]:
        """Begin, before the command starts. Return environment variables for the command. Raises OSError."""
        return {}

    def accompany(self, job: Job) -> None:
        """Note that the command has started. Not called if it can't be started."""

    def look(self, snapshot: MetricsSnapshot | None) -> None:
        """Do the work of each second while the command runs.

        `snapshot` is None if there is no new one, and once the run was stopped.
        """

    def end(self) -> None:
        """Stop recording: the command has ended, and the run ends next. May be called twice."""

    def conclude(self, report: Report) -> Report:
        """Take the result of the run. Return it with what this participant adds. Blocks."""
        return report

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


_P = TypeVar("_P", bound=Participant)


class Participants(Participant):
    """All participants of one run, in order. They end in the opposite order."""

    def __init__(self) -> None:
        self._all: list[Participant] = []
        self._stack = ExitStack()

    def add(self, participant: _P) -> _P:
        """Add one to the end of the list, and enter it. Return it."""
        self._all.append(self._stack.enter_context(participant))
        return participant

    @property
    def flags(self) -> dict[str, object]:
        return {key: value for each in self._all for key, value in each.flags.items()}

    @property
    def pids(self) -> list[int]:
        return [pid for each in self._all for pid in each.pids]

    @property
    def failed(self) -> bool:
        return any(each.failed for each in self._all)

    def begin(self, run: BegunRun) -> dict[str, str]:
        return {name: value for each in self._all for name, value in each.begin(run).items()}

    def accompany(self, job: Job) -> None:
        for each in self._all:
            each.accompany(job)

    def look(self, snapshot: MetricsSnapshot | None) -> None:
        for each in self._all:
            each.look(snapshot)

    def end(self) -> None:
        for each in reversed(self._all):
            each.end()

    def conclude(self, report: Report) -> Report:
        for each in self._all:
            report = each.conclude(report)
        return report

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
