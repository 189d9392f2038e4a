"""The evaluation of a gate's expression tree on a run, a time range or a window."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from signal import Signals
from typing import Final

from telemetry.common import wording
from telemetry.common.directions import better_of_name
from telemetry.common.formatting import number_of, printable
from telemetry.history.request_model import rates_of
from telemetry.judge.gates import units
from telemetry.judge.gates.catalog import CounterSum
from telemetry.judge.gates.evidence import AXIS, Evidence, GateInstrument, seconds_of
from telemetry.judge.gates.functions import BEST, FACTS, Function, function_of
from telemetry.judge.gates.lexer import wrong
from telemetry.judge.gates.proportions import attainment, goodput, share
from telemetry.judge.gates.tree import BaselineTerm, Fact, GateMetric, Negated, Node, Number, Operation, Term
from telemetry.judge.gates.units import PLAIN, Unit, converted, unit_of
from telemetry.judge.gates.value import EVERYTHING, Range, Unfit, Unknown, Value, exactly, fits
from telemetry.wire import requests as words
from telemetry.wire.report import Rate
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot

_NORMAL_FROM: Final = 30
"""Number of values from which a mean is assumed to be normally distributed."""
_Z: Final = 1.96
"""Standard errors on each side of the mean, for `CONFIDENCE`."""
_WHOLE: Final = "100"
"""The percentile that equals the maximum."""
_STRAGGLERS: Final = frozenset({"straggler", "straggler.cost"})
_SAID: Final = frozenset({"emitted", "missing"})
"""Facts that stay lower bounds until every producer has ended."""


@dataclass(frozen=True, kw_only=True)
class EvaluationContext:
    """The values that the leaves of an expression tree stand for."""

    text: str
    """Text of the gate, for errors with a caret."""
    evidence: Evidence
    bound: Mapping[Term, GateInstrument | CounterSum]
    baseline: Value | None = None
    seconds: float | None = None
    """Time that rates are counted over; None: that of each instrument."""


def evaluate(node: Node, scene: EvaluationContext) -> Value:
    """Return the value of a node.

    Raises Unknown if the value can't be determined, UsageError for units that don't match, and RunDirectoryError.
    """
    if isinstance(node, Number):
        return _number(node)
    if isinstance(node, Term):
        return _term(node, scene)
    if isinstance(node, Fact):
        return _fact(node.name, scene.evidence)
    if isinstance(node, BaselineTerm):
        assert scene.baseline is not None
        return scene.baseline
    if isinstance(node, Negated):
        return evaluate(node.inner, scene).negated()
    if isinstance(node, Operation):
        return _operation(node, scene)
    raise TypeError(f"{type(node).__name__} has no value")


def word_of(fact: Fact, evidence: Evidence) -> str:
    """Return the value of a fact that is a word, such as `completeness`."""
    assert fact.name == "completeness"
    return evidence.snapshot.completeness


def mismatch(text: str, node: Node, left: Value, other: Node, right: Value) -> Exception:
    """Return the UsageError for two sides that can't be compared or added."""
    message = (
        f"`{node}` is {left.unit.kind()} and `{other}` is {right.unit.kind()}: they can't be compared or added"
    )
    return wrong(text, other.span, message)


def _operation(node: Operation, scene: EvaluationContext) -> Value:
    if node.sign == "/" and _is_rate(node.left) and _is_rate(node.right):
        scene = replace(scene, seconds=scene.evidence.seconds)  # so that their quotient is that of what was counted
    left, right = evaluate(node.left, scene), evaluate(node.right, scene)
    if node.sign == "*":
        return left.times(right)
    if node.sign == "/":
        try:
            return left.over(right)
        except Unknown as unknown:
            raise Unknown(f"{unknown}: {node.right} is 0") from None
    if not fits(left, right):
        raise mismatch(scene.text, node.left, left, node.right, right)
    return left.plus(right if node.sign == "+" else right.negated())


def _number(node: Number) -> Value:
    unit, factor = units.literal(node.unit)
    bare = not node.unit or node.unit in units.MULTIPLES
    return exactly(units.multiplied(node.value, Fraction(factor)), unit, bare=bare)


