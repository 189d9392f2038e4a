"""The runs of a sweep: one `telemetry run` for each, one after the other."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

from msgspec.structs import replace

from telemetry.cli import find_run
from telemetry.cli.wrapped.command import in_foreground
from telemetry.errors import TelemetryError
from telemetry.judge.sweeps.params import Values, scalar, value_text
from telemetry.wire.events import Scalar
from telemetry.wire.report import Report
from telemetry.wire.snapshot import TERMINAL

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """The runs of a sweep, in their order."""

    points: Sequence[Values]
    repeat: int = 1

    def rounds(self) -> list[list[Values]]:
        """Return all points, once for each repetition: slow minutes of a machine then meet all points."""
        return [list(self.points) for _ in range(self.repeat)]

    def __len__(self) -> int:
        return len(self.points) * self.repeat


@dataclass(slots=True)
class Runner:
    """Starts runs, and ends when it is told to. A signal that ends this process goes to the run first."""

    ended_by: int = 0
    """Signal that ends the sweep; 0 while it goes on."""
    _child: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def run(self, command: Sequence[str]) -> int:
        """Run a command and return its exit code. Its output goes to stderr: stdout is for the result."""
        sys.stderr.flush()
        with subprocess.Popen(command, stdout=sys.stderr.fileno()) as child:
            self._child = child
            if self.ended_by:  # it came before there was a child to pass it on to
                child.send_signal(self.ended_by)
            code = child.wait()
            self._child = None
        return 128 - code if code < 0 else code

    @contextmanager
    def heeding(self) -> Iterator[None]:
        """Pass signals on inside the block. Main thread only."""
        heeded = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, self._end) for number in heeded}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _end(self, number: int, _frame: FrameType | None) -> None:
        self.ended_by = self.ended_by or number
        child = self._child
        if child is None or child.poll() is not None:
            return
        if number == signal.SIGINT and in_foreground():
            return  # the terminal has sent it to the run too
        child.send_signal(number)


def result_of(run_id: str, root: Path) -> Report | None:
    """Return the result of a run with its curves of steps; None if it has none."""
    with suppress(TelemetryError):
        return recorded(find_run.directories(run_id, root)[0])
    return None


def recorded(path: Path) -> Report:
    """Return the result of a run directory with its curves of steps. Raises RunDirectoryError."""
    from telemetry.history import open_run

    run = open_run(path, path.parent, find_run.fallback_dirs())
    return replace(run.result, curves=run.curves)


class Finished:
    """Runs of an earlier sweep that need not be repeated."""

    def __init__(self, reports: Sequence[Report], names: Sequence[str]) -> None:
        self._names = names
        self._reports: dict[tuple[str, ...], list[Report]] = {}
        for report in reports:
            if all(name in report.snapshot.params for name in names) and _went_well(report):
                self._reports.setdefault(self._key(report.snapshot.params), []).append(report)
        self._taken: Counter[tuple[str, ...]] = Counter()

    def take(self, values: Values) -> Report | None:
        """Return a run with these values that was not taken yet; None without one."""
        key = self._key({name: scalar(text) for name, text in values.items()})
        reports = self._reports.get(key, [])
        index = self._taken[key]
        self._taken[key] += 1
        return reports[index] if index < len(reports) else None

    def _key(self, params: Mapping[str, Scalar]) -> tuple[str, ...]:
        return tuple(value_text(params.get(name)) for name in self._names)


def finished_runs(name: str, root: Path) -> list[Report]:
    """Return the readable results of all runs of a name, the oldest first."""
    from telemetry.store.run_directory import called, list_runs

    reports = []
    for run in called(name, reversed(list_runs(root))):
        with suppress(TelemetryError):
            reports.append(recorded(run.path))
    return reports


def _went_well(report: Report) -> bool:
    command = report.snapshot.command
    failed = command is None or command.signal is not None or command.exit_code not in (0, None)
    return report.snapshot.state in TERMINAL and report.completeness == "complete" and not failed
