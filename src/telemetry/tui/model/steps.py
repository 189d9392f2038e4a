"""Steps: the progress of each axis, the producers it waits for, and the newest values of one axis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from telemetry.common import formatting
from telemetry.common.formatting import NOTHING, number_of, printable
from telemetry.history.rates import Paces
from telemetry.tui.model import numbers
from telemetry.tui.model.backends import backends
from telemetry.tui.model.grid import Cell, Column, Grid, Line, Piece, Row, fitted
from telemetry.tui.model.names import short_names
from telemetry.tui.model.request_flow import has_requests
from telemetry.tui.model.scene import Scene, View
from telemetry.tui.model.spans import has_spans
from telemetry.tui.model.sparkline import course
from telemetry.tui.model.visible_series import WHOLE_RUN, matches
from telemetry.wire.pictures import StepCurve
from telemetry.wire.snapshot import AxisStat, MetricsSnapshot

_TABS_COLUMNS: Final = 44
"""Columns that the tabs take from the caption."""
_REQUESTS_COLUMNS: Final = 12
"""Further columns taken by the tab of requests, if it exists."""
_SPANS_COLUMNS: Final = 9
_TREND_COLUMNS: Final = ((150, 60), (110, 40), (0, 20))
"""Pairs of (least columns of the screen, points of a trend)."""
_NAMED: Final = 2
"""Producers named as awaited by a step; further ones are counted."""
USUAL_OPEN: Final = 1
"""Steps that are normally open: the current one."""
_AXES: Final = (
    Column("name", "axis", right=False),
    Column("newest", "newest step"),
    Column("rate", "steps/s"),
    Column("closed", "closed", keep=6),
    Column("open", "open", keep=1),
    Column("producers", "producers", keep=5),
    Column("timeouts", "timeouts", keep=3),
    Column("corrections", "corrections", keep=4),
    Column("waiting", "waits for", right=False, keep=2),
)


@dataclass(frozen=True, slots=True)
class StepsContent:
    """The content of the screen. `caption` has the time range of the rates and the filter of the values."""

    axes: Grid
    values: Grid
    """Values of the chosen axis."""
    backends: Grid
    caption: Line = ()


def has_steps(scene: Scene) -> bool:
    """Return whether the screen has any content: an axis or a backend."""
    return scene.snapshot is not None and bool(scene.snapshot.axes or scene.snapshot.backends)


def steps(
    scene: Scene, view: View, axis: str | None = None, width: int = 80, *, places: bool = False
) -> StepsContent:
    """Return the three tables.

    `axis` is the one whose values are shown; the default is the first. `width` is the width of the screen, in
    columns. `places` adds the location of the backends' data.
    """
    snapshot = scene.snapshot
    if snapshot is None:
        return StepsContent(Grid(), Grid(empty="no steps yet"), Grid())
    stat = chosen(scene, axis)
    return StepsContent(
        _axes(snapshot, scene, view),
        _values(stat, scene, view, width),
        backends(snapshot, view, width, places=places),
        caption(scene, view, len(stat.values), width) if stat is not None else (),
    )


def chosen(scene: Scene, axis: str | None) -> AxisStat | None:
    """Return the axis of this name, or else the first one."""
    axes = scene.snapshot.axes if scene.snapshot else []
    return next((stat for stat in axes if stat.name == axis), axes[0] if axes else None)


def steps_per_s(stat: AxisStat, scene: Scene, view: View) -> float | None:
    """Return the steps per second over the last watched seconds, or over the whole run."""
    if view.figures == "window":
        return scene.steps_per_s.get(stat.name)
    return Paces(scene.snapshot).steps_per_s(stat.name) if scene.snapshot else None


def values_shown(stat: AxisStat, view: View) -> Iterator[tuple[str, float | None]]:
    """Yield the values whose names pass the filter."""
    for name, value in stat.values.items():
        if not view.filter or matches(name, view.filter):
            yield name, value


def caption(scene: Scene, view: View, values: int, width: int) -> Line:
    """Return the time range of rates, the number of values, and the filter. `width` is that of the screen."""
    if scene.snapshot is None:
        return ()
    tabs = (
        _TABS_COLUMNS
        + (_REQUESTS_COLUMNS if has_requests(scene) else 0)
        + (_SPANS_COLUMNS if has_spans(scene) else 0)
    )
    time_range = WHOLE_RUN if view.figures == "run" else f"last {scene.snapshot.window_s:g} s"
    pieces = [
        Piece(time_range, "strong", 3),
        Piece(number_of(values, "value"), keep=2),
        Piece(f"filter '{printable(view.filter)}'" if view.filter else "", "accent"),
        Piece(_behind(scene, view), "good", 1),
    ]
    return fitted(pieces, width - tabs)


def _behind(scene: Scene, view: View) -> str:
    """Return the name of the run that is compared with."""
    return f"behind: {printable(scene.baseline.name)}" if view.compare and scene.baseline else ""


# --- axes ------------------------------------------------------------------------------------------


def _axes(snapshot: MetricsSnapshot, scene: Scene, view: View) -> Grid:
    name_by_id = short_names(scene)
    lines = []
    for stat in snapshot.axes:
        cells = _cells(stat, name_by_id, steps_per_s(stat, scene, view), view)
        name, *figures = (cells[column.key] for column in _AXES)
        lines.append(Row(stat.name, name, tuple(figures)))
    return Grid(_AXES, tuple(lines), empty="no steps yet" if scene.live else "the run has no steps")


def _cells(stat: AxisStat, name_by_id: Mapping[str, str], per_s: float | None, view: View) -> dict[str, Cell]:
    """Return the cells by the key of their column."""
    behind = stat.open > USUAL_OPEN
    rate = numbers.rate(per_s, "", view.units).removesuffix("/s")
    return {
        "name": Cell(printable(stat.name)),
        "newest": Cell(formatting.count(stat.newest), "strong"),
        "rate": Cell(rate, "plain" if per_s else "dim"),
        "closed": Cell(formatting.count(stat.closed)),
        "open": Cell(formatting.count(stat.open), "plain" if stat.open else "dim"),
        "producers": Cell(formatting.count(stat.producers), "plain" if stat.producers else "dim"),
        "timeouts": Cell(formatting.count(stat.timeouts), "warn" if stat.timeouts else "dim"),
        "corrections": Cell(formatting.count(stat.corrections), "warn" if stat.corrections else "dim"),
        "waiting": Cell(waiting_words(stat, name_by_id) or NOTHING, "warn" if behind else "dim"),
    }


def waiting_words(stat: AxisStat, name_by_id: Mapping[str, str]) -> str:
    """Return the producers that have not ended the oldest open step, such as `step 17: worker-3`; empty if none."""
    if stat.oldest_open is None or not stat.waiting_for:
        return ""
    names = [name_by_id.get(each) or each for each in stat.waiting_for[:_NAMED]]
    more = len(stat.waiting_for) - _NAMED
    text = f"{', '.join(names)}{f' and {more:,} more' if more > 0 else ''}"
    return printable(f"step {stat.oldest_open:,}: {text}")


# --- values ----------------------------------------------------------------------------------------


def _values(stat: AxisStat | None, scene: Scene, view: View, width: int) -> Grid:
    if stat is None:
        return Grid()
    columns = (
        Column("name", f"values of {printable(stat.name)}", right=False),
        Column("value", "newest"),
        Column("trend", "over the run", right=False, keep=1),
    )
    points = next(points for least, points in _TREND_COLUMNS if width >= least)
    curves = {curve.name: curve for curve in scene.curves or () if curve.axis == stat.name}
    lines = [
        Row(name, Cell(printable(name)), partial(_figures, value, curves.get(name), view, points))
        for name, value in values_shown(stat, view)
    ]
    nothing = f"no value matches '{printable(view.filter)}'" if view.filter else "no step has been closed yet"
    return Grid(columns, tuple(lines), empty=nothing)


def _figures(value: float | None, curve: StepCurve | None, view: View, points: int) -> Line:
    cell = Cell("not finite", "bad") if value is None else Cell(numbers.value(value, "", view.units))
    return cell, Cell(course(_thinned(curve.values, points) if curve is not None else (), points), "accent")


def _thinned(values: Sequence[float | None], most: int) -> tuple[float | None, ...]:
    """Return at most so many values, evenly spaced, with the first and the last."""
    if len(values) <= most:
        return tuple(values)
    return tuple(values[round(at * (len(values) - 1) / (most - 1))] for at in range(most))