def _term(term: Term, scene: EvaluationContext) -> Value:
    instrument, evidence = scene.bound[term], scene.evidence
    if isinstance(instrument, CounterSum):
        return _of_sum(term, instrument, scene)
    function = function_of(term.function)
    if function.rate or function.of_limits:
        return _of_requests(term, function, instrument, evidence)
    if instrument.kind in ("axis", "step"):
        return step_value(term, instrument, evidence)
    unit = unit_of(instrument.unit)
    if instrument.kind == "counter":
        return _of_counter(term, instrument, unit, scene)
    if instrument.kind == "gauge":
        return _of_gauge(term, instrument, unit, evidence)
    return _of_order(term, instrument, scene) or _of_series(term, instrument, unit, scene)


def _of_requests(term: Term, function: Function, instrument: GateInstrument, evidence: Evidence) -> Value:
    if not function.of_limits:
        return _throughput(instrument, function.rate, evidence)
    return (goodput if function.rate else attainment)(term, instrument, evidence)


def _of_order(term: Term, series: GateInstrument, scene: EvaluationContext) -> Value | None:
    """Evaluate a share or a percentile, which need the order of the values. Return None for other functions."""
    if term.condition is not None:
        return share(term, series, _number(term.condition.limit), scene.evidence, scene.text)
    if not term.percentile or term.percentile == _WHOLE:
        return None
    quantile = scene.evidence.quantile(series, term.percentile)
    if quantile is None:
        raise Unknown(f"{term.metric} has no values")
    value, possible, likely, samples = quantile
    unit = unit_of(series.unit)
    return Value(value=value, unit=unit, possible=possible, likely=likely, samples=samples, estimate=True)


def _of_series(term: Term, series: GateInstrument, unit: Unit, scene: EvaluationContext) -> Value:
    evidence = scene.evidence
    sums, most = evidence.sums(series), evidence.loss.most
    count = sums.count
    if term.function == "count":
        return _at_least(count, PLAIN, Range(count, count + most), count)
    if term.function == "rate":
        seconds = _seconds(series, scene)
        counts = Range(count / seconds, (count + most) / seconds)
        return _at_least(count / seconds, PLAIN.per_second(), counts, count)
    if math.isnan(sums.total):
        raise Unknown(f"the sum of {term.metric} is not known")
    if term.function == "total":
        return _at_least(sums.total, unit, Range(sums.total, math.inf if most else sums.total), count)
    if not count:
        raise Unknown(f"{term.metric} has no values")
    if term.function == "mean":
        mean = sums.total / count
        low = 0.0 if math.isinf(most) else sums.total / (count + most)
        possible = Range(low, math.inf) if most else Range(mean, mean)
        likely = EVERYTHING
        if sums.stddev is not None and count >= _NORMAL_FROM:
            error = _Z * sums.stddev / math.sqrt(count)
            likely = Range(mean - error, mean + error)
        return Value(value=mean, unit=unit, possible=possible, likely=likely, samples=count)
    if sums.min is None or sums.max is None:
        raise Unknown(f"the smallest and the largest value of {term.metric} are not known, only its buckets")
    if term.function == "min":
        return _at_least(sums.min, unit, Range(0.0 if most else sums.min, sums.min), count)
    return _at_least(sums.max, unit, Range(sums.max, math.inf if most else sums.max), count)


def _of_counter(term: Term, counter: GateInstrument, unit: Unit, scene: EvaluationContext) -> Value:
    """Evaluate a function of a counter. Lost events may have raised it by any amount, so it is a lower bound."""
    evidence = scene.evidence
    value, events = evidence.counted(counter)
    most = math.inf if evidence.loss.most else 0.0
    if term.function == "count":
        if events is None:
            raise Unknown(f"the history doesn't contain the number of events of {term.metric}")
        return _at_least(events, PLAIN, Range(events, events + evidence.loss.most), events)
    if term.function == "rate":
        seconds = _seconds(counter, scene)
        grown = Range(value / seconds, (value + most) / seconds)
        return _at_least(value / seconds, unit.per_second(), grown, None)
    return _at_least(value, unit, Range(value, value + most), None)


def _of_sum(term: Term, counters: CounterSum, scene: EvaluationContext) -> Value:
    """Evaluate the sum of several counters as a single counter."""
    unit = unit_of(counters.unit)
    total: float = 0
    for counter in counters.counters:
        has = unit_of(counter.unit)
        if not has.fits(unit):
            message = f"`{term}` adds {unit.kind()} to {has.kind()}: give labels to select series of one unit"
            raise wrong(scene.text, term.span, message)
        total += converted(scene.evidence.counted(counter)[0], has, unit)
    most = math.inf if scene.evidence.loss.most else 0.0
    return _at_least(total, unit, Range(total, total + most), None)


