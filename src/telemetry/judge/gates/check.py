"""The check of gates against the evidence of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from telemetry.common import formatting
from telemetry.common.formatting import number_of, percent
from telemetry.errors import RunDirectoryError
from telemetry.judge.gates import units
from telemetry.judge.gates.catalog import CounterSum, GateCatalog
from telemetry.judge.gates.evaluate import EvaluationContext, evaluate, mismatch, word_of
from telemetry.judge.gates.evidence import Evidence, heard_s
from telemetry.judge.gates.explain import Verdict, interval_words, loss_words, sample_words, value_words
from telemetry.judge.gates.functions import OVERALL, function_of
from telemetry.judge.gates.parser import every_s
from telemetry.judge.gates.resolve import Binding, bindings, each, elsewhere
from telemetry.judge.gates.tree import Fact, Gate, Relation, Term, Word
from telemetry.judge.gates.value import Range, Unfit, Unknown, Value, beside, fits
from telemetry.wire import requests as words
from telemetry.wire.gates import GateResult, Outcome

_EDGE_S: Final = 0.5
_ROUNDING: Final = 1e-12
"""Relative tolerance: far above float rounding, far below any measurable difference."""
NoiseKey = tuple[str, str, tuple[tuple[str, str], ...]]
"""Function, name and labels of a metric."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Settings for how strict a check is."""

    confident: bool = False
    """True if the whole confidence interval must lie on one side of the limit."""
    baseline: Evidence | None = None
    no_baseline: str = "no baseline run: give one with --baseline"
    """Reason for a missing baseline, for messages."""
    noise: Mapping[NoiseKey, Range] = field(default_factory=dict)
    """Metric → largest fall and rise between single runs of the same program, as fractions."""


def check(gates: Iterable[Gate], evidence: Evidence, rules: Rules = Rules()) -> list[GateResult]:
    """Return a result for each gate and each set of instruments that it is about, in order.

    Blocks on the files of the evidence. A gate that can't be decided is inconclusive, with a reason. Raises
    UsageError for a gate that does not fit these instruments: a function of another kind, or units that don't
    match.
    """
    return [result for gate in gates for result in check_one(gate, evidence, rules)]


def check_one(gate: Gate, evidence: Evidence, rules: Rules = Rules()) -> list[GateResult]:
    """Check a single gate. See `check`."""
    text = gate.text or str(gate)
    if evidence.obstacle:
        return [GateResult(expression=text, outcome="inconclusive", reason=evidence.obstacle)]
    if isinstance(gate.right, Word):
        return [_of_words(gate, gate.right, evidence)]
    try:
        all_bindings = bindings(gate, evidence.instruments)
    except Unknown as unknown:
        return [GateResult(expression=text, outcome="inconclusive", reason=str(unknown))]
    if gate.every is not None:
        return _in_windows(gate, every_s(gate.every), all_bindings, evidence, rules)
    return [_bound(gate, binding, evidence, rules) for binding in all_bindings]


def _of_words(gate: Gate, word: Word, evidence: Evidence) -> GateResult:
    assert isinstance(gate.left, Fact)
    actual = word_of(gate.left, evidence)
    holds = (actual == word.text) == (gate.relation == "==")
    reason = f"it is {actual}" if holds else f"it is {actual}, not {word.text}"
    if not holds and gate.relation == "!=":
        reason = f"it is {actual}"
    return GateResult(expression=gate.text or str(gate), outcome="pass" if holds else "fail", reason=reason)


def _bound(gate: Gate, binding: Binding, evidence: Evidence, rules: Rules) -> GateResult:
    try:
        scene = _scene(gate, binding, evidence, rules)
        return _judged(gate, scene, rules).result(binding.text, evidence)
    except Unfit as unfit:
        return GateResult(expression=binding.text, outcome="fail", reason=str(unfit))
    except (Unknown, RunDirectoryError) as error:
        return _unclear(binding, error)


