"""Tables: aligned, fitted to a width, and never cut within a cell."""

from __future__ import annotations

from telemetry.common.formatting import NOTHING, columns
from telemetry.report.table import (
    ReportTable,
    Section,
    TableColumn,
    cut,
    fit,
    layout,
    without_empty_columns,
    wrapped,
)

HEADS = [
    TableColumn("name"),
    TableColumn("a"),
    TableColumn("b", 2),
    TableColumn("c", 1),
    TableColumn("d", 3, right=False),
]


def test_columns_go_in_the_order_of_keep() -> None:
    """The highest `keep` goes first, and 0 never goes."""
    table = ReportTable(HEADS, [["row", "1" * 10, "2" * 10, "3" * 10, "4" * 10]])
    shown = [[column.title for column in fit(table, width).columns[1:]] for width in (60, 50, 30, 20, 10)]
    assert shown == [["a", "b", "c", "d"], ["a", "b", "c"], ["a", "c"], ["a"], ["a"]]


def test_numbers_line_up() -> None:
    """Numbers are right-aligned under their title, words left-aligned, with no blanks at the end."""
    table = ReportTable(
        [TableColumn("name"), TableColumn("value"), TableColumn("why", right=False)],
        [["延迟", "1", "x"], ["b", "22222", ""]],
    )
    assert layout(table, 80) == ["name  value  why", "延迟      1  x", "b     22222"]


def test_a_long_name_gets_its_own_line() -> None:
    """A long name is shown whole and its numbers stay in their columns."""
    table = ReportTable([TableColumn("name"), TableColumn("value")], [["n" * 70, "1"], ["short", "2"]])
    lines = layout(table, 40)
    assert lines[1] == "n" * 70
    assert lines[2].strip() == "1"
    assert lines[3].startswith("short")
    assert len(lines[2]) == len(lines[3])


def test_empty_sections_are_false() -> None:
    """A section with nothing in it is not shown."""
    assert not Section("x")
    assert not Section("x", table=ReportTable(HEADS, []))
    assert Section("x", ["line"])
    assert Section("x", cautions=["mind"])


def test_a_middling_name_pushes_out_only_what_is_nice_to_have() -> None:
    """A name of ordinary length keeps its line, unless a column that matters would have to go for it."""
    heads = [TableColumn("name"), TableColumn("value"), TableColumn("p50", 1), TableColumn("stddev", 10)]
    table = ReportTable(heads, [["n" * 30, "1" * 8, "2" * 8, "3" * 8], ["x", "1", "2", "3"]])
    assert [column.title for column in fit(table, 60).columns] == ["name", "value", "p50", "stddev"]
    assert [column.title for column in fit(table, 52).columns] == ["name", "value", "p50"]
    assert [column.title for column in fit(table, 40).columns] == ["name", "value", "p50"]
    assert layout(table, 40)[1] == "n" * 30


def test_long_text_is_cut_by_columns() -> None:
    """`cut` leaves text that fits as it is. Wide characters count twice, and none is halved."""
    assert cut("abcde", 5) == "abcde"
    assert cut("abcdef", 5) == "abcd…"
    assert cut("日本日本", 8) == "日本日本"
    assert cut("日本日本", 7) == "日本日…"
    assert cut("日本日本", 6) == "日本…"
    assert [columns(cut("日" * 99, width)) for width in (40, 41)] == [39, 41]


FACTS = [TableColumn("name"), TableColumn("value", strong=True), TableColumn("", right=False, wraps=True)]


def test_a_last_column_of_text_gets_the_rest_of_the_line() -> None:
    """The last column is wrapped between facts, below its own beginning, and hides no other column."""
    table = ReportTable(FACTS, [["a", "1", "first fact · second fact · third fact"], ["b", "2", ""]])
    assert layout(table, 80)[1] == "a         1  first fact · second fact · third fact"
    assert layout(table, 40)[1:] == [
        "a         1  first fact · second fact ·",
        "             third fact",
        "b         2",
    ]
    assert layout(table, 10) == layout(table, 30)


def test_a_table_without_titles_has_no_header() -> None:
    """A table without titles begins with its first row."""
    assert layout(ReportTable([TableColumn(""), TableColumn("")], [["a", "1"]]), 80) == ["a  1"]


def test_strong_cells_keep_their_width() -> None:
    """A mark that the terminal does not show takes no columns; headers and other columns have none."""
    lines = layout(ReportTable(FACTS, [["a", "1", "x"]]), 80, lambda text: f"<{text}>")
    assert lines == ["name  value", "a         <1>  x"]


def test_wide_characters_are_wrapped_by_columns() -> None:
    """Each takes two."""
    assert [columns(line) for line in wrapped(" ".join(["日本"] * 9), 20)] == [19, 19, 4]


def test_columns_without_a_value_are_left_out() -> None:
    """A dash is no value. Spans that came from elsewhere have no time of their own."""
    heads = [TableColumn("name"), TableColumn("self"), TableColumn("total"), TableColumn("note")]
    table = without_empty_columns(ReportTable(heads, [["a", NOTHING, "1", ""], ["b", NOTHING, NOTHING, ""]]))
    assert layout(table, 80) == ["name  total", "a         1", "b         –"]
