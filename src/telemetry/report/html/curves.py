"""Percentile curves of one or several runs on HdrHistogram's axis: 90 %, 99 %, 99.9 % are equally far apart."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from telemetry.common import formatting
from telemetry.common.formatting import printable
from telemetry.report.html.data import embedded
from telemetry.report.html.help import question

Curve = Sequence[tuple[float, float]]
"""Points (fraction of the values, value that this fraction does not exceed), as `Digest.curve` returns them.

Both ascend; fractions go from 0 to 1.
"""

_STANDARD: Final = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 1.0)


def curves(name: str, lines: Sequence[tuple[str, Curve]], unit: str) -> str:
    """Return a figure for the body of a `page`: lines (name, curve) to hover over and to switch off, and a table.

    Values are in `unit`. Names and unit may be any text. The page's own script draws the figure.
    """
    drawn = [{"name": printable(line), "points": curve} for line, curve in lines if curve]
    return (
        f'<figure class="chart curves"><figcaption>{escape(printable(name))}{question(name)}</figcaption>'
        f"{embedded({'unit': printable(unit), 'lines': drawn})}"
        f"<details open><summary>Figures</summary>{_table(lines, unit)}</details></figure>"
    )


def _table(lines: Sequence[tuple[str, Curve]], unit: str) -> str:
    heads = "".join(f'<th scope="col">{_title(fraction)}</th>' for fraction in _STANDARD)
    rows = [
        f'<tr><th scope="row">{escape(printable(line))}</th>'
        + "".join(f"<td>{escape(formatting.quantity(_at(curve, fraction), unit))}</td>" for fraction in _STANDARD)
        + "</tr>"
        for line, curve in lines
    ]
    return (
        f'<div class="scroll"><table><thead><tr><th scope="col"></th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _title(fraction: float) -> str:
    return {0.0: "min", 1.0: "max"}.get(fraction) or f"p{fraction * 100:.7g}"


def _at(curve: Curve, fraction: float) -> float | None:
    """Return the first value at or above this fraction of the values."""
    return next((value for reached, value in curve if reached >= fraction), None)