def _unclear(binding: Binding, error: Unknown | RunDirectoryError) -> GateResult:
    reason = error.message if isinstance(error, RunDirectoryError) else str(error)
    return GateResult(expression=binding.text, outcome="inconclusive", reason=reason)


def _scene(gate: Gate, binding: Binding, evidence: Evidence, rules: Rules) -> EvaluationContext:
    """Return the context for an evaluation. Raises Unknown, UsageError, RunDirectoryError."""
    if binding.missing:
        raise Unknown(binding.missing)
    return EvaluationContext(
        text=gate.text or str(gate),
        evidence=evidence,
        bound=binding.bound,
        baseline=_baseline(gate, binding, rules) if gate.uses_baseline else None,
    )


def _baseline(gate: Gate, binding: Binding, rules: Rules) -> Value:
    """Evaluate the left side in the baseline run. Raises Unknown."""
    evidence = rules.baseline
    if evidence is None:
        raise Unknown(rules.no_baseline)
    if evidence.obstacle:
        raise Unknown(f"baseline: {evidence.obstacle}")
    bound = elsewhere(binding.bound, evidence.instruments, "the baseline")
    scene = EvaluationContext(text=gate.text, evidence=evidence, bound=bound)
    try:
        return evaluate(gate.left, scene)
    except Unknown as unknown:
        raise Unknown(f"baseline: {unknown}") from None


def _in_windows(
    gate: Gate, step_s: float, all_bindings: Sequence[Binding], evidence: Evidence, rules: Rules
) -> list[GateResult]:
    """Check the windows of all bindings in a single pass, because reading the history is most of the work."""
    results: list[GateResult | None] = [None] * len(all_bindings)
    looked_at: dict[int, tuple[EvaluationContext, Windows]] = {}
    for index, binding in enumerate(all_bindings):
        try:
            scene = _scene(gate, binding, evidence, rules)
            looked_at[index] = scene, Windows(gate.relation, step_s, evidence)
        except (Unknown, RunDirectoryError) as error:
            results[index] = _unclear(binding, error)
    instruments = dict.fromkeys(item for scene, _ in looked_at.values() for item in each(scene.bound))
    try:
        for part in evidence.windows(step_s, list(instruments)) if looked_at else ():
            for scene, windows in looked_at.values():
                windows.add(part, _of_part(gate, replace(scene, evidence=part), rules))
    except (Unknown, RunDirectoryError) as error:
        return [result or _unclear(binding, error) for result, binding in zip(results, all_bindings, strict=True)]
    return [result or looked_at[index][1].result(all_bindings[index].text) for index, result in enumerate(results)]


def _of_part(gate: Gate, scene: EvaluationContext, rules: Rules) -> Verdict:
    """Return the verdict for one window. Raises UsageError, RunDirectoryError."""
    try:
        if scene.evidence.obstacle:
            raise Unknown(scene.evidence.obstacle)
        return _judged(gate, scene, rules)
    except Unknown as unknown:
        return Verdict("inconclusive", str(unknown))


def _judged(gate: Gate, scene: EvaluationContext, rules: Rules) -> Verdict:
    """Compare both sides. Raises Unknown, UsageError, RunDirectoryError."""
    left, right = evaluate(gate.left, scene), evaluate(gate.right, scene)
    if not fits(left, right):
        raise mismatch(scene.text, gate.left, left, gate.right, right)
    left, right = _shown_alike(left, right)
    if math.isnan(left.value) or math.isnan(right.value):
        raise Unknown("the value does not fit in a float")
    outcome, reason = _decided(gate, left, right, scene, rules)
    return Verdict(outcome, reason, left, right)


