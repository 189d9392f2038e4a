"""The section of a report about spans: where the time goes."""

from __future__ import annotations

from typing import Final

from telemetry import formatting
from telemetry.formatting import NOTHING, printable
from telemetry.report.table import Column, Section, Table
from telemetry.span_model import SpanTimes, span_times
from telemetry.wire.report import Report
from telemetry.wire.spans import UNIT

TITLE: Final = "Where the time goes"
_COLUMNS: Final = [
    *(Column("span"), Column("self"), Column("share"), Column("total", 1), Column("count")),
    *(Column("mean", 4), Column("p50", 3), Column("p99", 2), Column("max", 5)),
]


def spans(report: Report) -> Section:
    """Return a table with one row per name of spans, the largest self time first."""
    rows = [_row(one) for one in span_times(report.snapshot)]
    if not rows:
        return Section(TITLE)
    notes = ["self is the time without the spans inside; share is its part of the self time of all spans"]
    return Section(TITLE, table=Table(_COLUMNS, rows), notes=notes)


def _row(one: SpanTimes) -> list[str]:
    stat = one.durations
    percentiles = [stat.percentiles.get(key) for key in ("50", "99")]
    return [
        printable(one.name),
        _ms(one.self_ms),
        NOTHING if one.share is None else formatting.percent(one.share),
        _ms(stat.total),
        formatting.count(stat.count),
        *(_ms(value) for value in (stat.mean, *percentiles, stat.max)),
    ]


def _ms(value: float | None) -> str:
    return NOTHING if value is None else formatting.quantity(value, UNIT)
