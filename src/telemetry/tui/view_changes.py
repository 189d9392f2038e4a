"""Changes of a View by keys: pure functions from one view to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from telemetry.tui.model.scene import Scene, SeriesId, View

_NAMES: Final = "name"
"""The column of names."""
ZOOM_MOST: Final = 12
"""Largest zoom: a day halved so often is 21 seconds, and a history has at most one interval per second."""
PAN_STEP: Final = 2
"""Step in tenths of the shown time range, so that most of the plot stays visible."""


def next_sort(view: View, keys: Sequence[str]) -> View:
    """Sort by the column after the current one; numbers begin with the greatest."""
    if not keys:
        return view
    index = keys.index(view.sort) + 1 if view.sort in keys else 0
    return replace(view, sort=(key := keys[index % len(keys)]), descending=key != _NAMES)


def sort_by(view: View, key: str) -> View:
    """Sort by this column, or reverse the order if it is the current one."""
    return replace(view, sort=key, descending=not view.descending if key == view.sort else key != _NAMES)


def reverse(view: View) -> View:
    return replace(view, descending=not view.descending)


def other_figures(view: View) -> View:
    return replace(view, figures="run" if view.figures == "window" else "window")


def other_units(view: View) -> View:
    return replace(view, units="raw" if view.units == "readable" else "readable")


def next_group(view: View, labels: Sequence[str]) -> View:
    """Group by the label after the current one; after the last, by none."""
    index = labels.index(view.group) + 1 if view.group in labels else 0
    return replace(view, group=labels[index] if index < len(labels) else "")


def pin(view: View, series: SeriesId) -> View:
    """Pin a series, or unpin it."""
    return replace(view, pinned=view.pinned ^ {series})


def open_node(view: View, node: str) -> View:
    """Show the producers of a node, or hide them."""
    return replace(view, opened_nodes=view.opened_nodes ^ {node})


def zoom(view: View, step: int) -> View:
    """Zoom in or out by one step. The right edge of the plot keeps its time."""
    to = min(max(view.zoom + step, 0), ZOOM_MOST)
    return _panned(replace(view, zoom=to), int(view.pan * 2.0 ** (to - view.zoom)))


def pan(view: View, step: int) -> View:
    """Move back in time for +1, forward for -1, within the history."""
    return _panned(view, view.pan + step * PAN_STEP)


def _panned(view: View, tenths: int) -> View:
    return replace(view, pan=min(max(tenths, 0), 10 * (2**view.zoom - 1)))


class PastRange(NamedTuple):
    """A time range of the history: `seconds` before `end_ns`, wall clock."""

    end_ns: int
    seconds: float


_SECOND_NS: Final = 1_000_000_000
TIME_RANGES_S: Final = (10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0)
"""Lengths of the time range in the past, in the order of zooming."""


def scrub(scene: Scene, past: PastRange | None, steps: int) -> PastRange | None:
    """Move back by one time range for -1, forward for +1. None means now, or that no past is known."""
    snapshot = scene.snapshot
    if snapshot is None or not snapshot.started_ns:
        return None
    if past is None:
        past = PastRange(snapshot.time_ns, snapshot.window_s or TIME_RANGES_S[0])
        if steps > 0:
            return None
    end_ns = past.end_ns + round(steps * past.seconds * 1e9)
    if end_ns >= snapshot.time_ns:
        return None
    return past._replace(end_ns=max(end_ns, snapshot.started_ns + _SECOND_NS))


def time_range(past: PastRange, step: int) -> PastRange:
    """Return the next longer time range for -1, the next shorter for +1."""
    others = [each for each in TIME_RANGES_S if (each > past.seconds if step < 0 else each < past.seconds)]
    return past._replace(seconds=(others[0] if step < 0 else others[-1]) if others else past.seconds)
