"""Spans: where the time goes, as a table with bars, and as a line of the overview."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final

from telemetry.common import formatting
from telemetry.common.formatting import NOTHING, printable
from telemetry.history.span_model import SpanTimes, span_times
from telemetry.tui.model import numbers
from telemetry.tui.model.grid import Cell, Column, Grid, Line, Piece, Row, fitted
from telemetry.tui.model.scene import Scene, View, series_id
from telemetry.tui.model.visible_series import key_of, matches
from telemetry.wire.spans import DURATION, UNIT

_SHOWN: Final = 8
_BAR_COLUMNS: Final = ((140, 40), (100, 20), (0, 12))
"""Pairs of (least columns of the screen, columns of the longest bar)."""
_COLUMNS: Final = (
    Column("name", "span", right=False),
    Column("bar", "where the time goes", right=False),
    Column("share", "share"),
    Column("self", "self"),
    Column("total", "total", keep=2),
    Column("count", "count", keep=1),
    Column("mean", "mean", keep=5),
    Column("p50", "p50"),
    Column("p99", "p99"),
    Column("max", "max", keep=4),
)


def has_spans(scene: Scene) -> bool:
    """Return whether any span has ended."""
    series = scene.snapshot.series if scene.snapshot else ()
    return any(stat.name.startswith(DURATION) and stat.unit == UNIT and not stat.labels for stat in series)


def spans_line(scene: Scene, width: int) -> Line:
    """Return the line, `time  rollout 62 % 8.11 s · update 32 % 4.20 s`. Spans that do not fit are left out.

    Empty without spans with a self time, and for a moment in the past, whose self times are not known.
    """
    if scene.snapshot is None or scene.moment is not None:
        return ()
    spans = [span for span in span_times(scene.snapshot) if span.share is not None]
    if not spans:
        return ()
    pieces = [_piece(span, at) for at, span in enumerate(islice(spans, _SHOWN))]
    first, *others = pieces
    return fitted([first._replace(text=f"time  {first.text}"), *others], width)


def spans_table(scene: Scene, view: View, width: int = 80) -> Grid:
    """Return a row for each span of the whole run, the largest self time first. `width` is that of the screen."""
    spans = span_times(scene.snapshot) if scene.snapshot is not None else []
    shown = [span for span in spans if matches(span.name, view.filter)]
    longest = max((span.share or 0.0 for span in spans), default=0.0)
    bar = next(columns for least, columns in _BAR_COLUMNS if width >= least)
    rows = []
    for span in shown:
        cells = _cells(span, longest, bar, view)
        name, *figures = (cells[column.key] for column in _COLUMNS)
        series = series_id(span.durations.name, span.durations.labels)
        rows.append(Row(key_of(series), name, tuple(figures)))
    empty = f"no span matches '{printable(view.filter)}'" if spans else "no spans yet"
    return Grid(_COLUMNS, tuple(rows), empty=empty)


def _cells(span: SpanTimes, longest: float, bar: int, view: View) -> Mapping[str, Cell]:
    """Return the cells by the key of their column."""
    stat, units = span.durations, view.units
    share = span.share or 0.0
    length = round(share / longest * bar) if longest else 0
    percentiles = stat.percentiles

    def value(number: float | None) -> str:
        return numbers.value(number, stat.unit, units)

    return {
        "name": Cell(printable(span.name)),
        "bar": Cell(("━" * length or "╸" * (share > 0)).ljust(bar), "accent"),
        "share": Cell(NOTHING if span.share is None else formatting.percent(share), "strong"),
        "self": Cell(value(span.self_ms)),
        "total": Cell(value(stat.total)),
        "count": Cell(numbers.counted(stat.count, units)),
        "mean": Cell(value(stat.mean)),
        "p50": Cell(value(percentiles.get("50"))),
        "p99": Cell(value(percentiles.get("99"))),
        "max": Cell(value(stat.max)),
    }


def _piece(span: SpanTimes, at: int) -> Piece:
    share = formatting.percent(span.share or 0.0)
    return Piece(f"{printable(span.name)} {share} {formatting.quantity(span.self_ms, UNIT)}", keep=at)
