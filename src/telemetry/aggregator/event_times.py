"""Times of the first and last event of each counter or series, which its rates are counted over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from telemetry.aggregator.checkpoint import ArrayColumn
from telemetry.aggregator.snapshot_numbers import grown
from telemetry.wire.units import TIME_NS

Index = NDArray[np.intp]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

NEVER: Final = np.iinfo(np.int64).max
UNKNOWN: Final = 0
"""Beginning of an instrument with events whose times are unknown."""
_LONGEST_NS: Final = float(1 << 62)


class EventTimes:
    """Columns by instrument, on the run's clock.

    A duration begins before its event, which is its end. Other events have no length.
    """

    STATE: ClassVar[Mapping[str, Any]] = {
        "first": ArrayColumn(np.int64),
        "last": ArrayColumn(np.int64),
        "rolled_ns": int,
    }
    DERIVED: ClassVar[tuple[str, ...]] = ("_size", "_duration_ns")

    def __init__(self) -> None:
        self._size = 0
        self.first = np.zeros(0, np.int64)
        """Time at which the first event began: the least over all events. NEVER without events."""
        self.last = np.zeros(0, np.int64)
        self._duration_ns = np.zeros(0)
        """Nanoseconds of a value of 1. 0: values are no durations."""
        self.rolled_ns = 0
        """Time of the last roll; 0 if it is unknown."""

    def restored(self) -> None:
        """Check that times are possible."""
        size = self._size
        if self.first[:size].min(initial=0) < 0 or self.last[:size].min(initial=0) < 0:
            raise ValueError("an invalid time of an event")

    def __len__(self) -> int:
        return self._size

    def add(self, unit: str = "") -> None:
        """Add an instrument. `unit` is that of a series: values in a unit of time are durations."""
        size = self._size + 1
        self.first, self.last = grown(self.first, size), grown(self.last, size)
        self._duration_ns = grown(self._duration_ns, size)
        self.first[self._size] = NEVER
        self._duration_ns[self._size] = TIME_NS.get(unit, 0)
        self._size = size

    @property
    def columns(self) -> tuple[Integers, Integers, Floats]:
        """The columns that compiled code changes: first, last, and the nanoseconds of a value of 1."""
        return self.first, self.last, self._duration_ns

    def note(self, index: Index, value: Floats, end: Integers) -> None:
        """Register events that ended at these times."""
        with np.errstate(over="ignore"):
            duration = value * self._duration_ns.take(index)
        began = end - np.rint(np.minimum(duration, _LONGEST_NS)).astype(np.int64)
        np.maximum(began, 0, out=began)
        earlier = began < self.first.take(index)
        if earlier.item(earlier.argmax()):  # few events are the first
            np.minimum.at(self.first, index[earlier], began[earlier])
        np.maximum.at(self.last, index, end)

    def join(self, index: Index, first: Integers, last: Integers) -> None:
        """Register the times of events that another aggregator has counted. No instrument appears twice."""
        self.first[index] = np.minimum(self.first[index], first)
        self.last[index] = np.maximum(self.last[index], last)

    def newest(self, index: bytes) -> int:
        """Return the time of the newest event of these instruments, given as in an interval; 0 without any."""
        return int(self.last[np.frombuffer(index, "<u4")].max(initial=0))

    def forget_before(self, events: Integers) -> None:
        """Make the beginning of instruments unknown that have events, but no time."""
        lacking = (events > 0) & (self.first[: self._size] == NEVER)
        self.first[: self._size][lacking] = UNKNOWN

    def ranges(self, events: Integers) -> list[tuple[int, int]]:
        """Return the beginning and end of each instrument; 0 if it is unknown, or there are no events.

        An event without a length stands for the time since the one before, and the first one for the mean of these
        times. So the number of events divided by the length of the time range is their rate.
        """
        first, last = self.first[: self._size], self.last[: self._size]
        is_known = (first != NEVER) & (first != UNKNOWN)
        gap = np.where(is_known, last - first, 0) // np.maximum(events - 1, 1)
        began = first - np.where(self._duration_ns[: self._size] > 0.0, 0, np.minimum(gap, first))
        return list(zip(np.where(is_known, began, UNKNOWN).tolist(), last.tolist(), strict=True))

    def window_seconds(self, seconds: float, events: Integers) -> Floats:
        """Return the seconds of the window that each instrument could record in.

        They begin with its first event, which stands for the mean time between two events.
        """
        size = events.size
        first, durations = self.first[:size], self._duration_ns[:size] > 0.0
        age = (self.rolled_ns - np.minimum(first, self.rolled_ns)) / 1e9
        with np.errstate(divide="ignore", invalid="ignore"):
            age = np.where(durations, age, age * events / (events - 1))
        is_young = (first != UNKNOWN) & (age > 0.0) & (age < seconds)
        return np.where(is_young, age, seconds)
