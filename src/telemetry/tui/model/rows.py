"""Rows of series: the columns of their figures, and the cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from telemetry.common.formatting import printable
from telemetry.tui.model import numbers
from telemetry.tui.model.grid import Cell, Column, Line, Tone
from telemetry.tui.model.scene import Scene, View
from telemetry.tui.model.sparkline import Move, move, sparkline
from telemetry.tui.model.visible_series import VisibleSeries, delta_column, few_beyond, is_over, percentile_keys

COMPARED: Final = ("50", "99")
KEEP: Final[Mapping[str, int]] = {
    "p50": 0,
    "p99": 0,
    "rate": 2,
    "trend": 3,
    "p99.9": 4,
    "max": 5,
    "count": 6,
    "p90": 7,
    "p99.99": 8,
    "p95": 9,
    "p75": 10,
}
"""Priorities of columns in a narrow table; see Column.keep.

A width of 80 columns shows name, rate, p50, p99, p99.9, trend, and max if names are short.
"""
_KEEP_OTHER: Final = 11
_MOVES: Final[dict[Move, tuple[str, Tone]]] = {
    "steady": (" ", "accent"),
    "risen": ("↑", "warn"),
    "jumped": ("⇑", "bad"),
}
_TREND_COLUMNS: Final = ((200, 60), (150, 30), (120, 20), (0, 9))
"""Pairs of (least columns of the screen, seconds of trend)."""
_DELTAS: Final = {delta_column(key): key for key in COMPARED}


def columns(scene: Scene, view: View, title: str, keep: Mapping[str, int] = KEEP) -> tuple[Column, ...]:
    """Return the columns. `title` is the title of the name column."""
    keys = percentile_keys(scene.snapshot)
    window = view.figures == "window" and scene.moment is None
    base_columns = [
        Column("name", title, right=False),
        Column("count", "count", keep=keep["count"]),
        Column("rate", "rate", keep=keep["rate"]),
        *(Column(f"p{key}", printable(f"p{key}"), keep=keep.get(f"p{key}", _KEEP_OTHER)) for key in keys),
        # The maximum of a window is unknown, so the maximum of the run is shown, under another title.
        Column("max", "peak" if window else "max", keep=keep["max"]),
    ]
    if view.compare and scene.baseline:
        base_columns += [Column(delta_column(key), f"Δp{key}", keep=1) for key in COMPARED if key in keys]
    return (*base_columns, Column("trend", "p99 trend", right=False, keep=keep["trend"]))


def trend_seconds(scene: Scene, width: int) -> int:
    """Return the seconds of a trend for this screen width.

    A finished run gets no more than it has, to leave space for names.
    """
    most = next(points for least, points in _TREND_COLUMNS if width >= least)
    return min(most, max(map(len, scene.trends.values()))) if scene.trends and is_over(scene) else most


def figures(item: VisibleSeries, shown: tuple[Column, ...], view: View, seconds: int) -> Line:
    """Return a cell for each of these columns, without the name column."""
    stat, item_figures, units = item.stat, item.figures, view.units
    moved = move(item.trend)
    cells: list[Cell] = []
    for column in shown:
        key = column.key
        if key == "count":
            cells.append(Cell(numbers.counted(item_figures.count, units), "plain" if item_figures.count else "dim"))
        elif key == "rate":
            cells.append(Cell(numbers.rate(item.rate, "", units), "plain" if item.rate else "dim"))
        elif key == "max":
            cells.append(Cell(numbers.value(item.max, stat.unit, units)))
        elif key == "trend":
            mark, tone = _MOVES[moved]
            # Keep the width when the view moves to a time without a trend.
            drawn = sparkline(item.trend, seconds) if item.trend else " " * seconds
            cells.append(Cell(f"{drawn}{mark}", tone))
        elif key in _DELTAS:
            difference = item.change(_DELTAS[key])
            cells.append(Cell(numbers.change_words(difference), numbers.change_tone(difference, stat.unit)))
        else:
            cells.append(_percentile(item, key[1:], view, moved))
    return tuple(cells)


def _percentile(item: VisibleSeries, percentile: str, view: View, moved: Move) -> Cell:
    """Return the cell of a percentile.

    p99 of the window has the colour of its trend. Values based on few events are dim.
    """
    tone: Tone = "plain"
    if few_beyond(percentile, item.figures.count):
        tone = "dim"
    if percentile == "99" and view.figures == "window" and moved != "steady":
        tone = _MOVES[moved][1]
    value = item.figures.percentiles.get(percentile)
    return Cell(numbers.value(value, item.stat.unit, view.units), tone)
