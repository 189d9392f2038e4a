"""Plain output of a run, without a terminal: one line per second on stdout until the run ends, then its result."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from telemetry import limits
from telemetry.cli import console, find_run
from telemetry.errors import EndpointError, TelemetryError
from telemetry.report.live_line import LiveLine, describe
from telemetry.wire.exit_codes import Exit
from telemetry.wire.report import Report
from telemetry.wire.snapshot import TERMINAL

if TYPE_CHECKING:
    from telemetry.transport import Subscription
    from telemetry.wire.snapshot import MetricsSnapshot

_LINE_S: Final = 1.0
_SILENT_S: Final = 2.0
"""Seconds of silence that go unnoticed. Readers of one line per second do not look more closely."""
_MISSED: Final = 3
"""Snapshots that a run with a lower refresh rate may miss before it counts as silent."""


def follow(target: find_run.RunTarget, note: str = "") -> int:
    """Print lines until the run has ended. Waits for a silent aggregator and reconnects.

    Says `note` first, once the run is found.

    Raises EndpointError if the aggregator does not answer at first and there is no result on disk. Raises
    RunDirectoryError once the run is known to be dead without a result.
    """
    ended = None if target.endpoint else find_run.report_of(target)
    if note:
        console.say(note)
    report = ended or _LiveOutput(target).report()
    console.write(f"{describe(report.snapshot)}\n{report.headline()}\n")
    return Exit.OK


class _LiveOutput:
    """The output lines of a live run."""

    def __init__(self, target: find_run.RunTarget) -> None:
        self._target = target
        self._line = LiveLine()
        self._heard_s = time.monotonic()
        self._silent_s = _SILENT_S
        self._say_at_s = self._silent_s
        """Seconds of silence until the next message about it. Doubles after each message."""

    def report(self) -> Report:
        """Return the result from the aggregator, or else from disk."""
        try:
            snapshots = self._subscribe(limits.LOST_AFTER_S)
        except EndpointError as silence:
            return find_run.from_disk(self._target, silence)
        try:
            while True:
                snapshot = self._newest_of_a_second(snapshots)
                if snapshot is None:
                    report = self._on_disk()
                    if report is not None:
                        return report
                    snapshots = self._again(snapshots)
                elif snapshot.state in TERMINAL:
                    return Report(snapshot=snapshot, source="pubsub")
                else:
                    console.write(self._line.text(snapshot) + "\n")
        finally:
            snapshots.close()

    def _newest_of_a_second(self, snapshots: Subscription) -> MetricsSnapshot | None:
        """Return the newest snapshot of one second.

        Receives every snapshot: a conflating socket loses the last one when its peer disconnects.
        """
        newest = None
        deadline_s = time.monotonic() + _LINE_S
        while (left_s := deadline_s - time.monotonic()) > 0:
            snapshot = snapshots.recv(left_s)
            if snapshot is not None:
                self._hear(snapshot)
                newest = snapshot
                if snapshot.state in TERMINAL:
                    break
        return newest

    def _subscribe(self, timeout_s: float) -> Subscription:
        from telemetry.transport import subscribe

        return subscribe(self._target.endpoint, timeout_s=timeout_s)

    def _hear(self, snapshot: MetricsSnapshot) -> None:
        if self._say_at_s > self._silent_s:
            console.say("snapshots arrive again")
        self._heard_s = time.monotonic()
        if snapshot.refresh_hz:
            self._silent_s = max(_SILENT_S, _MISSED / snapshot.refresh_hz)
        self._say_at_s = self._silent_s

    def _on_disk(self) -> Report | None:
        """Return the result of a run that has been silent.

        Raises RunDirectoryError if the run can't have a result any more.
        """
        silent_s = time.monotonic() - self._heard_s
        if silent_s < self._say_at_s:
            return None
        self._say_at_s = 2 * silent_s
        console.say(f"last snapshot {silent_s:.0f} s ago")
        silence = EndpointError("")
        try:
            return find_run.from_disk(self._target, silence)
        except TelemetryError as nothing:
            # A supervisor would have restarted the aggregator long before that.
            if nothing is not silence and silent_s > limits.LOST_AFTER_S:
                raise
        return None

    def _again(self, snapshots: Subscription) -> Subscription:
        """Return a new subscription in place of a silent one, once the aggregator answers."""
        if time.monotonic() - self._heard_s < self._silent_s:
            return snapshots
        try:
            fresh = self._subscribe(_LINE_S)
        except EndpointError:
            return snapshots
        snapshots.close()
        return fresh
