"""The flight recorder of a wrapped command: it writes the last seconds of the run when something goes wrong."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from telemetry import limits
from telemetry.cli.beside_run.participants import BegunRun, Participant
from telemetry.cli.beside_run.writers import interruptible
from telemetry.common.files import make_folder
from telemetry.common.formatting import number_of, printable
from telemetry.config.schema import Config
from telemetry.errors import TelemetryError, UsageError, error_text
from telemetry.store.append_file import describe
from telemetry.store.atomic import OWNER_ONLY, write_atomic
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.gates import GateResult
from telemetry.wire.report import Report
from telemetry.wire.snapshot import CommandFacts, MarkStat, MetricsSnapshot

if TYPE_CHECKING:
    from telemetry.cli.beside_run.gates import RunGates
    from telemetry.cli.wrapped.command import Job

FOLDER: Final = "flight"
_LABEL: Final = ("flight", "dump")
"""Label of a mark that asks for a recording."""
_PATIENCE_S: Final = 60.0
"""Longest wait at the end of a run for the last recording."""
_TIME_FORMAT: Final = "%Y%m%dT%H%M%SZ"
_SHOWN_CHARS: Final = 200


class _Order(NamedTuple):
    """A recording that is to be written."""

    word: str
    reason: str
    until_ns: int
    """End of its seconds, by the monotonic clock."""


def flight_seconds(text: str, config: Config) -> float:
    """Return the length of `--flight-recorder`. Raises UsageError for an invalid one, or without a journal."""
    from telemetry.history.time_range import parse_time

    try:
        seconds = parse_time(text)
    except UsageError as error:
        raise UsageError(f"--flight-recorder: {error.message}", hint=error.hint) from None
    if not limits.FLIGHT_LEAST_S <= seconds <= limits.FLIGHT_MOST_S:
        raise UsageError(
            f"--flight-recorder {text} is not between "
            f"{limits.FLIGHT_LEAST_S:g} s and {limits.FLIGHT_MOST_S / 60:g} min",
            hint="write it like 30s or 2m",
        )
    if not config.journal.enabled:
        raise UsageError(
            "--flight-recorder reads the journal, and the journal is off",
            hint="remove --no-journal, or set journal.enabled to true",
        )
    return seconds


class FlightRecorder(Participant):
    """The flight recorder of one run. Main thread only; a thread of its own writes the recordings."""

    def __init__(
        self,
        seconds: float | None,
        say: Callable[[str], object],
        gates: RunGates | None = None,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Keep the last `seconds`, or do nothing if it is None. `say` prints one message line, from any thread.

        `gates` get a recording each when they fail. They look and conclude first.
        """
        self._seconds = seconds
        self._say = say
        self._gates = gates
        self._now_ns = now_ns
        self._directory: Path | None = None
        self._job: Job | None = None
        self._orders: queue.SimpleQueue[_Order | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._ordered = 0
        self._ended = False
        """True once the command has ended."""
        self._is_full = False
        """True once a recording had no room."""
        self._marks: set[tuple[int, str, str]] = set()
        """Marks in the newest snapshot that asked for a recording."""
        self._failed_gates: set[str] = set()
        """Gates that have a recording."""
        self._received = 0
        self._changed_ns = 0
        """Monotonic time at which the newest events were seen. 0 while no stall can begin."""

    def begin(self, run: BegunRun) -> dict[str, str]:
        self._directory = Path(run.directory)
        return {}

    def accompany(self, job: Job) -> None:
        self._job = job

    def look(self, snapshot: MetricsSnapshot | None) -> None:
        """Look for a reason to write a recording."""
        if self._seconds is None or snapshot is None:
            return
        now_ns = self._now_ns()
        self._heed_marks(snapshot.marks, now_ns)
        self._heed_gates(self._gates.failing if self._gates is not None else (), now_ns)
        self._heed_stall(snapshot, self._seconds, now_ns)

    def conclude(self, report: Report) -> Report:
        """Write the recording of a command that failed. Blocks until all recordings are written.

        A gate that ended the command has its recording already.
        """
        command = report.snapshot.command
        if self._seconds is not None and self._job is not None and command is not None:
            self._conclude(report, command, self._job.ended_ns)
        return report

    def _conclude(self, report: Report, command: CommandFacts, ended_ns: int) -> None:
        self._ended = True
        ended_by_gate = self._gates is not None and self._gates.ended_by is not None
        if command.signal is not None and not ended_by_gate:
            self._order("killed", f"killed by {command.signal}", ended_ns)
        elif command.exit_code and not ended_by_gate:
            self._order("failed", f"exit code {command.exit_code}", ended_ns)
        else:
            self._heed_gates([gate for gate in report.gates if gate.outcome == "fail"], ended_ns)
        self._heed_marks(report.snapshot.marks, ended_ns)
        self._orders.put(None)
        if self._thread is None:
            return
        with suppress(KeyboardInterrupt), interruptible():  # the user wants no more than the report
            self._thread.join(_PATIENCE_S)
        if self._thread.is_alive():
            self._say("no flight recording: it took too long, or Ctrl-C ended the wait for it")

    def _heed_marks(self, marks: Sequence[MarkStat], now_ns: int) -> None:
        key, value = _LABEL
        asking = {(mark.time_ns, mark.producer, mark.text): mark for mark in marks if mark.labels.get(key) == value}
        new = [mark for identity, mark in asking.items() if identity not in self._marks]
        self._marks = set(asking)
        if new:
            self._order("mark", f'mark "{printable(new[-1].text[:_SHOWN_CHARS])}"', now_ns)

    def _heed_gates(self, failing: Sequence[GateResult], now_ns: int) -> None:
        new = [gate for gate in failing if gate.expression not in self._failed_gates]
        self._failed_gates.update(gate.expression for gate in new)
        if new:
            self._order("gate", f"gate failed: {printable(new[0].expression[:_SHOWN_CHARS])}", now_ns)

    def _heed_stall(self, snapshot: MetricsSnapshot, seconds: float, now_ns: int) -> None:
        if snapshot.accounting.received != self._received:  # the machine's figures go on when the job stalls
            self._received = snapshot.accounting.received
            self._changed_ns = now_ns
        elif _statuses(snapshot) <= {"ended"}:
            self._changed_ns = 0
        elif self._changed_ns and now_ns - self._changed_ns >= seconds * 1e9:
            reason = f"no new event for {seconds:g} s"
            self._order("stall", reason, self._changed_ns)
            self._changed_ns = 0

    def _order(self, word: str, reason: str, until_ns: int) -> None:
        room = limits.FLIGHT_RECORDINGS if self._ended else limits.FLIGHT_RECORDINGS - 1
        if self._ordered >= room:
            if not self._is_full:
                self._say(
                    f"no more flight recordings of this run: {self._ordered} of {limits.FLIGHT_RECORDINGS} are "
                    "written, and the last one is for the end of the command"
                )
            self._is_full = True
            return
        self._ordered += 1
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="telemetry-flight", daemon=True)
            self._thread.start()
        self._orders.put(_Order(word, reason, until_ns))

    def _work(self) -> None:
        while (order := self._orders.get()) is not None:
            try:
                self._write(order)
            except TelemetryError as error:
                self._say(f"can't write a flight recording ({order.reason}): {error}")
            except OSError as error:
                self._say(f"can't write a flight recording ({order.reason}): {describe(error)}")
            except Exception as error:  # noqa: BLE001 – thread root: the run goes on without the recording
                self._say(f"can't write a flight recording ({order.reason}): {error_text(error)}")

    def _write(self, order: _Order) -> None:
        from telemetry.daemon.recovery.flight import record_flight

        assert self._directory is not None
        assert self._seconds is not None
        recording = record_flight(RunDirectory.open(self._directory), self._seconds, order.until_ns, order.reason)
        folder = self._directory / FOLDER
        make_folder(folder)
        path = _free_path(folder, f"{datetime.now(UTC).strftime(_TIME_FORMAT)}-{order.word}")
        write_atomic(path, recording.trace, durable=False, mode=OWNER_ONLY)
        left_out = recording.left_out
        more = f"; no room for {number_of(left_out, 'older event')}" if left_out else ""
        self._say(f"flight recording: {path} ({order.reason}, last {self._seconds:g} s{more})")


def _free_path(folder: Path, stem: str) -> Path:
    """Return a path that does not exist yet."""
    path = folder / f"{stem}.json"
    number = 2
    while path.exists():
        path = folder / f"{stem}-{number}.json"
        number += 1
    return path


def _statuses(snapshot: MetricsSnapshot) -> set[str]:
    """Return the statuses of all producers and nodes."""
    return {stat.status for stat in snapshot.own_producers} | {stat.status for stat in snapshot.nodes}
