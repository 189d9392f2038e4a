"""Where the columns of a grid stand, for a width."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rich.cells import cell_len

from telemetry.tui.model.grid import Grid
from telemetry.tui.widgets.names import room_needed

MARGIN: Final = 1
"""Left and right of the row, so that the cursor's bar has shoulders."""
GAP: Final = 2
WIDE_GAP: Final = 5
"""On wide screens; with more the eye loses the row."""
SLACK: Final = 2
"""A column shrinks only when it has more than this to spare, or every `9.99` → `10.0` would move them all."""
FIRST: Final = 18
"""Below this many columns a name can't be told from the next: rather than that, others are left out."""
_SMALL: Final = 40
"""Of the columns beyond this many a name may have half before there are more figures."""


EVERY: Final = slice(None)


@dataclass(frozen=True, slots=True)
class Place:
    index: int
    """Of the column in its grid."""
    x: int
    width: int

    @property
    def end(self) -> int:
        return self.x + self.width


@dataclass(frozen=True, slots=True)
class Layout:
    width: int = 0
    places: tuple[Place, ...] = ()
    needs: Mapping[str, int] = field(default_factory=dict)
    """Width that each column was given by its contents, also of those left out."""

    def column_at(self, x: int) -> int | None:
        """Index of the column at or nearest left of x: gaps belong to a column too, a mouse is not that exact."""
        at = [place.index for place in self.places if place.x - GAP <= x]
        return at[-1] if at else None


def laid_out(grid: Grid, width: int, before: Layout, looked_at: slice = EVERY) -> Layout:
    """Columns go by descending `keep` until the rest fits beside a first column that is still readable; the first
    takes what the others leave. Names have room in all rows, figures in those that are looked at or made anyway."""
    if not grid.columns:
        return Layout(width)
    needs = _needs(grid, before.needs, looked_at)
    widths = list(needs.values())
    kept = _kept(grid, widths, width)
    others = sum(widths[index] for index in kept[1:])
    free = max(1, width - 2 * MARGIN - others - GAP * (len(kept) - 1))
    grown = min(WIDE_GAP - GAP, max(0, free - widths[0]) // max(1, len(kept) - 1))
    gap = GAP + grown
    widths[0] = free - grown * (len(kept) - 1)
    places = []
    x = MARGIN
    for index in kept:
        places.append(Place(index, x, widths[index]))
        x += widths[index] + gap
    return Layout(width, tuple(places), needs)


def _needs(grid: Grid, before: Mapping[str, int], looked_at: slice) -> dict[str, int]:
    needs: dict[str, int] = {}
    seen = range(*looked_at.indices(len(grid.rows)))
    lines = [row.cells for at, row in enumerate(grid.rows) if (row.made or at in seen) and not row.heading]
    names = [row.name.text for row in grid.rows if not row.heading]
    for index, column in enumerate(grid.columns):
        # One more than the title: the arrow of the sorted column must not move the others.
        need = cell_len(column.title) + 1
        texts = names if index == 0 else [cells[index].text for cells in lines]
        need = max([need, *map(cell_len, texts)])
        old = before.get(column.key, 0)
        needs[column.key] = old if need <= old <= need + SLACK else need
    return needs


def _kept(grid: Grid, widths: list[int], width: int) -> list[int]:
    kept = list(range(len(widths)))
    apart = room_needed(tuple(row.name.text for row in grid.rows if not row.heading))
    first = min(widths[0], max(FIRST, min(apart, width // 3), width // 4, (width - _SMALL) // 2))
    while 2 * MARGIN + first + sum(widths[index] + GAP for index in kept[1:]) > width:
        droppable = [index for index in kept[1:] if grid.columns[index].keep]
        if not droppable:
            break
        kept.remove(max(droppable, key=lambda index: (grid.columns[index].keep, index)))
    return kept
