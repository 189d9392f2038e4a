"""The gates in a report: a line for each, failures first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from telemetry.common.formatting import printable
from telemetry.common.wording import gate_reason
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
        lines += [f"{outcome}: {printable(result.expression)} · {gate_reason(result)}" for result in own[:_SHOWN]]
        if len(own) > _SHOWN:
            lines.append(f"{outcome}: {len(own) - _SHOWN:,} more in the JSON form")
    return Section("Gates", lines)


def tally(results: Sequence[GateResult]) -> str:
    """`1 fail, 2 pass`."""
    counts = {outcome: sum(result.outcome == outcome for result in results) for outcome in ORDER}
    return ", ".join(f"{count:,} {outcome}" for outcome, count in counts.items() if count) or "none"
