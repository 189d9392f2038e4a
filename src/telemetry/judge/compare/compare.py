"""The comparison of two sets of reports. Pure."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import Final

from telemetry.common.formatting import number_of
from telemetry.common.headline_choice import shown_params
from telemetry.errors import UsageError
from telemetry.judge.compare.evidence import Pairs, confidences, evidence
from telemetry.judge.compare.figures import ATTAINMENT, SHARE, FigureKey, readings, without_errors
from telemetry.judge.compare.judge import Case, left_out, plain_difference, result
from telemetry.judge.compare.model import (
    ONE_RUN,
    VERDICT_WORDS,
    BoundedFigure,
    ChangedSetting,
    Comparison,
    Curve,
    MetricResult,
    SideName,
)
from telemetry.judge.compare.noise import noises
from telemetry.judge.compare.options import Options
from telemetry.judge.compare.overlays import overlays
from telemetry.judge.compare.sides import SideSamples, by_turns, concerns, facts, samples
from telemetry.judge.compare.sizes import size
from telemetry.statistics.confidence import wilson
from telemetry.statistics.hdr.percentiles import parse_percentile
from telemetry.statistics.runs import holm
from telemetry.store.calibrations import Calibration
from telemetry.wire.collectors import is_of_surroundings
from telemetry.wire.events import Scalar
from telemetry.wire.report import Report
from telemetry.wire.snapshot import SeriesStat

COMMAND: Final = "command"
"""Name of the setting for the command line."""
Id = tuple[str, tuple[tuple[str, str], ...]]
_ORDER: Final = {verdict: index for index, verdict in enumerate(VERDICT_WORDS)}
_ENOUGH: Final = 2
_ADVISED: Final = 5


def compare(
    before: Sequence[Report],
    after: Sequence[Report],
    options: Options | None = None,
    calibration: Calibration | None = None,
    calibration_of: Sequence[SideName] = (),
) -> Comparison:
    """Compare the runs before with the runs after, and return the differences with verdicts.

    `calibration_of` are the sides that have runs of the command that was calibrated.

    If no figure differs, the chance that any figure is called better, worse or changed is at most 1 - confidence,
    provided that the runs of both sides are made under the same conditions. Raises UsageError for an empty side,
    for a duplicate run, and for a pattern of `Options.only` that matches no figure of any run.
    """
    options = options or Options()
    _check(before, after)
    pairs = by_turns(before, after)
    selection = samples(before, after, options)
    cases = _adjusted(
        [_case(sample, before, after, pairs, options) for sample in selection.compared], pairs, options
    )
    sizes = len(before), len(after)
    differences = [case.evidence.difference if case.evidence else plain_difference(case.sample) for case in cases]
    figure_differences = [
        (case.sample.figure, difference) for case, difference in zip(cases, differences, strict=True)
    ]
    case_noises = noises(calibration, figure_differences, sizes, options.level)
    results = [result(replace(case, noise=noise), options) for case, noise in zip(cases, case_noises, strict=True)]
    results += [left_out(sample) for sample in selection.left_out]
    return Comparison(
        confidence=options.confidence,
        min_effect=options.min_effect,
        paired=pairs is not None,
        calibration=calibration.name if calibration else "",
        calibration_argv=calibration.argv if calibration else [],
        calibration_runs=calibration.runs if calibration else 0,
        calibration_of=list(calibration_of) if calibration else [],
        before=[facts(report) for report in before],
        after=[facts(report) for report in after],
        concerns=concerns(before, "before") + concerns(after, "after"),
        settings=settings(before, after),
        metrics=sorted(results, key=_place),
        curves=curves(before, after),
        overlays=overlays(before, after) if options.overlays else [],
        notes=list(_notes(before, after, pairs, calibration)),
    )


def _check(before: Sequence[Report], after: Sequence[Report]) -> None:
    if not before or not after:
        raise UsageError("a comparison needs runs on both sides", hint="telemetry compare A… --vs B…")
    times = Counter(report.snapshot.run_id for report in (*before, *after))
    if twice := [run_id for run_id, number in times.items() if number > 1]:
        raise UsageError(f"run {twice[0]} is given twice", hint="put each run on one side, once")


def _case(
    sample: SideSamples, before: Sequence[Report], after: Sequence[Report], pairs: Pairs | None, options: Options
) -> Case:
    better = options.directions.of(sample.figure, sample.unit)
    if sample.is_in_share:
        better = "neither"
    if sample.obstacle:
        return Case(sample=sample, better=better, obstacle=sample.obstacle)
    if min(len(before), len(after)) >= _ENOUGH:
        outcome = evidence(sample, pairs, options.confidence)
        if isinstance(outcome, str):
            return Case(sample=sample, better=better, obstacle=outcome)
        return Case(sample=sample, better=better, evidence=outcome)
    if len(before) == len(after) == 1:
        within = (
            _within(sample.figure, before[0], sample.before[0]),
            _within(sample.figure, after[0], sample.after[0]),
        )
        return Case(sample=sample, better=better, within=within)
    return Case(sample=sample, better=better, obstacle=_one_against_many(sample))


def _one_against_many(sample: SideSamples) -> str:
    """Describe the position of a single run among the runs of the other side.

    This is information, not a verdict.
    """
    lone, many, which = sample.after, sample.before, ("after", "before")
    if len(lone) > 1:
        lone, many, which = many, lone, ("before", "after")
    position = "among"
    if lone[0] > max(many):
        position = "above all of"
    elif lone[0] < min(many):
        position = "below all of"
    return f"{ONE_RUN}{which[0]}: it is {position} the {len(many)} {which[1]}"


def _within(figure: FigureKey, report: Report, value: float) -> BoundedFigure:
    """Return the value with its bounds, if the report contains them."""
    if figure.statistic in (ATTAINMENT, SHARE):
        count = readings(report, ()).get(figure) or without_errors(report.snapshot, figure)
        low, high = wilson(value * count.count, count.count) if count is not None else (None, None)
        return BoundedFigure(value=value, low=low, high=high)
    if figure.of == "series" and figure.statistic.startswith("p"):
        for bounds in report.bounds:
            if bounds.name == figure.name and tuple(sorted(bounds.labels.items())) == figure.labels:
                interval = bounds.percentiles.get(figure.statistic[1:])
                if interval is not None:
                    return BoundedFigure(value=value, low=interval.low, high=interval.high)
    return BoundedFigure(value=value)


def _adjusted(cases: Sequence[Case], pairs: Pairs | None, options: Options) -> list[Case]:
    """Adjust p-values and intervals for all figures that were tested."""
    p_values = [case.evidence.p_value for case in cases if case.evidence is not None]
    adjusted = iter(zip(holm(p_values), confidences(p_values, options.level), strict=True))
    adjusted_cases = []
    for case in cases:
        if case.evidence is not None:
            p_value, confidence = next(adjusted)
            wider = evidence(case.sample, pairs, confidence)
            own = case.evidence if isinstance(wider, str) else wider
            case = replace(case, p_adjusted=p_value, evidence=own)  # noqa: PLW2901
        adjusted_cases.append(case)
    return adjusted_cases


def _place(metric: MetricResult) -> tuple[int, bool, float, str, str, list[tuple[str, str]]]:
    """Return the sort key: worse first, then better, then the rest.

    Larger differences come first within a verdict, and figures of the command after all others.
    """
    labels = sorted(metric.labels.items())
    of_command = metric.of == "command"
    return _ORDER[metric.verdict], of_command, -size(metric), metric.name, metric.statistic, labels


def _notes(
    before: Sequence[Report], after: Sequence[Report], pairs: Pairs | None, calibration: Calibration | None
) -> Iterator[str]:
    if side := not_recorded(before, after):
        yield f"environment not recorded {side}: code, machine and packages are not compared"
    least = min(len(before), len(after))
    if least < _ENOUGH:
        two = len(before) == len(after)
        unknown = f"one run {'per' if two else 'of a'} side does not show run-to-run noise"
        may_be = "what differs in these two runs may be noise" if two else "no figure has a verdict"
        yield (
            f"{unknown}: {may_be}; measure it with `telemetry calibrate`, or compare at least five alternating "
            "runs per side"
            if calibration is None
            else f"{unknown}, so differences are compared with the noise of the calibration; at least five "
            "alternating runs per side have verdicts"
        )
    elif least < _ADVISED:
        yield (
            f"{number_of(least, 'run')} of a side show little of the run-to-run noise, so only large differences "
            "are certain; compare at least five alternating runs per side"
        )
    if least >= _ENOUGH and pairs is None:
        started = [[report.snapshot.started_ns for report in side] for side in (before, after)]
        apart = max(started[0]) < min(started[1]) or max(started[1]) < min(started[0])
        if apart:
            yield (
                "all runs of one side are older: the difference may come from changes of the "
                "machine; alternate the runs of both sides"
            )


def curves(before: Sequence[Report], after: Sequence[Report]) -> list[Curve]:
    """Return the curves of every series that all runs have in the same unit, sorted by name.

    A curve goes from the minimum to the maximum, through all percentiles that every run has.
    """
    sides = [[_by_id(report) for report in side] for side in (before, after)]
    runs = [run for side in sides for run in side]
    shared = sorted(set(runs[0]).intersection(*runs[1:])) if runs else []
    shared_curves = []
    for key in shared:
        stats = [run[key] for run in runs]
        if len({stat.unit for stat in stats}) > 1:
            continue
        points = [_points([run[key] for run in side], stats) for side in sides]
        shared_curves.append(
            Curve(name=key[0], labels=dict(key[1]), unit=stats[0].unit, before=points[0], after=points[1])
        )
    return shared_curves


def _by_id(report: Report) -> dict[Id, SeriesStat]:
    return {
        (stat.name, tuple(sorted(stat.labels.items()))): stat
        for stat in report.snapshot.series
        if stat.count and stat.min is not None and stat.max is not None
    }


def _fraction(key: str) -> float:
    """Return a percentile as a fraction, or 0 for an invalid key."""
    try:
        numerator, denominator = parse_percentile(key)
    except UsageError:
        return 0.0
    return numerator / denominator


def _points(side: Sequence[SeriesStat], everybody: Sequence[SeriesStat]) -> list[tuple[float, float]]:
    keys = set(everybody[0].percentiles).intersection(*(stat.percentiles for stat in everybody[1:]))
    fractions = sorted((_fraction(key), key) for key in keys)
    low = median(float(stat.min or 0) for stat in side)
    high = median(float(stat.max or 0) for stat in side)
    inner = [
        (fraction, median(float(stat.percentiles[key]) for stat in side))
        for fraction, key in fractions
        if 0 < fraction < 1
    ]
    return [(0.0, low), *inner, (1.0, high)]


def settings(before: Sequence[Report], after: Sequence[Report]) -> list[ChangedSetting]:
    """Return the settings whose values differ between the sides, sorted by name.

    Code, machine and software come after the parameters, and the command comes last. They are left out if one side
    has not recorded them, as a program that starts its own run.

    Parameters that hold the choice of figures to show first are no settings.
    """
    sides = [[shown_params(report.snapshot.params) for report in side] for side in (before, after)]
    every = {name for side in sides for params in side for name in params}
    if not_recorded(before, after):
        every = {name for name in every if not is_of_surroundings(name)}
    names = sorted(every, key=lambda name: (is_of_surroundings(name), name))
    candidates = [
        ChangedSetting(name=name, before=_values(sides[0], name), after=_values(sides[1], name)) for name in names
    ]
    return [
        setting for setting in (*candidates, *_commands(before, after)) if set(setting.before) != set(setting.after)
    ]


def not_recorded(before: Sequence[Report], after: Sequence[Report]) -> SideName | None:
    """Return the side that has recorded nothing of its code, machine and software, if the other side has."""
    is_of_before, is_of_after = (
        any(is_of_surroundings(name) for report in side for name in report.snapshot.params)
        for side in (before, after)
    )
    if is_of_before == is_of_after:
        return None
    return "after" if is_of_before else "before"


def _values(runs: Sequence[dict[str, Scalar]], name: str) -> list[str]:
    """Return the different values of a parameter, in the order of the runs. A run without it has none."""
    return list(dict.fromkeys(_text(params[name]) for params in runs if name in params))


def _text(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "none" if value is None else str(value)


def _commands(before: Sequence[Report], after: Sequence[Report]) -> Iterator[ChangedSetting]:
    """Yield the command lines. Only the words that differ are kept where all have the same number of words."""
    lines = [_lines(before), _lines(after)]
    every = [*lines[0], *lines[1]]
    if not (lines[0] and lines[1]):
        return
    if len({len(line) for line in every}) == 1:
        differ = [at for at in range(len(every[0])) if len({line[at] for line in every}) > 1]
        lines = [[tuple(line[at] for at in differ) for line in side] for side in lines]
    texts = [list(dict.fromkeys(map(shlex.join, side))) for side in lines]
    yield ChangedSetting(name=COMMAND, before=texts[0], after=texts[1])


def _lines(side: Sequence[Report]) -> list[tuple[str, ...]]:
    commands = (report.snapshot.command for report in side)
    return [tuple(command.argv) for command in commands if command is not None]
