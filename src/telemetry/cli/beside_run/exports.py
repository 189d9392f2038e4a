"""Writers that `telemetry export` supervises until all data is delivered or progress stops."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TextIO

from telemetry import limits
from telemetry.cli import console
from telemetry.cli.commands.recover import ProgressLine
from telemetry.common.formatting import count, printable
from telemetry.common.wording import shortfall
from telemetry.errors import RunDirectoryError, UsageError
from telemetry.store.backends import writer_folder
from telemetry.store.run_directory import FINAL
from telemetry.supervise.child import Child
from telemetry.supervise.spawn import environment
from telemetry.supervise.writers import MANNER, concluded, writer_command
from telemetry.transport.endpoints import refuses
from telemetry.wire.exit_codes import Exit
from telemetry.wire.snapshot import BackendStat

_LOOK_S: Final = 0.1
_LAST_WORDS_S: Final = 3.0  # for the batch in progress and a checkpoint


@dataclass(frozen=True)
class Task:
    """A writer to start."""

    name: str
    to: str
    every_s: float | None = None
    cwd: str = ""
    """Working directory; empty for that of this process."""


class Exports:
    """The writer processes of one export. A context manager that leaves no process behind. Not thread-safe."""

    def __init__(
        self,
        tasks: Sequence[Task],
        endpoint: str,
        directory: Path,
        *,
        patience_s: float,
        say: Callable[[str], object] = console.say,
    ) -> None:
        """Prepare the writers. `endpoint` is empty for a run that is over. For `patience_s` see `wait`."""
        self.stats: list[BackendStat] = []
        """Final state of each writer; valid after `__exit__`."""
        self._tasks = list(tasks)
        self._names = [task.name for task in tasks]
        self._endpoint = endpoint
        self._directory = directory
        self._patience_s = patience_s
        self._say = say
        self._writers: dict[str, Child] = {}
        self._gone_s = math.inf

    def __enter__(self) -> Self:
        try:
            for task in self._tasks:
                self._writers[task.name] = self._started(task)
        except BaseException:
            for writer in self._writers.values():
                writer.kill()
            raise
        return self

    def _started(self, task: Task) -> Child:
        """Start a writer. Raises UsageError."""
        command = writer_command(task.to, self._endpoint, str(self._directory), task.every_s)
        folder = task.cwd if task.cwd and Path(task.cwd).is_dir() else None
        try:
            return Child(task.name, command, MANNER, self._say, environment=environment({}), folder=folder)
        except (OSError, ValueError) as error:  # a process argument can't contain a NUL
            why = getattr(error, "strerror", None) or str(error)
            raise UsageError(f"can't start the writer {printable(task.name)}: {why}") from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        late = [writer for writer in self._writers.values() if not writer.ended]
        for writer in late:
            writer.ask_to_end()
        deadline_s = time.monotonic() + _LAST_WORDS_S
        for writer in late:
            if not writer.wait(deadline_s):
                writer.kill()
        self.stats = [concluded(self._read(name), self._writers.get(name)) for name in self._names]

    @property
    def code(self) -> int:
        codes = {writer.code for writer in self._writers.values()} - {0}
        if not codes:
            return Exit.OK
        return Exit.USAGE if codes == {Exit.USAGE} else Exit.BACKEND_FAILED

    def wait(self) -> None:
        """Block until all writers have ended, or none has delivered anything for `patience_s` since the run ended.

        Shows the progress.
        """
        moved_s, before = time.monotonic(), [BackendStat(name=name) for name in self._names]
        with ProgressLine() as progress:
            while any(not writer.ended for writer in self._writers.values()):
                now_s, stats = time.monotonic(), [self._read(name) for name in self._names]
                if [_far(stat) for stat in stats] != [_far(stat) for stat in before]:
                    moved_s, before = now_s, stats
                if self._over(now_s) and now_s - moved_s > self._patience_s:
                    self._say(f"delivered nothing for {now_s - moved_s:.0f} s; stopped waiting")
                    return
                progress(*_progress(stats))
                time.sleep(_LOOK_S)

    def tell(self, stream: TextIO) -> None:
        """Print the state of each writer, the place of each backend's data, and advice about undelivered data."""
        from telemetry.report.backends import at_place
        from telemetry.report.table import ReportTable, TableColumn, layout

        heads = [
            TableColumn("backend", right=False),
            TableColumn("state", right=False),
            TableColumn("written"),
            TableColumn("left", 1),
            TableColumn("dropped"),
            TableColumn("unsupported", 2),
            TableColumn("retried", 3),
        ]
        rows = [
            [
                printable(stat.name),
                stat.state,
                count(stat.written),
                count(stat.queued),
                count(sum(stat.dropped.values())),
                count(sum(stat.no_place.values())),
                count(stat.retried),
            ]
            for stat in self.stats
        ]
        console.talk("\n".join(layout(ReportTable(heads, rows), console.width(stream))) + "\n")
        for stat in self.stats:
            if stat.place:
                console.talk(f"{at_place(stat)}\n")
        for stat in self.stats:
            if advice := shortfall(stat, str(self._directory)):
                self._say(advice)

    def _over(self, now_s: float) -> bool:
        """Return whether the run is over.

        It is over if it had no aggregator, or if its aggregator is gone and left a result, or if the aggregator has
        been gone for longer than a restart takes.
        """
        if not self._endpoint:
            return True
        if not refuses(self._endpoint):
            self._gone_s = math.inf
            return False
        self._gone_s = min(self._gone_s, now_s)
        return (self._directory / FINAL).exists() or now_s - self._gone_s > limits.RETURN_S

    def _read(self, name: str) -> BackendStat:
        try:
            return writer_folder(self._directory, name).read_status() or BackendStat(name=name)
        except RunDirectoryError:
            return BackendStat(name=name)


def _far(stat: BackendStat) -> tuple[int, int, int]:
    return stat.next_record, stat.written, sum(stat.dropped.values())


def _progress(stats: Sequence[BackendStat]) -> tuple[str, float]:
    total = sum(stat.next_record + stat.queued for stat in stats)
    troubles = [stat for stat in stats if stat.state == "retrying"]
    what = f"{printable(troubles[0].name)}: {troubles[0].last_error[:60]}" if troubles else "exporting"
    return printable(what), sum(stat.next_record for stat in stats) / total if total else float("nan")
