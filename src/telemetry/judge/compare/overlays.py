"""Runs of both sides over time and steps, to be drawn over each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from telemetry.history.curve_points import first_step
from telemetry.history.request_model import issued_kind
from telemetry.judge.compare.figures import AXIS
from telemetry.judge.compare.model import Overlay, OverlayLine
from telemetry.wire import requests as words
from telemetry.wire.pictures import StepCurve
from telemetry.wire.report import Report, SeriesOverTime

RUNS: Final = 5
"""Largest number of runs of a side: the newest ones."""
_MOST: Final = 60
"""Largest number of figures over time, and of values of steps."""
_PERCENTILE: Final = "99"

Id = tuple[str, tuple[tuple[str, str], ...]]


def overlays(before: Sequence[Report], after: Sequence[Report]) -> list[Overlay]:
    """Return rates and the 99th percentile of series over time, and values over steps.

    A figure that only one run has is left out: its own report shows it.
    """
    runs = [(report, False) for report in newest(before)] + [(report, True) for report in newest(after)]
    times = list(_over_time(runs))
    return [*_shared(times)[:_MOST], *_shared(_over_steps(runs))[:_MOST]]


def newest(side: Sequence[Report]) -> list[Report]:
    """Return the newest runs of a side, in the order of their starts."""
    return sorted(side, key=lambda report: report.snapshot.started_ns)[-RUNS:]


def _shared(candidates: Sequence[Overlay] | Iterator[Overlay]) -> list[Overlay]:
    return [overlay for overlay in candidates if len({(line.run_id, line.after) for line in overlay.lines}) > 1]


def _over_time(runs: Sequence[tuple[Report, bool]]) -> Iterator[Overlay]:
    series: dict[Id, list[tuple[Report, bool, SeriesOverTime]]] = {}
    for report, after in runs:
        for timeline in report.over_time:
            series.setdefault((timeline.name, tuple(sorted(timeline.labels.items()))), []).append(
                (report, after, timeline)
            )
    kinds = {issued_kind(stat.name, stat.unit) for report, _ in runs for stat in report.snapshot.counters} - {""}
    for (name, labels), entries in series.items():
        if _has_rate(name, kinds):
            lines = [_line(report, after, timeline, "rate") for report, after, timeline in entries]
            yield Overlay(of="series", name=name, labels=dict(labels), statistic="rate", lines=lines)
    for (name, labels), entries in series.items():
        unit = entries[0][2].unit
        lines = [
            _line(report, after, timeline, _PERCENTILE)
            for report, after, timeline in entries
            if timeline.unit == unit
        ]
        if any(value is not None for line in lines for value in line.values):
            yield Overlay(of="series", name=name, labels=dict(labels), unit=unit, statistic="p99", lines=lines)


def _has_rate(name: str, kinds: set[str]) -> bool:
    """Return whether the rate of a series says something of its own: of requests, only that of the latency does."""
    return name.endswith(f".{words.LATENCY}") or not any(name.startswith(f"{kind}.") for kind in kinds)


def _line(report: Report, after: bool, timeline: SeriesOverTime, key: str) -> OverlayLine:
    points = timeline.points
    return OverlayLine(
        run_id=report.snapshot.run_id,
        after=after,
        starts=[point.start_s for point in points],
        ends=[point.end_s for point in points],
        values=[point.rate if key == "rate" else point.percentiles.get(key) for point in points],
    )


def _over_steps(runs: Sequence[tuple[Report, bool]]) -> Iterator[Overlay]:
    curves: dict[tuple[str, str], list[tuple[Report, bool, StepCurve]]] = {}
    for report, after in runs:
        for curve in report.curves:
            curves.setdefault((curve.axis, curve.name), []).append((report, after, curve))
    for (axis, name), entries in curves.items():
        lines = [
            OverlayLine(
                run_id=report.snapshot.run_id,
                after=after,
                starts=[float(first) for first in _first_steps(curve)],
                ends=[float(step) for step in curve.steps],
                values=list(curve.values),
            )
            for report, after, curve in entries
            if curve.steps
        ]
        yield Overlay(of="steps", name=name, labels={AXIS: axis}, lines=lines)


def _first_steps(curve: StepCurve) -> Iterator[int]:
    """Yield the first step of each point; the last one where it is unknown."""
    for index, last in enumerate(curve.steps):
        first = first_step(curve, index)
        yield last if first is None else first
