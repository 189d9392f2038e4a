"""Frames in: decode, admit, journal, apply, publish records. In this order, so that what is applied is on disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from telemetry import limits
from telemetry.daemon.cost import CostMeter
from telemetry.daemon.logbook import Logbook
from telemetry.daemon.parts import Parts
from telemetry.daemon.stream import RecordStream
from telemetry.wire.rows import ROW_BYTES

_FULL_BYTES: Final = limits.CHUNK_EVENTS * ROW_BYTES
_OF_A_SNAPSHOT: Final = 0.25  # so much of the time between two may its events be older


class Ingest:
    """One turn takes a bounded number of frames, so that ticks and signals wait for none.

    A few rows cost nearly as much as many: after a turn that took fewer than are vectorised at once, the socket is
    left alone for `limits.GATHER_S`, or a part of the time between snapshots, so that the next turn finds what has
    come meanwhile.
    """

    def __init__(self, parts: Parts, logbook: Logbook, stream: RecordStream, cost: CostMeter) -> None:
        self._hub = parts.hub
        self._clock = parts.clock
        self._logbook = logbook
        self._stream = stream
        self._cost = cost
        gather_s = min(limits.GATHER_S, _OF_A_SNAPSHOT / parts.options.config.run.refresh_hz)
        self._gather_ns = int(gather_s * 1e9)
        self._gathers_until_ns = 0

    @property
    def gathers_s(self) -> float:
        """So long frames are left in the socket."""
        return max(0, self._gathers_until_ns - self._clock.monotonic_ns()) / 1e9

    def turn(self) -> int:
        """Takes what is waiting, up to the bound; returns the number of frames."""
        frames = self._hub.receive_events(limits.TURN_FRAMES, limits.TURN_BYTES)
        if frames:
            self.take(frames)
            if len(frames) < limits.TURN_FRAMES and sum(map(len, frames)) < _FULL_BYTES:
                self._gathers_until_ns = self._clock.monotonic_ns() + self._gather_ns
        return len(frames)

    def take(self, frames: Sequence[bytes]) -> None:
        self._cost.took(len(frames), sum(map(len, frames)))
        self._stream.publish(self._logbook.turn(frames))
