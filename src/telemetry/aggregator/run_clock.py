"""The run's own clock: the wall clock at the first batch, continued by the monotonic clock.

Times of events are placed on it. So a step of any wall clock, here or at a producer, changes no distance between
two events. Dates for people follow the wall clock and are `shift_ns` later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta

from telemetry import limits

LATEST_NS: Final = (1 << 63) - 1
_FRESH_NS: Final = 10_000_000_000
"""Maximum age of a batch on arrival, unless a process was stopped."""


class RunClock:
    """Clock of a run. In every call, `now_ns` is the aggregator's monotonic clock and `wall_ns` its wall clock."""

    STATE: ClassVar[Mapping[str, Any]] = {"_origin_ns": Annotated[int, Meta(ge=-LATEST_NS, le=LATEST_NS)] | None}
    DERIVED: ClassVar[tuple[str, ...]] = ("now_ns", "shift_ns")

    def __init__(self) -> None:
        self._origin_ns: int | None = None
        """Difference from the monotonic clock to this one. None before the first batch."""
        self.now_ns = 0
        """Time of this clock at the last `read`."""
        self.shift_ns = 0
        """Total step of the wall clock at the last `read`."""

    def read(self, now_ns: int, wall_ns: int) -> None:
        """Move on to this moment."""
        if self._origin_ns is None:
            self._origin_ns = wall_ns - now_ns
        self.now_ns = self.at(now_ns)
        self.shift_ns = self.shift_at(now_ns, wall_ns)

    def at(self, now_ns: int) -> int:
        """Return this moment on this clock; 0 before the first batch."""
        return 0 if self._origin_ns is None else min(max(0, now_ns + self._origin_ns), LATEST_NS)

    def shift_at(self, now_ns: int, wall_ns: int) -> int:
        """Return how far the wall clock has stepped since the first batch. Changes no state."""
        if self._origin_ns is None:
            return 0
        shift_ns = wall_ns - now_ns - self._origin_ns
        return shift_ns if abs(shift_ns) >= limits.CLOCK_STEP_NS else 0

    def wall_at(self, now_ns: int, wall_ns: int) -> int:
        """Return this moment on the wall clock by which records are dated. It ignores small steps."""
        if self._origin_ns is None:
            return wall_ns
        return min(max(0, now_ns + self._origin_ns + self.shift_ns), LATEST_NS)

    def offset_by(self, offset_ns: int) -> int:
        """Return the difference from a clock to this one, by its difference to the monotonic clock."""
        return (self._origin_ns or 0) + offset_ns

    def offset_of(self, anchor: tuple[int, int]) -> int:
        """Return the difference from a producer's monotonic clock to this one, by the anchor of its first batch.

        The batch has just arrived. The wall clocks give the difference, unless one of them was set just now. Then
        the batch is read on the aggregator's own monotonic clock, which all processes of a machine share, if that
        makes the batch a fresh one.
        """
        same, latest = self._origin_ns or 0, self.now_ns - anchor[0]
        wall_offset = anchor[1] - anchor[0] - self.shift_ns
        if abs(wall_offset - same) < limits.CLOCK_STEP_NS:
            return same
        if not 0 <= latest - wall_offset < _FRESH_NS and 0 <= latest - same < _FRESH_NS:
            return same
        return min(wall_offset, latest)
