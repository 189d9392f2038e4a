"""Spans on a page: a bar for the self time of each name, and the table of the report."""

from __future__ import annotations

from html import escape
from typing import Final

from telemetry import formatting
from telemetry.formatting import printable
from telemetry.report.html.sections import table
from telemetry.report.spans import spans
from telemetry.span_model import SpanTimes, span_times
from telemetry.wire.report import Report
from telemetry.wire.spans import UNIT

_BARS: Final = 20
"""Largest number of bars: the names with the most self time."""
_WIDTH: Final = 1_000


def spans_body(report: Report) -> str:
    """Return bars and table; empty without spans."""
    found = [one for one in span_times(report.snapshot) if one.share is not None][:_BARS]
    most = max((one.share or 0.0 for one in found), default=0.0)
    rows = "".join(_row(one, most) for one in found)
    bars = f'<table class="shares"><tbody>{rows}</tbody></table>' if most > 0.0 else ""
    section = spans(report)
    return f"{bars}{table(section.table)}" if section.table is not None else ""


def _row(one: SpanTimes, most: float) -> str:
    share = one.share or 0.0
    return (
        f'<tr><th scope="row"><bdi>{escape(printable(one.name))}</bdi></th>'
        f"<td>{escape(formatting.quantity(one.self_ms, UNIT))}</td><td>{escape(formatting.percent(share))}</td>"
        f'<td class="share"><svg viewBox="0 0 {_WIDTH} 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="c0 bar" width="{share / most * _WIDTH:.1f}" height="10"/></svg></td></tr>'
    )
