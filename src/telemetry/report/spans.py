"""The section of a report about spans: where the time goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from telemetry.common import formatting
from telemetry.common.formatting import NOTHING, printable
from telemetry.history.span_model import SpanTimes, span_times
from telemetry.report.table import ReportTable, Section, TableColumn, without_empty_columns
from telemetry.wire.report import Report, SpanSpread
from telemetry.wire.snapshot import ProducerStat
from telemetry.wire.spans import UNIT

TITLE: Final = "Where the time goes"
_COLUMNS: Final = [
    *(
        TableColumn("span"),
        TableColumn("self"),
        TableColumn("share"),
        TableColumn("total", 1),
        TableColumn("count"),
    ),
    *(TableColumn("mean", 4), TableColumn("p50", 3), TableColumn("p99", 2), TableColumn("max", 5)),
]


def spans(report: Report) -> Section:
    """Return a table with one row per name of spans, the largest self time first."""
    times = span_times(report.snapshot)
    if not times:
        return Section(TITLE)
    notes = ["self is the time without the spans inside; share is its part of the self time of all spans"]
    heads, rows = list(_COLUMNS), [_row(span) for span in times]
    if all(span.self_ms is None for span in times):
        notes = []
    if spreads := {spread.name: spread for spread in report.spans}:
        producers = {stat.producer: stat for stat in report.snapshot.producers}
        heads += [TableColumn("least", 7), TableColumn("most", 6)]
        rows = [[*row, *_spread(spreads.get(span.name), producers)] for row, span in zip(rows, times, strict=True)]
        notes.append("least and most are the totals of single processes")
    return Section(TITLE, table=without_empty_columns(ReportTable(heads, rows)), notes=notes)


def _spread(spread: SpanSpread | None, producers: Mapping[str, ProducerStat]) -> list[str]:
    if spread is None:
        return [NOTHING, NOTHING]
    ends = ((spread.least_ms, spread.least), (spread.most_ms, spread.most))
    return [f"{_ms(total)} {_who(producers.get(key), key)}" for total, key in ends]


def _who(stat: ProducerStat | None, producer: str) -> str:
    """Return the rank of a producer, or its name."""
    if stat is None:
        return printable(producer)
    return f"rank {stat.rank}" if stat.rank is not None else printable(stat.name or producer)


def _row(span: SpanTimes) -> list[str]:
    stat = span.durations
    percentiles = [stat.percentiles.get(key) for key in ("50", "99")]
    return [
        printable(span.name),
        _ms(span.self_ms),
        NOTHING if span.share is None else formatting.percent(span.share),
        _ms(stat.total),
        formatting.count(stat.count),
        *(_ms(value) for value in (stat.mean, *percentiles, stat.max)),
    ]


def _ms(value: float | None) -> str:
    return NOTHING if value is None else formatting.quantity(value, UNIT)
