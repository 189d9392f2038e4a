"""Values of steps over time while the viewer watched: a snapshot has the newest values only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from telemetry.tui.model.scene import TREND_POINTS, Courses
from telemetry.wire.snapshot import AxisStat, MetricsSnapshot

SAMPLED_NS: Final = 1_000_000_000
"""Shortest time between points. A fast loop has thousands of steps in it; a point is the newest one."""
NAMES: Final = 2_000
"""Largest number of names, over all axes; the first ones are kept. With TREND_POINTS each they take a few MiB."""


class StepCurves:
    """The value of each name at the newest step, recorded at most once a second."""

    def __init__(self) -> None:
        self._courses: Courses = {}
        self._names = 0
        self._seen: dict[str, tuple[int, AxisStat]] = {}
        """Time and state of each axis at its last recording."""
        self._now_ns = 0

    def learn(self, snapshot: MetricsSnapshot) -> Courses:
        """Return values by axis and name, at most TREND_POINTS each; the same object if there are no new ones."""
        if snapshot.time_ns < self._now_ns:
            self._seen.clear()
        self._now_ns = snapshot.time_ns
        grown = {stat.name: self._grown(stat) for stat in snapshot.axes if self._is_new(stat)}
        if grown:
            self._courses = {**self._courses, **grown}
        return self._courses

    def _is_new(self, stat: AxisStat) -> bool:
        if stat.newest is None:
            return False
        at_ns, before = self._seen.get(stat.name, (0, None))
        if before is not None and (self._now_ns - at_ns < SAMPLED_NS or stat.newest == before.newest):
            return False
        self._seen[stat.name] = self._now_ns, stat
        return True

    def _grown(self, stat: AxisStat) -> Mapping[str, tuple[float | None, ...]]:
        known = dict(self._courses.get(stat.name, {}))
        for name, said in stat.values.items():
            value = said if said is not None and math.isfinite(said) else None
            if name in known:
                known[name] = (*known[name], value)[-TREND_POINTS:]
            elif self._names < NAMES:
                self._names += 1
                known[name] = (value,)
        return known
