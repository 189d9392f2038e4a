"""A clock for tests that only moves on request."""

from __future__ import annotations

_SECOND_NS = 1_000_000_000


class FakeClock:
    """A `telemetry.common.clock.Clock`. Both of its clocks move together."""

    def __init__(self, monotonic_ns: int = 1_000 * _SECOND_NS, wall_ns: int = 1_700_000_000 * _SECOND_NS) -> None:
        self._monotonic_ns = monotonic_ns
        self._wall_ns = wall_ns

    def monotonic_ns(self) -> int:
        return self._monotonic_ns

    def wall_ns(self) -> int:
        return self._wall_ns

    def advance(self, seconds: float) -> None:
        """Move both clocks forward. Raises ValueError for a negative step."""
        if seconds < 0:
            raise ValueError("time moves forward only")
        step_ns = round(seconds * _SECOND_NS)
        self._monotonic_ns += step_ns
        self._wall_ns += step_ns
