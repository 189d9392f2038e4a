"""A line of the overview about the machine: gauges of host and GPU, with their last minute."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from telemetry.common.formatting import printable
from telemetry.tui.model import numbers
from telemetry.tui.model.grid import Cell, Line
from telemetry.tui.model.lines import width_of
from telemetry.tui.model.scene import Scene, View, series_id
from telemetry.tui.model.sparkline import sparkline
from telemetry.wire.collectors import PROCESS_LABEL, is_of_machine
from telemetry.wire.snapshot import GaugeStat

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
    for stat in scene.snapshot.gauges if scene.snapshot else ():
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
        several = f" {len(stats)} ×" if len(stats) > 1 else ""
        top = _HUNDRED if numbers.is_percent(unit) else None
        yield (
            Cell(f"{printable(name)} ", "dim"),
            Cell(sparkline(means, trend, top), "accent"),
            Cell(f"{several} {_value(sum(values) / len(values), unit, view)}", "strong"),
        )


def _value(value: float, unit: str, view: View) -> str:
    return f"{value:.0f} %" if numbers.is_percent(unit) else numbers.value(value, unit, view.units)
