"""The last seconds of a series as one line of text, and whether they show a change."""

from __future__ import annotations

from functools import lru_cache
from statistics import median
from typing import Final, Literal

from telemetry.common.formatting import differ

_BARS: Final = "▁▂▃▄▅▆▇"
"""Heights. A full block would touch the line above, and trends below each other would look like one."""
_ROOM: Final = 2.0
"""Least full height of a sparkline, as a multiple of the median.

It puts the median in the middle of a bar; at the edge of two, noise would look like a saw.
"""
RISEN: Final = 1.25
JUMPED: Final = 2.0
_BACK: Final = 0.9
"""A change lasts until the value is this much below its limit: at the limit, colours would flicker."""
_ENOUGH: Final = 5
"""Fewest points for a comparison. With fewer, the median is from the first seconds, when caches were cold."""

_remembered = lru_cache(maxsize=1 << 12)
"""A cache. Trends grow once a second and are drawn four times; it holds twice as many as there are series."""

Move = Literal["steady", "risen", "jumped"]


@_remembered
def sparkline(points: tuple[float | None, ...], width: int, full: float | None = None) -> str:
    """Return a line of `width` columns with the newest point at the right edge. None is a gap.

    Heights are proportional, from zero to `full`, or else to the greatest value or _ROOM times the median,
    whichever is more. Values that stay within a tenth give a level line at half the height; doubled values fill it.
    """
    shown = points[-width:]
    values = [point for point in shown if point is not None]
    top = full or (max(*values, _ROOM * median(values)) if values else 0)
    last = len(_BARS) - 1
    heights = (None if point is None else point / top if top > 0 else 0.0 for point in shown)
    bars = (" " if height is None else _BARS[max(0, min(last, int(height * len(_BARS))))] for height in heights)
    return "".join(bars).rjust(width)


@_remembered
def course(points: tuple[float | None, ...], width: int) -> str:
    """Return a sparkline of values that may be negative.

    Heights go from the least to the greatest of the shown values. Values that differ only by rounding give a level
    line. A gap stands for a number that is not finite.
    """
    shown = points[-width:]
    values = [point for point in shown if point is not None]
    if not values:
        return " " * width
    least, greatest, last = min(values), max(values), len(_BARS) - 1
    # Halves: the difference of two large floats may overflow.
    spread = greatest / 2 - least / 2 if differ(least, greatest) else 0.0
    heights = (
        None if point is None else (point / 2 - least / 2) / spread if spread > 0 else 0.5 for point in shown
    )
    bars = "".join(" " if height is None else _BARS[min(last, int(height * len(_BARS)))] for height in heights)
    return bars.rjust(width)


@_remembered
def movement(points: tuple[float | None, ...]) -> float | None:
    """Return the last value as a multiple of the median; None if there are too few values or the median is zero."""
    values = [point for point in points if point is not None]
    if len(values) < _ENOUGH:
        return None
    middle = median(values)
    return values[-1] / middle if middle > 0 else None


@_remembered
def move(points: tuple[float | None, ...]) -> Move:
    """Return `risen` from 1.25 times the median of the trend on, `jumped` from twice, else `steady`.

    A change ends once a value is 10 % below its limit.
    """
    values = [point for point in points if point is not None]
    middle = median(values) if len(values) >= _ENOUGH else 0.0
    moved: Move = "steady"
    for point in values if middle > 0 else ():
        ratio = point / middle
        jumped = ratio >= JUMPED * (_BACK if moved == "jumped" else 1.0)
        risen = ratio >= RISEN * (_BACK if moved != "steady" else 1.0)
        moved = "jumped" if jumped else "risen" if risen else "steady"
    return moved
