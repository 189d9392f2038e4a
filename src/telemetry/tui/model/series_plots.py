"""The plots of one series: percentile curve, histogram, and figures over time."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median_low
from typing import Final, NamedTuple

from telemetry.common import formatting
from telemetry.history.intervals.histograms import Digest
from telemetry.history.intervals.timeline import Point, Timeline
from telemetry.history.rates import Activity, RateSteps
from telemetry.tui.model import numbers
from telemetry.tui.model.grid import Tone
from telemetry.tui.model.plot import (
    Plot,
    PlotAxis,
    Tick,
    Trace,
    axis_of,
    rate_axis,
    spaced,
    tick_words,
    time_ticks,
    value_axis,
)
from telemetry.tui.model.scene import Scene, SeriesId, Units, View
from telemetry.tui.model.visible_series import beyond, is_over, is_read
from telemetry.wire.cells import edge
from telemetry.wire.snapshot import SeriesStat

CURVE_POINTS: Final = 200
"""Points of a curve: more than the columns of a terminal, doubled for braille."""
_LEAST_SPAN_NS: Final = 5_000_000_000
"""Shortest time range: a smaller one would show single intervals."""
_NAMED: Final[tuple[Tick, ...]] = ((0.0, "0 %"), (math.log10(2), "50 %"), (1.0, "90 %"), (2.0, "99 %"))
_OVER_TIME: Final[tuple[tuple[str, Tone], ...]] = (("max", "bad"), ("p99", "warn"), ("p50", "good"))
"""Traces in drawing order. If p99 equals the maximum, because there are few values, p99 is drawn over it."""
OVER_TIME_PERCENTILES: Final = ("50", "99")
_ANY_TIME: Final = Activity()
NO_HISTORY: Final = "no history of this series yet"
READING: Final = "no history yet"
_EMPTY: Final = "no values in this time range"
_SILENCE: Final = 3.0
"""Distance of two points, as a multiple of the median, beyond which no line joins them."""


@dataclass(frozen=True, slots=True)
class PercentileCurve:
    """A percentile curve: points of (fraction, value at that fraction) of `count` values, ascending."""

    name: str
    points: Sequence[tuple[float, float]]
    count: int
    tone: Tone


def curve_of(stat: SeriesStat, name: str, tone: Tone) -> PercentileCurve:
    """Return the curve of a whole run from its snapshot: the extremes and the known percentiles."""
    if not stat.count or stat.min is None or stat.max is None:
        return PercentileCurve(name, (), 0, tone)
    points = [(0.0, float(stat.min)), (1.0, float(stat.max))]
    for key, value in stat.percentiles.items():
        above = beyond(key, stat.count)
        if above:
            points.append((1 - above / stat.count, float(value)))
    return PercentileCurve(name, sorted(points), stat.count, tone)


def curve_of_digest(digest: Digest, name: str, tone: Tone) -> PercentileCurve:
    return PercentileCurve(name, digest.curve(CURVE_POINTS), digest.count, tone)


def percentile_place(fraction: float, count: int) -> float:
    """Return the place on HdrHistogram's axis: 0 at 0 %, 1 at 90 %, 2 at 99 %, 3 at 99.9 % …

    The greatest of `count` values would be at infinity; it is placed half a value earlier.
    """
    return -math.log10(max(1 - fraction, 0.5 / count))


def curve_plot(title: str, curves: Sequence[PercentileCurve], unit: str, units: Units, width: int) -> Plot:
    """Return the plot of values by percentile; `width` is in columns."""
    drawn = [curve for curve in curves if curve.points]
    if not drawn:
        return Plot(title=title)
    axis = value_axis((value for curve in drawn for _, value in curve.points), unit, units)
    traces = tuple(
        Trace(
            curve.name,
            tuple(percentile_place(fraction, curve.count) for fraction, _ in curve.points),
            tuple(axis.at(value) for _, value in curve.points),
            curve.tone,
        )
        for curve in drawn
    )
    end = max(trace.xs[-1] for trace in traces)
    marks = [*_NAMED, *((float(nines), _nines(nines)) for nines in range(3, math.floor(end) + 1))]
    ticks = spaced([mark for mark in marks if mark[0] <= end], 0.0, end, width)
    return _plot(title, traces, axis, x_ticks=ticks, x_range=(0.0, end))


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of a display histogram; see `telemetry.wire.cells`. Edges are multiples of `unit`."""

    counts: Sequence[tuple[int, int]]
    unit: float


