"""Figures of the steps of a run: first, last and best values, and the number of steps."""

from __future__ import annotations

import math

from telemetry.directions import better_of_name
from telemetry.formatting import printable
from telemetry.gates.evidence import AXIS, Evidence, Instrument
from telemetry.gates.functions import BEST
from telemetry.gates.tree import Term
from telemetry.gates.value import EVERYTHING, Range, Unfit, Unknown, Value


def _number_of_steps(axis: Instrument, evidence: Evidence) -> Value:
    """Return the number of closed steps of an axis."""
    closed = sum(stat.closed for stat in evidence.snapshot.axes if stat.name == axis.name)
    possible = Range(closed, closed + evidence.loss.most)
    return Value(value=closed, possible=possible, likely=Range(closed, closed), samples=closed)


def step_value(term: Term, item: Instrument, evidence: Evidence) -> Value:
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
    curve = next((one for one in evidence.curves() if _is(item, one.axis, one.name)), None)
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


def _last(item: Instrument, evidence: Evidence) -> float | None:
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


def _is(item: Instrument, axis: str, name: str) -> bool:
    return item.name == name and dict(item.labels).get(AXIS) == axis


def _called(item: Instrument) -> str:
    return printable(f"{item.name} on axis {dict(item.labels).get(AXIS, '')}")
