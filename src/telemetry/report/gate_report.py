"""The report of `telemetry gate`: outcomes alone, as text, Markdown and JSON."""

from __future__ import annotations

from typing import Final

import msgspec

from telemetry.common.formatting import printable, printable_json
from telemetry.common.wording import gate_evidence, gate_reason
from telemetry.report.brief import alarms
from telemetry.report.gates import ORDER, tally
from telemetry.report.markdown import escape
from telemetry.wire.gates import worst
from telemetry.wire.report import Report
from telemetry.wire.version import SCHEMA

_COLORS: Final = {"fail": "\x1b[1;31m", "inconclusive": "\x1b[1;33m", "pass": "\x1b[1;32m"}
_RESET: Final = "\x1b[0m"


def gates_text(report: Report, *, span: str = "", color: bool = False) -> str:
    """Return how the command failed, the worst outcome, the run, and a line or two for each gate.

    `span` is the checked time range, behind the headline.
    """
    results = report.gates
    outcome = worst(results)
    painted = f"{_COLORS[outcome]}{outcome}{_RESET}" if color else outcome
    lines = [f"{_COLORS['fail']}{alarm}{_RESET}" if color else alarm for alarm in alarms(report)]
    lines.append(f"{painted}: {tally(results)} · {printable(report.headline() + span)}")
    for kind in ORDER:
        for result in results:
            if result.outcome == kind:
                word = f"{_COLORS[kind]}{kind}{_RESET}" if color else kind
                lines += [f"  {word}  {printable(result.expression)}", f"      {gate_reason(result)}"]
    return "\n".join(lines) + "\n"


def gates_markdown(report: Report, *, span: str = "") -> str:
    """Return a table for a pull request, with the same lines above it."""
    results = report.gates
    rows = [
        [
            result.outcome,
            f"`{_code(result.expression)}`",
            escape(printable(result.reason)),
            escape(gate_evidence(result)),
        ]
        for kind in ORDER
        for result in results
        if result.outcome == kind
    ]
    columns = ["| outcome | gate | why | evidence |", "|---|---|---|---|"]
    table = [*columns, *(f"| {' | '.join(row)} |" for row in rows)]
    title = f"**{worst(results)}: {tally(results)}** · {escape(printable(report.headline() + span))}"
    head = [*(f"**{escape(alarm)}**" for alarm in alarms(report)), title]
    return "\n\n".join([*head, "\n".join(table)]) + "\n"


def gates_json(report: Report) -> str:
    """Return one JSON object: the run, how its command ended, and all outcomes."""
    snapshot, command = report.snapshot, report.snapshot.command
    document = {
        "schema_version": SCHEMA,
        "run_id": snapshot.run_id,
        "name": snapshot.name,
        "directory": snapshot.directory,
        "completeness": snapshot.completeness,
        "exit_code": command.exit_code if command else None,
        "signal": command.signal if command else None,
        "outcome": worst(report.gates),
        "gates": report.gates,
    }
    return printable_json(msgspec.json.format(msgspec.json.encode(document), indent=2).decode()) + "\n"


def _code(text: str) -> str:
    """Inside backticks, in a cell of a table."""
    return printable(text).replace("`", "'").replace("|", "\\|")