def histogram_plot(title: str, cells: Cells, unit: str, units: Units, width: int) -> Plot:
    """Return the histogram of values by display cell.

    The x axis counts cells, four per doubling, so it is logarithmic. Neighbours share a bar if `width` columns are
    too few for all.
    """
    count_by_cell = {cell: count for cell, count in cells.counts if count > 0}
    if not count_by_cell or cells.unit <= 0:
        return Plot(title=title, kind="bars")
    first, last = min(count_by_cell), max(count_by_cell)
    per_bar = max(1, math.ceil((last - first + 1) / max(1, width)))
    bars = dict.fromkeys(range(first // per_bar, last // per_bar + 1), 0)
    for cell, count in count_by_cell.items():
        bars[cell // per_bar] += count
    low, high = min(bars) * per_bar, (max(bars) + 1) * per_bar
    axis = axis_of((0.0, float(max(bars.values()))), formatting.scaled, whole=True)
    xs = tuple((bar + 0.5) * per_bar for bar in bars)
    trace = Trace("values", xs, tuple(float(count) for count in bars.values()), "accent")
    values = value_axis((edge(max(low, 1)) * cells.unit, edge(high) * cells.unit), unit, units)
    marks = [(_value_at(values, mark) / cells.unit, label) for mark, label in values.ticks]
    inside = [(_cell_place(at, low, high), label) for at, label in marks if edge(low) <= at <= edge(high)]
    ticks = spaced(inside, low, high, width)
    return replace(_plot(title, (trace,), axis, x_ticks=ticks, x_range=(float(low), float(high))), kind="bars")


def time_range_of(timeline: Timeline, view: View) -> tuple[int, int]:
    """Return the time range of the history that zoom and pan select, wall clock.

    Each step of the zoom halves it. Each step of the pan moves it back by a tenth of its length, up to the
    beginning.
    """
    whole_ns = max(1, timeline.end_ns - timeline.start_ns)
    span_ns = min(whole_ns, max(_LEAST_SPAN_NS, whole_ns >> max(0, view.zoom)))
    end_ns = timeline.end_ns - max(0, view.pan) * span_ns // 10
    end_ns = max(end_ns, timeline.start_ns + span_ns)
    return end_ns - span_ns, end_ns


class Times(NamedTuple):
    """The time axis that plots below each other share."""

    start_ns: int
    end_ns: int
    origin_ns: int
    """Zero of the axis, which counts seconds."""
    cursor_ns: int | None
    width: int

    def at(self, wall_ns: int) -> float:
        return (wall_ns - self.origin_ns) / 1e9

    def place(self, point: Point) -> float:
        """Return the middle of the visible part of a point."""
        return (self.at(max(point.start_ns, self.start_ns)) + self.at(min(point.end_ns, self.end_ns))) / 2

    @property
    def ticks(self) -> tuple[Tick, ...]:
        return time_ticks(self.start_ns, self.end_ns, self.origin_ns, self.width)

    @property
    def cursor(self) -> float | None:
        """The chosen moment; None if there is none or if it is not visible."""
        seen = self.cursor_ns is not None and self.start_ns <= self.cursor_ns <= self.end_ns
        return self.at(self.cursor_ns) if seen and self.cursor_ns is not None else None


def over_time_plot(points: Sequence[Point], times: Times, unit: str, units: Units) -> Plot:
    """Return the plot of p50, p99 and max.

    A silence is a gap in the lines; the rate plot shows zero there.
    """
    title = f"over {_span_words(times)}, UTC"
    lines: dict[str, list[tuple[float, float]]] = {name: [] for name, _ in _OVER_TIME}
    for point in points:
        for name, line in lines.items():
            value = _figure(point, name)
            if value is not None:
                line.append((times.place(point), value))
    if not any(lines.values()):
        return Plot(title=title, empty=_EMPTY)
    axis = value_axis((value for line in lines.values() for _, value in line), unit, units)
    traces = tuple(_broken(name, lines[name], axis, tone) for name, tone in _OVER_TIME if lines[name])
    return _over_time(title, traces, axis, times)


def rate_plot(points: Sequence[Point], times: Times, units: Units, activity: Activity = _ANY_TIME) -> Plot:
    """Return the plot of values per second, from zero: it shows a stall. `activity` is that of the series."""
    edges = [times.at(point.start_ns) for point in points], [times.at(point.end_ns) for point in points]
    steps = RateSteps(*edges, [point.figures.seconds for point in points])
    rates = steps.rates([point.figures.count for point in points], activity)
    drawn = [(times.place(point), rate) for point, rate in zip(points, rates, strict=True) if rate is not None]
    if not drawn:
        return Plot(title="rate", empty=_EMPTY)
    places, values = zip(*drawn, strict=True)
    return _over_time("rate", (Trace("rate", places, values, "accent"),), rate_axis(values, "", units), times)


def trend_plot(scene: Scene, series: SeriesId, unit: str, units: Units) -> Plot:
    """Return the plot of p99 over the last seconds, for use before any history has arrived.

    In the past it only shows where the chosen moment lies within these seconds.
    """
    over = is_over(scene)
    step_s = scene.trend_step_s
    title = f"p99 of {'its' if over else 'the'} last minute"
    trend = scene.trends.get(series, ())
    if not trend:
        return Plot(title=title, empty=NO_HISTORY if is_read(scene) else READING)
    points = [(at * step_s, value) for at, value in enumerate(trend, 1 - len(trend)) if value is not None]
    if not points:
        return Plot(title=title, empty=_EMPTY)
    cursor = None
    if scene.moment is not None and scene.snapshot is not None:
        cursor = (scene.moment.end_ns - scene.snapshot.time_ns) / 1e9
        if cursor < (1 - len(trend)) * step_s:
            return Plot(title=title, empty="this is an older time; open the series to see it")
    axis = value_axis((value for _, value in points), unit, units)
    start = min((1 - len(trend)) * step_s, -1.0)
    ticks = ((start, f"{start:.2g} s"), (0.0, _end_words(scene) if over else "now"))
    trace = _broken("p99", points, axis, "warn")
    return replace(_plot(title, (trace,), axis, x_ticks=ticks, x_range=(start, 0.0)), cursor=cursor)


def _broken(name: str, points: Sequence[tuple[float, float]], axis: PlotAxis, tone: Tone) -> Trace:
    """Return a line with a gap before each point that comes much later than usual after the one before it."""
    distances = [after - before for (before, _), (after, _) in pairwise(points)]
    longest = _SILENCE * median_low(distances) if distances else 0.0
    line: list[tuple[float, float | None]] = []
    for (position, value), distance in zip(points, (0.0, *distances), strict=True):
        line += [(position, None)] * (distance > longest)
        line.append((position, axis.at(value)))
    return Trace(name, tuple(position for position, _ in line), tuple(value for _, value in line), tone)


def _end_words(scene: Scene) -> str:
    """Return the label at the right end of a finished run."""
    return f"end, {formatting.clock_time(scene.snapshot.time_ns)[:8]} UTC" if scene.snapshot else "end"


def _over_time(title: str, traces: tuple[Trace, ...], axis: PlotAxis, times: Times) -> Plot:
    span = times.at(times.start_ns), times.at(times.end_ns)
    return replace(_plot(title, traces, axis, x_ticks=times.ticks, x_range=span), cursor=times.cursor)


def _plot(
    title: str,
    traces: tuple[Trace, ...],
    axis: PlotAxis,
    *,
    x_ticks: tuple[Tick, ...],
    x_range: tuple[float, float],
) -> Plot:
    return Plot(
        title=f"{title} (log)" if axis.log else title,
        traces=traces,
        x_ticks=x_ticks,
        y_ticks=axis.ticks,
        x_range=x_range,
        y_range=(axis.low, axis.high),
    )


def _figure(point: Point, name: str) -> float | None:
    figures = point.figures
    return figures.max if name == "max" else figures.percentiles.get(name[1:])


def _span_words(times: Times) -> str:
    return tick_words(numbers.seconds((times.end_ns - times.start_ns) / 1e9))


def _nines(number: int) -> str:
    """Return the label `99.9 %` for 3, `99.99 %` for 4, and so on."""
    return f"99.{'9' * (number - 2)} %"


def _value_at(axis: PlotAxis, position: float) -> float:
    return 10.0**position if axis.log else position


def _cell_place(ticks: float, low: int, high: int) -> float:
    """Return the place of a value from the edge of `low` to that of `high`, in cells."""
    upper = bisect_left(range(low, high + 1), ticks, key=edge) + low
    if upper == low:
        return float(low)
    below, above = edge(upper - 1), edge(upper)
    return upper - 1 + (ticks - below) / (above - below)
