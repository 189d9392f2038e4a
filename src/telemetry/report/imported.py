"""Section of a report about the file that a run was imported from: what it lacks, and what its tool stated."""

from __future__ import annotations

from telemetry.common.formatting import NOTHING, number_of, printable, quantity
from telemetry.report.table import ReportTable, Section, TableColumn
from telemetry.wire.imported import StatedFigure
from telemetry.wire.report import Report


def imported(report: Report, *, full: bool = True) -> Section:
    """Return the unknowns of the file, and the figures that its tool stated beside ours. Empty for other runs.

    Without `full`, figures that are the same, or that can't be recomputed, are only counted.
    """
    origin = report.imported
    if origin is None:
        return Section("Imported")
    tool = printable(" ".join(filter(None, (origin.tool, origin.version))))
    lines = [f"unknown: {printable(what)}" for what in origin.unknown]
    recomputed = [figure for figure in origin.stated if figure.recomputed is not None]
    same = sum(figure.is_same for figure in recomputed)
    if recomputed:
        lines.append(
            f"{same} of {number_of(len(recomputed), 'figure')} that the tool states are the same recomputed"
        )
    elif origin.stated and not full:
        lines.append(f"{number_of(len(origin.stated), 'figure')} as the tool states them: see the full report")
    shown = origin.stated if full else [figure for figure in recomputed if not figure.is_same]
    columns = [
        TableColumn("stated by the tool", right=False),
        TableColumn("stated"),
        TableColumn("recomputed"),
        TableColumn("", right=False, wraps=True),
    ]
    return Section(f"Imported from {tool}", lines, table=ReportTable(columns, [_row(figure) for figure in shown]))


def _row(figure: StatedFigure) -> list[str]:
    ours = NOTHING if figure.recomputed is None else quantity(figure.recomputed, figure.unit)
    verdict = "the same" if figure.is_same else figure.reason or ("" if figure.recomputed is None else "differs")
    return [printable(figure.name), quantity(figure.value, figure.unit), ours, printable(verdict)]
