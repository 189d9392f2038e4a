"""The interface between gates and the data of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol

from telemetry.common.formatting import number_of
from telemetry.judge.gates.value import Range
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.events import Kind
from telemetry.wire.feeds import tells_interruption
from telemetry.wire.pictures import StepCurve
from telemetry.wire.report import Stragglers
from telemetry.wire.snapshot import CommandFacts, Completeness, MetricsSnapshot

Labels = tuple[tuple[str, str], ...]
"""Label pairs, sorted."""
InstrumentKind = Kind | Literal["step", "axis"]
"""Kinds of instruments, a value of steps, and an axis of steps."""
AXIS: Final = "axis"
"""Label of a value of steps: the name of its axis."""


@dataclass(frozen=True)
class GateInstrument:
    kind: InstrumentKind
    name: str
    labels: Labels = ()
    unit: str = ""

    def has(self, wanted: Labels) -> bool:
        """Check whether the instrument has these labels. An empty value matches a missing label."""
        labels = dict(self.labels)
        return all(labels.get(key, "") == value for key, value in wanted)


class Share(NamedTuple):
    """The number of values of a series on one side of a limit."""

    least: int
    most: int
    """More than `least` if the limit lies inside a slot of a histogram."""
    samples: int
    slot: Range | None = None
    """Ends of that slot, in the unit of the series."""


class Quantile(NamedTuple):
    """A percentile in the unit of its series."""

    value: float
    possible: Range
    likely: Range
    samples: int


@dataclass(frozen=True, kw_only=True)
class SeriesTotals:
    """Totals over the values of a series, in its unit."""

    count: int
    total: float = 0.0
    min: float | None = None
    max: float | None = None
    stddev: float | None = None
    """Standard deviation, or None if unknown."""


@dataclass(frozen=True, kw_only=True)
class GaugeLevel:
    """The level of a gauge."""

    value: float | None
    min: float | None = None
    max: float | None = None


@dataclass(frozen=True, kw_only=True)
class Loss:
    """The number of events that are missing, or may be missing, in all results."""

    certain: float = 0
    """Events that are lost for sure."""
    most: float = 0
    """Upper bound on missing events; infinite if unknown."""
    reason: str = ""
    """Reason in words; empty if no events are missing."""


class Evidence(Protocol):
    """The evidence of a whole run, a time range or a window.

    Methods may read files: they block on the disk and raise RunDirectoryError.
    """

    start_s: float
    end_s: float
    """Seconds since the run's start."""
    whole: bool
    """True if it covers the whole run."""
    seconds: float
    """Duration of what is known."""
    loss: Loss
    obstacle: str
    """Reason for missing evidence; empty if the evidence is usable."""

    @property
    def snapshot(self) -> MetricsSnapshot:
        """The result of the whole run, or its state so far."""

    @property
    def instruments(self) -> Sequence[GateInstrument]:
        """The instruments of the run."""

    def quantile(self, series: GateInstrument, percentile: str) -> Quantile | None:
        """Return a percentile, or None without values."""

    def share(self, series: GateInstrument, relation: str, limit: float) -> Share | None:
        """Return the number of values that fulfil a condition, or None without values.

        `limit` is in the unit of the series, `relation` is `<`, `<=`, `>` or `>=`.
        """

    def sums(self, series: GateInstrument) -> SeriesTotals:
        """Return totals of a series. All are zero without values, and for a series that the run lacks."""

    def counted(self, counter: GateInstrument) -> tuple[float, int | None]:
        """Return a counter's increase and the number of its events, if known.

        Zero for a counter that the run lacks.
        """

    def rate_seconds(self, instrument: GateInstrument) -> float | None:
        """Return the time that a rate of a series or counter is counted over; None if there is none."""

    def level(self, gauge: GateInstrument) -> GaugeLevel | None:
        """Return the level of a gauge, or None if it was never set."""

    def curves(self) -> Sequence[StepCurve]:
        """Return the curves of all values of steps.

        Raises Unknown if they are not available, as for a time range and without a record log.
        """

    def stragglers(self) -> Sequence[Stragglers] | None:
        """Return the slow ranks of the whole run by axis, or None while it is live."""

    def windows(self, step_s: float, terms: Sequence[GateInstrument]) -> Iterator[Evidence]:
        """Yield the complete windows of this time range that the history covers, oldest first.

        Each window can answer questions about `terms`. Raises RunDirectoryError without a history.
        """


def loss_of(snapshot: MetricsSnapshot, *, live: bool = False) -> Loss:
    """Return the events that a result may lack. A live result lacks the events that are lost so far."""
    account = snapshot.accounting
    dropped = sum(account.dropped.values()) + sum(account.dropped_by_producer.values())
    lost = account.lost + account.waiting
    why = _UNKNOWN.get(snapshot.completeness)
    if why is not None and not live:
        if tells_interruption(snapshot.reason):
            why = "the benchmark did not finish"
        return Loss(certain=dropped, most=math.inf, reason=f"the run is {snapshot.completeness}: {why}")
    if Reason.TOO_MANY_PRODUCERS in account.bad_frames:
        return Loss(
            certain=dropped,
            most=math.inf,
            reason="producers were refused, so the number of their events is unknown",
        )
    if not lost:
        return Loss()
    what = number_of(lost, "event is", "events are")
    return Loss(certain=dropped if live else account.lost, most=lost, reason=f"{what} lost")


def heard_s(snapshot: MetricsSnapshot) -> float:
    """Return the time when a producer was last seen, in seconds since the run's start, or 0 if unknown.

    The producers of a node were seen until the end of its newest interval.

    A history that ends before this time is cut off.
    """
    heard_ns = max((stat.last_seen_ns for stat in snapshot.producers), default=0)
    heard_ns = max((heard_ns, *(node.interval_ns for node in snapshot.nodes)))
    return max(heard_ns - snapshot.started_ns, 0) / 1e9 if snapshot.started_ns else 0.0


_UNKNOWN: dict[Completeness, str] = {
    "incomplete": "the number of missing events is unknown",
    "interrupted": "later events are unknown",
}


def seconds_of(command: CommandFacts) -> tuple[float, float]:
    """Return the (wall, CPU) seconds of the command."""
    return command.wall_s, command.cpu_user_s + command.cpu_system_s
