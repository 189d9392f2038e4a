"""The curves of steps as a grid of small plots: their order, their texts, and their drawing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from msgspec import structs

from telemetry.common import formatting
from telemetry.common.directions import better_of_name, is_count
from telemetry.common.formatting import columns, number_of, printable
from telemetry.tui.model import numbers
from telemetry.tui.model.grid import Cell, Line, Piece, Tone, cut, elided, fitted, width_of
from telemetry.tui.model.names import short_names
from telemetry.tui.model.scene import Scene, Units, View
from telemetry.tui.model.steps import USUAL_OPEN, steps_per_s, waiting_words
from telemetry.tui.model.visible_series import matches
from telemetry.wire.pictures import StepCurve
from telemetry.wire.snapshot import AxisStat

ACROSS: Final = 2
DOWN: Final = 4
_BITS: Final = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_BLANK: Final = 0x2800
READING: Final = "reading the steps"
_SLACK: Final = 1e-6
"""Relative distance of a mean from the values it is of, after rounding."""
_LEAST_NAME: Final = 8
"""Columns of a name that stay beside the newest value."""
DEFAULT_AXIS: Final = "step"
"""Axis of a program that names none: its name says nothing."""
CurveId = tuple[str, str]
"""Axis and name."""


@dataclass(frozen=True, slots=True)
class Card:
    """A small plot. `behind` is the same value of the run that is compared with."""

    key: CurveId
    curve: StepCurve
    behind: StepCurve | None = None


@dataclass(frozen=True, slots=True)
class AxisSection:
    """The curves of an axis below a line about it."""

    heading: Line
    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class StepGrid:
    sections: tuple[AxisSection, ...] = ()
    empty: str = ""
    """Text shown if there are no curves."""
    units: Units = "readable"

    @property
    def cards(self) -> tuple[Card, ...]:
        return tuple(card for section in self.sections for card in section.cards)


def step_grid(scene: Scene, view: View, width: int = 80) -> StepGrid:
    """Return the curves that pass the filter, axis by axis. `width` is that of the headings.

    Values such as `epoch`, which only count, are no curves unless the filter asks for them.
    """
    behind = {_key(curve): curve for curve in scene.baseline_curves} if view.compare else {}
    by_axis: dict[str, list[Card]] = {}
    for curve in scene.curves or ():
        if matches(curve.name, view.filter) if view.filter else not is_count(curve.name):
            card = Card(_key(curve), curve, behind.get(_key(curve)))
            by_axis.setdefault(curve.axis, []).append(card)
    name_by_id = short_names(scene)
    sections = []
    for stat in scene.snapshot.axes if scene.snapshot else ():
        cards = by_axis.get(stat.name, [])
        if cards or not view.filter:
            sections.append(AxisSection(_heading(stat, scene, view, name_by_id, width), tuple(cards)))
    return StepGrid(tuple(sections), _empty(scene, view), view.units)


def with_band(curve: StepCurve) -> StepCurve:
    """Return the curve without its band if that is not around it: a sum lies beyond the values of all producers."""
    rows = zip(curve.values, curve.low, curve.high, strict=False)
    if all(
        value is None
        or low is None
        or high is None
        or low - (slack := _SLACK * abs(value)) <= value <= high + slack
        for value, low, high in rows
    ):
        return curve
    return structs.replace(curve, low=[], high=[])


def curve_of(curves: Sequence[StepCurve], key: CurveId) -> StepCurve | None:
    return next((curve for curve in curves if _key(curve) == key), None)


def _key(curve: StepCurve) -> CurveId:
    return curve.axis, curve.name


def _empty(scene: Scene, view: View) -> str:
    if scene.curves is None:
        return READING
    return f"no value matches '{printable(view.filter)}'" if view.filter else "no step has been closed yet"


def _heading(stat: AxisStat, scene: Scene, view: View, name_by_id: Mapping[str, str], width: int) -> Line:
    """Return a line such as `train  step 1,196 · 20 steps/s · step 1,197 waits for rank 1 ────`."""
    speed = steps_per_s(stat, scene, view)
    behind = stat.open > USUAL_OPEN
    waiting = (
        waiting_words(stat, name_by_id).replace(": ", " waits for ", 1) if behind or stat.producers > 1 else ""
    )
    newest = f"step {formatting.count(stat.newest)}" if stat.newest is not None else "no step yet"
    is_default = stat.name == DEFAULT_AXIS
    pieces = [
        Piece("" if is_default else printable(stat.name), "strong"),
        Piece(newest, "strong" if is_default else "plain"),
        Piece(f"{numbers.value(speed, '', view.units)} steps/s" if speed else "", keep=3),
        Piece(waiting, "warn" if behind else "dim", 2),
        Piece(number_of(stat.timeouts, "timeout") if stat.timeouts else "", "warn", 1),
        Piece(number_of(stat.corrections, "correction") if stat.corrections else "", "dim", 4),
    ]
    line = fitted(pieces, width)
    room = width - width_of(line) - 1
    return (*line, Cell(f" {'─' * room}", "dim")) if room > 1 else line


# --- one plot --------------------------------------------------------------------------------------


def drawn(card: Card, width: int, height: int, units: Units) -> tuple[Line, ...]:
    """Return the lines of a small plot: name and newest value, the curve, and below it where it came from."""
    if height < 3:
        return (_title(card, width, units),)[:height]
    return (_title(card, width, units), *_plot(card, width, height - 2), _foot(card.curve, width, units))


def _title(card: Card, width: int, units: Units) -> Line:
    last = value_text(card.curve.last, units)
    room = max(width - columns(last) - 1, _LEAST_NAME)
    name = formatting.without_middle(printable(card.curve.name), room)
    space = " " * max(1, width - columns(name) - columns(last))
    return cut((Cell(name), Cell(f"{space}{last}", "strong")), width)


def _foot(curve: StepCurve, width: int, units: Units) -> Line:
    """Return the first value at the left, and the best one, or the range, at the right."""
    if curve.count < 2 or curve.first is None:
        return ()
    right = best_text(curve, units) or f"{value_text(curve.min, units)} … {value_text(curve.max, units)}"
    left = f"from {value_text(curve.first, units)}"
    room = width - columns(left) - columns(right)
    return (Cell(f"{left}{' ' * room}{right}" if room > 1 else elided(right.rjust(width), width), "dim"),)


def best_text(curve: StepCurve, units: Units, *, step: bool = False) -> str:
    """Return the best value such as `best 0.09`, with `step` also where it was; empty if no direction is better."""
    better = better_of_name(curve.name)
    if better == "neither":
        return ""
    best, at = (curve.min, curve.min_step) if better == "lower" else (curve.max, curve.max_step)
    where = f" at step {formatting.count(at)}" if step and at is not None else ""
    return f"best {value_text(best, units)}{where}" if best is not None else ""


def value_text(value: float | None, units: Units) -> str:
    return "not finite" if value is None else numbers.value(value, "", units)


def _plot(card: Card, width: int, height: int) -> tuple[Line, ...]:
    main = with_band(card.curve)
    curves = [curve for curve in (card.behind, main) if curve is not None and curve.steps]
    values = [value for curve in curves for value in _values(curve)]
    if not values:
        return tuple(() for _ in range(height))
    low, high = min(values), max(values)
    first = min(curve.steps[0] for curve in curves)
    last = max(curve.steps[-1] for curve in curves)
    layers: list[Layer] = []
    for curve in curves:
        dot_columns = _columns(curve, first, last, width * ACROSS)
        if curve is main:
            lows = [None if each is None else _share(each.low, low, high) for each in dot_columns]
            highs = [None if each is None else _share(each.high, low, high) for each in dot_columns]
            layers.append(Layer("dim", lows, highs))
        heights = [None if each is None else _share(each.mean, low, high) for each in dot_columns]
        layers.append(Layer("accent" if curve is main else "good", heights))
    return dots(layers, width, height)


@dataclass(frozen=True, slots=True)
class _Column:
    mean: float
    low: float
    high: float


def _columns(curve: StepCurve, first: int, last: int, count: int) -> list[_Column | None]:
    """Return the points of a curve by column of dots. Columns between two points lie on a straight line."""
    points: list[list[int]] = [[] for _ in range(count)]
    scale = (count - 1) / (last - first) if last > first else 0.0
    for index, step in enumerate(curve.steps):
        points[round((step - first) * scale)].append(index)
    dot_columns: list[_Column | None] = [_column(curve, indices) for indices in points]
    before: int | None = None
    for at, indices in enumerate(points):
        if not indices:
            continue
        if before is not None and at - before > 1:
            _bridge(dot_columns, before, at)
        before = at
    return dot_columns


def _bridge(dot_columns: list[_Column | None], start: int, end: int) -> None:
    """Fill the columns between two points, unless one of them is not finite."""
    a, b = dot_columns[start], dot_columns[end]
    if a is None or b is None:
        return
    for at in range(start + 1, end):
        part = (at - start) / (end - start)
        dot_columns[at] = _Column(
            *(x + (y - x) * part for x, y in ((a.mean, b.mean), (a.low, b.low), (a.high, b.high)))
        )


def _column(curve: StepCurve, indices: Sequence[int]) -> _Column | None:
    values = [value for index in indices if (value := curve.values[index]) is not None]
    if not values:
        return None
    lows = [value for index in indices if curve.low and (value := curve.low[index]) is not None]
    highs = [value for index in indices if curve.high and (value := curve.high[index]) is not None]
    return _Column(sum(values) / len(values), min(*lows, *values, values[0]), max(*highs, *values, values[0]))


def _values(curve: StepCurve) -> Iterator[float]:
    for values in (curve.values, curve.low, curve.high):
        yield from (value for value in values if value is not None)


def _share(value: float, low: float, high: float) -> float:
    """Return the height of a value in the plot; the middle if all values are equal."""
    # Halves: the difference of two large floats may overflow.
    spread = high / 2 - low / 2
    return (value / 2 - low / 2) / spread if spread > 0 else 0.5


@dataclass(frozen=True, slots=True)
class Layer:
    """A line or a shaded band. Heights are from 0, the lower edge, to 1; one for each column of dots.

    None leaves a column empty, and the line is not drawn across it.
    """

    tone: Tone
    heights: Sequence[float | None]
    upper: Sequence[float | None] | None = None
    """Upper edge of a band, whose lower edge is `heights`."""


def dots(layers: Sequence[Layer], width: int, height: int) -> tuple[Line, ...]:
    """Draw layers above each other, the first one at the back, in `width` × `height` cells.

    A cell has one colour, so it shows the dots of the frontmost layer in it.
    """
    bits = [[0] * width for _ in range(height)]
    tones: list[list[Tone]] = [["plain"] * width for _ in range(height)]
    for layer in layers:
        drawn: dict[tuple[int, int], int] = {}
        for x, y in _places(layer, width * ACROSS, height * DOWN):
            row, column = y // DOWN, x // ACROSS
            drawn[row, column] = drawn.get((row, column), 0) | _BITS[x % ACROSS][y % DOWN]
        for (row, column), mask in drawn.items():
            bits[row][column], tones[row][column] = mask, layer.tone
    return tuple(_line(bits[row], tones[row]) for row in range(height))


def _places(layer: Layer, width: int, height: int) -> Iterator[tuple[int, int]]:
    """Yield the dots of a layer, counted from the upper left corner."""
    lows = [_dot(at, height) for at in layer.heights[:width]]
    if layer.upper is None:
        yield from _stroke(lows)
        return
    for x, (low, top) in enumerate(zip(lows, layer.upper, strict=False)):
        high = _dot(top, height)
        if low is not None and high is not None:
            # Every other dot: a band is lighter than the line in front of it.
            yield from ((x, y) for y in range(high, low + 1) if (x + y) % 2)


def _stroke(rows: Sequence[int | None]) -> Iterator[tuple[int, int]]:
    """Yield the dots of a line without holes: steep parts fill the rows between two columns."""
    before: int | None = None
    for x, y in enumerate(rows):
        if y is not None:
            yield x, y
            if before is not None:
                middle = (before + y) // 2
                yield from ((x - 1, at) for at in _between(before, middle))
                yield from ((x, at) for at in _between(y, middle))
        before = y


def _between(start: int, end: int) -> range:
    return range(start, end + 1) if end >= start else range(end, start + 1)


def _dot(height: float | None, rows: int) -> int | None:
    """Return the row of dots at a height."""
    if height is None or math.isnan(height):
        return None
    return rows - 1 - round(min(max(height, 0.0), 1.0) * (rows - 1))  # infinite for values near the largest float


def _line(bits: Sequence[int], tones: Sequence[Tone]) -> Line:
    cells = [(chr(_BLANK + mask) if mask else " ", tone) for mask, tone in zip(bits, tones, strict=True)]
    return tuple(
        Cell("".join(text for text, _ in run), tone) for tone, run in groupby(cells, key=lambda cell: cell[1])
    )