def _decided(gate: Gate, left: Value, right: Value, scene: EvaluationContext, rules: Rules) -> tuple[Outcome, str]:
    relation = gate.relation
    by_data = surely(relation, left.possible, right.possible)
    if by_data is None:
        losses = [scene.evidence.loss, *([rules.baseline.loss] if rules.baseline and gate.uses_baseline else [])]
        return "inconclusive", loss_words(left, right, losses)
    by_interval = surely(relation, left.likely, right.likely)
    if left.estimate or right.estimate:
        is_bounded = _known_sides(relation, left, right)
        if not is_bounded and by_interval is not by_data:
            return "inconclusive", sample_words(gate, left, right)
    if rules.confident and by_interval is not by_data:
        return "inconclusive", interval_words(left, right)
    floor = _noise(gate, scene, rules)
    if floor is not None and scene.baseline is not None:
        base = abs(scene.baseline.within(left.unit).value)
        if floor.low * base < left.value - right.value < floor.high * base:
            margin = (left.value - right.value) / base
            noise = floor.low if margin < 0 else floor.high
            comparison = f"{value_words(gate, left, right, by_data)}, by {percent(abs(margin))} of the baseline"
            return "inconclusive", f"{comparison}, but run-to-run noise is {percent(abs(noise))}"
    return ("pass" if by_data else "fail"), value_words(gate, left, right, by_data)


def surely(relation: Relation, left: Range, right: Range) -> bool | None:
    """Return True if the relation holds for all values in both ranges, False if it fails for all, else None.

    Ends that differ only by float rounding count as equal.
    """
    right = Range(_snapped(right.low, left), _snapped(right.high, left))
    if relation in (">", ">="):
        return surely("<" if relation == ">" else "<=", right, left)
    if relation == "!=":
        equal = surely("==", left, right)
        return None if equal is None else not equal
    if relation == "==":
        if left.high < right.low or right.high < left.low:
            return False
        return True if left.point and right.point and left.low == right.low else None
    if relation == "<":
        return True if left.high < right.low else False if left.low >= right.high else None
    return True if left.high <= right.low else False if left.low > right.high else None


def _snapped(end: float, to: Range) -> float:
    return next((other for other in to if math.isclose(end, other, rel_tol=_ROUNDING)), end)


def _known_sides(relation: Relation, left: Value, right: Value) -> bool:
    """Check whether the interval is bounded towards the limit: an upper limit needs an upper bound.

    Shares have bounds, but few samples can't show that they are far from the middle. A limit of 0 % or 100 % is
    about these samples alone.
    """
    upper = math.isfinite(left.likely.high) and math.isfinite(right.likely.low)
    lower = math.isfinite(left.likely.low) and math.isfinite(right.likely.high)
    whole = units.converted(1.0, units.PLAIN, left.unit)
    if left.reach is not None and right.value not in (0.0, whole):
        upper, lower = upper and right.value >= left.reach.low, lower and right.value <= left.reach.high
    return {"<": upper, "<=": upper, ">": lower, ">=": lower}.get(relation, upper and lower)


def _shown_alike(left: Value, right: Value) -> tuple[Value, Value]:
    """Convert both to the left unit. Show a fraction in percent if it is compared with a percentage."""
    if left.unit == units.PLAIN and not left.bare and right.unit.name == "%":
        return left.within(right.unit), right
    return beside(left, right)


def _noise(gate: Gate, scene: EvaluationContext, rules: Rules) -> Range | None:
    """Return the noise floors of the left side if it is a single metric or fact, else None.

    A calibration's rate of a latency, or of output tokens, is `throughput.overall` in gates. A gate's rate of these
    is looked up as the rate of completed requests.
    """
    if not gate.uses_baseline or gate.every is not None or not rules.noise:
        return None
    if isinstance(gate.left, Fact):
        return rules.noise.get((gate.left.name, "", ()))
    if not isinstance(gate.left, Term):
        return None
    key = _noise_key(gate.left, scene)
    return None if key is None else rules.noise.get(key)


def _noise_key(term: Term, scene: EvaluationContext) -> NoiseKey | None:
    function, item = term.function, scene.bound[term]
    if isinstance(item, CounterSum):
        if len(item.counters) != 1:
            return None
        function, (item,) = "value", item.counters
    elif function == OVERALL:
        function = "rate"
    elif function_of(function).of_limits:
        return function, term.metric.name, tuple(label for label in item.labels if label[0] != words.SLO)
    elif function == "rate" and GateCatalog(scene.evidence.instruments).paced(item):
        item = replace(item, name=words.name_of(item.name.rpartition(".")[0], words.COMPLETED))
    return function, item.name, item.labels


