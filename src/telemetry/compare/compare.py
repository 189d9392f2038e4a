"""The comparison of two sets of reports. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from telemetry.compare.adjusted import confidences
from telemetry.compare.evidence import Pairs, evidence
from telemetry.compare.figures import ATTAINMENT, SHARE, Figure, readings, without_errors
from telemetry.compare.judge import Case, left_out, plain_difference, result
from telemetry.compare.model import ONE_RUN, VERDICT_WORDS, BoundedFigure, Comparison, MetricResult, SideName
from telemetry.compare.noise import noises
from telemetry.compare.options import Options
from telemetry.compare.overlays import overlays
from telemetry.compare.percentile_curves import curves
from telemetry.compare.samples import Sample, samples
from telemetry.compare.settings import not_recorded, settings
from telemetry.compare.sides import by_turns, concerns, facts
from telemetry.compare.sizes import size
from telemetry.errors import UsageError
from telemetry.formatting import number_of
from telemetry.statistics.proportions import wilson
from telemetry.statistics.runs import holm
from telemetry.store.calibrations import Calibration
from telemetry.wire.report import Report

_ORDER: Final = {verdict: place for place, verdict in enumerate(VERDICT_WORDS)}
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
    found = samples(before, after, options)
    cases = _adjusted([_case(sample, before, after, pairs, options) for sample in found.compared], pairs, options)
    sizes = len(before), len(after)
    differences = [case.evidence.difference if case.evidence else plain_difference(case.sample) for case in cases]
    told = [(case.sample.figure, difference) for case, difference in zip(cases, differences, strict=True)]
    known = noises(calibration, told, sizes, options.level)
    results = [result(replace(case, noise=noise), options) for case, noise in zip(cases, known, strict=True)]
    results += [left_out(sample) for sample in found.left_out]
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
    sample: Sample, before: Sequence[Report], after: Sequence[Report], pairs: Pairs | None, options: Options
) -> Case:
    better = options.directions.of(sample.figure, sample.unit)
    if sample.is_in_share:
        better = "neither"
    if sample.obstacle:
        return Case(sample=sample, better=better, obstacle=sample.obstacle)
    if min(len(before), len(after)) >= _ENOUGH:
        found = evidence(sample, pairs, options.confidence)
        if isinstance(found, str):
            return Case(sample=sample, better=better, obstacle=found)
        return Case(sample=sample, better=better, evidence=found)
    if len(before) == len(after) == 1:
        within = (
            _within(sample.figure, before[0], sample.before[0]),
            _within(sample.figure, after[0], sample.after[0]),
        )
        return Case(sample=sample, better=better, within=within)
    return Case(sample=sample, better=better, obstacle=_one_against_many(sample))


def _one_against_many(sample: Sample) -> str:
    """Describe the position of a single run among the runs of the other side.

    This is information, not a verdict.
    """
    lone, many, which = sample.after, sample.before, ("after", "before")
    if len(lone) > 1:
        lone, many, which = many, lone, ("before", "after")
    place = "among"
    if lone[0] > max(many):
        place = "above all of"
    elif lone[0] < min(many):
        place = "below all of"
    return f"{ONE_RUN}{which[0]}: it is {place} the {len(many)} {which[1]}"


def _within(figure: Figure, report: Report, value: float) -> BoundedFigure:
    """Return the value with its bounds, if the report contains them."""
    if figure.statistic in (ATTAINMENT, SHARE):
        count = readings(report, ()).get(figure) or without_errors(report.snapshot, figure)
        low, high = wilson(value * count.count, count.count) if count is not None else (None, None)
        return BoundedFigure(value=value, low=low, high=high)
    if figure.of == "series" and figure.statistic.startswith("p"):
        for bounds in report.bounds:
            if bounds.name == figure.name and tuple(sorted(bounds.labels.items())) == figure.labels:
                known = bounds.percentiles.get(figure.statistic[1:])
                if known is not None:
                    return BoundedFigure(value=value, low=known.low, high=known.high)
    return BoundedFigure(value=value)


def _adjusted(cases: Sequence[Case], pairs: Pairs | None, options: Options) -> list[Case]:
    """Adjust p-values and intervals for all figures that were tested."""
    p_values = [case.evidence.p_value for case in cases if case.evidence is not None]
    adjusted = iter(zip(holm(p_values), confidences(p_values, options.level), strict=True))
    found = []
    for case in cases:
        if case.evidence is not None:
            p_value, confidence = next(adjusted)
            wider = evidence(case.sample, pairs, confidence)
            own = case.evidence if isinstance(wider, str) else wider
            case = replace(case, p_adjusted=p_value, evidence=own)  # noqa: PLW2901
        found.append(case)
    return found


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
