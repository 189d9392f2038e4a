"""Which way the left side of a gate can move while a run goes on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from telemetry.gates.evidence import Instrument
from telemetry.gates.sums import SUM
from telemetry.gates.tree import Baseline, Fact, Gate, Negated, Node, Number, Operation, Term, nodes
from telemetry.gates.units import literal
from telemetry.wire.gates import GateResult

_GROWING: Final = frozenset({"count", "total", "max", "p100", SUM})
_GROWING_FACTS: Final = frozenset({"lost", "emitted", "applied", "repaired", "producers", "elapsed"})
"""`lost` too: of what is missing live only that counts which can't come any more."""


def cannot_recover(gate: Gate, instruments: Sequence[Instrument]) -> bool:
    """Whether the left side only moves further away, once it is beyond its limit, and the limit stands still."""
    if not all(isinstance(node, Number | Operation | Negated | Baseline) for node in nodes(gate.right)):
        return False
    if len({term.function == SUM for term in gate.terms}) > 1:  # what it is of changes with what is beside it
        return False
    way = trend(gate.left, instruments)
    return (way > 0 and gate.relation in ("<", "<=", "==")) or (way < 0 and gate.relation in (">", ">="))


def gone_beyond(gate: Gate, result: GateResult) -> bool:
    """Of one that can't recover and fails: it is beyond its limit, and not on the way to it, as with `==`."""
    if gate.relation != "==":
        return True
    return result.value is not None and result.limit is not None and result.value > result.limit


def trend(node: Node, instruments: Sequence[Instrument]) -> float:
    """Above 0: it only grows; below 0: it only falls; 0: nobody knows."""
    if isinstance(node, Operation):
        return _of_operation(node, instruments)
    if isinstance(node, Negated):
        return -trend(node.inner, instruments)
    if isinstance(node, Term):
        return _of_term(node, instruments)
    return float(isinstance(node, Fact) and node.name in _GROWING_FACTS)


def _of_operation(node: Operation, instruments: Sequence[Instrument]) -> float:
    """Two that grow grow together; a constant shifts, stretches or turns the other."""
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
    return -1.0 if term.function == "min" else float(term.function in _GROWING)


def _constant(node: Node) -> float | None:
    """What a number, or a negative one, is; None for anything else."""
    if isinstance(node, Number):
        return node.value * literal(node.unit)[1]
    inner = _constant(node.inner) if isinstance(node, Negated) else None
    return None if inner is None else -inner
