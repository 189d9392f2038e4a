"""The report as CSV: one figure per row, with the columns of `telemetry.report.rows.ReportRow`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from telemetry.common.formatting import printable
from telemetry.report.rows import Number, ReportRow, labels_json, rows
from telemetry.wire.report import Report

_FORMULA: Final = ("=", "+", "-", "@")
"""First characters of a formula in spreadsheets."""


def render_csv(report: Report) -> str:
    """Return a header and a line for each figure, ending with a newline. All text is quoted, numbers are not.

    Labels are a JSON object. A cell is empty if there is no number, or if it is not finite. Text that a spreadsheet
    would take for a formula has `'` before it.
    """
    cells = _Cells()
    lines = [",".join(map(cells.text, ReportRow._fields))]
    for kind, name, labels, unit, figure, *numbers in rows(report):
        text = (cells.text(kind), cells.text(name), cells.labels(labels), cells.text(unit), cells.text(figure))
        lines.append(",".join((*text, *map(_number, numbers))))
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    """Return a text cell: quoted, safe to show, and no formula."""
    shown = printable(text)
    safe = f"'{shown}" if shown.startswith(_FORMULA) else shown
    return '"' + safe.replace('"', '""') + '"'


class _Cells:
    """A cache of text cells."""

    def __init__(self) -> None:
        self._text: dict[str, str] = {}
        self._labels: dict[int, tuple[Mapping[str, str], str]] = {}
        """Cells by identity of the labels.

        The labels are kept alive, so that no other object gets the same identity.
        """

    def text(self, text: str) -> str:
        if text not in self._text:
            self._text[text] = quoted(text)
        return self._text[text]

    def labels(self, labels: Mapping[str, str]) -> str:
        entry = self._labels.get(id(labels))
        if entry is None:
            entry = self._labels[id(labels)] = labels, self.text(labels_json(labels))
        return entry[1]


def _number(value: Number) -> str:
    return "" if value is None or (isinstance(value, float) and not math.isfinite(value)) else repr(value)
