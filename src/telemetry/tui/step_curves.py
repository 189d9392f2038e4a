"""How the values of steps went while one watched: a snapshot has the newest only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from telemetry.tui.model.scene import TREND_POINTS, Courses
from telemetry.wire.snapshot import AxisStat, MetricsSnapshot

SAMPLED_NS: Final = 1_000_000_000
"""A fast loop has thousands of steps in that time: a point is the newest of them."""
NAMES: Final = 2_000
"""Of all axes together, the first ones: with TREND_POINTS each a few MiB."""


class StepCurves:
    """Of each name the value at the newest step, whenever there is one, once a second at most."""

    def __init__(self) -> None:
        self._courses: Courses = {}
        self._names = 0
        self._seen: dict[str, tuple[int, AxisStat]] = {}
        """When an axis was last looked at, and how it was then."""
        self._now_ns = 0

    def learn(self, snapshot: MetricsSnapshot) -> Courses:
        """By axis and name, TREND_POINTS at most; the same object where nothing is new."""
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
