"""A curve on the whole screen, of a value of steps, a counter or a gauge: points, a cursor, the visible range."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from telemetry.common import formatting
from telemetry.common.formatting import number_of, printable
from telemetry.history.curve_points import first_step, has_means
from telemetry.history.rates import Activity, Paces, RateSteps
from telemetry.tui.model import numbers
from telemetry.tui.model.grid import Line, Piece, Tone, fitted
from telemetry.tui.model.plot import (
    Plot,
    PlotAxis,
    Trace,
    axis_of,
    linear_axis,
    rate_axis,
    spaced,
    tick_words,
    time_ticks,
)
from telemetry.tui.model.request_flow import summed
from telemetry.tui.model.scene import Scene, SeriesId, Units, ValuesOverTime, View, series_id
from telemetry.tui.model.series_plots import READING
from telemetry.tui.model.step_grid import DEFAULT_AXIS, CurveId, best_text, curve_of, value_text, with_band
from telemetry.tui.model.visible_series import is_over
from telemetry.wire.pictures import StepCurve
from telemetry.wire.snapshot import CounterStat, GaugeStat

ZOOM_MOST: Final = 10


@dataclass(frozen=True, slots=True)
class Cursor:
    """The marked place on the x axis; None stands for the newest point. Each step of the zoom halves the range."""

    place: float | None = None
    zoom: int = 0


@dataclass(frozen=True, slots=True)
class CurveDetail:
    """The content of the screen. `facts` are about the whole curve, then about the point at the cursor."""

    facts: tuple[Line, ...]
    plot: Plot
    places: tuple[float, ...] = ()
    """Places of the shown points, ascending."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    place: float
    value: float | None
    """None: not finite, or not set."""
    low: float | None = None
    high: float | None = None


def visible_range(points: Sequence[CurvePoint], cursor: Cursor) -> tuple[float, float]:
    """Return the range that the zoom selects around the cursor. There is at least one point."""
    first, last = min(point.place for point in points), max(point.place for point in points)
    half = (last - first) / 2 ** (cursor.zoom + 1)
    middle = min(max(last if cursor.place is None else cursor.place, first + half), last - half)
    return middle - half, middle + half


def between(points: Sequence[CurvePoint], low: float, high: float) -> list[CurvePoint]:
    return [point for point in points if low <= point.place <= high]


def nearest(points: Sequence[CurvePoint], cursor: Cursor) -> CurvePoint:
    """Return the point at the cursor. There is at least one point."""
    position = cursor.place
    return points[-1] if position is None else min(points, key=lambda point: abs(point.place - position))


def known_values(points: Sequence[CurvePoint]) -> list[float]:
    """Return all values, and the edges of the band around them."""
    return [each for point in points for each in (point.value, point.low, point.high) if each is not None]


def band(name: str, points: Sequence[CurvePoint], axis: PlotAxis) -> list[Trace]:
    """Return the edges of the band around the values; none if it has no height anywhere."""
    if all(point.low == point.high for point in points):
        return []
    return [trace(name, points, axis, lambda at: at.low, "dim"), trace("", points, axis, lambda at: at.high, "dim")]


def trace(
    name: str, points: Sequence[CurvePoint], axis: PlotAxis, of: Callable[[CurvePoint], float | None], tone: Tone
) -> Trace:
    pairs = [(point.place, value) for point in points if (value := of(point)) is not None]
    return Trace(name, tuple(position for position, _ in pairs), tuple(axis.at(value) for _, value in pairs), tone)


def plot_of(title: str, traces: Sequence[Trace], axis: PlotAxis, shown: tuple[float, float]) -> Plot:
    return Plot(title=title, traces=tuple(traces), y_ticks=axis.ticks, x_range=shown, y_range=(axis.low, axis.high))


_Y_COLUMNS: Final = 10
"""Columns of the labels of the y axis."""
_TICK_COLUMNS: Final = 14
"""Columns of a label of the x axis with space around it."""


