"""Units: how many integer ticks one unit is worth.

A histogram counts ticks. The number of ticks in a unit depends on the unit alone, so every series of a unit has the
same buckets and the same display edges, and histograms of different runs can be added.
"""

from __future__ import annotations

from typing import Final

TIME_NS: Final[dict[str, int]] = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
}
WHOLE: Final = frozenset(
    {"1", "B", "bytes", "tokens", "requests", "items", "events", "count", "ops", "samples", "steps", "rows"}
)
BYTES: Final[dict[str, int]] = {
    "kB": 1_000,
    "KB": 1_000,
    "MB": 1_000_000,
    "GB": 1_000_000_000,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
}
FRACTION_TICKS: Final = 1_000_000  # an unknown unit is counted in millionths


def ticks_per_unit(unit: str, low: float | None = None) -> float:
    """Return the ticks in one unit. `low`, the smallest value to distinguish, overrides the unit's resolution."""
    if low is not None:
        return 1.0 / low
    if unit in TIME_NS:
        return float(TIME_NS[unit])
    if unit in BYTES:
        return float(BYTES[unit])
    return 1.0 if unit in WHOLE else float(FRACTION_TICKS)
