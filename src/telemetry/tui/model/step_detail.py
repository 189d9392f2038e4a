"""A value of steps on the whole screen, and what it is at the cursor."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from telemetry.common import formatting
from telemetry.common.formatting import number_of, printable
from telemetry.history.curve_points import first_step, has_means
from telemetry.history.rates import Paces
from telemetry.tui.model import curve_detail as curves
from telemetry.tui.model import numbers
from telemetry.tui.model.axes import axis_of, linear_axis, spaced, tick_words
from telemetry.tui.model.curve_detail import Cursor, CurveDetail, CurvePoint
from telemetry.tui.model.grid import Line
from telemetry.tui.model.lines import Piece, fitted
from telemetry.tui.model.plot import Plot
from telemetry.tui.model.scene import Scene, Units, View
from telemetry.tui.model.step_grid import DEFAULT_AXIS, CurveId, best_text, curve_of, value_text, with_band
from telemetry.wire.pictures import StepCurve

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
    shown = curves.visible_range([*points, *others], cursor)
    inside, others_inside = (curves.between(each, *shown) for each in (points, others))
    at = curves.nearest(points, cursor)
    axis = linear_axis(curves.known_values([*inside, *others_inside]) or [0.0], "", view.units)
    several = "ranks" if curve.producers > 1 else "neighbours"
    traces = curves.band(f"lowest and highest of {several}", inside, axis)
    earlier = _earlier(scene)
    if others_inside:
        traces.append(curves.trace(earlier, others_inside, axis, lambda point: point.value, "good"))
    traces.append(curves.trace(printable(curve.name), inside, axis, lambda point: point.value, "accent"))
    plot = curves.plot_of(_title(curve), traces, axis, shown)
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
    facts = (_facts(curve, speed, view.units, width), fitted(reading, width))
    places = tuple(point.place for point in inside)
    return CurveDetail(facts, replace(plot, x_ticks=x_ticks, cursor=at.place), places)


def _title(curve: StepCurve) -> str:
    return "by step" if curve.axis == DEFAULT_AXIS else f"by step of {printable(curve.axis)}"


def _earlier(scene: Scene) -> str:
    return printable(scene.baseline.name) if scene.baseline is not None else "baseline"


def _points(curve: StepCurve) -> list[CurvePoint]:
    rows = zip(curve.steps, curve.values, curve.low or curve.values, curve.high or curve.values, strict=True)
    return [CurvePoint(float(step), value, low, high) for step, value, low, high in rows]


def _facts(curve: StepCurve, speed: float | None, units: Units, width: int) -> Line:
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
