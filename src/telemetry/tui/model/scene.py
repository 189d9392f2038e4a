"""All that is known of a run at one moment, and all that the viewer has chosen to see of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from telemetry.history.intervals.figures import Figures
from telemetry.wire.snapshot import MetricsSnapshot

SeriesId = tuple[str, tuple[tuple[str, str], ...]]
"""A name and its labels, sorted."""
Courses = Mapping[str, Mapping[str, tuple[float | None, ...]]]
"""Values of steps by axis and name, the newest last; None was no finite number."""


def series_id(name: str, labels: Mapping[str, str]) -> SeriesId:
    return name, tuple(sorted(labels.items()))


@dataclass(frozen=True, kw_only=True, slots=True)
class RangeFigures:
    """What history says of the time range `[start_ns, end_ns)`, wall clock."""

    start_ns: int
    end_ns: int
    series: Mapping[SeriesId, Figures] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """`silence_s` is the age of the newest snapshot once it is more than fresh, else 0; `trouble` says in words
    what is wrong with the connection. `live` is False for a run that was opened from its directory."""

    snapshot: MetricsSnapshot | None = None
    live: bool = True
    silence_s: float = 0.0
    trouble: str = ""
    trends: Mapping[SeriesId, tuple[float, ...]] = field(default_factory=dict)
    """p99 of each second, the newest last, at most TREND_POINTS."""
    tokens_per_s: Mapping[SeriesId, float] = field(default_factory=dict)
    """By how much the series of output tokens have grown since they were watched, over the window at most."""
    steps_per_s: Mapping[str, float] = field(default_factory=dict)
    """By axis: how many were closed since they were watched, over the window at most."""
    courses: Courses = field(default_factory=dict)
    """As far as they were watched, a point a second at most, at most TREND_POINTS."""
    baseline: MetricsSnapshot | None = None
    moment: RangeFigures | None = None
    """Where the viewer has gone back to; None is now."""
    output: tuple[str, ...] = ()
    """The last lines of the wrapped command's output, escape sequences and all."""


TREND_POINTS = 60
Figured = Literal["window", "run"]
Units = Literal["readable", "raw"]


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """What the keys have chosen. `sort` and `group` are a column key and a label key."""

    figures: Figured = "window"
    sort: str = ""
    descending: bool = True
    filter: str = ""
    group: str = ""
    pinned: frozenset[SeriesId] = frozenset()
    units: Units = "readable"
    compare: bool = False
    """Whether Δ columns against the baseline are shown."""
    zoom: int = 0
    """Of the plots over time: each step halves the time range that is shown."""
    pan: int = 0
    """Tenths of the time range that the plots over time have been moved back from now."""
