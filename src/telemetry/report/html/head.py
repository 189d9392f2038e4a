"""The top of the page: whether the result is complete, how the command ended, the gates, and the main figures."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from telemetry.common import formatting, wording
from telemetry.common.formatting import printable
from telemetry.history.headlines import Figure, Headline
from telemetry.report import brief, content
from telemetry.report.gates import gate_lines, tally
from telemetry.report.html.help import question
from telemetry.report.series import between
from telemetry.report.table import DOT
from telemetry.wire.gates import RUN_EXIT_CODES, GateResult, worst
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


_BEFORE_UNIT: Final = re.compile(r"(?<=\d) (?=(?:[nµm]?s|min|h|[KMGT]i?B|B|[kMGT]|%)(?!\w))")
_ROWS: Final = 5
"""Largest number of rows of tiles."""


def tiles(report: Report, headlines: list[Headline]) -> str:
    """Return the tiles: a row for each headline, the first with duration and exit code."""
    if not headlines:
        return _row("", list(_of_run(report)), report)
    several = len(headlines) > 1
    rows = []
    for at, head in enumerate(headlines[:_ROWS]):
        own = [*head.figures, *(_of_run(report) if at == 0 else ())]
        rows.append(_row(head.subject if several or head.flavour != "training" else "", own, report))
    return "".join(rows)


def _of_run(report: Report) -> Iterator[Figure]:
    snapshot, command = report.snapshot, report.snapshot.command
    yield Figure("duration", formatting.duration_s(snapshot.elapsed_s))
    if command is not None and (command.exit_code is not None or command.signal):
        well = command.exit_code == 0 and not command.signal
        of_run = RUN_EXIT_CODES[worst(report.gates)] if well else 0
        if of_run:
            yield Figure("exit code", str(of_run), f"command 0, run {of_run}", health="bad")
            return
        text = printable(command.signal) if command.signal else str(command.exit_code)
        yield Figure("signal" if command.signal else "exit code", text, health="plain" if well else "bad")


def _row(subject: str, figures: list[Figure], report: Report) -> str:
    title = f'<p class="subject"><bdi>{escape(printable(subject))}</bdi></p>' if subject else ""
    return f'{title}<dl class="tiles">{"".join(_tile(figure, subject, report) for figure in figures)}</dl>'


def _tile(figure: Figure, subject: str, report: Report) -> str:
    title = figure.title.removeprefix(f"{subject} ") if subject else figure.title
    bounds = _bounds(figure, report)
    notes = [note for note in (figure.note, bounds) if note]
    terms = [title, *(["bounds"] if bounds else [])]
    note = "".join(f'<dd class="note">{_with_units(note)}</dd>' for note in notes)
    kind = f" {figure.health}-tile" if figure.health != "plain" else ""
    return (
        f'<div class="tile{kind}"><dt><bdi>{escape(printable(title))}</bdi>{question(" ".join(terms))}</dt>'
        f'<dd class="figure">{_with_units(figure.text)}</dd>{note}</div>'
    )


def _with_units(text: str) -> str:
    """Return the text as HTML in which no unit begins a line."""
    return _BEFORE_UNIT.sub("\u00a0", escape(printable(text)))


def _bounds(figure: Figure, report: Report) -> str:
    """Return the bounds of a percentile, found by its value; empty for other figures."""
    key = figure.title.rpartition(" ")[2].removeprefix("p")
    if figure.value is None or not key or wording.by_number(key)[0]:
        return ""
    for stat in report.snapshot.series:
        if stat.unit == figure.unit and stat.percentiles.get(key) == figure.value:
            bounds = report.bounds_of(stat)
            own = bounds.percentiles.get(key) if bounds is not None else None
            if own is None or bounds is None or own.low is None:
                return ""
            return f"{formatting.percent(bounds.confidence)}: {between(own, stat.unit)}"
    return ""
