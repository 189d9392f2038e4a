"""The last seconds of a series in one line of text, and whether they tell of a change."""

from __future__ import annotations

from functools import lru_cache
from statistics import median
from typing import Final, Literal

_BARS: Final = "▁▂▃▄▅▆▇█"
_ROOM: Final = 16 / 9
"""With it the median is in the middle of a bar: at the edge of two, noise would look like a saw."""
RISEN: Final = 1.25
JUMPED: Final = 2.0
_ENOUGH: Final = 5
"""Of fewer points the median is one of the first seconds, when caches were cold."""

_remembered = lru_cache(maxsize=1 << 12)
"""Trends grow once a second and are drawn four times: twice as many as there are series."""

Move = Literal["steady", "risen", "jumped"]


@_remembered
def sparkline(points: tuple[float, ...], width: int) -> str:
    """The newest at the right edge, `width` columns.

    Heights are proportional, from zero to the greatest value or _ROOM times the median, whichever is more: what
    stays the same within a tenth is a level line at half the height, and a doubling fills it.
    """
    shown = points[-width:]
    top = max(*shown, _ROOM * median(shown)) if shown else 0
    last = len(_BARS) - 1
    bars = "".join(_BARS[min(last, int(point / top * len(_BARS)))] if top > 0 else _BARS[0] for point in shown)
    return bars.rjust(width)


@_remembered
def course(points: tuple[float | None, ...], width: int) -> str:
    """The same of values that may be anything: heights are from the least to the greatest of those shown, and what
    stays the same is a level line. A gap is where there was no finite number."""
    shown = points[-width:]
    known = [point for point in shown if point is not None]
    if not known:
        return " " * width
    least, greatest, last = min(known), max(known), len(_BARS) - 1
    # Halves, for the difference of two floats may be none.
    spread = greatest / 2 - least / 2
    heights = (
        None if point is None else (point / 2 - least / 2) / spread if spread > 0 else 0.5 for point in shown
    )
    bars = "".join(" " if height is None else _BARS[min(last, int(height * len(_BARS)))] for height in heights)
    return bars.rjust(width)


@_remembered
def movement(points: tuple[float, ...]) -> float | None:
    """The last point as a multiple of the median of all; None where that says nothing."""
    if len(points) < _ENOUGH:
        return None
    middle = median(points)
    return points[-1] / middle if middle > 0 else None


def move(points: tuple[float, ...]) -> Move:
    """`risen` from 1.25 times the median of the trend on, `jumped` from twice."""
    ratio = movement(points)
    if ratio is None or ratio < RISEN:
        return "steady"
    return "jumped" if ratio >= JUMPED else "risen"