def _throughput(series: GateInstrument, definition: str, evidence: Evidence) -> Value:
    """Evaluate a throughput with the same code as reports. It is 0 if no request completed.

    Lost requests may include the first or the last request, so the rate then has no bounds.
    """
    whose = f"of {GateMetric(series.name, series.labels)}"
    if not evidence.whole:
        raise Unknown(f"no throughput {whose} for a time range: throughput counts from the first issue")
    count = evidence.sums(series).count
    kind, _, word = series.name.rpartition(".")
    tokens = word == words.OUTPUT_TOKENS
    completed = replace(series, name=words.name_of(kind, words.LATENCY), unit=words.INSTRUMENTS[words.LATENCY][1])
    if count < (of := evidence.sums(completed).count):
        coverage = f"tokens are known for {count:,} of {number_of(of, 'completed request')}"
        raise Unknown(f"no throughput {whose}: {coverage}")
    rate: Rate = getattr(rates_of(evidence.snapshot, kind, dict(series.labels)), definition)
    value = 0.0 if not count else rate.tokens_per_s if tokens else rate.requests_per_s
    if value is None:
        raise Unknown(f"no throughput {whose}: its duration is zero or unknown")
    unit = unit_of(words.INSTRUMENTS[words.OUTPUT_TOKENS if tokens else words.ISSUED][1]).per_second()
    possible = Range(0.0, math.inf) if evidence.loss.most else Range(value, value)
    return _at_least(value, unit, possible, count)


def _of_gauge(term: Term, gauge: GateInstrument, unit: Unit, evidence: Evidence) -> Value:
    level = evidence.level(gauge)
    if level is None:
        raise Unknown(f"{term.metric} was never set")
    value = {"min": level.min, "max": level.max}.get(term.function, level.value)
    if value is None:
        raise Unknown(f"the history doesn't contain the {term.function} of {term.metric}")
    possible = Range(value, value)
    if evidence.loss.most:
        low = value if term.function == "max" else -math.inf
        possible = Range(low, value if term.function == "min" else math.inf)
    return _at_least(value, unit, possible, None)


def _at_least(value: float, unit: Unit, possible: Range, samples: int | None) -> Value:
    """Return a value that is exact unless events are lost: `possible` covers lost events."""
    return Value(value=value, unit=unit, possible=possible, likely=Range(value, value), samples=samples)


def _seconds(instrument: GateInstrument, scene: EvaluationContext) -> float:
    seconds = scene.evidence.rate_seconds(instrument) if scene.seconds is None else scene.seconds
    if not seconds:
        raise Unknown("a rate needs a duration above 0")
    return seconds


def _is_rate(node: Node) -> bool:
    return isinstance(node, Term) and node.function == "rate"


def _fact(name: str, evidence: Evidence) -> Value:
    unit = unit_of(FACTS[name][0])
    if name == "lost":
        lost, loss = evidence.snapshot.accounting.lost, evidence.loss
        return _at_least(lost, unit, Range(loss.certain, max(loss.most, lost)), None)
    if name in _STRAGGLERS:
        return _straggler(name, evidence)
    command = evidence.snapshot.command
    if name == "command.max_rss" and command is not None and not command.max_rss_bytes:
        if not command.max_rss_bound_bytes:
            raise Unknown("the command's peak memory is unknown")
        return _at_least(command.max_rss_bound_bytes, unit, Range(0, command.max_rss_bound_bytes), None)
    value = _plain_fact(name, evidence.snapshot)
    if name in _SAID and math.isinf(evidence.loss.most):
        return _at_least(value, unit, Range(value, math.inf), None)
    return exactly(value, unit)


def _straggler(name: str, evidence: Evidence) -> Value:
    """Return the cost of the causes of slow steps together, or of the worst one; 0 if none is named."""
    axes = evidence.stragglers()
    if axes is None:
        raise Unknown("slow ranks are known once the run has ended")
    if not axes:
        raise Unknown("the run has no steps with work and wait; declare its waits with `telemetry.stragglers`")
    if unjudged := [axis.unjudged for axis in axes if axis.unjudged]:
        raise Unknown(f"slow ranks are not known: {unjudged[0]}")
    in_seconds = name == "straggler.cost"
    certain, highest = [0.0], [0.0]
    for axis in axes:
        for cause in axis.slow:
            cost, most_s = cause.cost_s if in_seconds else cause.cost, cause.highest_s or cause.cost_s
            most = most_s if in_seconds or cause.step_s <= 0 else most_s / cause.step_s
            certain.append(cost if cause.sure else 0.0)
            highest.append(cost if cause.sure else most)
        if all(cause.sure for cause in axis.slow):
            certain.append((axis.together_s if in_seconds else axis.together) or 0.0)
            highest.append(certain[-1])
    if max(highest) == max(certain):
        return exactly(max(certain), unit_of(FACTS[name][0]))
    possible = Range(max(certain), max(highest))
    doubt = "the stages of the pipeline hide an unknown part of a cost"
    return Value(value=possible.high, unit=unit_of(FACTS[name][0]), possible=possible, likely=possible, doubt=doubt)


