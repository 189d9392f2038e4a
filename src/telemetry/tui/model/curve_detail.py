"""The parts that every curve on the whole screen has: points, a cursor, and the range that is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from telemetry.tui.model.axes import PlotAxis
from telemetry.tui.model.grid import Line, Tone
from telemetry.tui.model.plot import Plot, Trace

ZOOM_MOST: Final = 10


@dataclass(frozen=True, slots=True)
class Cursor:
    """The marked place on the x axis; None stands for the newest point. Each step of the zoom halves the range."""

    place: float | None = None
    zoom: int = 0


@dataclass(frozen=True, slots=True)
class CurveDetail:
    """The content of the screen. `facts` are about the whole curve, then about the point at the cursor."""

    facts: tuple[Line, ...]
    plot: Plot
    places: tuple[float, ...] = ()
    """Places of the shown points, ascending."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    place: float
    value: float | None
    """None: not finite, or not set."""
    low: float | None = None
    high: float | None = None


def visible_range(points: Sequence[CurvePoint], cursor: Cursor) -> tuple[float, float]:
    """Return the range that the zoom selects around the cursor. There is at least one point."""
    first, last = min(point.place for point in points), max(point.place for point in points)
    half = (last - first) / 2 ** (cursor.zoom + 1)
    middle = min(max(last if cursor.place is None else cursor.place, first + half), last - half)
    return middle - half, middle + half


def between(points: Sequence[CurvePoint], low: float, high: float) -> list[CurvePoint]:
    return [point for point in points if low <= point.place <= high]


def nearest(points: Sequence[CurvePoint], cursor: Cursor) -> CurvePoint:
    """Return the point at the cursor. There is at least one point."""
    position = cursor.place
    return points[-1] if position is None else min(points, key=lambda point: abs(point.place - position))


def known_values(points: Sequence[CurvePoint]) -> list[float]:
    """Return all values, and the edges of the band around them."""
    return [each for point in points for each in (point.value, point.low, point.high) if each is not None]


def band(name: str, points: Sequence[CurvePoint], axis: PlotAxis) -> list[Trace]:
    """Return the edges of the band around the values; none if it has no height anywhere."""
    if all(point.low == point.high for point in points):
        return []
    return [trace(name, points, axis, lambda at: at.low, "dim"), trace("", points, axis, lambda at: at.high, "dim")]


def trace(
    name: str, points: Sequence[CurvePoint], axis: PlotAxis, of: Callable[[CurvePoint], float | None], tone: Tone
) -> Trace:
    pairs = [(point.place, value) for point in points if (value := of(point)) is not None]
    return Trace(name, tuple(position for position, _ in pairs), tuple(axis.at(value) for _, value in pairs), tone)


def plot_of(title: str, traces: Sequence[Trace], axis: PlotAxis, shown: tuple[float, float]) -> Plot:
    return Plot(title=title, traces=tuple(traces), y_ticks=axis.ticks, x_range=shown, y_range=(axis.low, axis.high))
