"""Percentile curves as other pages take them."""

from __future__ import annotations

import json
import re

from telemetry.report.html import curves

LINE = [(0.0, 1.0), (0.5, 2.0), (0.99, 8.0), (1.0, 9.0)]


def test_lines_are_in_the_figure() -> None:
    """The figure has its lines as data for the script and as a table for readers without scripts.

    The table gives the value that so many values are not above.
    """
    text = curves("latency", [("before", LINE), ("after", LINE[:1] + LINE[2:])], "ms")
    found = re.search(r'<script type="application/json">(.*?)</script>', text)
    assert found
    data = json.loads(found[1])
    assert data["unit"] == "ms"
    assert [line["name"] for line in data["lines"]] == ["before", "after"]
    assert data["lines"][0]["points"] == [list(point) for point in LINE]
    cells = re.findall(r"<td>([^<]*)</td>", text)
    assert cells[:5] == ["1.00 ms", "2.00 ms", "8.00 ms", "8.00 ms", "9.00 ms"]
    assert cells[8:11] == ["1.00 ms", "8.00 ms", "8.00 ms"]


def test_names_are_text() -> None:
    """Names are escaped in the figure, in its table and in its data."""
    text = curves("</figcaption><img>", [('<img src=x onerror="alert(1)">', LINE)], "<b>")
    assert "<img" not in text
    assert "<b>" not in text


def test_a_line_without_values_is_not_drawn() -> None:
    """A line without values is not drawn, and its row in the table has a dash in each cell."""
    text = curves("latency", [("before", LINE), ("after", [])], "ms")
    assert '"after"' not in text
    assert re.search(r"after</th>(<td>–</td>){8}", text)
