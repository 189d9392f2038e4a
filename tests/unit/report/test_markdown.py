"""The Markdown form survives what people put into names."""

from __future__ import annotations

from telemetry.report.markdown import escape, render_markdown
from telemetry.wire.report import Report
from telemetry.wire.snapshot import MetricsSnapshot


def test_markup_in_text_stays_text() -> None:
    """Characters that Markdown or HTML would read are escaped."""
    assert escape("a|b_c <i> `x` [y](z) *w*") == r"a\|b\_c \<i\> \`x\` \[y\](z) \*w\*"


def test_a_cell_cannot_break_its_row() -> None:
    """A bar or a newline in a parameter leaves the table whole."""
    snapshot = MetricsSnapshot(run_id="r", name="n", params={"a|b": "c\n| d |"})
    rows = [
        line
        for line in render_markdown(Report(snapshot=snapshot, source="file"), full=True).splitlines()
        if line[:1] == "|"
    ]
    assert rows == ["| name | value |", "| --- | --- |", r"| a\|b | c\\n\| d \| |"]
