"""The section of a report about histograms that another program has counted, such as those of OpenTelemetry."""

from __future__ import annotations

from typing import Final

from telemetry.common import formatting
from telemetry.common.formatting import NOTHING
from telemetry.common.wording import instrument
from telemetry.history.distributions import PERCENTILES
from telemetry.report.table import ReportTable, Section, TableColumn
from telemetry.wire.report import HistogramBounds, Report

TITLE: Final = "Histograms"
_NARROW: Final = 0.05
"""Largest relative error that is shown as one. Wider bounds are shown as a range."""
_COLUMNS: Final = [TableColumn("name"), TableColumn("count"), *(TableColumn(f"p{key}") for key in PERCENTILES)]


def distributions(report: Report) -> Section:
    """Return a table with one row per histogram. Percentiles are bounds, as the buckets have them."""
    if not report.distributions:
        return Section(TITLE)
    notes = ["counted in buckets by their program: a percentile lies between the bounds shown"]
    if any(histogram.unknown for histogram in report.distributions):
        notes.append("values in buckets without an end widen the bounds")
    return Section(
        TITLE, table=ReportTable(_COLUMNS, [_row(histogram) for histogram in report.distributions]), notes=notes
    )


def _row(histogram: HistogramBounds) -> list[str]:
    return [
        instrument(histogram.name, histogram.labels, histogram.unit),
        formatting.count(histogram.count),
        *(between(*histogram.percentiles[key], histogram.unit) for key in PERCENTILES),
    ]


def between(low: float | None, high: float | None, unit: str) -> str:
    """Format bounds: `98.3 ms ±1.1 %`, `50.0 ms to 75.0 ms`, `over 75.0 ms`, or a dash."""
    if high is None:
        return NOTHING if low is None else f"over {formatting.quantity(low, unit)}"
    if low is None:
        return f"up to {formatting.quantity(high, unit)}"
    middle = (low + high) / 2
    error = (high - low) / 2 / abs(middle) if middle else 1.0
    if error <= _NARROW:
        return f"{formatting.quantity(middle, unit)} ±{formatting.percent(error)}"
    return f"{formatting.quantity(low, unit)} to {formatting.quantity(high, unit)}"
