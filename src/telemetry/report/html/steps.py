"""Steps on a page: a grid of curves for each axis, and the tables of the report."""

from __future__ import annotations

from html import escape

from telemetry.common import formatting
from telemetry.common.directions import is_count
from telemetry.common.formatting import printable
from telemetry.report.html.data import embedded
from telemetry.report.html.grids import steps_data
from telemetry.report.html.sections import content
from telemetry.report.steps import TITLE, steps
from telemetry.report.table import Section
from telemetry.wire.pictures import StepCurve
from telemetry.wire.report import Report


def steps_section(report: Report) -> tuple[Section, str]:
    """Return all steps as one section of the page, and its HTML; empty for a run without steps."""
    curves: dict[str, list[StepCurve]] = {}
    for curve in report.curves:
        if curve.steps and not is_count(curve.name):
            curves.setdefault(curve.axis, []).append(curve)
    grids = [_grid(at, axis, of, named=len(curves) > 1) for at, (axis, of) in enumerate(curves.items())]
    sections = [section for section in steps(report) if section] if report.snapshot.axes else []
    tables = [
        f"{_title(section)}{content(section)}" if at else content(section) for at, section in enumerate(sections)
    ]
    if grids and tables:
        body = f"{''.join(grids)}<details open><summary>Table of values</summary>{''.join(tables)}</details>"
    else:
        body = "".join([*grids, *tables])
    return Section(TITLE, ["…"] if body else []), body


def _grid(at: int, axis: str, curves: list[StepCurve], *, named: bool) -> str:
    last = max(curve.steps[-1] for curve in curves)
    reach = f"<small>to step {formatting.count(last)}</small>"
    title = f"<h3 hidden data-scripted>axis <bdi>{escape(printable(axis))}</bdi> {reach}</h3>"
    data, name = steps_data(axis, curves), f"steps-data-{at}"
    return f'{title if named else ""}<div class="step-grid" data-of="steps-data-{at}"></div>{embedded(data, name)}'


def _title(section: Section) -> str:
    return f"<h3>{escape(section.title.removeprefix(f'{TITLE}: '))}</h3>"