class Windows:
    """An accumulator for the verdicts of windows, which are added in order of time."""

    def __init__(self, relation: Relation, step_s: float, part: Evidence) -> None:
        """Start without windows. `part`: the evidence that is divided into windows."""
        self._relation = relation
        self._step_s = step_s
        self._part = part
        self._count = 0
        self._last = 0
        """Number of windows from the run's start up to the end of the last one."""
        self._failed = 0
        self._worst: tuple[float, Evidence, Verdict] | None = None
        self._unclear: tuple[Evidence, Verdict] | None = None
        """First inconclusive window."""
        self._unclear_count = 0

    def add(self, window: Evidence, verdict: Verdict) -> None:
        self._count += 1
        self._last = max(self._last, round(window.end_s / self._step_s))
        if verdict.outcome == "inconclusive":
            self._unclear_count += 1
            self._unclear = self._unclear or (window, verdict)
            return
        self._failed += verdict.outcome == "fail"
        badness = self._badness(verdict)
        if self._worst is None or badness > self._worst[0]:
            self._worst = badness, window, verdict

    def result(self, text: str) -> GateResult:
        """Return the result.

        One failed window fails the gate; else one inconclusive window makes it inconclusive.
        """
        step = f"{self._step_s:g} s"
        if not self._count:
            took = formatting.duration_s(self._part.end_s - self._part.start_s)
            return self._unknown(text, f"the history has no complete window of {step} in {took}")
        if self._failed and self._worst is not None:
            _, window, verdict = self._worst
            summary = f"{verdict.reason} {_when(window)}; {self._failed:,} of {self._windows(step)} failed"
            return self._made(text, window, verdict._replace(outcome="fail", reason=summary))
        if self._unclear is not None:
            window, verdict = self._unclear
            summary = f"inconclusive in {self._unclear_count:,} of {self._windows(step)}, first {_when(window)}"
            return self._made(text, window, verdict._replace(reason=f"{summary}: {verdict.reason}"))
        if missing := self._missing:
            due = number_of(self._due, "window")
            return self._unknown(text, f"the history lacks {missing:,} of {due} of {step}")
        assert self._worst is not None
        _, window, verdict = self._worst
        summary = f"{verdict.reason} {_when(window)}, the worst of {self._windows(step)}"
        return self._made(text, window, verdict._replace(reason=summary))

    @property
    def _missing(self) -> int:
        """Number of windows that the history lacks, before the last one or at the end of the run."""
        first = math.ceil((self._part.start_s - _EDGE_S) / self._step_s)
        return max(self._due - max(first, 0) - self._count, 0)

    @property
    def _due(self) -> int:
        """Expected number of windows, counted from the run's start."""
        heard = (heard_s(self._part.snapshot) - _EDGE_S) // self._step_s if self._part.whole else 0
        return max(self._last, int(heard))

    def _windows(self, step: str) -> str:
        return f"{number_of(self._count, 'window')} of {step}"

    def _made(self, text: str, window: Evidence, verdict: Verdict) -> GateResult:
        return verdict.result(text, window, windows=self._count, failed=self._failed)

    def _unknown(self, text: str, reason: str) -> GateResult:
        return GateResult(expression=text, outcome="inconclusive", reason=reason, windows=self._count)

    def _badness(self, verdict: Verdict) -> float:
        """Return the distance of the value beyond the limit."""
        assert verdict.left is not None
        assert verdict.right is not None
        beyond = verdict.left.value - verdict.right.value
        if self._relation in (">", ">="):
            return -beyond
        if self._relation == "==":
            return abs(beyond)
        return -abs(beyond) if self._relation == "!=" else beyond


def _when(window: Evidence) -> str:
    return f"from {window.start_s:.0f} s to {window.end_s:.0f} s"
