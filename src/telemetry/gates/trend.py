"""The direction in which the left side of a gate can change during a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from telemetry.directions import better_of_name
from telemetry.gates.evidence import Instrument
from telemetry.gates.functions import BEST, STEPS
from telemetry.gates.sums import SUM
from telemetry.gates.tree import Baseline, Fact, Gate, Negated, Node, Number, Operation, Term, nodes
from telemetry.gates.units import literal
from telemetry.wire.gates import GateResult

_GROWING: Final = frozenset({"count", "total", "max", "p100", STEPS, SUM})
_GROWING_FACTS: Final = frozenset(
    {"lost", "emitted", "applied", "repaired", "salvaged", "producers", "nodes", "elapsed"}
)
"""Facts that only grow. `lost` is one: a live run counts only events that can't arrive any more."""


def cannot_recover(gate: Gate, instruments: Sequence[Instrument]) -> bool:
    """Check whether a left side beyond its limit can only move further away, while the limit is constant."""
    if not all(isinstance(node, Number | Operation | Negated | Baseline) for node in nodes(gate.right)):
        return False
    if len({term.function == SUM for term in gate.terms}) > 1:  # the counters of a sum depend on the other terms
        return False
    way = trend(gate.left, instruments)
    return (way > 0 and gate.relation in ("<", "<=", "==")) or (way < 0 and gate.relation in (">", ">="))


def gone_beyond(gate: Gate, result: GateResult) -> bool:
    """Check whether a failed gate that can't recover is beyond its limit.

    With `==` it may still approach the limit.
    """
    if gate.relation != "==":
        return True
    return result.value is not None and result.limit is not None and result.value > result.limit


def trend(node: Node, instruments: Sequence[Instrument]) -> float:
    """Return a positive number if a node only grows, a negative one if it only falls, 0 if unknown."""
    if isinstance(node, Operation):
        return _of_operation(node, instruments)
    if isinstance(node, Negated):
        return -trend(node.inner, instruments)
    if isinstance(node, Term):
        return _of_term(node, instruments)
    return float(isinstance(node, Fact) and node.name in _GROWING_FACTS)


def _of_operation(node: Operation, instruments: Sequence[Instrument]) -> float:
    """Combine two trends. Two growing sides grow together; a constant shifts, scales or inverts the other side."""
    left, right = trend(node.left, instruments), trend(node.right, instruments)
    before, after = _constant(node.left), _constant(node.right)
    if node.sign in ("+", "-"):
        right = right if node.sign == "+" else -right
        return left if after is not None or left == right else right if before is not None else 0.0
    if after:
        return left * math.copysign(1.0, after)
    return right * math.copysign(1.0, before) if before and node.sign == "*" else 0.0


def _of_term(term: Term, instruments: Sequence[Instrument]) -> float:
    if term.function == "value":
        return float({item.kind for item in instruments if item.name == term.metric.name} == {"counter"})
    if term.function == BEST:
        return -1.0 if better_of_name(term.metric.name) == "lower" else 1.0
    return -1.0 if term.function == "min" else float(term.function in _GROWING)


def _constant(node: Node) -> float | None:
    """Return the value of a number or a negated number, or None for any other node."""
    if isinstance(node, Number):
        return node.value * literal(node.unit)[1]
    inner = _constant(node.inner) if isinstance(node, Negated) else None
    return None if inner is None else -inner
