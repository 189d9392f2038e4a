"""Sections as HTML."""

from __future__ import annotations

from telemetry.report.html.sections import block, table
from telemetry.report.table import ReportTable, Section, TableColumn

TABLE = ReportTable(
    [TableColumn("<n>"), TableColumn("v"), TableColumn("why", right=False)], [["<a>", "1", "&"], ["b", "2", "c"]]
)


def test_text_is_escaped() -> None:
    """Text is escaped in titles, lines, cautions, heads, cells and notes."""
    html = block(Section("<t>", ["<l>"], TABLE, notes=["<o>"], cautions=["<c>"]), '"x')
    assert [text for text in ("<t>", "<l>", "<c>", "<n>", "<a>", "<o>", '""x"') if text in html] == []
    assert 'id="&quot;x"' in html


def test_columns_are_aligned_as_they_say() -> None:
    """The first names the row; of the others only text stands left."""
    assert table(TABLE).count('class="left"') == 3
    assert "<td>1</td>" in table(TABLE)


def test_names_are_broken_between_their_words_and_labels() -> None:
    """Words stay whole, and so do the characters that HTML writes as words."""
    html = table(ReportTable([TableColumn("n")], [["queue_delay{route=/search,m='a'}"]]))
    assert "<td>queue_<wbr>delay{<wbr>route=<wbr>/<wbr>search,<wbr>m=<wbr>&#x27;a&#x27;}</td>" in html


def test_what_is_empty_is_nothing() -> None:
    """A section or a table without content gives no text, not even a heading. A table may be cut."""
    assert block(Section("t")) == ""
    assert table(ReportTable([TableColumn("n")], [])) == ""
    assert table(TABLE, 1).count("<tr>") == 2


def test_cells_of_a_column_may_stand_out() -> None:
    """Cells of a column may stand out, and their text is escaped all the same."""
    text = table(TABLE, badges={2: ["good", "bad"]})
    assert '<td class="left"><span class="badge good">&amp;</span></td>' in text
    assert text.count("badge") == 2


def test_cautions_stand_between_lines_and_table() -> None:
    """Cautions stand out between the lines and the table, where a reader of the figures comes by."""
    html = block(Section("t", ["line"], TABLE, cautions=["mind"]))
    assert html.index("line") < html.index('<p class="banner warn">mind</p>') < html.index("<table")