def step_detail(scene: Scene, view: View, key: CurveId, cursor: Cursor, width: int) -> CurveDetail:
    """Return the curve of a value of steps. `width` is in columns."""
    curve = curve_of(scene.curves or (), key)
    if curve is None or not curve.steps:
        return CurveDetail((), Plot(empty="the run has no such value"))
    curve = with_band(curve)
    behind = curve_of(scene.baseline_curves, key) if view.compare else None
    points, others = _points(curve), _points(behind) if behind is not None else []
    shown = visible_range([*points, *others], cursor)
    inside, others_inside = (between(each, *shown) for each in (points, others))
    at = nearest(points, cursor)
    axis = linear_axis(known_values([*inside, *others_inside]) or [0.0], "", view.units)
    several = "ranks" if curve.producers > 1 else "neighbours"
    traces = band(f"lowest and highest of {several}", inside, axis)
    earlier = _earlier(scene)
    if others_inside:
        traces.append(trace(earlier, others_inside, axis, lambda point: point.value, "good"))
    traces.append(trace(printable(curve.name), inside, axis, lambda point: point.value, "accent"))
    plot = plot_of(_title(curve), traces, axis, shown)
    ticks = axis_of(
        shown,
        lambda step: formatting.count(round(step)),
        linear=True,
        whole=True,
        most=max(4, width // _TICK_COLUMNS),
    ).ticks
    visible = [(position, tick_words(label)) for position, label in ticks if shown[0] <= position <= shown[1]]
    x_ticks = spaced(visible, *shown, width - _Y_COLUMNS)
    reading = _reading(curve, at, view.units)
    if others:
        other = min(others, key=lambda point: abs(point.place - at.place))
        mean = "mean " if behind is not None and has_means(behind) else ""
        reading.append(Piece(f"{earlier} {mean}{value_text(other.value, view.units)}", "good", 2))
    speed = Paces(scene.snapshot).steps_per_s(curve.axis) if scene.snapshot else None
    facts = (_step_facts(curve, speed, view.units, width), fitted(reading, width))
    places = tuple(point.place for point in inside)
    return CurveDetail(facts, replace(plot, x_ticks=x_ticks, cursor=at.place), places)


def _title(curve: StepCurve) -> str:
    return "by step" if curve.axis == DEFAULT_AXIS else f"by step of {printable(curve.axis)}"


def _earlier(scene: Scene) -> str:
    return printable(scene.baseline.name) if scene.baseline is not None else "baseline"


def _points(curve: StepCurve) -> list[CurvePoint]:
    rows = zip(curve.steps, curve.values, curve.low or curve.values, curve.high or curve.values, strict=True)
    return [CurvePoint(float(step), value, low, high) for step, value, low, high in rows]


def _step_facts(curve: StepCurve, speed: float | None, units: Units, width: int) -> Line:
    pieces = [
        Piece(printable(curve.name), "strong"),
        Piece(f"{value_text(curve.first, units)} → {value_text(curve.last, units)}"),
        Piece(best_text(curve, units, step=True), "good", 1),
        Piece(f"{value_text(curve.min, units)} to {value_text(curve.max, units)}", keep=2),
        Piece(number_of(curve.count, "step"), keep=3),
        Piece(f"{numbers.value(speed, '', units)} steps/s" if speed else "", keep=4),
        Piece(number_of(curve.producers, "producer") if curve.producers > 1 else "", keep=5),
    ]
    return fitted(pieces, width)


def _reading(curve: StepCurve, at: CurvePoint, units: Units) -> list[Piece]:
    """Return the values at the cursor: `step 600 · 0.25 · 0.22 to 0.28 · 30 s after the start`.

    A point of several steps is named as their mean: `steps 598–600 · mean 0.25`.
    """
    index = curve.steps.index(int(at.place))
    first, last = first_step(curve, index), curve.steps[index]
    steps, mean = f"step {formatting.count(last)}", ""
    if first != last:
        begin = "to " if first is None else f"{formatting.count(first)}–"
        steps, mean = f"steps {begin}{formatting.count(last)}", "mean "
    is_newest = bool(mean) and index == len(curve.steps) - 1
    is_spread = at.low is not None and at.high is not None and at.low < at.high
    after = f"{numbers.seconds(curve.times_s[index])} after the start" if index < len(curve.times_s) else ""
    return [
        Piece(f"▏{steps}", "accent"),
        Piece(f"{mean}{value_text(at.value, units)}", "strong"),
        Piece(f"last {value_text(curve.last, units)}" if is_newest else "", keep=1),
        Piece(f"{value_text(at.low, units)} to {value_text(at.high, units)}" if is_spread else "", keep=1),
        Piece(after, "dim", 3),
    ]


def value_detail(
    scene: Scene, view: View, values: tuple[SeriesId, ValuesOverTime | None], cursor: Cursor, width: int
) -> CurveDetail:
    """Return a counter as its rate over time, or a gauge as its value. `width` is in columns."""
    series, history = values
    facts = _value_facts(series, scene, view, width)
    if history is None or not history.points:
        return CurveDetail((facts,), Plot(empty=READING))
    origin_ns = (scene.snapshot.started_ns if scene.snapshot else 0) or history.points[0][0]
    ends = [
        CurvePoint((end_ns - origin_ns) / 1e9, None) for _, end_ns, _ in (history.points[0], history.points[-1])
    ]
    shown = visible_range(ends, cursor)
    inside = tuple(
        interval for interval in history.points if shown[0] <= (interval[1] - origin_ns) / 1e9 <= shown[1]
    )
    points = _merged(replace(history, points=inside), origin_ns, max(1, width), _activity(scene, series, origin_ns))
    point_values = known_values(points)
    if not point_values:
        return CurveDetail((facts,), Plot(empty="no values in this time range"))
    while points[-1].value is None:  # such as the time after the last event of a counter
        points.pop()
    is_counter = history.kind == "counter"
    unit, units = history.unit, view.units

    def write(value: float | None) -> str:
        return numbers.rate(value, unit, units) if is_counter else numbers.value(value, unit, units)

    axis = rate_axis(point_values, unit, units) if is_counter else linear_axis(point_values, unit, units)
    name = "rate" if is_counter else "value"
    traces = [] if is_counter else band("lowest and highest", points, axis)
    traces.append(trace(name, points, axis, lambda point: point.value, "accent"))
    at = nearest(points, cursor)
    start_ns, end_ns = (origin_ns + round(edge * 1e9) for edge in shown)
    plot = replace(
        plot_of(f"{name} over time, UTC", traces, axis, shown),
        x_ticks=time_ticks(start_ns, end_ns, origin_ns, width),
        cursor=at.place,
    )
    pieces = [
        Piece(f"▏{formatting.clock_time(origin_ns + round(at.place * 1e9))[:8]} UTC", "accent"),
        Piece(write(at.value), "strong"),
        Piece(f"{numbers.seconds(at.place)} after the start", "dim", 1),
    ]
    return CurveDetail((facts, fitted(pieces, width)), plot, tuple(point.place for point in points))


def instrument_of(scene: Scene, series: SeriesId) -> CounterStat | GaugeStat | None:
    """Return the counter, or the sum of the counters of an outcome, or the gauge."""
    if scene.snapshot is None:
        return None
    for total, parts in summed(scene.snapshot.counters):
        for counter in (total, *parts):
            if series_id(counter.name, counter.labels) == series:
                return counter
    gauges = (stat for stat in scene.snapshot.gauges if series_id(stat.name, stat.labels) == series)
    return next(gauges, None)


def _value_facts(series: SeriesId, scene: Scene, view: View, width: int) -> Line:
    stat, units = instrument_of(scene, series), view.units
    if stat is None:
        return fitted([Piece(numbers.instrument(series[0], dict(series[1]), "", units), "strong")], width)
    unit = stat.unit
    pieces = [Piece(numbers.instrument(stat.name, stat.labels, unit, units), "strong")]
    if isinstance(stat, CounterStat):
        mean = numbers.rate(Paces(scene.snapshot).of(stat).per_s if scene.snapshot else None, unit, units)
        pieces += [Piece(f"{numbers.value(stat.value, unit, units)} in all"), Piece(f"{mean} on average", keep=1)]
    else:
        least, most = numbers.value(stat.min, unit, units), numbers.value(stat.max, unit, units)
        pieces += [Piece(numbers.value(stat.value, unit, units)), Piece(f"{least} to {most}", keep=1)]
    return fitted(pieces, width)


def _activity(scene: Scene, series: SeriesId, origin_ns: int) -> Activity:
    """Return when a counter was counted, as far as it is known."""
    stat = instrument_of(scene, series)
    if scene.snapshot is None or not isinstance(stat, CounterStat):
        return Activity()
    return Activity.of(Paces(scene.snapshot), [stat], origin_ns, is_over=is_over(scene))


def _merged(history: ValuesOverTime, origin_ns: int, most: int, activity: Activity) -> list[CurvePoint]:
    """Return at most `most` points, each of neighbouring intervals: a rate, or the mean of a gauge."""
    per = max(1, -(-len(history.points) // most))
    parts = [history.points[begin : begin + per] for begin in range(0, len(history.points), per)]
    starts_s = [(part[0][0] - origin_ns) / 1e9 for part in parts]
    places = [(part[-1][1] - origin_ns) / 1e9 for part in parts]
    values = [[value for _, _, value in part if value is not None] for part in parts]
    if history.kind == "counter":
        seconds = [max(0, sum(end_ns - start_ns for start_ns, end_ns, _ in part)) / 1e9 for part in parts]
        rates = RateSteps(starts_s, places, seconds).rates([sum(part_values) for part_values in values], activity)
        return [CurvePoint(position, rate) for position, rate in zip(places, rates, strict=True)]
    points: list[CurvePoint] = []
    last: list[float] = []
    for position, part_values in zip(places, values, strict=True):
        lasting = part_values or last  # a gauge keeps its value until it is set again
        last = lasting[-1:]
        mean = sum(lasting) / len(lasting) if lasting else None
        points.append(CurvePoint(position, mean, min(lasting, default=None), max(lasting, default=None)))
    return points
