"""What a feed tells, and what it can be asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from telemetry.history.intervals.timeline import Timeline
from telemetry.tui.model.scene import RangeFigures, SeriesId
from telemetry.wire.snapshot import MetricsSnapshot


@dataclass(frozen=True, slots=True)
class NewSnapshot:
    """A snapshot has come, at this time of the monotonic clock."""

    snapshot: MetricsSnapshot
    at_ns: int
    live: bool = True


@dataclass(frozen=True, slots=True)
class Trouble:
    """The aggregator can't be reached, in words; empty: it can again."""

    words: str


@dataclass(frozen=True, slots=True)
class Trends:
    """p99 of one more second, for the series that had values in it; or of several, oldest first, on attach."""

    points: Mapping[SeriesId, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TimelineOf:
    """The history of the series that was asked for with `follow`; told again when it has grown."""

    series: SeriesId
    timeline: Timeline


@dataclass(frozen=True, slots=True)
class RangeFiguresOf:
    """The answer to `look_at`."""

    moment: RangeFigures


@dataclass(frozen=True, slots=True)
class Output:
    """The last lines of the wrapped command's output."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """Something asked for could not be had, or was done: one sentence for the viewer."""

    words: str
    bad: bool = False


News = NewSnapshot | Trouble | Trends | TimelineOf | RangeFiguresOf | Output | Note
Tell = Callable[[News], None]
"""Called from the feed's threads."""


class Feed(Protocol):
    """A source of news. All methods return at once, from any thread; answers come as news."""

    def start(self, tell: Tell) -> None: ...

    def follow(self, series: SeriesId | None) -> None:
        """From now on tell the whole timeline of this one series; None: of none."""

    def look_at(self, end_ns: int, seconds: float) -> None:
        """Tell what all series were like in the seconds before this wall-clock moment."""

    def stop_run(self) -> None:
        """End the run, or the job it belongs to."""

    def close(self) -> None:
        """Ends all threads; nothing is told afterwards. May be called twice."""
