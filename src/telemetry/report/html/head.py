"""The top of the page: whether the result can be trusted, how the command ended, and the gates."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from html import escape
from typing import Final

from telemetry.common.formatting import printable
from telemetry.report import brief, content
from telemetry.report.gates import gate_lines, tally
from telemetry.report.table import DOT
from telemetry.wire.gates import GateResult, worst
from telemetry.wire.report import Report

_VERDICTS: Final = {
    "complete": ("good", "✓"),
    "lossy": ("warn", "!"),
    "incomplete": ("warn", "!"),
    "interrupted": ("bad", "✕"),
}
_GOING_ON: Final = ("calm", "…")
OUTCOMES: Final = {
    "pass": ("good", "✓ pass"),
    "fail": ("bad", "✕ fail"),
    "inconclusive": ("warn", "? inconclusive"),
}
"""Outcome of a gate → style and words."""
_GATES_SHOWN: Final = 5
"""Largest number of gates at the top, of those that did not pass."""


def head(report: Report) -> str:
    """Return the name of the run, then banners, the worst first, then facts."""
    verdict, gates = _verdict(report), _gates(report.gates)
    banners = [
        *_alarms(report),
        *_went(report),
        *([verdict, *gates] if worst(report.gates) == "pass" else [*gates, verdict]),
    ]
    part = list(content.time_range_facts(report))
    apart = {*part, content.gates_words(report)}
    facts = "".join(f'<p class="soft">{escape(fact)}</p>' for fact in content.facts(report) if fact not in apart)
    banner = f'<p class="banner calm">{escape("; ".join(part))}</p>' if part else ""
    name = escape(printable(report.snapshot.name))
    return f"<h1><bdi>{name}</bdi></h1>{''.join(banners)}{banner}{_command(report)}{facts}"


def _alarms(report: Report) -> list[str]:
    """Return the banner of a command that failed or recorded nothing. The command itself stands below."""
    lines = [printable(text) for text in brief.alarms(report)]
    if not lines:
        return []
    first, *others = lines
    first = first.partition(DOT)[0]
    more = "".join(f"<br>{escape(line)}" for line in others)
    return [
        '<p class="banner bad" id="alarm"><span aria-hidden="true">✕</span> '
        f"<strong>{escape(first[:1].upper() + first[1:])}</strong>{more}</p>"
    ]


def _went(report: Report) -> list[str]:
    """Return the banner about how the run went, apart from whether its data are complete."""
    concerns, well = [printable(line) for line in brief.concerns(report)], brief.went_well(report)
    if not concerns and not well:
        return []
    if well:
        first, _, signs = well.partition(": ")
        kind, mark, text = "good", "✓", f"<strong>{escape(first.capitalize())}</strong> · {escape(signs)}"
    else:
        first, *others = concerns
        kind, mark = "warn", "!"
        text = f"<strong>{escape(first)}</strong>{''.join(f'<br>{escape(line)}' for line in others)}"
    return [f'<p class="banner {kind}" id="went"><span aria-hidden="true">{mark}</span> {text}</p>']


def _verdict(report: Report) -> str:
    kind, mark = _VERDICTS.get(report.verdict, _GOING_ON)
    text = report.headline().removeprefix(f"{report.outcome}: {report.snapshot.name}, ")
    return (
        f'<p class="banner {kind}" id="verdict"><span aria-hidden="true">{mark}</span> '
        f"<strong>data {escape(report.outcome)}</strong> · {escape(printable(text))}</p>"
    )


def _gates(gates: Sequence[GateResult]) -> list[str]:
    """Return the banner of gates: a complete result may still fail a gate. Those that did not pass are listed."""
    if not gates:
        return []
    kind, label = OUTCOMES[worst(list(gates))]
    mark = label.partition(" ")[0]
    outcomes = tally(gates)
    lines = gate_lines([gate for gate in gates if gate.outcome != "pass"]).lines
    listed = "".join(f"<br><small>{escape(line)}</small>" for line in lines[:_GATES_SHOWN])
    hidden = len(lines) - _GATES_SHOWN
    more = f'<br><small><a href="#gates">{hidden:,} more</a></small>' if hidden > 0 else ""
    return [
        f'<p class="banner {kind}" id="gates-verdict"><span aria-hidden="true">{mark}</span> '
        f"gates: {escape(outcomes)}{listed}{more}</p>"
    ]


def _command(report: Report) -> str:
    command = report.snapshot.command
    if command is None:
        return ""
    typed = escape(printable(shlex.join(command.argv)))
    return f'<p class="command"><code title="{typed}">$ {typed}</code></p>'
