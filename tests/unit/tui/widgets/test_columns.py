"""Columns have room for what is in them, and stand still."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.tui.model.grid import Cell, Column, Grid, Line, Row
from telemetry.tui.widgets.grid_view import FIRST, GAP, MARGIN, WIDE_GAP, PlacedColumns, laid_out

COLUMNS = (
    Column("name", "name", right=False),
    Column("count", "count"),
    Column("p50", "p50", keep=1),
    Column("p90", "p90", keep=3),
    Column("trend", "trend", right=False, keep=2),
)


def grid_of(*rows: tuple[str, ...]) -> Grid:
    cells = [tuple(Cell(text) for text in row) for row in rows]
    return Grid(COLUMNS, tuple(Row(str(at), row[0], row[1:]) for at, row in enumerate(cells)))


def keys(layout: PlacedColumns) -> list[str]:
    return [COLUMNS[place.index].key for place in layout.places]


WIDE = ("x" * 60, "1,234", "1.00 ms", "2.00 ms", "▁▂▃")


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (80, ["name", "count", "p50", "p90", "trend"]),
        (52, ["name", "count", "p50", "trend"]),
        (44, ["name", "count", "p50"]),
        (34, ["name", "count"]),
        (20, ["name", "count"]),
    ],
)
def test_narrow_screens_lose_the_columns_that_matter_least(width: int, expected: list[str]) -> None:
    """Narrow screens lose columns by descending `keep`. Columns with 0 stay even where there is no room."""
    assert keys(laid_out(grid_of(WIDE), width, PlacedColumns())) == expected


def test_the_first_column_takes_what_is_left() -> None:
    """The last column ends at the right margin; a name that is too long has all the rest."""
    layout = laid_out(grid_of(WIDE), 80, PlacedColumns())
    assert layout.places[0].x == MARGIN
    assert layout.places[-1].end == 80 - MARGIN
    assert FIRST <= layout.places[0].width < 60


def test_long_names_have_half_of_what_a_wide_screen_has_more() -> None:
    """Long names have half of what a wide screen has more, before further figures.

    A quarter of a small screen is theirs.
    """
    figures = tuple(Column(f"p{at}", f"p{at}", keep=at) for at in range(1, 20))
    row = Row("row", Cell("x" * 90), tuple(Cell("1.00 ms") for _ in figures))
    grid = Grid((Column("name", "name", right=False), *figures), (row,))
    for width, least in ((80, 20), (120, 40), (200, 80)):
        first = laid_out(grid, width, PlacedColumns()).places[0].width
        assert least <= first < least + GAP + len("1.00 ms")


def test_gaps_grow_where_there_is_room_but_not_for_ever() -> None:
    """Gaps grow on a wide screen so that figures stand apart, and the eye still finds the row."""
    for width, gap in ((66, GAP), (200, WIDE_GAP)):
        places = laid_out(grid_of(("name", *WIDE[1:])), width, PlacedColumns()).places
        assert min(b.x - a.end for a, b in pairwise(places)) >= GAP
        assert places[2].x - places[1].end <= max(gap, WIDE_GAP)
        assert places[-1].end == width - MARGIN


def test_columns_do_not_tremble() -> None:
    """A figure that is a digit shorter, or longer again, moves nothing; one that is much shorter frees the room."""
    first = laid_out(grid_of(("name", "12,345,678", *WIDE[2:])), 80, PlacedColumns())
    second = laid_out(grid_of(("name", "9,999,999", *WIDE[2:])), 80, first)
    third = laid_out(grid_of(("name", "9", *WIDE[2:])), 80, second)
    assert first.places == second.places
    assert third.places[1].width < second.places[1].width


def test_headings_and_wide_characters_are_measured_as_they_are() -> None:
    """A heading runs across all columns, so it widens none; a wide character takes two."""
    heading = Row("h", Cell("route=/a/very/long/name"), heading=True)
    row = grid_of(("数据", *WIDE[1:])).rows[0]
    layout = laid_out(Grid(COLUMNS, (heading, row)), 40, PlacedColumns())
    assert layout.needs["name"] == len("name ")
    wider = grid_of(("数据库延迟", *WIDE[1:])).rows[0]
    assert laid_out(Grid(COLUMNS, (heading, wider)), 40, PlacedColumns()).needs["name"] == 10


def test_a_column_is_found_by_where_it_is() -> None:
    """The gap left of a column belongs to it; there is nothing left of the first but its margin."""
    layout = laid_out(grid_of(WIDE), 80, PlacedColumns())
    second = layout.places[1]
    assert layout.column_at(second.x) == layout.column_at(second.x - 1) == 1
    assert layout.column_at(second.x - GAP - 1) == 0
    assert layout.column_at(0) == 0
    assert PlacedColumns().column_at(5) is None


@given(width=st.integers(0, 300), name=st.integers(0, 100))
def test_places_never_overlap(width: int, name: int) -> None:
    """Places never overlap: on any width, columns are in their order and beside each other."""
    places = laid_out(grid_of(("n" * name, *WIDE[1:])), width, PlacedColumns()).places
    assert all(place.width >= 1 for place in places)
    assert all(b.x >= a.end + GAP for a, b in pairwise(places))


def test_figures_that_nobody_looks_at_are_not_made() -> None:
    """Names have room in all rows, figures in those that are looked at."""
    made: list[int] = []

    def figures(at: int) -> Line:
        made.append(at)
        return tuple(Cell(str(10**at)) for _ in COLUMNS[1:])

    rows = tuple(Row(str(at), Cell("n" * (10 + at)), partial(figures, at)) for at in range(10))
    layout = laid_out(Grid(COLUMNS, rows), 80, PlacedColumns(), slice(4, 6))
    assert made == [4, 5]
    assert layout.needs["name"] == 19
    assert layout.needs["count"] == 6
    assert rows[4].cells == rows[4].cells
    assert made == [4, 5]
