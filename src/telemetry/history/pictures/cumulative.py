"""The number of values below any edge, from histogram slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from telemetry.statistics.hdr.layout import Floats, Integers, Layout
from telemetry.wire.control import SeriesKey

_THOUSAND: Final = 1_000


@dataclass(frozen=True, slots=True)
class Cumulative:
    """Values of one series in slots with values. Inside a slot, values are spread evenly."""

    lows: Floats
    """Lower edge of each slot, ascending, in the unit of the series."""
    ends: Floats
    """Upper edge of each slot, exclusive."""
    reached: Integers
    """Number of values up to the end of each slot."""

    @staticmethod
    def of(key: SeriesKey, slots: Integers, counts: Integers) -> Cumulative:
        """Return the values in some slots, ascending, of the histogram of a series."""
        layout = Layout.of(key.digits)
        slots = np.minimum(slots, layout.slots - 1)  # a damaged history may have others
        lows, ends = layout.lowest_of(slots), layout.highest_of(slots) + 1
        return Cumulative(lows / key.ticks_per_unit, ends / key.ticks_per_unit, np.cumsum(counts))

    @property
    def count(self) -> int:
        return int(self.reached[-1]) if self.reached.size else 0

    @property
    def low(self) -> float:
        """Lower edge of the slot of percentile 0.1."""
        return float(self.lows[self._place(-(-self.count // _THOUSAND))])

    @property
    def high(self) -> float:
        """Upper edge of the slot of percentile 99.9."""
        return float(self.ends[self._place(self.count - self.count // _THOUSAND)])

    @property
    def end(self) -> float:
        """Upper edge of the last slot."""
        return float(self.ends[-1])

    def slot_at(self, value: float) -> float:
        """Return the width of the last slot that begins at or below a value, or of the first slot."""
        index = max(int(np.searchsorted(self.lows, value, side="right")) - 1, 0)
        return float(self.ends[index] - self.lows[index])

    def below(self, edges: Floats) -> Integers:
        """Return the number of values below each edge, rounded to whole values."""
        places = np.maximum(np.searchsorted(self.lows, edges, side="right") - 1, 0)
        lows, ends = self.lows[places], self.ends[places]
        share = np.clip((edges - lows) / (ends - lows), 0.0, 1.0)
        before = np.append(0, self.reached[:-1])[places]
        rounded: Integers = np.rint(before + (self.reached[places] - before) * share).astype(np.int64)
        return rounded

    def _place(self, rank: int) -> int:
        return int(np.searchsorted(self.reached, rank))
