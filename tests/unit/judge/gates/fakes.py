"""Runs that exist only as answers to what a gate asks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from telemetry.judge.gates.evidence import (
    AXIS,
    Evidence,
    GateInstrument,
    GaugeLevel,
    Loss,
    Quantile,
    SeriesTotals,
    Share,
)
from telemetry.judge.gates.rank_bounds import quantile, share
from telemetry.judge.gates.tree import GateMetric
from telemetry.judge.gates.value import Range, Unknown
from telemetry.wire.pictures import StepCurve
from telemetry.wire.report import Stragglers
from telemetry.wire.snapshot import MetricsSnapshot

TTFT = GateInstrument("series", "ttft", (), "ms")
FAST = GateInstrument("series", "ttft", (("route", "/fast"),), "ms")
SLOW = GateInstrument("series", "ttft", (("route", "/slow"),), "ms")
ERRORS = GateInstrument("counter", "errors")
REQUESTS = GateInstrument("counter", "requests")
HEAT = GateInstrument("gauge", "heat", (), "s")


def counter(name: str, unit: str = "", **labels: str) -> GateInstrument:
    return GateInstrument("counter", name, tuple(sorted(labels.items())), unit)


def metric(name: str, **labels: str) -> GateMetric:
    """Return the metric as a gate names it."""
    return GateMetric(name, tuple(sorted(labels.items())))


class Sorted:
    """All values of a series, known exactly."""

    least = 0.0

    def __init__(self, values: Sequence[float], width: float = 0.0) -> None:
        """`width`: of the slots that they are known by."""
        self.values = sorted(values)
        self.count = len(values)
        self._width = width

    def at(self, rank: int) -> Range:
        value = float(self.values[rank - 1])
        return Range(value - self._width, value)

    def shown(self, percentile: str, rank: int) -> float:
        return float(self.values[rank - 1])


@dataclass
class Fake:
    """An `Evidence`. Values are those of the series; counters and gauges have theirs by name."""

    values: dict[GateInstrument, Sequence[float]] = field(default_factory=dict)
    counters: dict[GateInstrument, float] = field(default_factory=dict)
    gauges: dict[GateInstrument, GaugeLevel] = field(default_factory=dict)
    loss: Loss = field(default_factory=Loss)
    obstacle: str = ""
    seconds: float = 10.0
    start_s: float = 0.0
    end_s: float = 10.0
    whole: bool = True
    width: float = 0.0
    snapshot: MetricsSnapshot = field(
        default_factory=lambda: MetricsSnapshot(
            run_id="r", name="job", state="COMPLETE", completeness="complete", elapsed_s=10.0
        )
    )
    slow: list[Stragglers] | None = None
    """Slow ranks by axis; None while the run is live."""
    parts: list[Fake] = field(default_factory=list)
    """Its windows."""
    steps: list[StepCurve] | None = None
    """Values of steps; None while the run is live."""

    @property
    def instruments(self) -> Sequence[GateInstrument]:
        axes = self.snapshot.axes
        steps = [GateInstrument("step", name, ((AXIS, axis.name),)) for axis in axes for name in axis.values]
        return [
            *self.values,
            *self.counters,
            *self.gauges,
            *(GateInstrument("axis", axis.name) for axis in axes),
            *steps,
        ]

    def quantile(self, series: GateInstrument, percentile: str) -> Quantile | None:
        return quantile(Sorted(self.values[series], self.width), percentile, self.loss)

    def share(self, series: GateInstrument, relation: str, limit: float) -> Share | None:
        return share(Sorted(self.values[series], self.width), relation, limit)

    def sums(self, series: GateInstrument) -> SeriesTotals:
        values = list(self.values.get(series, ()))
        if not values:
            return SeriesTotals(count=0)
        mean = sum(values) / len(values)
        deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
        return SeriesTotals(
            count=len(values), total=sum(values), min=min(values), max=max(values), stddev=deviation
        )

    def counted(self, counter: GateInstrument) -> tuple[float, int | None]:
        value = self.counters.get(counter, 0)
        return value, int(value) if self.whole else None

    def rate_seconds(self, instrument: GateInstrument) -> float | None:
        return self.seconds

    def level(self, gauge: GateInstrument) -> GaugeLevel | None:
        level = self.gauges[gauge]
        return None if level.value is None else level

    def curves(self) -> Sequence[StepCurve]:
        if self.steps is None:
            raise Unknown("the values of earlier steps are known once the run has ended")
        return self.steps

    def stragglers(self) -> Sequence[Stragglers] | None:
        return self.slow

    def windows(self, step_s: float, terms: Sequence[GateInstrument]) -> Iterator[Evidence]:
        yield from self.parts


def series(*values: float, **more: object) -> Fake:
    """A run with one series, `ttft` in ms."""
    return Fake({TTFT: values}, **more)  # type: ignore[arg-type]


def in_windows(*windows: Sequence[float], step_s: float = 10.0) -> Fake:
    """The same, of windows one after the other."""
    parts = [
        Fake({TTFT: values}, whole=False, start_s=at * step_s, end_s=(at + 1) * step_s, seconds=step_s)
        for at, values in enumerate(windows)
    ]
    end_s = len(windows) * step_s
    return series(*(value for values in windows for value in values), parts=parts, end_s=end_s, seconds=end_s)


def lossy(run: Fake, lost: float) -> Fake:
    """The same run, with so many events lost."""
    return replace(run, loss=Loss(certain=min(lost, 1e15), most=lost, reason=f"{lost:g} events are lost"))
