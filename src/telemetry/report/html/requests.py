"""Requests on a page: a bar of outcomes under each kind and window, and the tables of the report."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from typing import Final

from telemetry.common import formatting
from telemetry.common.formatting import number_of, printable
from telemetry.history.request_model import Number, RequestCounts, request_counts
from telemetry.report.html.data import DIGITS_READ, column, embedded
from telemetry.report.html.help import question
from telemetry.report.html.sections import content, without_bounds
from telemetry.report.request_summary import MEAN_REQUEST, phases, sections_of
from telemetry.report.requests import is_part, outcomes
from telemetry.report.table import DOT, ReportTable, Section
from telemetry.wire.report import Report

_BY_SLOT: Final = "Requests by slot"
_TONES: Final = {"queue": "c7", "first token": "c0", "first byte": "c0", "receiving": "c2"}
"""Colours of the phases of a request, those of `slots.js` too."""
_WIDTH: Final = 1_000.0
_LEAST: Final = 4.0
"""Least width of a share above zero."""
_KINDS: Final = {"completed": "good", "failed": "bad", "expired": "warn", "in flight": "calm"}


def requests_section(report: Report) -> tuple[Section, str]:
    """Return all requests as one section of the page, and its HTML; empty without requests."""
    sections = sections_of(report, full=True)
    blocks = [html for section, of in sections if section for html in _block(report, section, of)]
    return Section("Requests", ["…"] if blocks else []), "".join(blocks)


def slots_section(report: Report) -> tuple[Section, str]:
    """Return the requests one by one, as bars in slots that a script draws; empty without a request log."""
    slots = report.pictures.slots if report.pictures is not None else None
    if slots is None or not slots.slots:
        return Section(_BY_SLOT), ""
    shown = len(slots.slots)
    coverage = ""
    if shown < slots.total:
        ends = " to ".join(formatting.duration_s(at) for at in (min(slots.begin_s), max(slots.begin_s)))
        share = f"{formatting.count(shown)} of {number_of(slots.total, 'request')}"
        coverage = f"{share}: those of {ends}, around the most requests in flight"
    has_tokens = any(kind.has_tokens for kind in request_counts(report.snapshot))
    data = {
        "title": "Each request is a bar",
        "axis": [min(slots.begin_s), max(slots.end_s)]
        if coverage
        else [min(0.0, *slots.begin_s), max(slots.end_s)],
        "phases": [
            ("queue", "waiting to be issued"),
            ("first", f"to the first {'token' if has_tokens else 'byte'}"),
            ("rest", "decoding" if has_tokens else "receiving"),
            ("whole", "to the answer"),
            ("failed", "failed"),
        ],
        "slots": slots.slots,
        "begin": column(slots.begin_s, DIGITS_READ),
        "issued": column(slots.issued_s, DIGITS_READ),
        "first": column(slots.first_s, DIGITS_READ),
        "end": column(slots.end_s, DIGITS_READ),
        "reasons": list(map(printable, slots.reasons)),
    }
    waits = any(issued > begin for begin, issued in zip(slots.begin_s, slots.issued_s, strict=True))
    notes = [
        coverage,
        "requests that wait to be issued have slots, too, and are not in flight yet" if waits else "",
    ]
    note = "".join(f'<p class="soft">{escape(text)}</p>' for text in notes if text)
    return Section(
        _BY_SLOT, ["…"]
    ), f'<div id="slots-chart" class="chart"></div>{note}{embedded(data, "slots-data")}'


def _block(report: Report, section: Section, of: RequestCounts | None) -> Iterator[str]:
    if section.title:
        yield f"<h3>{escape(section.title.removeprefix('Requests: '))}</h3>"
    if of is None:
        yield _narrow(section)
        return
    shown = [(what, number, text) for what, number, text in outcomes(of, part=is_part(report)) if number > 0]
    keys = "".join(
        f'<span class="key {_KINDS[what]}-key">{escape(printable(text))}</span> ' for what, _, text in shown
    )
    yield f'<p class="outcomes"><span>{formatting.count(of.issued)} issued →</span> {keys}</p>'
    yield _bar([(f"{_KINDS[what]}-key", number) for what, number, _ in shown], section.lines[0])
    mean, rest = _mean_request(of, section)
    yield mean
    yield _narrow(replace(rest, lines=section.lines[1:]))


def _mean_request(of: RequestCounts, section: Section) -> tuple[str, Section]:
    """Return the phases of a mean request as a bar, and the section without their row."""
    rows = section.table.rows if section.table is not None else []
    mean_row = next((row for row in rows if row[0] == MEAN_REQUEST), None)
    if section.table is None or mean_row is None:
        return "", section
    name, total, parts = mean_row
    found_phases = phases(of)
    times, tones = (
        [phase.mean_ns for phase in found_phases],
        [_TONES.get(phase.name, "c0") for phase in found_phases],
    )
    keys = "".join(
        f'<span class="key {tone}">{escape(part)} ({time / sum(times) * 100:.0f}\u00a0%)</span> '
        for tone, part, time in zip(tones, parts.split(DOT), times, strict=True)
    )
    bar = _bar(list(zip(tones, times, strict=True)), f"{name} {total}: {parts}")
    html = f'<p class="outcomes"><span>{escape(f"{name} {total}")}{question(name)} →</span> {keys}</p>{bar}'
    return html, replace(
        section, table=ReportTable(section.table.columns, [row for row in rows if row is not mean_row])
    )


def _narrow(section: Section) -> str:
    """Return the section without columns of bounds: the table of series has them."""
    if section.table is None:
        return content(section)
    return content(replace(section, table=without_bounds(section.table)), explained=True)


def _bar(numbers: list[tuple[str, Number]], label: str) -> str:
    """Return a bar with a visible share for each number, by its class; empty if the sum exceeds a float."""
    try:
        total = math.fsum(number for _, number in numbers)
    except OverflowError:
        return ""
    if not 0.0 < total < math.inf:
        return ""
    rects, at = [], 0.0
    for kind, number in numbers:
        width = max(number / total * _WIDTH, _LEAST)
        rects.append(f'<rect class="{kind}" x="{at:.1f}" width="{width:.1f}" height="10"/>')
        at += width
    return (
        f'<svg class="outcome" viewBox="0 0 {at:.1f} 10" preserveAspectRatio="none" role="img"'
        f' aria-label="{escape(label)}">{"".join(rects)}</svg>'
    )
