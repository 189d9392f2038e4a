"""Tiles at the top of a page: the figures of a run that a reader looks for first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import Final

from telemetry.common import formatting, wording
from telemetry.common.formatting import printable
from telemetry.history.headlines import Figure, Headline
from telemetry.report.html.help import question
from telemetry.report.series import between
from telemetry.wire.gates import RUN_EXIT_CODES, worst
from telemetry.wire.report import Report

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
