"""Sections of a report about the sources of a merged run, with marks on unusual ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from telemetry.common import formatting, wording
from telemetry.common.formatting import NOTHING, printable
from telemetry.report.table import ReportTable, Section, TableColumn
from telemetry.wire.report import Report
from telemetry.wire.sources import SourceSeries, SourceStat

_ROWS_SHOWN: Final = 60
_ODD: Final = "◀"


def sources_sections(report: Report) -> list[Section]:
    """Return the sources of a merged run, and each series source by source, those with an unusual source first.

    Empty for a run that was not merged.
    """
    return [_sources(report.sources), _series(report.sources)] if report.sources else []


def _sources(sources: Sequence[SourceStat]) -> Section:
    heads = [
        TableColumn("source"),
        TableColumn("run", 4, right=False),
        TableColumn("host", 3, right=False),
        TableColumn("started", 1),
        TableColumn("took", 2),
        TableColumn("result", right=False),
        TableColumn("lost"),
    ]
    rows = [
        [
            printable(source.label or source.run_id),
            printable(source.run_id),
            printable(source.host) or NOTHING,
            f"+{formatting.duration_s(source.start_offset_s)}" if source.start_offset_s else "first",
            formatting.duration_s(source.elapsed_s),
            source.completeness,
            formatting.count(source.lost),
        ]
        for source in sources
    ]
    return Section("Sources", table=ReportTable(heads, rows))


def _series(sources: Sequence[SourceStat]) -> Section:
    heads = [
        TableColumn("series"),
        TableColumn("source", right=False),
        TableColumn("count", 1),
        TableColumn("mean", 4),
        TableColumn("p50", 3),
        TableColumn("p99"),
        TableColumn("max", 2),
        TableColumn("p99 to others"),
    ]
    by_name = _by_series(sources)
    odd_first = sorted(by_name, key=lambda name: not any(stat.odd for _, stat in by_name[name]))
    rows = [row for name in odd_first for row in _rows(name, by_name[name])]
    any_odd = any(stat.odd for stats in by_name.values() for _, stat in stats)
    notes = [f"{_ODD} is farthest from the median p99 of the other sources"] if any_odd else []
    return Section("Series by source", table=ReportTable(heads, rows), notes=notes, rows_shown=_ROWS_SHOWN)


def _by_series(sources: Sequence[SourceStat]) -> dict[str, list[tuple[SourceStat, SourceSeries]]]:
    by_name: dict[str, list[tuple[SourceStat, SourceSeries]]] = {}
    for source in sources:
        for stat in source.series:
            by_name.setdefault(wording.instrument(stat.name, stat.labels, stat.unit), []).append((source, stat))
    return by_name


def _rows(name: str, stats: Sequence[tuple[SourceStat, SourceSeries]]) -> Iterator[list[str]]:
    """Yield the rows of a series. Only the first has the name."""
    for at, (source, stat) in enumerate(stats):
        values = (stat.mean, stat.p50, stat.p99, stat.max)
        yield [
            "" if at else name,
            printable(source.label or source.run_id),
            formatting.count(stat.count),
            *(formatting.quantity(value, stat.unit) for value in values),
            _ratio(stat),
        ]


def _ratio(stat: SourceSeries) -> str:
    if stat.p99_to_others is None:
        return NOTHING
    return f"{_ODD} ×{stat.p99_to_others:.3g}" if stat.odd else f"×{stat.p99_to_others:.3g}"
