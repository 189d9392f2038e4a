"""Intake of frames: decode, admit, journal, apply, publish records.

In this order, so that applied events are on disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from telemetry import limits
from telemetry.daemon.components import DaemonParts
from telemetry.daemon.cost import CostMeter
from telemetry.daemon.record_stream import RecordPublisher
from telemetry.daemon.write_ahead import WriteAheadLog
from telemetry.wire.rows import ROW_BYTES

_FULL_BYTES: Final = limits.CHUNK_EVENTS * ROW_BYTES


class Ingest:
    """Reader of the event socket.

    It takes a bounded number of frames at once, so that they don't delay ticks and signals.

    A few rows cost nearly as much as many. After a turn with fewer bytes than a vectorised chunk, the socket is
    left alone for `limits.GATHER_S`. The frames read are held until more arrive, until the next tick, or until a
    request needs all events. To all other code, held frames count as still in flight.
    """

    def __init__(self, parts: DaemonParts, log: WriteAheadLog, stream: RecordPublisher, cost: CostMeter) -> None:
        self._hub = parts.hub
        self._clock = parts.clock
        self._log = log
        self._stream = stream
        self._cost = cost
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._gather_ns = int(limits.GATHER_S * 1e9)
        self._gathers_until_ns = 0

    @property
    def gathers_s(self) -> float:
        """Time in seconds for which frames are left in the socket."""
        return max(0, self._gathers_until_ns - self._clock.monotonic_ns()) / 1e9

    def turn(self) -> None:
        """Read waiting frames up to the bound, and apply them if they are many."""
        room = limits.TURN_FRAMES - len(self._held)
        frames = self._hub.receive_events(room, limits.TURN_BYTES - self._held_bytes)
        if not frames:
            return
        found_bytes = sum(map(len, frames))
        self._held += frames
        self._held_bytes += found_bytes
        if len(frames) == room or self._held_bytes >= _FULL_BYTES:
            self._take_held()
        few = len(frames) < room and found_bytes < _FULL_BYTES
        self._gathers_until_ns = self._clock.monotonic_ns() + self._gather_ns if few else 0

    def catch_up(self) -> None:
        """Apply held frames and the frames that arrived in the meantime, up to the bound."""
        if self.gathers_s:
            self.turn()
        self._take_held()

    def close(self) -> None:
        """Apply held frames, then the frames in the socket, up to the bound."""
        self._take_held()
        self.turn()
        self._take_held()

    def _take_held(self) -> None:
        frames, self._held, self._held_bytes = self._held, [], 0
        if frames:
            self.take(frames)

    def take(self, frames: Sequence[bytes]) -> None:
        self._cost.took(len(frames), sum(map(len, frames)))
        self._stream.publish(self._log.turn(frames))
