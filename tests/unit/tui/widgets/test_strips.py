"""Text is as wide as it is said to be, whatever it consists of."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style

from telemetry.common import formatting
from telemetry.tui.model.grid import Cell, Line
from telemetry.tui.theme import Tones
from telemetry.tui.widgets.strips import MORE, MOST_ROWS, fitted, line_strip, wrapped

TONES: Tones = {
    "plain": Style(),
    "dim": Style(dim=True),
    "strong": Style(bold=True),
    "accent": Style(color="blue"),
    "good": Style(color="green"),
    "warn": Style(color="yellow"),
    "bad": Style(color="red"),
}
shown = st.text().map(formatting.printable)


@pytest.mark.parametrize(
    ("text", "width", "right", "expected"),
    [
        ("p99", 5, False, "p99  "),
        ("p99", 5, True, "  p99"),
        ("p99", 3, True, "p99"),
        ("decode.step_time", 9, False, "deco…time"),
        ("decode", 1, False, "…"),
        ("decode", 0, False, ""),
        ("数据库延迟", 6, False, "数…迟 "),
        ("", 2, False, "  "),
    ],
)
def test_text_is_padded_or_loses_its_middle(text: str, width: int, right: bool, expected: str) -> None:
    """Both ends of a name stay, for series differ in their labels."""
    assert fitted(text, width, right=right) == expected


@given(text=shown, width=st.integers(0, 40), right=st.booleans())
def test_fitted_text_takes_exactly_its_width(text: str, width: int, right: bool) -> None:
    """Fitted text takes its exact width, whatever it has in it. So the next column stands where it should."""
    assert cell_len(fitted(text, width, right=right)) == width


def test_a_line_becomes_a_strip_with_its_tones() -> None:
    """Each piece has the style of its tone; the rest of the line is plain."""
    strip = line_strip((Cell("LIVE", "good"), Cell(""), Cell(" run")), 10, TONES)
    assert [(segment.text, segment.style) for segment in strip] == [
        ("LIVE", TONES["good"]),
        (" run", TONES["plain"]),
        ("  ", TONES["plain"]),
    ]


def test_a_long_line_is_cut() -> None:
    """A strip is never wider than its widget."""
    assert line_strip((Cell("abc"), Cell("def")), 4, TONES).text == "abcd"


@pytest.mark.parametrize(
    ("text", "width", "rows"),
    [
        ("short", 9, ["short"]),
        ("mark warm-up done", 9, ["mark", "warm-up", "done"]),
        ("mark warm-up done", 12, ["mark warm-up", "done"]),
        ("/a/very/long/path", 6, ["/a/ver", "y/long", "/path"]),
        ("数据库延迟", 5, ["数据", "库延", "迟"]),
        ("anything", 0, ["anything"]),
    ],
)
def test_long_lines_break_at_spaces(text: str, width: int, rows: list[str]) -> None:
    """Words stay whole where they fit in a row."""
    assert ["".join(cell.text for cell in row) for row in wrapped((Cell(text),), width)] == rows


def test_tones_go_with_their_text_into_the_next_row() -> None:
    """A warning is a warning to its last word."""
    line: Line = (Cell("12:00:00 ", "dim"), Cell("two of them lost", "bad"))
    assert wrapped(line, 12) == (
        (Cell("12:00:00 ", "dim"), Cell("two", "bad")),
        (Cell("of them lost", "bad"),),
    )


def test_endless_lines_end() -> None:
    """One line of a megabyte leaves room for others, and says that there was more."""
    rows = wrapped((Cell("x" * 1_000_000),), 10)
    assert len(rows) == MOST_ROWS
    assert rows[-1] == (Cell("x" * 9), Cell(MORE, "dim"))


@example(texts=["0" * 40 + "\u0300" + "0"], width=2)
@given(texts=st.lists(shown, max_size=4), width=st.integers(2, 30))
def test_rows_have_all_of_the_text_and_fit(texts: list[str], width: int) -> None:
    """Wrapped rows fit and lose nothing but spaces at the breaks, unless there are too many rows."""
    line = tuple(Cell(text) for text in texts)
    rows = wrapped(line, width)
    shown_text = "".join(cell.text for row in rows for cell in row)
    assert all(cell_len("".join(cell.text for cell in row)) <= width for row in rows)
    if len(rows) < MOST_ROWS:
        assert shown_text.replace(" ", "") == "".join(texts).replace(" ", "")
