"""Batches that were sent and not yet acknowledged, in case the aggregator asks for them again."""

from __future__ import annotations

from collections import OrderedDict

Frame = bytes | bytearray


class ResendRing:
    """Bounded by bytes; the oldest fall out. One thread."""

    def __init__(self, capacity_bytes: int) -> None:
        self.fallen = 0
        """Batches that fell out before they were acknowledged: if they got lost, they are lost."""
        self.bytes = 0
        self._capacity_bytes = capacity_bytes
        self._frames: OrderedDict[int, Frame] = OrderedDict()

    def __len__(self) -> int:
        return len(self._frames)

    def keep(self, seq: int, frame: Frame) -> None:
        self._frames[seq] = frame
        self.bytes += len(frame)
        while self.bytes > self._capacity_bytes and self._frames:
            self._drop_oldest()
            self.fallen += 1

    def acknowledged(self, batches: int) -> None:
        """Forgets all batches below `batches`."""
        while self._frames and next(iter(self._frames)) < batches:
            self._drop_oldest()

    def get(self, seq: int) -> Frame | None:
        return self._frames.get(seq)

    def kept(self, first: int = 0, last: int | None = None) -> list[int]:
        """Numbers from `first` to `last` that are still here, ascending."""
        return [seq for seq in self._frames if first <= seq and (last is None or seq <= last)]

    def _drop_oldest(self) -> None:
        _, frame = self._frames.popitem(last=False)
        self.bytes -= len(frame)
