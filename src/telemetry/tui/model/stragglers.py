"""Slow ranks on the screen of steps: a line for each, and a heat map of rank and step."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from telemetry.common import formatting
from telemetry.common.formatting import columns, printable
from telemetry.history.stragglers import heat, scale, sentences
from telemetry.tui.model.grid import Cell, Line, elided, wrapped
from telemetry.tui.model.scene import Scene
from telemetry.wire.report import LagMap, Stragglers

_NAMED: Final = 3
"""Number of causes with a line of their own."""
_SHADES: Final = " ░▒▓█"
_WIDEST_NAME: Final = 16
_OTHERS: Final = 18
"""Lines of the screen that are left to the tables."""
_SHARE: Final = 3
"""Of further lines, the map takes one in this many."""
_MOST_ROWS: Final = 16
_LEAST_ROWS: Final = 2
_RANKS: Final = re.compile(r"ranks? (\d+)(?: to (\d+))?")


def stragglers(scene: Scene, axis: str | None, width: int, height: int) -> tuple[Line, ...]:
    """Return the lines above the values of an axis; empty without work and wait.

    `width` and `height` are those of the screen.
    """
    analysis = next((each for each in scene.stragglers if each.axis == axis), None)
    if analysis is None or not analysis.map.lags or not analysis.map.steps:
        return ()
    rows = min(max((height - _OTHERS) // _SHARE, _LEAST_ROWS), _MOST_ROWS)
    return (*_verdict(analysis, width), *_map(analysis, width, rows))


def verdict(scene: Scene, width: int) -> tuple[Line, ...]:
    """Return a line for each slow rank of any axis; empty if no rank slows the others."""
    slow = [analysis for analysis in scene.stragglers if analysis.slow]
    return tuple(line for analysis in slow for line in _verdict(analysis, width))


def _verdict(analysis: Stragglers, width: int) -> Iterator[Line]:
    messages = sentences(analysis)
    for message in messages[:_NAMED]:
        yield from wrapped(message, "warn" if analysis.slow else "dim", width)
    if len(messages) > _NAMED:
        yield (Cell(f"and {len(messages) - _NAMED} more causes", "warn"),)


def _map(analysis: Stragglers, width: int, most_rows: int) -> Iterator[Line]:
    lags = _folded(analysis.map, most_rows)
    rows = list(_parts(len(lags.lags), most_rows))
    names = [_name(lags.ranks[part.start], lags.ranks[part.stop - 1]) for part in rows]
    room = min(max(map(columns, names)), _WIDEST_NAME, width // 2)
    cells = max(width - room - 1, 1)
    most = scale(lags)
    for part, name in zip(rows, names, strict=True):
        shades = "".join(_shade(lags, part, step * len(lags.steps) // cells, most) for step in range(cells))
        label = elided(name, room)
        yield Cell(f"{' ' * (room - columns(label))}{label} ", "dim"), Cell(shades, "bad")
    yield _foot(analysis, room, cells, most)


def _folded(lags: LagMap, most_rows: int) -> LagMap:
    """Return the map by group if ranks have no row each: by the dimension with the most groups that have one."""
    fitting = [fold for fold in lags.folds if len(fold.ranks) <= most_rows]
    if len(lags.ranks) <= most_rows or not fitting:
        return lags
    fold = max(fitting, key=lambda fold: len(fold.ranks))
    return replace(lags, ranks=fold.ranks, lags=fold.lags)


def _foot(analysis: Stragglers, room: int, cells: int, most: float) -> Line:
    """Return the line below the map: its first and last step, and what the shades mean."""
    first, last = f"{printable(analysis.axis)} {analysis.map.steps[0]:,}", f"{analysis.map.last_step:,}"
    scale_words = f"█ works {formatting.percent(most)} of a step longer than the median rank"
    free = cells - columns(first) - columns(last)
    if free < 1:
        return (Cell(f"{' ' * (room + 1)}{elided(first, cells)}", "dim"),)
    middle = scale_words if columns(scale_words) + 4 <= free else ""
    left = (free - columns(middle)) // 2
    line = f"{' ' * (room + 1)}{first}{' ' * left}{middle}{' ' * (free - left - columns(middle))}{last}"
    return (Cell(line, "dim"),)


def _shade(lags: LagMap, rows: range, column: int, most: float) -> str:
    row_lags = [lag for row in rows if (lag := lags.lags[row][column]) is not None]
    return _SHADES[min(int(heat(max(row_lags), most) * len(_SHADES)), len(_SHADES) - 1)] if row_lags else "·"


def _name(first: str, last: str) -> str:
    begin, end = _RANKS.fullmatch(first), _RANKS.fullmatch(last)
    if begin is None or end is None:
        return first if first == last else f"{first} …"
    low, high = begin[1], end[2] or end[1]
    return f"rank {low}" if low == high else f"ranks {low}–{high}"


def _parts(count: int, most: int) -> Sequence[range]:
    parts = min(count, most)
    return [range(part * count // parts, (part + 1) * count // parts) for part in range(parts)]
