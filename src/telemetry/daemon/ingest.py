"""Frames in: decode, admit, journal, apply, publish records. In this order, so that what is applied is on disk."""

from __future__ import annotations

from collections.abc import Sequence

from telemetry import limits
from telemetry.daemon.cost import CostMeter
from telemetry.daemon.parts import Parts
from telemetry.daemon.stream import RecordStream
from telemetry.wire.codec import Malformed, decode_batch
from telemetry.wire.events import EventBatch


class Ingest:
    """One turn takes a bounded number of frames, so that ticks and signals wait for none."""

    def __init__(self, parts: Parts, stream: RecordStream, cost: CostMeter) -> None:
        self._hub = parts.hub
        self._aggregator = parts.aggregator
        self._journal = parts.journal
        self._clock = parts.clock
        self._stream = stream
        self._cost = cost

    def turn(self) -> int:
        """Takes what is waiting, up to the bound; returns the number of frames."""
        frames = self._hub.receive_events(limits.TURN_FRAMES, limits.TURN_BYTES)
        if frames:
            self.take(frames)
        return len(frames)

    def take(self, frames: Sequence[bytes]) -> None:
        now_ns = self._clock.monotonic_ns()
        self._cost.took(len(frames), sum(map(len, frames)))
        admitted: list[bytes] = []
        batches: list[EventBatch] = []
        for frame in frames:
            batch = self._admit(frame, now_ns)
            if batch is not None:
                admitted.append(frame)
                batches.append(batch)
        if not batches:
            return
        if self._journal is not None:
            self._journal.append(admitted, now_ns)
        self._stream.publish(self._aggregator.apply(batches, now_ns, self._clock.wall_ns()))

    def _admit(self, frame: bytes, now_ns: int) -> EventBatch | None:
        try:
            batch = decode_batch(frame)
        except Malformed as malformed:
            self._aggregator.bad_frame(malformed.reason)
            return None
        return batch if self._aggregator.admit(batch, now_ns) else None
