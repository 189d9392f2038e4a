"""A counter or a gauge over time on the whole screen, and what it is at the cursor."""

from __future__ import annotations

from dataclasses import replace

from telemetry.common import formatting
from telemetry.history.fair_rates import Activity, RateSteps
from telemetry.history.rates import Paces
from telemetry.tui.model import curve_detail as curves
from telemetry.tui.model import numbers
from telemetry.tui.model.axes import linear_axis, rate_axis, time_ticks
from telemetry.tui.model.curve_detail import Cursor, CurveDetail, CurvePoint
from telemetry.tui.model.grid import Line
from telemetry.tui.model.lines import Piece, fitted
from telemetry.tui.model.outcomes import summed
from telemetry.tui.model.plot import Plot
from telemetry.tui.model.scene import Scene, SeriesId, ValuesOverTime, View, series_id
from telemetry.tui.model.series_plots import READING
from telemetry.tui.model.visible_series import is_over
from telemetry.wire.snapshot import CounterStat, GaugeStat


def value_detail(
    scene: Scene, view: View, values: tuple[SeriesId, ValuesOverTime | None], cursor: Cursor, width: int
) -> CurveDetail:
    """Return a counter as its rate over time, or a gauge as its value. `width` is in columns."""
    series, history = values
    facts = _facts(series, scene, view, width)
    if history is None or not history.points:
        return CurveDetail((facts,), Plot(empty=READING))
    origin_ns = (scene.snapshot.started_ns if scene.snapshot else 0) or history.points[0][0]
    ends = [
        CurvePoint((end_ns - origin_ns) / 1e9, None) for _, end_ns, _ in (history.points[0], history.points[-1])
    ]
    shown = curves.visible_range(ends, cursor)
    inside = tuple(
        interval for interval in history.points if shown[0] <= (interval[1] - origin_ns) / 1e9 <= shown[1]
    )
    points = _merged(replace(history, points=inside), origin_ns, max(1, width), _activity(scene, series, origin_ns))
    point_values = curves.known_values(points)
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
    traces = [] if is_counter else curves.band("lowest and highest", points, axis)
    traces.append(curves.trace(name, points, axis, lambda point: point.value, "accent"))
    at = curves.nearest(points, cursor)
    start_ns, end_ns = (origin_ns + round(edge * 1e9) for edge in shown)
    plot = replace(
        curves.plot_of(f"{name} over time, UTC", traces, axis, shown),
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


def _facts(series: SeriesId, scene: Scene, view: View, width: int) -> Line:
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
