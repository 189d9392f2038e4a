"""The run's own clock: the wall clock as it was at the first batch, carried on by the monotonic clock.

Times of events are placed on it, so that no step of a wall clock, ours or a producer's, changes a distance between
two of them. Dates for people follow the wall clock and are `shift_ns` later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta

from telemetry import limits

LATEST_NS: Final = (1 << 63) - 1
_FRESH_NS: Final = 10_000_000_000
"""A batch is younger than this when it arrives, unless somebody was stopped."""


class RunClock:
    """`now_ns` is our monotonic clock and `wall_ns` our wall clock in every call."""

    STATE: ClassVar[Mapping[str, Any]] = {"_origin_ns": Annotated[int, Meta(ge=-LATEST_NS, le=LATEST_NS)] | None}
    DERIVED: ClassVar[tuple[str, ...]] = ("now_ns", "shift_ns")

    def __init__(self) -> None:
        self._origin_ns: int | None = None
        """From the monotonic clock to this one. None before the first batch."""
        self.now_ns = 0
        """This clock, as of the last `read`."""
        self.shift_ns = 0
        """How far the wall clock had stepped by then."""

    def read(self, now_ns: int, wall_ns: int) -> None:
        """Moves on to this moment."""
        if self._origin_ns is None:
            self._origin_ns = wall_ns - now_ns
        self.now_ns = min(max(0, now_ns + self._origin_ns), LATEST_NS)
        self.shift_ns = self.shift_at(now_ns, wall_ns)

    def shift_at(self, now_ns: int, wall_ns: int) -> int:
        """How far the wall clock has stepped since the first batch. Changes nothing."""
        if self._origin_ns is None:
            return 0
        shift_ns = wall_ns - now_ns - self._origin_ns
        return shift_ns if abs(shift_ns) >= limits.CLOCK_STEP_NS else 0

    def offset_of(self, anchor: tuple[int, int]) -> int:
        """From a producer's monotonic clock to this one, by the anchor of its first batch, which has just come.

        The wall clocks tell it, unless one of them was set just now. Then the batch counts as read on our own
        monotonic clock, which all processes of a machine share, if that makes it a fresh one.
        """
        same, latest = self._origin_ns or 0, self.now_ns - anchor[0]
        told = anchor[1] - anchor[0] - self.shift_ns
        if abs(told - same) < limits.CLOCK_STEP_NS:
            return same
        if not 0 <= latest - told < _FRESH_NS and 0 <= latest - same < _FRESH_NS:
            return same
        return min(told, latest)
