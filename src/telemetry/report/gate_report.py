"""The report of `telemetry gate`: outcomes alone, as text and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from telemetry.formatting import printable
from telemetry.report.gates import ORDER, evidence_words, tally, why
from telemetry.report.markdown import escape
from telemetry.wire.gates import GateResult, worst

_COLORS: Final = {"fail": "\x1b[1;31m", "inconclusive": "\x1b[1;33m", "pass": "\x1b[1;32m"}
_RESET: Final = "\x1b[0m"


def render_gates(
    results: Sequence[GateResult], headline: str, *, alarms: Sequence[str] = (), color: bool = False
) -> str:
    """Text: how the command failed, the worst outcome, the run, and a line or two for each gate."""
    outcome = worst(list(results))
    painted = f"{_COLORS[outcome]}{outcome}{_RESET}" if color else outcome
    lines = [f"{_COLORS['fail']}{alarm}{_RESET}" if color else alarm for alarm in alarms]
    lines.append(f"{painted}: {tally(results)} · {printable(headline)}")
    for kind in ORDER:
        for result in results:
            if result.outcome == kind:
                word = f"{_COLORS[kind]}{kind}{_RESET}" if color else kind
                lines += [f"  {word}  {printable(result.expression)}", f"      {why(result)}"]
    return "\n".join(lines) + "\n"


def render_gates_markdown(results: Sequence[GateResult], headline: str, *, alarms: Sequence[str] = ()) -> str:
    """A table for a pull request, with the same lines above it."""
    rows = [
        [
            result.outcome,
            f"`{_code(result.expression)}`",
            escape(printable(result.reason)),
            escape(evidence_words(result)),
        ]
        for kind in ORDER
        for result in results
        if result.outcome == kind
    ]
    columns = ["| outcome | gate | why | evidence |", "|---|---|---|---|"]
    table = [*columns, *(f"| {' | '.join(row)} |" for row in rows)]
    title = f"**{worst(list(results))}: {tally(results)}** · {escape(printable(headline))}"
    head = [*(f"**{escape(alarm)}**" for alarm in alarms), title]
    return "\n\n".join([*head, "\n".join(table)]) + "\n"


def _code(text: str) -> str:
    """Inside backticks, in a cell of a table."""
    return printable(text).replace("`", "'").replace("|", "\\|")
