"""Frames in: decode, admit, journal, apply, publish records. In this order, so that what is applied is on disk."""

from __future__ import annotations

from collections.abc import Sequence

from telemetry import limits
from telemetry.daemon.cost import CostMeter
from telemetry.daemon.logbook import Logbook
from telemetry.daemon.stream import RecordStream
from telemetry.transport.hub import Hub


class Ingest:
    """One turn takes a bounded number of frames, so that ticks and signals wait for none."""

    def __init__(self, hub: Hub, logbook: Logbook, stream: RecordStream, cost: CostMeter) -> None:
        self._hub = hub
        self._logbook = logbook
        self._stream = stream
        self._cost = cost

    def turn(self) -> int:
        """Takes what is waiting, up to the bound; returns the number of frames."""
        frames = self._hub.receive_events(limits.TURN_FRAMES, limits.TURN_BYTES)
        if frames:
            self.take(frames)
        return len(frames)

    def take(self, frames: Sequence[bytes]) -> None:
        self._cost.took(len(frames), sum(map(len, frames)))
        self._stream.publish(self._logbook.turn(frames))
