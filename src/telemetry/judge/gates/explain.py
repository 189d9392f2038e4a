"""One-line reasons for the outcome of a gate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from telemetry.common.formatting import number_of, percent, printable
from telemetry.judge.gates.evidence import Evidence, Loss
from telemetry.judge.gates.functions import function_of
from telemetry.judge.gates.tree import Gate, Term
from telemetry.judge.gates.units import PLAIN, converted, shown, told_apart
from telemetry.judge.gates.value import CONFIDENCE, Range, Value
from telemetry.wire.gates import GateResult, Outcome

_MOST_NEEDED = 10**9
"""Largest number of required values that a message mentions; no user waits for more."""

_DEFINITIONS = {"while_issuing": "while issuing", "loadgen": "as LoadGen counts"}
"""Definitions of rates that are not the main figure of reports, in words."""


class Verdict(NamedTuple):
    """The outcome of a gate for the whole run or for one window."""

    outcome: Outcome
    reason: str
    left: Value | None = None
    """Left value. Both sides are in the unit of the result."""
    right: Value | None = None

    def result(self, text: str, evidence: Evidence, *, windows: int = 0, failed: int = 0) -> GateResult:
        """Convert to a result. `evidence`: the evidence that decided the outcome."""
        left, right = self.left, self.right
        bounds = left.likely if left is not None and not left.likely.point else Range(math.inf, math.inf)
        return GateResult(
            expression=text,
            outcome=self.outcome,
            reason=printable(self.reason),
            value=_finite(left.value) if left else None,
            limit=_finite(right.value) if right else None,
            unit=left.unit.name if left else "",
            low=_finite(bounds.low),
            high=_finite(bounds.high),
            samples=left.samples if left else None,
            start_s=None if evidence.whole else evidence.start_s,
            end_s=None if evidence.whole else evidence.end_s,
            windows=windows,
            windows_failed=failed,
        )


def value_words(gate: Gate, left: Value, right: Value, holds: bool) -> str:
    """Return `212 ms < 250 ms`, `312 ms is not < 250 ms` or `31 k/s while issuing > 20 k/s`."""
    value, limit = told_apart(left.value, right.value, left.unit)
    relation = gate.relation
    if isinstance(gate.left, Term) and (definition := _DEFINITIONS.get(function_of(gate.left.function).rate)):
        value = f"{value} {definition}"
    return f"{value} {relation} {limit}" if holds else f"{value} is not {relation} {limit}"


def loss_words(left: Value, right: Value, losses: Sequence[Loss]) -> str:
    """Explain how missing events or histogram rounding could change the outcome."""
    value, limit = told_apart(left.value, right.value, left.unit)
    comparison = f"{value} vs. limit {limit}"
    reasons = list(dict.fromkeys(loss.reason for loss in losses if loss.most))
    doubt = left if not left.possible.point else right
    where = _between(doubt.possible, left)
    reasons += [doubt.doubt] if doubt.doubt else []
    if reasons:
        return f"{comparison}, but {' and '.join(reasons)}: the true value may be {where}"
    return f"{comparison}, but the true value is only known to be {where}"


def sample_words(gate: Gate, left: Value, right: Value) -> str:
    """Explain that too few values give no bound on the side of the limit."""
    value, limit = told_apart(left.value, right.value, left.unit)
    thin = left if left.estimate and not (right.estimate and _thinner(right, left)) else right
    needed = _needed(gate, left, right)
    many = f": needs {needed:,}" if needed and needed > (thin.samples or 0) else ""
    whose = "" if thin is left else " of the baseline"
    count = thin.samples or 0
    are = "is" if count == 1 else "are"
    return f"{value} vs. limit {limit}, but {number_of(count, 'value')}{whose} {are} too few{many}"


def interval_words(left: Value, right: Value) -> str:
    """Explain that the confidence interval spans the limit, or that there is no interval."""
    value, limit = told_apart(left.value, right.value, left.unit)
    doubt = left if not left.likely.point else right
    if doubt.likely.low == -math.inf and doubt.likely.high == math.inf:
        return f"{value} vs. limit {limit}, but its confidence interval is unknown"
    return (
        f"{value} vs. limit {limit}, but with {percent(CONFIDENCE)} confidence the true value is "
        f"{_between(doubt.likely, left)}"
    )


def _needed(gate: Gate, left: Value, right: Value) -> int:
    """Return the number of values that bounds all percentiles of a gate on both sides, or shows its share.

    Returns 0 for a gate without percentiles and shares, and for a number above `_MOST_NEEDED`.
    """
    from telemetry.statistics.confidence import least_count, least_total
    from telemetry.statistics.hdr.percentiles import parse_percentile

    ratios = [parse_percentile(term.percentile) for term in gate.terms if term.percentile]
    counts = [least_count(ratio, CONFIDENCE) or 0 for ratio in ratios if ratio[0] < ratio[1]]
    if left.reach is not None:
        whole = converted(1.0, PLAIN, left.unit)
        counts.append(least_total(right.value / whole, CONFIDENCE) or 0)
    needed = max(counts, default=0)
    return needed if needed <= _MOST_NEEDED else 0


def _thinner(value: Value, other: Value) -> bool:
    return (value.samples or 0) < (other.samples or 0)


def _between(where: Range, like: Value) -> str:
    low, high = (shown(_finite(end), like.unit) for end in where)
    if math.isinf(where.low) and math.isinf(where.high):
        return "anything"
    if math.isinf(where.high):
        return "anything" if where.low == 0 else f"{low} or more"
    return f"{high} or less" if math.isinf(where.low) else f"between {low} and {high}"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
