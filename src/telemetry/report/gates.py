"""The gates in a report: a line for each, failures first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from telemetry.common import formatting
from telemetry.common.formatting import number_of, printable
from telemetry.report.table import Section
from telemetry.wire.gates import GateResult

ORDER: Final = ("fail", "inconclusive", "pass")
_SHOWN: Final = 100
"""Lines per outcome; a metric may have thousands of label sets."""


def gate_lines(results: Sequence[GateResult]) -> Section:
    """Write a line per gate, failures first. Empty without gates."""
    lines = []
    for outcome in ORDER:
        own = [result for result in results if result.outcome == outcome]
        lines += [f"{outcome}: {printable(result.expression)} · {why(result)}" for result in own[:_SHOWN]]
        if len(own) > _SHOWN:
            lines.append(f"{outcome}: {len(own) - _SHOWN:,} more in the JSON form")
    return Section("Gates", lines)


def tally(results: Sequence[GateResult]) -> str:
    """`1 fail, 2 pass`."""
    counts = {outcome: sum(result.outcome == outcome for result in results) for outcome in ORDER}
    return ", ".join(f"{count:,} {outcome}" for outcome, count in counts.items() if count) or "none"


def evidence_words(result: GateResult) -> str:
    """The interval and the values it rests on; empty if there is neither."""
    parts = []
    if result.low is not None or result.high is not None:
        low, high = (
            formatting.NOTHING if end is None else _value(end, result.unit) for end in (result.low, result.high)
        )
        parts.append(f"95 %: {low} to {high}")
    if result.samples is not None:
        parts.append(number_of(result.samples, "value"))
    return ", ".join(parts)


def why(result: GateResult) -> str:
    """Return the reason of an outcome, with its evidence in brackets."""
    evidence = evidence_words(result)
    return printable(result.reason) + (f" ({evidence})" if evidence else "")


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return formatting.NOTHING
    if formatting.carries_unit(unit):
        return formatting.quantity(value, unit)
    if unit.endswith("/s"):
        return formatting.rate(value, unit.removesuffix("/s"))
    return f"{formatting.scaled(value)} {printable(unit)}".rstrip()
