"""Messages from a feed, requests to it, and the channel that carries them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from telemetry.history.intervals.timeline import Timeline
from telemetry.tui.model.scene import RangeFigures, SeriesId, Trend, ValuesOverTime
from telemetry.wire.control import MemberFacts
from telemetry.wire.gates import GateResult
from telemetry.wire.pictures import StepCurve
from telemetry.wire.report import Stragglers
from telemetry.wire.snapshot import MetricsSnapshot


@dataclass(frozen=True, slots=True)
class NewSnapshot:
    """A new snapshot, and its arrival time on the monotonic clock."""

    snapshot: MetricsSnapshot
    at_ns: int
    live: bool = True


@dataclass(frozen=True, slots=True)
class Trouble:
    """A connection problem, in words; empty once it is over."""

    words: str


@dataclass(frozen=True, slots=True)
class Trends:
    """p99 of the next second, for series with values; on attach, of several seconds, oldest first.

    Values of the last of `steps` are last; None stands for a step without values. Of a short run that has ended, it
    comes again for the whole run, in steps of `step_s` instead of seconds.
    """

    points: Mapping[SeriesId, Trend] = field(default_factory=dict)
    step_s: float = 1.0
    steps: int = 1


@dataclass(frozen=True, slots=True)
class TimelineOf:
    """The history of the series requested by `follow`; sent again when it has grown."""

    series: SeriesId
    timeline: Timeline


@dataclass(frozen=True, slots=True)
class RangeFiguresOf:
    """The answer to `look_at`."""

    moment: RangeFigures


@dataclass(frozen=True, slots=True)
class MembersOf:
    """The answer to `list_members`."""

    node: str
    members: tuple[MemberFacts, ...]


@dataclass(frozen=True, slots=True)
class StragglersOf:
    """Slow ranks by axis, of all steps so far."""

    found: tuple[Stragglers, ...]


@dataclass(frozen=True, slots=True)
class CurvesOf:
    """The curves of all steps so far. Empty also if the steps can't be read."""

    curves: tuple[StepCurve, ...]


@dataclass(frozen=True, slots=True)
class ValuesOf:
    """The history of the counter or gauge requested by `follow`; sent again when it has grown."""

    series: SeriesId
    values: ValuesOverTime


@dataclass(frozen=True, slots=True)
class GatesOf:
    """The results of the gates: those so far, then those at the end of the run."""

    gates: tuple[GateResult, ...]
    final: bool = True


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """The last lines of the wrapped command's output."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ViewerNote:
    """The outcome of a request, or its failure: one sentence for the viewer."""

    words: str
    bad: bool = False


News = (
    NewSnapshot
    | Trouble
    | Trends
    | TimelineOf
    | ValuesOf
    | RangeFiguresOf
    | GatesOf
    | MembersOf
    | StragglersOf
    | CurvesOf
    | CommandOutput
    | ViewerNote
)
Tell = Callable[[News], None]
"""A function that receives news. Called from the feed's threads."""


class NewsFeed(Protocol):
    """A source of news. All methods return at once, from any thread; answers arrive as news."""

    def start(self, tell: Tell) -> None: ...

    def follow(self, series: SeriesId | None) -> None:
        """Send the whole history of this one series, counter or gauge from now on; None stops it.

        Counters of the same name that have more labels are added up.
        """

    def look_at(self, end_ns: int, seconds: float) -> None:
        """Send the figures of all series in the given seconds before this wall-clock moment."""

    def list_members(self, node: str) -> None:
        """Send the producers of a node, given by the run id of its leaf."""

    def stop_run(self) -> None:
        """End the run, or the job it belongs to."""

    def close(self) -> None:
        """End all threads. No news is sent afterwards. May be called twice."""


class NewsChannel:
    """A channel that passes news on between `open` and `close`. Thread-safe."""

    def __init__(self) -> None:
        self._tell: Tell | None = None

    def open(self, tell: Tell) -> None:
        self._tell = tell

    def close(self) -> None:
        self._tell = None

    def tell(self, news: News) -> None:
        tell = self._tell
        if tell is not None:
            tell(news)
