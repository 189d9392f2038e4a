"""The rules that turn evidence into a verdict.

They need at least two runs on each side. `m` is the smallest effect that matters. Significant means that the
p-value, adjusted for all figures of the comparison (Holm), is below 1 - confidence. The intervals are adjusted in
the same way: significant differences are those whose interval does not contain 0.

1. The whole interval is within ±m: `same`.
2. Significant, and the difference is at least m: `worse` or `better`, or `changed` for a figure without direction.
3. Otherwise: `not_shown`.

Between two single runs nothing is better or worse, because the noise between runs is unknown. A figure with bounds
in each run has these verdicts; a value of steps, but not their speed, is exact, so its bounds are the value itself.

1. The bounds don't touch, and the difference is at least m and not within the noise of a calibration: `differs`.
2. No two values within the bounds differ by more than m: `same`.
3. The difference is within the noise of a calibration: `not_shown`.
4. Otherwise: `cannot_tell`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean

from msgspec.structs import replace

from telemetry.common import formatting
from telemetry.common.directions import Better
from telemetry.judge.compare.evidence import DifferenceEvidence
from telemetry.judge.compare.model import OVERLAP, WITHOUT_BOUNDS, BoundedFigure, MetricResult, Noise, Verdict
from telemetry.judge.compare.options import Options
from telemetry.judge.compare.sides import DIFFERENT_UNITS, SideSamples


@dataclass(frozen=True, kw_only=True)
class Case:
    """A figure and all known facts about it."""

    sample: SideSamples
    better: Better
    evidence: DifferenceEvidence | None = None
    obstacle: str = ""
    """Reason for missing evidence."""
    p_adjusted: float = 1.0
    noise: Noise | None = None
    within: tuple[BoundedFigure, BoundedFigure] | None = None


def verdict(evidence: DifferenceEvidence, p_adjusted: float, better: Better, options: Options) -> Verdict:
    """Return the verdict by the rules of this module."""
    least = options.min_effect
    if max(abs(evidence.low), abs(evidence.high)) <= least:
        return "same"
    large = evidence.difference is None or abs(evidence.difference) >= least
    apart = evidence.difference is None or not evidence.low <= 0.0 <= evidence.high
    if not (p_adjusted < options.level and apart and large):
        return "not_shown"
    if better == "neither":
        return "changed"
    return "better" if evidence.up == (better == "higher") else "worse"


def result(case: Case, options: Options) -> MetricResult:
    """Return the result of one figure."""
    figure, evidence = case.sample.figure, case.evidence
    plain = MetricResult(
        of=figure.of,
        statistic=figure.statistic,
        name=figure.name,
        labels=dict(figure.labels),
        unit=case.sample.unit,
        better=case.better,
        before_values=case.sample.before,
        after_values=case.sample.after,
        noise=case.noise,
    )
    if evidence is None:
        return _untold(plain, case, options)
    outcome = verdict(evidence, case.p_adjusted, case.better, options)
    return replace(
        plain,
        verdict=outcome,
        reason=_reason(outcome, case, evidence, options),
        before=evidence.before,
        after=evidence.after,
        difference=evidence.difference,
        low=_finite(evidence.low),
        high=_finite(evidence.high),
        p_value=evidence.p_value,
        p_adjusted=case.p_adjusted,
        method=evidence.method,
    )


def left_out(sample: SideSamples) -> MetricResult:
    """Return the result of a figure that no run has enough values for."""
    figure = sample.figure
    return MetricResult(
        of=figure.of,
        statistic=figure.statistic,
        name=figure.name,
        labels=dict(figure.labels),
        unit=sample.unit,
        verdict="left_out",
        reason=sample.obstacle,
    )


def plain_difference(sample: SideSamples) -> float | None:
    """Return the relative difference of the means, or None if it is not a finite number."""
    if not (sample.before and sample.after):
        return None
    before, after = fmean(sample.before), fmean(sample.after)
    if before == after:
        return 0.0
    ratio = (after - before) / abs(before) if before else math.nan
    return ratio if math.isfinite(ratio) else None


def _untold(plain: MetricResult, case: Case, options: Options) -> MetricResult:
    """Return a result with numbers, if there are any, and a verdict that needs no evidence between runs."""
    sample = case.sample
    outcome, reason = _single(case, *case.within, options) if case.within else ("cannot_tell", case.obstacle)
    reasons = [reason] if reason else []
    if case.noise is not None and case.noise.exceeded is not None:
        beyond = "beyond" if case.noise.exceeded else "within"
        reasons.append(f"{beyond} the noise of the calibration, {case.noise}")
    units_agree = not case.obstacle.startswith(DIFFERENT_UNITS)
    return replace(
        plain,
        verdict=outcome,
        reason="; ".join(reasons),
        before=fmean(sample.before) if sample.before and units_agree else None,
        after=fmean(sample.after) if sample.after and units_agree else None,
        difference=plain_difference(sample) if units_agree else None,
        before_within=case.within[0] if case.within else None,
        after_within=case.within[1] if case.within else None,
    )


def _single(case: Case, before: BoundedFigure, after: BoundedFigure, options: Options) -> tuple[Verdict, str]:
    """Return the verdict on a figure of two single runs, and the reason if it can't be told."""
    if case.sample.figure.of == "steps" and case.sample.figure.statistic != "rate":
        before, after = (replace(figure, low=figure.value, high=figure.value) for figure in (before, after))
    apart = _apart(before, after)
    if apart is None:
        return "cannot_tell", WITHOUT_BOUNDS
    difference = plain_difference(case.sample)
    small = difference is not None and abs(difference) < options.min_effect
    noisy = case.noise is not None and case.noise.exceeded is False
    if apart and not (small or noisy):
        return "differs", ""
    if _is_within(before, after, options.min_effect):
        return "same", ""
    if noisy:
        return "not_shown", ""
    return "cannot_tell", _maybe_small(options) if apart else OVERLAP


def _apart(before: BoundedFigure, after: BoundedFigure) -> bool | None:
    """Return whether the bounds of two runs don't touch; None if an end that decides it is unknown."""
    low, high = (before, after) if before.value <= after.value else (after, before)
    return None if low.high is None or high.low is None else low.high < high.low


def _is_within(before: BoundedFigure, after: BoundedFigure, least: float) -> bool:
    """Return whether all values within the bounds of two runs differ by no more than `least`, a fraction."""
    if before.low is None or before.high is None or after.low is None or after.high is None:
        return False
    widest = max(after.high - before.low, before.high - after.low)
    return widest <= least * min(abs(before.low), abs(before.high))


def _maybe_small(options: Options) -> str:
    return f"there is a difference, but it may be smaller than {formatting.percent(options.min_effect)}"


def _reason(outcome: Verdict, case: Case, evidence: DifferenceEvidence, options: Options) -> str:
    """Return a caveat on the verdict, or an empty string."""
    level = options.level
    if outcome == "not_shown" and case.p_adjusted < level:
        return _maybe_small(options)
    if outcome == "not_shown" and evidence.p_value < level:
        return "significant alone, but among so many figures such a difference occurs by chance"
    if outcome == "not_shown" and evidence.method == "exact":
        return "all runs of a side are the same, but there are too few runs to rule out chance"
    if outcome in ("worse", "better", "changed") and evidence.difference is None:
        return "0 in every run before"
    if outcome in ("worse", "better", "changed") and case.noise is not None and case.noise.exceeded is False:
        return f"but within the noise of the calibration, {case.noise}"
    return ""


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
