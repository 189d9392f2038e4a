"""The range of an axis: its lowest and highest step with values, and the times of its first and last value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from telemetry.aggregator.event_times import UNKNOWN
from telemetry.wire.events import Natural, Step


class AxisTimes:
    """Range of the steps of one axis, and of the times of their values. Times are on the run's clock."""

    STATE: ClassVar[Mapping[str, Any]] = {
        "lowest": Step | None,
        "highest": Step | None,
        "first_ns": Natural,
        "last_ns": Natural,
    }
    DERIVED: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self.lowest: int | None = None
        self.highest: int | None = None
        self.first_ns = UNKNOWN
        self.last_ns = UNKNOWN

    def restored(self) -> None:
        if (self.lowest is None) is not (self.highest is None) or (self.lowest or 0) > (self.highest or 0):
            raise ValueError("a range of steps that no axis has")

    def note(self, step: int, first_ns: int, last_ns: int) -> None:
        """Register values of a step from the first to the last of these times."""
        if self.lowest is None or self.highest is None:
            self.lowest, self.highest, self.first_ns, self.last_ns = step, step, first_ns, last_ns
            return
        self.lowest, self.highest = min(self.lowest, step), max(self.highest, step)
        self.first_ns, self.last_ns = min(self.first_ns, first_ns), max(self.last_ns, last_ns)

    def began_ns(self, steps: int) -> int:
        """Return the time of the first value less the mean time between two of so many steps, as of a counter."""
        gap_ns = (self.last_ns - self.first_ns) // max(steps - 1, 1)
        return self.first_ns - min(gap_ns, self.first_ns)
