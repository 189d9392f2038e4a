"""Batches that are not acknowledged yet, in case the aggregator asks for them or the one after it lacks them."""

from __future__ import annotations

from collections import OrderedDict

from telemetry import limits

Frame = bytes | bytearray


class ResendRing:
    """Nothing falls out by itself: once it is `full`, its owner packs no more. One thread."""

    def __init__(self, capacity_bytes: int) -> None:
        self.bytes = 0
        """Of memory: the frames and what is around each of them."""
        self.taken = 0
        """Events of the batches that were acknowledged."""
        self._capacity_bytes = capacity_bytes
        self._frames: OrderedDict[int, tuple[Frame, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def full(self) -> bool:
        return self.bytes >= self._capacity_bytes

    def keep(self, seq: int, frame: Frame, events: int = 0) -> None:
        """`events`: in the frame."""
        self._frames[seq] = frame, events
        self.bytes += _size(frame)

    def acknowledged(self, batches: int) -> bool:
        """Forgets all batches below `batches`. Whether there were any."""
        before = len(self._frames)
        while self._frames and next(iter(self._frames)) < batches:
            self.taken += self._forget_oldest()
        return len(self._frames) < before

    def forget(self, seq: int) -> None:
        """A batch that never left; one that is not here any more was acknowledged all the same."""
        kept = self._frames.pop(seq, None)
        if kept is not None:
            self.bytes -= _size(kept[0])

    def give_up_oldest(self) -> None:
        """Before it was acknowledged: if it got lost, it is lost."""
        self._forget_oldest()

    def get(self, seq: int) -> Frame | None:
        kept = self._frames.get(seq)
        return None if kept is None else kept[0]

    def kept(self, first: int = 0, last: int | None = None) -> list[int]:
        """Numbers from `first` to `last` that are still here, ascending."""
        return [seq for seq in self._frames if first <= seq and (last is None or seq <= last)]

    def _forget_oldest(self) -> int:
        """Returns how many events were in it."""
        _, (frame, events) = self._frames.popitem(last=False)
        self.bytes -= _size(frame)
        return events


def _size(frame: Frame) -> int:
    return len(frame) + limits.RESEND_BATCH_BYTES
