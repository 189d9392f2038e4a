"""What a gate can ask of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from telemetry.drop_reasons import Reason
from telemetry.formatting import number_of
from telemetry.gates.value import Range
from telemetry.wire.events import Kind
from telemetry.wire.snapshot import CommandFacts, Completeness, MetricsSnapshot

Labels = tuple[tuple[str, str], ...]
"""Sorted."""


@dataclass(frozen=True)
class Instrument:
    kind: Kind
    name: str
    labels: Labels = ()
    unit: str = ""

    def has(self, wanted: Labels) -> bool:
        """Whether it has these labels; an empty value is that of a label which it lacks."""
        labels = dict(self.labels)
        return all(labels.get(key, "") == value for key, value in wanted)


class Quantile(NamedTuple):
    """A percentile in the series' unit."""

    value: float
    possible: Range
    likely: Range
    samples: int


@dataclass(frozen=True, kw_only=True)
class SeriesSums:
    """Of the values of a series, in its unit."""

    count: int
    total: float = 0.0
    min: float | None = None
    max: float | None = None
    stddev: float | None = None
    """None: nobody knows."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """Of a gauge."""

    value: float | None
    min: float | None = None
    max: float | None = None


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Events that are in no number, or may be in none."""

    certain: float = 0
    """They never come."""
    most: float = 0
    """They may be so many; infinite: nobody knows."""
    reason: str = ""
    """In words; empty if there are none."""


class Evidence(Protocol):
    """Evidence of a whole run, a time range or a window.

    Its methods may read files. They block on the disk and raise RunDirectoryError.
    """

    start_s: float
    end_s: float
    """Seconds since the run's start."""
    whole: bool
    """Whether it is all of the run."""
    seconds: float
    """What rates are over."""
    loss: Loss
    obstacle: str
    """Why nothing can be said of this part; empty if something can."""

    @property
    def snapshot(self) -> MetricsSnapshot:
        """The result of the whole run, or its state so far."""

    @property
    def instruments(self) -> Sequence[Instrument]:
        """All that the run has."""

    def quantile(self, series: Instrument, percentile: str) -> Quantile | None:
        """None without values."""

    def sums(self, series: Instrument) -> SeriesSums:
        """All zero without values, and of what the run lacks."""

    def counted(self, counter: Instrument) -> tuple[float, int | None]:
        """What it was raised by, and in how many events, if that is known. Zero of what the run lacks."""

    def level(self, gauge: Instrument) -> Level | None:
        """None if it was never set."""

    def windows(self, step_s: float, terms: Sequence[Instrument]) -> Iterator[Evidence]:
        """The whole windows of this part that the history knows, in order of time, for questions about `terms`.
        Raises RunDirectoryError without a history."""


def loss_of(snapshot: MetricsSnapshot, *, live: bool = False) -> Loss:
    """What a result may lack. A run that goes on lacks what it has lost so far."""
    account = snapshot.accounting
    dropped = sum(account.dropped.values()) + sum(account.dropped_by_producer.values())
    lost = account.lost + account.waiting
    why = _UNKNOWN.get(snapshot.completeness)
    if why is not None and not live:
        return Loss(certain=dropped, most=math.inf, reason=f"the run is {snapshot.completeness}: {why}")
    if Reason.TOO_MANY_PRODUCERS in account.bad_frames:
        return Loss(
            certain=dropped, most=math.inf, reason="producers were turned away: nobody knows what they sent"
        )
    if not lost:
        return Loss()
    what = number_of(lost, "event is", "events are")
    return Loss(certain=dropped if live else account.lost, most=lost, reason=f"{what} lost")


def heard_s(snapshot: MetricsSnapshot) -> float:
    """Seconds since the run's start until a producer was heard of last: a history that ends before is cut off. 0 if
    nobody knows."""
    heard_ns = max((stat.last_seen_ns for stat in snapshot.producers), default=0)
    return max(heard_ns - snapshot.started_ns, 0) / 1e9 if snapshot.started_ns else 0.0


_UNKNOWN: dict[Completeness, str] = {
    "incomplete": "nobody knows how much is missing",
    "interrupted": "what came after is unknown",
}


def seconds_of(command: CommandFacts) -> tuple[float, float]:
    """(wall, CPU) seconds of the command."""
    return command.wall_s, command.cpu_user_s + command.cpu_system_s
