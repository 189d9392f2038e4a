"""The known facts about a run at one moment, and the choices of the viewer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from telemetry.history.intervals.figures import Figures
from telemetry.wire.control import MemberFacts
from telemetry.wire.gates import GateResult
from telemetry.wire.pictures import StepCurve
from telemetry.wire.report import Stragglers
from telemetry.wire.snapshot import MetricsSnapshot

SeriesId = tuple[str, tuple[tuple[str, str], ...]]
Trend = tuple[float | None, ...]
"""A value of each step, newest last; None for a step without values."""
"""A name and its sorted labels."""


def series_id(name: str, labels: Mapping[str, str]) -> SeriesId:
    return name, tuple(sorted(labels.items()))


@dataclass(frozen=True, slots=True)
class ValuesOverTime:
    """A counter or a gauge in each interval of the history."""

    kind: Literal["counter", "gauge"]
    unit: str
    points: tuple[tuple[int, int, float | None], ...] = ()
    """Begin and end, wall clock, and the increase of a counter or the last value of a gauge; None if not set."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RangeFigures:
    """The figures from the history for the time range `[start_ns, end_ns)`, wall clock."""

    start_ns: int
    end_ns: int
    series: Mapping[SeriesId, Figures] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Opened:
    """The thing that fills the screen: a series, a counter, a gauge, or a value of steps by axis and name."""

    kind: Literal["series", "value", "steps"]
    series: SeriesId = ("", ())
    steps: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class Baseline:
    """A finished run to compare with, and the curves of its steps."""

    snapshot: MetricsSnapshot
    curves: tuple[StepCurve, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """The input of all screens.

    `silence_s` is the age of the newest snapshot if it is overdue, else 0. `trouble` describes a connection
    problem. `live` is False for a run that was opened from its directory.
    """

    snapshot: MetricsSnapshot | None = None
    live: bool = True
    silence_s: float = 0.0
    trouble: str = ""
    trends: Mapping[SeriesId, Trend] = field(default_factory=dict)
    """p99 of each step of `trend_step_s`, newest last, at most TREND_POINTS."""
    trend_step_s: float = 1.0
    """Seconds, or a part of a second for a short run that has ended."""
    tokens_per_s: Mapping[SeriesId, float] = field(default_factory=dict)
    """Input and output tokens per second by series since watching began, over at most the window."""
    steps_per_s: Mapping[str, float] = field(default_factory=dict)
    """Steps per second by axis since watching began, over at most the window."""
    peaks: Mapping[SeriesId, float] = field(default_factory=dict)
    """Most requests in flight since watching began, by kind and labels."""
    curves: tuple[StepCurve, ...] | None = None
    """Values of steps over the whole run, by axis; None until they have been read."""
    stragglers: tuple[Stragglers, ...] = ()
    """Slow ranks by axis."""
    baseline: MetricsSnapshot | None = None
    baseline_curves: tuple[StepCurve, ...] = ()
    """Values of steps of the baseline."""
    moment: RangeFigures | None = None
    """Time range in the past that the viewer has chosen; None is now."""
    members: Mapping[str, tuple[MemberFacts, ...]] = field(default_factory=dict)
    """Producers of the nodes that were opened, by run id of the leaf."""
    gates: tuple[GateResult, ...] = ()
    """Results of the gates: those so far while the run goes on."""
    gates_final: bool = True
    """True if the run has ended and `gates` decide about it."""
    output: tuple[str, ...] = ()
    """Last lines of the wrapped command's output, including escape sequences."""


TREND_POINTS = 60
Figured = Literal["window", "run"]
Units = Literal["readable", "raw"]


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """The choices made by keys. `sort` is a column key, `group` a label key."""

    figures: Figured = "window"
    sort: str = ""
    descending: bool = True
    filter: str = ""
    group: str = ""
    pinned: frozenset[SeriesId] = frozenset()
    units: Units = "readable"
    compare: bool = False
    """True if Δ columns against the baseline are shown."""
    opened_nodes: frozenset[str] = frozenset()
    """Nodes whose producers are shown, by run id of the leaf."""
    zoom: int = 0
    """Zoom of plots over time: each step halves the shown time range."""
    pan: int = 0
    """Pan of plots over time, in tenths of the shown time range back from now."""