def _plain_fact(name: str, snapshot: MetricsSnapshot) -> float:
    account, command = snapshot.accounting, snapshot.command
    if not name.startswith("command."):
        numbers: dict[str, float] = {
            "missing": account.missing,
            "emitted": account.emitted,
            "applied": account.applied,
            "repaired": account.repaired,
            "salvaged": account.salvaged,
            "producers": snapshot.producer_count,
            "nodes": snapshot.node_count,
            "incomplete_nodes": snapshot.missing_nodes
            + sum(not wording.node_is_well(node, over=snapshot.state in TERMINAL) for node in snapshot.nodes),
            "elapsed": snapshot.elapsed_s,
        }
        return numbers[name]
    if command is None:
        raise Unknown("the run has no command, or the command has not ended")
    wall_s, cpu_s = seconds_of(command)
    if name == "command.exit_code":
        return _exit_code(command.exit_code, command.signal)
    return {"command.wall": wall_s, "command.cpu": cpu_s, "command.max_rss": command.max_rss_bytes}[name]


def _exit_code(code: int | None, signal: str | None) -> float:
    """Return the exit code as a shell reports it: 128 + n for signal n."""
    if code is not None:
        return code
    try:
        return 128 + Signals[signal or ""]
    except KeyError:
        raise Unknown(f"the command has no exit code: it ended by {signal or 'nothing'}") from None


def _number_of_steps(axis: GateInstrument, evidence: Evidence) -> Value:
    """Return the number of closed steps of an axis."""
    closed = sum(stat.closed for stat in evidence.snapshot.axes if stat.name == axis.name)
    possible = Range(closed, closed + evidence.loss.most)
    return Value(value=closed, possible=possible, likely=Range(closed, closed), samples=closed)


def step_value(term: Term, item: GateInstrument, evidence: Evidence) -> Value:
    """Return the first, last, best, smallest or largest value of steps, or the number of steps of an axis.

    Raises Unfit if it is not finite, Unknown if it is not available.
    """
    if not evidence.whole:
        raise Unknown("steps are known for the whole run only")
    if item.kind == "axis":
        return _number_of_steps(item, evidence)
    function = statistic(term.function, item.name)
    if function == "last":
        return _value(_last(item, evidence), f"the last value of {_called(item)} is not finite", None, evidence)
    curve = next(
        (step_curve for step_curve in evidence.curves() if _is(item, step_curve.axis, step_curve.name)), None
    )
    if curve is None:
        raise Unknown(f"the record log has no values of {_called(item)}")
    value = {"first": curve.first, "min": curve.min, "max": curve.max}[function]
    unfit = f"no value of {_called(item)} is finite"
    if function == "first":
        unfit = f"the first value of {_called(item)} is not finite"
    return _value(value, unfit, curve.count, evidence)


def statistic(function: str, name: str) -> str:
    """Return `min` or `max` for `best`, by the name of the value; any other function is returned unchanged."""
    if function != BEST:
        return function
    return "min" if better_of_name(name) == "lower" else "max"


def _last(item: GateInstrument, evidence: Evidence) -> float | None:
    for stat in evidence.snapshot.axes:
        if _is(item, stat.name, item.name) and item.name in stat.values:
            return stat.values[item.name]
    raise Unknown(f"the run has no values of {_called(item)}")


def _value(value: float | None, unfit: str, samples: int | None, evidence: Evidence) -> Value:
    """Return an exact value. A lost event may have been any value, of any step."""
    if value is None or not math.isfinite(value):
        raise Unfit(unfit)
    possible = EVERYTHING if evidence.loss.most else Range(value, value)
    return Value(value=value, possible=possible, likely=Range(value, value), samples=samples)


def _is(item: GateInstrument, axis: str, name: str) -> bool:
    return item.name == name and dict(item.labels).get(AXIS) == axis


def _called(item: GateInstrument) -> str:
    return printable(f"{item.name} on axis {dict(item.labels).get(AXIS, '')}")
