"""Sections that look different from a list of lines: the command, and the gates with highlighted outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from telemetry.formatting import printable
from telemetry.report.gates import why
from telemetry.report.html.head import OUTCOMES
from telemetry.report.table import Section
from telemetry.wire.gates import GateResult


def command_body(section: Section) -> str:
    """Return the command line and its facts; empty without a command."""
    if not section:
        return ""
    line, *facts = section.lines
    return f"<pre>{escape(line)}</pre>{''.join(f'<p>{escape(fact)}</p>' for fact in facts)}"


def gates_body(gates: Sequence[GateResult]) -> str:
    """Return a table with a row for each gate; empty without gates."""
    if not gates:
        return ""
    rows = []
    for gate in gates:
        kind, words = OUTCOMES[gate.outcome]
        rows.append(
            f"<tr><td><code>{escape(printable(gate.expression))}</code></td>"
            f'<td class="left"><span class="badge {kind}">{words}</span></td>'
            f'<td class="left">{escape(why(gate))}</td></tr>'
        )
    heads = (
        '<th scope="col">gate</th><th scope="col" class="left">outcome</th><th scope="col" class="left">why</th>'
    )
    return (
        f'<div class="scroll"><table class="gates"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
