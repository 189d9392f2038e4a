"""Batches without acknowledgement, kept in case this or a later aggregator needs them again."""

from __future__ import annotations

from collections import OrderedDict

from telemetry import limits

Frame = bytes | bytearray


class ResendRing:
    """A store of sent batches.

    It never drops a batch by itself: its owner stops packing once it is `full`. For one thread.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.bytes = 0
        """Memory in bytes: all frames and the overhead of each."""
        self.taken = 0
        """Number of events in acknowledged batches."""
        self._capacity_bytes = capacity_bytes
        self._frames: OrderedDict[int, tuple[Frame, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def full(self) -> bool:
        return self.bytes >= self._capacity_bytes

    def keep(self, seq: int, frame: Frame, events: int = 0) -> None:
        """Keep a frame that holds `events` events."""
        self._frames[seq] = frame, events
        self.bytes += _size(frame)

    def acknowledged(self, batches: int) -> bool:
        """Forget all batches below `batches`. Return True if there were any."""
        before = len(self._frames)
        while self._frames and next(iter(self._frames)) < batches:
            self.taken += self._forget_oldest()
        return len(self._frames) < before

    def forget(self, seq: int) -> None:
        """Forget a batch that was never sent. A batch that is not in the ring was acknowledged."""
        kept = self._frames.pop(seq, None)
        if kept is not None:
            self.bytes -= _size(kept[0])

    def give_up_oldest(self) -> None:
        """Forget the oldest batch before its acknowledgement. If it got lost, its events are lost."""
        self._forget_oldest()

    def get(self, seq: int) -> Frame | None:
        kept = self._frames.get(seq)
        return None if kept is None else kept[0]

    def kept(self, first: int = 0, last: int | None = None) -> list[int]:
        """Return the sequence numbers from `first` to `last` that are in the ring, ascending."""
        return [seq for seq in self._frames if first <= seq and (last is None or seq <= last)]

    def _forget_oldest(self) -> int:
        """Forget the oldest batch and return its number of events."""
        _, (frame, events) = self._frames.popitem(last=False)
        self.bytes -= _size(frame)
        return events


def _size(frame: Frame) -> int:
    return len(frame) + limits.RESEND_BATCH_BYTES
