"""A calibration as text: the noise of each figure, and the smallest difference that a comparison can find."""

from __future__ import annotations

import shlex
from typing import Final

from telemetry.common import formatting, wording
from telemetry.common.formatting import NOTHING, printable
from telemetry.report.table import ReportTable, Section, TableColumn
from telemetry.report.text import INDENT, render_section
from telemetry.store.calibrations import Calibration, MetricNoise

_SHOWN: Final = ("5", "10", "20")
"""Numbers of runs per side."""


def calibration_text(calibration: Calibration, width: int = 100, color: bool = False) -> str:
    """Return lines that end with a newline; the noisiest figures are last."""
    head = printable(f"calibration {calibration.name}: {calibration.runs} identical runs")
    table = Section(
        "",
        [printable(shlex.join(calibration.argv))],
        _table(calibration),
        [
            "noise: standard deviation of the mean between runs",
            f"found with {', '.join(_SHOWN)} runs per side: the smallest rise that 9 of 10 "
            "comparisons detect for this figure alone; smaller if the runs alternate",
        ],
    )
    bold = f"\x1b[1m{head}\x1b[0m" if color else head
    lines = [line.removeprefix(INDENT).rstrip() for line in render_section(table, width)]
    return "\n".join([bold, *lines]) + "\n"


def _table(calibration: Calibration) -> ReportTable:
    heads = [
        TableColumn("figure"),
        TableColumn("mean", 2),
        TableColumn("noise"),
        *(TableColumn(f"{'found with ' if runs == _SHOWN[0] else ''}{runs}", 1) for runs in _SHOWN),
    ]
    ordered = sorted(calibration.metrics, key=lambda metric: float("inf") if metric.cv is None else metric.cv)
    return ReportTable(heads, [_row(metric) for metric in ordered])


def _row(metric: MetricNoise) -> list[str]:
    unit = metric.unit
    if metric.of == "command":
        name = f"command {printable(metric.statistic)}"
    else:
        name = f"{wording.instrument(metric.name, metric.labels, unit)} {printable(metric.statistic)}"
    mean = (
        formatting.rate(metric.mean, unit) if metric.statistic == "rate" else formatting.quantity(metric.mean, unit)
    )
    rises = [_percent(metric.detectable.get(runs)) for runs in _SHOWN]
    return [name, mean, _percent(metric.cv), *rises]


def _percent(ratio: float | None) -> str:
    return NOTHING if ratio is None else formatting.percent(ratio)
