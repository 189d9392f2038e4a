"""The columns of an interval as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from telemetry.wire.history import Interval

_U32: Final = np.dtype("<u4")
_COUNT: Final = np.dtype("<i8")  # u64 in the interval, but counts stay far below 2**63
_F64: Final = np.dtype("<f8")


@dataclass(frozen=True, slots=True)
class PickedSeries:
    """The figures of one series in one interval."""

    count: int
    total: float
    min: float
    max: float
    slots: NDArray[np.uint32]
    """HDR slots, ascending. If a slot repeats, its counts add up."""
    counts: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Columns:
    """Read-only views of an interval whose columns have matching lengths, as decoded intervals do."""

    index: NDArray[np.uint32]
    """Indices, ascending."""
    count: NDArray[np.int64]
    total: NDArray[np.float64]
    min: NDArray[np.float64]
    max: NDArray[np.float64]
    occupied: NDArray[np.uint32]
    """Number of entries in `slots` and `counts` of each series."""
    slots: NDArray[np.uint32]
    counts: NDArray[np.uint32]

    @staticmethod
    def of(interval: Interval) -> Columns:
        series = interval.series
        return Columns(
            np.frombuffer(series.index, _U32),
            np.frombuffer(series.count, _COUNT),
            np.frombuffer(series.total, _F64),
            np.frombuffer(series.min, _F64),
            np.frombuffer(series.max, _F64),
            np.frombuffer(series.occupied, _U32),
            np.frombuffer(series.slots, _U32),
            np.frombuffer(series.counts, _U32),
        )

    def pick(self, index: int) -> PickedSeries | None:
        """Return the columns of one series; None if it had no values."""
        row = int(np.searchsorted(self.index, index))
        if row == self.index.size or self.index[row] != index:
            return None
        begin = int(self.occupied[:row].sum(dtype=np.int64))
        own = slice(begin, begin + int(self.occupied[row]))
        return PickedSeries(
            int(self.count[row]),
            float(self.total[row]),
            float(self.min[row]),
            float(self.max[row]),
            self.slots[own],
            self.counts[own],
        )
