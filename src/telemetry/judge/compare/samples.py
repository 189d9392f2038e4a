"""The values of a figure in all runs, or the reason why they can't be compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from telemetry.common.formatting import number_of
from telemetry.judge.compare.figure_names import check, matches
from telemetry.judge.compare.figures import SHARE, FigureKey, FigureValue, needed, readings, without_errors
from telemetry.judge.compare.model import ONE_SIDED, SideName
from telemetry.judge.compare.options import Options
from telemetry.judge.compare.sides import unfit
from telemetry.wire.report import Report

DIFFERENT_UNITS: Final = "different units"


@dataclass(frozen=True, kw_only=True)
class SideSamples:
    """The values of each side in the order of the runs. They are complete unless `obstacle` has a reason."""

    figure: FigureKey
    unit: str
    before: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)
    obstacle: str = ""
    is_in_share: bool = False
    """True for a number of errors whose share of the requests is a figure too. A longer run has more of them."""


@dataclass(frozen=True, kw_only=True)
class Samples:
    compared: list[SideSamples]
    """Samples, sorted by figure."""
    left_out: list[SideSamples]
    """Figures without enough values in any run."""


def samples(before: Sequence[Report], after: Sequence[Report], options: Options) -> Samples:
    """Return all requested figures of any run. Raises UsageError for a pattern that matches no figure."""
    read = {
        "before": [readings(report, options.percentiles) for report in before],
        "after": [readings(report, options.percentiles) for report in after],
    }
    units = {figure: reading.unit for side in read.values() for run in side for figure, reading in run.items()}
    figures = sorted(units)
    for name, side in (("before", before), ("after", after)):
        for report, run in zip(side, read[name], strict=True):
            for figure in figures:
                if figure not in run and (reading := without_errors(report.snapshot, figure)) is not None:
                    run[figure] = replace(reading, unit=units[figure])
    check(options.only, figures, {gauge.name for report in (*before, *after) for gauge in report.snapshot.gauges})
    shared = {(figure.name, figure.labels) for figure in figures if figure.statistic == SHARE}
    kinds = {figure.name for figure in figures if figure.statistic == SHARE and figure.of == "requests"}
    compared, left_out = [], []
    for figure in figures:
        if options.only and not any(matches(figure, pattern) for pattern in options.only):
            continue
        figure_readings = [run[figure] for side in read.values() for run in side if figure in run]
        if all(reading.value is None for reading in figure_readings):
            left_out.append(_left_out(figure, figure_readings))
            continue
        reason = _obstacle(figure, read["before"], read["after"])
        if not reason and not options.allow_incomplete:
            reason = unfit(before, "before", figure) or unfit(after, "after", figure)
        compared.append(
            SideSamples(
                figure=figure,
                unit=figure_readings[0].unit,
                before=[value for value in _values(figure, read["before"]) if math.isfinite(value)],
                after=[value for value in _values(figure, read["after"]) if math.isfinite(value)],
                obstacle=reason,
                is_in_share=figure.of == "counter"
                and figure.statistic == "value"
                and ((figure.name, figure.labels) in shared or figure.name in kinds),
            )
        )
    return Samples(compared=compared, left_out=left_out)


def _obstacle(
    figure: FigureKey, before: Sequence[dict[FigureKey, FigureValue]], after: Sequence[dict[FigureKey, FigureValue]]
) -> str:
    """Return the reason why the runs' values can't be compared, or an empty string."""
    having = [sum(figure in run for run in side) for side in (before, after)]
    if 0 in having:
        return ONE_SIDED[1 - having.index(0)]
    units = list(dict.fromkeys(run[figure].unit for run in (*before, *after) if figure in run))
    if len(units) > 1:
        return f"{DIFFERENT_UNITS}: {', '.join(unit or 'none' for unit in units)}"
    sides: tuple[tuple[SideName, Sequence[dict[FigureKey, FigureValue]]], ...] = (
        ("before", before),
        ("after", after),
    )
    for name, side in sides:
        if lacking := sum(figure not in run for run in side):
            return f"{lacking} of {number_of(len(side), 'run')} {name} {'lacks' if lacking == 1 else 'lack'} it"
        if few := sum(run[figure].value is None for run in side):
            return (
                f"too few values in {few} of {number_of(len(side), 'run')} {name}: "
                f"{figure.statistic} needs {needed(figure.statistic):,}"
            )
        if not all(math.isfinite(value) for value in _values(figure, side)):
            return f"not finite {name}" if len(side) == 1 else f"not finite in some runs {name}"
    return ""


def _values(figure: FigureKey, side: Sequence[dict[FigureKey, FigureValue]]) -> list[float]:
    values = [run[figure].value for run in side if figure in run]
    return [value for value in values if value is not None]


def _left_out(figure: FigureKey, figure_readings: Sequence[FigureValue]) -> SideSamples:
    most = max(reading.count for reading in figure_readings)
    few = f"needs {needed(figure.statistic):,} in each run, has at most {most:,}"
    return SideSamples(figure=figure, unit=figure_readings[0].unit, obstacle=few)
