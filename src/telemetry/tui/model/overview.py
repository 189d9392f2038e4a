"""The overview: the table of series, the counters and gauges beside it, the marks, and a line about the machine."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final

from msgspec import structs

from telemetry.common import formatting, wording
from telemetry.common.formatting import printable
from telemetry.history.rates import Paces
from telemetry.history.span_model import without_spans
from telemetry.redaction import COUNTER
from telemetry.tui.model import numbers, rows
from telemetry.tui.model.backends import backends_line
from telemetry.tui.model.grid import Cell, Column, Grid, Line, Piece, Row, fitted, width_of
from telemetry.tui.model.names import short_names
from telemetry.tui.model.request_flow import summed
from telemetry.tui.model.scene import Scene, SeriesId, View, series_id
from telemetry.tui.model.spans import spans_line
from telemetry.tui.model.sparkline import sparkline
from telemetry.tui.model.steps import has_steps
from telemetry.tui.model.visible_series import (
    Group,
    VisibleSeries,
    in_order,
    key_of,
    matches,
    newest_window_first,
    rated,
    shown,
    time_range_words,
)
from telemetry.wire.collectors import PROCESS_LABEL, is_of_machine
from telemetry.wire.snapshot import TERMINAL, CounterStat, GaugeStat, MetricsSnapshot, without_single_nodes

PIN: Final = "★ "
_TITLE: Final = "series"
_EDGES: Final = 2
"""Columns at the left and right edges of a line."""


@dataclass(frozen=True, slots=True)
class OverviewContent:
    """The content of the overview. `caption` has the time range of the figures and the filter."""

    series: Grid
    others: Grid
    marks: tuple[Line, ...]
    backends: Line = ()
    """State of all backends; empty without backends."""
    spans: Line = ()
    """Where the time goes; empty without spans."""
    caption: Line = ()
    groups: tuple[Group, ...] = ()


def overview(scene: Scene, view: View, width: int = 80) -> OverviewContent:
    """Return the overview. `width` is the width of the screen: it decides how many seconds a trend shows."""
    groups = shown(scene, view)
    return OverviewContent(
        _series(scene, view, groups, width),
        _others(scene, view),
        _marks_until(scene),
        backends_line(scene, width - _EDGES),
        spans_line(scene, width - _EDGES),
        _caption(scene, view, groups, width),
        groups,
    )


def resized(original: OverviewContent, scene: Scene, view: View, width: int) -> OverviewContent:
    """Return the same overview with its series laid out for `width` columns."""
    groups = original.groups
    return dataclasses.replace(
        original, series=_series(scene, view, groups, width), caption=_caption(scene, view, groups, width)
    )


def series_of(scene: Scene, row_key: str) -> SeriesId | None:
    """Return the series of a row; None for a heading, a counter or a gauge."""
    for stat in scene.snapshot.series if scene.snapshot else ():
        series = series_id(stat.name, stat.labels)
        if key_of(series) == row_key:
            return series
    return None


def value_of(row_key: str) -> SeriesId | None:
    """Return the counter or gauge of a row; None for another row."""
    kind, _, key = row_key.partition(" ")
    if kind not in ("counter", "gauge"):
        return None
    name, labels = json.loads(key)
    return name, tuple((label, value) for label, value in labels)


def label_keys(scene: Scene) -> tuple[str, ...]:
    """Return the labels to group series by: those with different values, in alphabetical order."""
    if scene.snapshot is None:
        return ()
    values: dict[str, set[str | None]] = {}
    for stat in scene.snapshot.series:
        for key in stat.labels:
            values[key] = set()
    for stat in scene.snapshot.series:
        for key, seen in values.items():
            seen.add(stat.labels.get(key))
    return tuple(sorted(key for key, seen in values.items() if len(seen) > 1))


def sort_keys(scene: Scene, view: View) -> tuple[str, ...]:
    """Return the sort keys of the series, from left to right.

    "" stands for the order of definition, with the newest tracking window first.
    """
    return ("", *(column.key for column in rows.columns(scene, view, _TITLE)))


def marks(scene: Scene) -> tuple[Line, ...]:
    """Return marks, oldest first: time of day, text, and the producer if there are several."""
    if scene.snapshot is None:
        return ()
    names = {**short_names(scene), **wording.names(scene.snapshot)}
    several = len(names.keys() - {stat.producer for stat in scene.snapshot.collectors}) > 1
    lines = []
    for mark in scene.snapshot.marks:
        line = [
            Cell(f"{formatting.clock_time(mark.time_ns)}  ", "dim"),
            Cell(wording.instrument(mark.text, mark.labels)),
        ]
        if several and mark.producer in names:
            line.append(Cell(f"  {names[mark.producer]}", "dim"))
        lines.append(tuple(line))
    return tuple(lines)


def _marks_until(scene: Scene) -> tuple[Line, ...]:
    """Return the marks that existed at the chosen moment."""
    if scene.moment is None or scene.snapshot is None:
        return marks(scene)
    come = [mark for mark in scene.snapshot.marks if mark.time_ns < scene.moment.end_ns]
    return marks(dataclasses.replace(scene, snapshot=structs.replace(scene.snapshot, marks=come)))


def _caption(scene: Scene, view: View, groups: tuple[Group, ...], width: int) -> Line:
    total = len(scene.snapshot.series) if scene.snapshot else 0
    passing = sum(len(group.members) for group in groups)
    pieces = [
        Piece(time_range_words(scene, view), "strong"),
        Piece(f"{passing:,} of {total:,} series" if view.filter else f"{total:,} series"),
    ]
    if view.filter:
        pieces.append(Piece(f"filter '{printable(view.filter)}'", "accent", 1))
    if view.group:
        pieces.append(Piece(f"by {printable(view.group)}", keep=3))
    if view.compare and scene.baseline:
        pieces.append(
            Piece(
                f"Δ to all of {printable(scene.baseline.name)} {printable(scene.baseline.run_id)}",
                "accent",
                2,
            )
        )
    return fitted(pieces, width)


def _series(scene: Scene, view: View, groups: tuple[Group, ...], width: int) -> Grid:
    columns = rows.columns(scene, view, _TITLE)
    lines: list[Row] = []
    seconds = rows.trend_seconds(scene, width)
    for group in groups:
        if group.heading:
            lines.append(Row(f"group {group.heading}", Cell(group.heading, "strong"), heading=True))
        lines += [
            Row(key_of(item.series), _name(item, view), partial(rows.figures, item, columns[1:], view, seconds))
            for item in group.members
        ]
    column_keys = {column.key for column in columns}
    return Grid(
        columns=columns,
        rows=tuple(lines),
        sorted_by=view.sort if view.sort in column_keys else "",
        descending=view.descending,
        empty=_nothing(scene, view),
        about=time_range_words(scene, view),
    )


def _nothing(scene: Scene, view: View) -> str:
    if scene.snapshot is None or not scene.snapshot.series:
        is_over = not scene.live or (scene.snapshot is not None and scene.snapshot.state in TERMINAL)
        nothing = "the run has no series" if is_over else "no series yet"
        return f"{nothing}; tab 5 has the values of steps" if has_steps(scene) else nothing
    return f"no series matches '{printable(view.filter)}'"


def _name(item: VisibleSeries, view: View) -> Cell:
    """Return the name without the label that the heading shows."""
    labels: Mapping[str, str] = item.stat.labels
    if view.group in labels and not item.pinned:
        labels = {key: value for key, value in labels.items() if key != view.group}
    name = numbers.instrument(item.stat.name, labels, item.stat.unit, view.units)
    return Cell(f"{PIN}{name}", "accent") if item.pinned else Cell(name)


def _others(scene: Scene, view: View) -> Grid:
    """Return counters, then gauges. In the past only series have figures: other rows stay, without figures."""
    past = scene.moment is not None
    columns = (
        Column("name", "counters and gauges" + (": no history" if past else ""), right=False),
        Column("value", "value"),
        Column("rate", "rate", keep=1),
        Column("min", "min", keep=3),
        Column("max", "max", keep=2),
    )
    if scene.snapshot is None:
        return Grid(columns, empty="none yet")
    stats = newest_window_first(_outcomes_as_one(scene.snapshot, view), lambda stat: stat, scene.snapshot)
    paces = Paces(scene.snapshot)
    counters = [stat for stat in stats if isinstance(stat, CounterStat)]
    rates = {id(stat): _rate_of(stat, paces, view) for stat in rated(counters, scene, view)}
    sorter = _other_sorter(rates, view)
    ordered = in_order(stats, sorter, descending=view.descending)
    other_rows = (_other_row(stat, rates.get(id(stat)), view) for stat in ordered)
    return Grid(
        columns,
        tuple(_without_figures(row) if past else row for row in other_rows),
        sorted_by=view.sort if sorter else "",
        descending=view.descending,
        empty=f"none matches '{printable(view.filter)}'" if view.filter else "no counters or gauges",
    )


Other = CounterStat | GaugeStat


def others_shown(scene: Scene, view: View) -> Iterator[Other]:
    """Yield the counters and gauges that pass the filter."""
    if scene.snapshot is None:
        return
    every: tuple[Other, ...] = (*scene.snapshot.counters, *scene.snapshot.gauges)
    yield from (stat for stat in every if _passes(stat, view))


def _outcomes_as_one(snapshot: MetricsSnapshot, view: View) -> Iterator[Other]:
    """Yield counters and gauges like `others_shown`, but with one row for all failure reasons of a kind of request,
    and without the self times of spans.

    A filter that names a reason matches the counter of this reason. Gauges that collectors record are in the line
    of the machine; the table has them only with a filter or in a run without series, because they would fill it.
    """
    for stat, parts in summed(without_spans(snapshot.counters)):
        yield from [stat] if _passes(stat, view) else (part for part in parts if _passes(part, view))
    hides_machine = bool(snapshot.collectors and snapshot.series) and not view.filter
    gauges = (stat for stat in snapshot.gauges if _passes(stat, view))
    yield from (stat for stat in gauges if not (hides_machine and is_of_machine(stat.name)))


def _passes(stat: Other, view: View) -> bool:
    """Return whether the filter lets a counter or gauge pass. Counts of masked values appear only with a filter."""
    if not view.filter:
        return stat.name != COUNTER
    return matches(wording.instrument(stat.name, stat.labels, stat.unit), view.filter)


def _other_sorter(rates: Mapping[int, float | None], view: View) -> Callable[[Other], float | str | None] | None:
    """Return the sort function, or None. `rates`: by the id of a counter.

    Values of different counters and gauges can't be compared, so they have none.
    """
    if view.sort == "name":
        return lambda stat: wording.instrument(stat.name, stat.labels).casefold()
    return (lambda stat: rates.get(id(stat))) if view.sort == "rate" else None


def _rate_of(stat: CounterStat, paces: Paces, view: View) -> float | None:
    """Return the rate over the same time range as the series."""
    return stat.rate if view.figures == "window" else paces.of(stat).per_s


def _without_figures(row: Row) -> Row:
    """Return the row with blank figures of the same width."""
    blank = (
        Cell(formatting.NOTHING.rjust(formatting.columns(cell.text)) if cell.text else "", "dim")
        for cell in row.cells[1:]
    )
    return Row(row.key, row.name, tuple(blank))


def _other_row(stat: Other, per_s: float | None, view: View) -> Row:
    units, unit = view.units, stat.unit
    name = Cell(numbers.instrument(stat.name, stat.labels, unit, units))
    key = key_of(series_id(stat.name, stat.labels))
    if isinstance(stat, CounterStat):
        # People quote counters: write them in full, unless their unit has a shorter form.
        full = units == "readable" and not formatting.carries_unit(unit)
        value = formatting.count(stat.value) if full else numbers.value(stat.value, unit, units)
        rate = Cell(numbers.rate(per_s, unit, units), "plain" if per_s else "dim")
        return Row(f"counter {key}", name, (Cell(value), rate, Cell(""), Cell("")))
    last, least, most = (Cell(numbers.value(each, unit, units)) for each in (stat.value, stat.min, stat.max))
    return Row(f"gauge {key}", name, (last, Cell(""), least, most))


_FIRST: Final = (
    *("host.cpu", "host.memory", "container.cpu", "container.memory", "gpu.memory", "gpu.utilization"),
    *("process.cpu", "process.memory", "host.disk_read", "host.disk_written", "host.net_received", "host.net_sent"),
)
"""Gauges that come first, if there are more than fit. The table of the overview has all."""
_MOST: Final = 6
_ENOUGH: Final = 4
"""Gauges for which trends are made shorter. More are shown if there is room left."""
_TREND_COLUMNS: Final = (20, 12, 8, 5)
"""Columns of a trend: the most with which enough gauges fit."""
_GAP: Final = Cell("   ")
_HUNDRED: Final = 100.0


def machine_line(scene: Scene, view: View, width: int) -> Line:
    """Return the line, `host.cpu ▂▃▅▇ 43 %   gpu.memory ▅▅▅▅ 61.4 GiB`. Gauges that do not fit are left out.

    Several gauges of a name, such as those of all GPUs, are shown as their mean. Empty without such gauges, and for
    a moment in the past.
    """
    if scene.snapshot is None or scene.moment is not None:
        return ()
    for trend in _TREND_COLUMNS:
        pieces = list(islice(_pieces(scene, view, trend), _MOST))
        if sum(width_of((_GAP, *piece)) for piece in pieces[:_ENOUGH]) - width_of((_GAP,)) <= width:
            break
    line: list[Cell] = []
    for piece in pieces:
        apart = (_GAP,) if line else ()
        if width_of((*line, *apart, *piece)) > width:
            break
        line += [*apart, *piece]
    return tuple(line)


def _pieces(scene: Scene, view: View, trend: int) -> Iterator[Line]:
    by_name: dict[str, list[GaugeStat]] = {}
    for stat in without_single_nodes(scene.snapshot.gauges) if scene.snapshot else ():
        if is_of_machine(stat.name) and stat.value is not None and PROCESS_LABEL not in stat.labels:
            by_name.setdefault(stat.name, []).append(stat)
    places = {name: index for index, name in enumerate(_FIRST)}
    for name, stats in sorted(by_name.items(), key=lambda item: places.get(item[0], len(places))):
        unit = stats[0].unit
        values = [stat.value for stat in stats if stat.value is not None]
        raw_trends = (scene.trends.get(series_id(stat.name, stat.labels), ()) for stat in stats)
        trends = [[point for point in points if point is not None] for points in raw_trends]
        length = min(map(len, trends))
        means = tuple(sum(points[at] for points in trends) / len(trends) for at in range(-length, 0))
        spread = stats[0].over_nodes
        count = spread.nodes if spread is not None else len(stats)
        several = f" {count:,} ×" if count > 1 else ""
        highest = f", {_value(spread.greatest, unit, view)} {printable(spread.greatest_node)}" if spread else ""
        top = _HUNDRED if numbers.is_percent(unit) else None
        yield (
            Cell(f"{printable(name)} ", "dim"),
            Cell(sparkline(means, trend, top), "accent"),
            Cell(f"{several} {_value(sum(values) / len(values), unit, view)}{highest}", "strong"),
        )


def _value(value: float, unit: str, view: View) -> str:
    return f"{value:.0f} %" if numbers.is_percent(unit) else numbers.value(value, unit, view.units)
