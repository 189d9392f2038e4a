"""The two sets of runs: facts about them, their reliability, and the values of a figure in all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from telemetry.common.formatting import number_of
from telemetry.common.wording import failure
from telemetry.history.headlines import NOT_FINITE, not_finite
from telemetry.judge.compare.figures import (
    SHARE,
    FigureKey,
    FigureValue,
    check,
    duration_s,
    matches,
    needed,
    readings,
    without_errors,
)
from telemetry.judge.compare.model import ONE_SIDED, SideName, SideRun
from telemetry.judge.compare.options import Options
from telemetry.wire.report import Report
from telemetry.wire.snapshot import TERMINAL

_NAMED: Final = 3
PAIRS_FROM: Final = 5
"""Minimum number of pairs. With fewer, the spread between pairs is less certain than the spread between runs."""


def facts(report: Report) -> SideRun:
    """Return the facts about a run that a reader needs."""
    snapshot, command = report.snapshot, report.snapshot.command
    return SideRun(
        run_id=snapshot.run_id,
        name=snapshot.name,
        directory=snapshot.directory,
        started_ns=snapshot.started_ns,
        seconds=duration_s(report),
        completeness=report.verdict,
        exit_code=command.exit_code if command else None,
        signal=command.signal if command else None,
    )


def unfit(reports: Sequence[Report], side: SideName, figure: FigureKey) -> str:
    """Return the reason why the runs of a side are unreliable for this figure; empty if they are reliable.

    Lost events do not affect the time of the command.
    """
    total = len(reports)
    counts = {
        "still going": sum(report.state not in TERMINAL for report in reports),
        "interrupted": sum(report.completeness == "interrupted" for report in reports),
    }
    if figure.of != "command":
        counts |= {
            word: sum(report.completeness == word and report.state in TERMINAL for report in reports)
            for word in ("lossy", "incomplete")
        }
    for word, number in counts.items():
        if number:
            return f"{number} of {number_of(total, 'run')} {side} {'is' if number == 1 else 'are'} {word}"
    if failed := sum(bool(failure(report.snapshot)) for report in reports):
        return f"the command failed in {failed} of {number_of(total, 'run')} {side}"
    return ""


def concerns(reports: Sequence[Report], side: SideName) -> list[str]:
    """Return a line for each value of steps that was not finite: `after: loss is NaN or infinite, first at step 9`.

    Of several runs, the first few that have such values are named, each with its most telling value.
    """
    if len(reports) == 1:
        return [f"{side}: {line}" for line in not_finite(reports[0].snapshot)]
    first_lines = [
        (report.snapshot.run_id, lines[0]) for report in reports if (lines := not_finite(report.snapshot))
    ]
    named = [f"{side}, run {run_id}: {line}" for run_id, line in first_lines[:_NAMED]]
    more = len(first_lines) - len(named)
    return named + ([f"values were {NOT_FINITE} in {number_of(more, 'more run')}"] if more else [])


def by_turns(before: Sequence[Report], after: Sequence[Report]) -> list[tuple[int, int]] | None:
    """Return pairs of consecutive runs (indexes on both sides) if the sides ran by turns, else None.

    The order within a pair may vary. Returns None for too few pairs. Only the start times of the runs count, never
    their figures.
    """
    if len(before) != len(after) or len(before) < PAIRS_FROM:
        return None
    started = [(run.snapshot.started_ns, 0, index) for index, run in enumerate(before)]
    started += [(run.snapshot.started_ns, 1, index) for index, run in enumerate(after)]
    started.sort()
    pairs = []
    for first, second in zip(started[::2], started[1::2], strict=True):
        if first[1] == second[1] or first[0] == second[0]:
            return None
        old, new = (first, second) if first[1] == 0 else (second, first)
        pairs.append((old[2], new[2]))
    return pairs


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
