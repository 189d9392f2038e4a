"""What gates came to, as text and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from telemetry import formatting
from telemetry.formatting import number_of, printable
from telemetry.report.table import Section
from telemetry.wire.gates import GateResult, worst

_ORDER: Final = ("fail", "inconclusive", "pass")
_SHOWN: Final = 100
"""Of each outcome; a metric may have thousands of label sets."""
_COLORS: Final = {"fail": "\x1b[1;31m", "inconclusive": "\x1b[1;33m", "pass": "\x1b[1;32m"}
_RESET: Final = "\x1b[0m"


def gate_lines(results: Sequence[GateResult]) -> Section:
    """One line each, what failed first. Empty without gates."""
    lines = []
    for outcome in _ORDER:
        own = [result for result in results if result.outcome == outcome]
        lines += [f"{outcome}: {printable(result.expression)} · {_why(result)}" for result in own[:_SHOWN]]
        if len(own) > _SHOWN:
            lines.append(f"{outcome}: {len(own) - _SHOWN:,} more, all in the JSON form")
    return Section("Gates", lines)


def tally(results: Sequence[GateResult]) -> str:
    """`1 fail, 2 pass`."""
    counts = {outcome: sum(result.outcome == outcome for result in results) for outcome in _ORDER}
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


def render_gates(results: Sequence[GateResult], headline: str, *, color: bool = False) -> str:
    """Text: the worst outcome, the run, and a line or two for each gate."""
    outcome = worst(list(results))
    painted = f"{_COLORS[outcome]}{outcome}{_RESET}" if color else outcome
    lines = [f"{painted}: {tally(results)} · {printable(headline)}"]
    for kind in _ORDER:
        for result in results:
            if result.outcome == kind:
                word = f"{_COLORS[kind]}{kind}{_RESET}" if color else kind
                lines += [f"  {word}  {printable(result.expression)}", f"      {_why(result)}"]
    return "\n".join(lines) + "\n"


def render_gates_markdown(results: Sequence[GateResult], headline: str) -> str:
    """A table for a pull request."""
    from telemetry.report.markdown import escape

    rows = [
        [
            result.outcome,
            f"`{_code(result.expression)}`",
            escape(printable(result.reason)),
            escape(evidence_words(result)),
        ]
        for kind in _ORDER
        for result in results
        if result.outcome == kind
    ]
    head = ["| outcome | gate | why | evidence |", "|---|---|---|---|"]
    table = [*head, *(f"| {' | '.join(row)} |" for row in rows)]
    title = f"**{worst(list(results))}: {tally(results)}** · {escape(printable(headline))}"
    return f"{title}\n\n" + "\n".join(table) + "\n"


def _why(result: GateResult) -> str:
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


def _code(text: str) -> str:
    """Inside backticks, in a cell of a table."""
    return printable(text).replace("`", "'").replace("|", "\\|")
