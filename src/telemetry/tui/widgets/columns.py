"""Places of the columns of a grid, for a given width."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rich.cells import cell_len

from telemetry.tui.model.grid import Grid

MARGIN: Final = 1
"""Columns left and right of a row, so that the cursor's bar extends beyond its text."""
GAP: Final = 2
WIDE_GAP: Final = 5
"""Largest gap, for wide screens; with a wider one the eye loses the row."""
SLACK: Final = 2
"""Spare width that a column keeps before it shrinks. Otherwise every `9.99` → `10.0` would move all columns."""
FIRST: Final = 18
"""Least columns of names. With fewer, names look alike, so other columns are left out first."""
_SMALL: Final = 40
"""Width beyond which half of the additional columns go to names before more figures are shown."""


EVERY: Final = slice(None)


@dataclass(frozen=True, slots=True)
class Place:
    index: int
    """Index of the column in its grid."""
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
    """Width needed by the content of each column, including hidden columns."""

    def column_at(self, x: int) -> int | None:
        """Return the index of the column at or nearest left of x.

        A gap belongs to a column: a mouse is not that exact.
        """
        at = [place.index for place in self.places if place.x - GAP <= x]
        return at[-1] if at else None


def laid_out(grid: Grid, width: int, before: Layout, looked_at: slice = EVERY) -> Layout:
    """Lay out the columns for a width.

    Columns with the highest `keep` are left out until the rest fits beside a readable first column, which gets the
    remaining width. Widths consider names of all rows, but figures only of visible or already computed rows.
    """
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
    first = min(widths[0], max(FIRST, width // 4, (width - _SMALL) // 2))
    while 2 * MARGIN + first + sum(widths[index] + GAP for index in kept[1:]) > width:
        droppable = [index for index in kept[1:] if grid.columns[index].keep]
        if not droppable:
            break
        kept.remove(max(droppable, key=lambda index: (grid.columns[index].keep, index)))
    return kept
