"""The report as one HTML file: the verdict, then the command, then all figures."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from telemetry import formatting
from telemetry.formatting import printable
from telemetry.report import accounting, content
from telemetry.report import series as measured
from telemetry.report.backends import backends
from telemetry.report.gates import gate_lines
from telemetry.report.html.backends import backends_body, backends_link
from telemetry.report.html.data import embedded
from telemetry.report.html.page import asset, page
from telemetry.report.html.requests import requests_section
from telemetry.report.html.sections import block, table
from telemetry.report.html.series import series_data
from telemetry.report.html.steps import steps_section
from telemetry.report.html.stragglers import stragglers_section
from telemetry.report.nodes import nodes, not_well
from telemetry.report.requests import late
from telemetry.report.sources import sources_sections
from telemetry.report.spans import spans
from telemetry.report.table import Section
from telemetry.wire.gates import GateResult, worst
from telemetry.wire.report import Report

_VERDICTS: Final = {
    "complete": ("good", "✓"),
    "lossy": ("warn", "!"),
    "incomplete": ("warn", "!"),
    "interrupted": ("bad", "✕"),
}
_GOING_ON: Final = ("calm", "…")
_OUTCOMES: Final = {
    "pass": ("good", "✓ pass"),
    "fail": ("bad", "✕ fail"),
    "inconclusive": ("warn", "? inconclusive"),
}
_WITHOUT_SCRIPT: Final = 200
"""Rows of the table of series for browsers without scripts."""


def render_html(report: Report) -> str:
    """Return a whole document, made by `page`. Details of a series are drawn when it is opened."""
    snapshot = report.snapshot
    sections = list(_sections(report))
    body = "\n".join((_head(report), _links(report, sections), *(html for _, _, html in sections)))
    return page(f"{snapshot.name} – telemetry report", body, asset("report.js"))


def _head(report: Report) -> str:
    kind, mark = _VERDICTS.get(report.verdict, _GOING_ON)
    said = report.headline().removeprefix(f"{report.verdict}: {report.snapshot.name}, ")
    apart = {_part(report), content.gates_words(report)}
    facts = "".join(f'<p class="soft">{escape(fact)}</p>' for fact in content.facts(report) if fact not in apart)
    part = f'<p class="banner calm">{escape(_part(report))}</p>' if report.time_range is not None else ""
    return (
        f"<h1>{escape(printable(report.snapshot.name))}</h1>"
        f'<p class="banner {kind}" id="verdict"><span aria-hidden="true">{mark}</span> '
        f"<strong>{escape(report.verdict)}</strong> · {escape(printable(said))}</p>"
        f"{_gates_banner(report)}{facts}{part}"
    )


def _gates_banner(report: Report) -> str:
    """Return the banner of gates, as prominent as the verdict: a complete result may still fail a gate."""
    if not report.gates:
        return ""
    kind, said = _OUTCOMES[worst(report.gates)]
    mark = said.partition(" ")[0]
    words = escape(content.gates_words(report))
    return f'<p class="banner {kind}" id="gates-verdict"><span aria-hidden="true">{mark}</span> {words}</p>'


def _part(report: Report) -> str:
    return content.time_range_words(report.time_range) if report.time_range is not None else ""


def _sections(report: Report) -> Iterator[tuple[str, Section, str]]:
    """Yield name, section and HTML of each part that has content."""
    snapshot = report.snapshot
    command, series = content.command(snapshot.command), measured.series(report, requests=True)
    requests, drawn = requests_section(report)
    steps, steps_body = steps_section(report)
    slow, heat_map = stragglers_section(report)
    bodies = {
        "command": _command(command),
        "gates": _gates(report.gates),
        "requests": drawn,
        "steps": steps_body,
        "stragglers": heat_map,
        "backends": backends_body(report),
        "series": _series(report, series),
    }
    sources = [(f"sources-{at}", section) for at, section in enumerate(sources_sections(report))]
    for name, section in (
        ("command", command),
        ("gates", gate_lines(report.gates)),
        ("requests", requests),
        ("steps", steps),
        ("stragglers", slow),
        ("spans", spans(report)),
        ("series", series),
        ("counters", measured.counters(snapshot)),
        ("gauges", measured.gauges(snapshot)),
        ("progress", content.progress(snapshot)),
        ("marks", content.marks(snapshot)),
        ("losses", accounting.losses(snapshot)),
        ("nodes", nodes(report)),
        ("producers", accounting.producers(report)),
        ("backends", backends(report)),
        *sources,
        ("cost", content.cost(snapshot)),
        ("warnings", content.warnings(report)),
        ("parameters", content.params(snapshot)),
        ("files", content.files(snapshot)),
    ):
        if section:
            yield name, section, block(section, name, bodies.get(name, ""))


def _links(report: Report, sections: list[tuple[str, Section, str]]) -> str:
    """Return links to each section, with counts of possible problems."""
    ill = len(not_well(report)) + report.snapshot.missing_nodes
    named = sum(len(found.slow) for found in report.stragglers)
    worst = [gate.outcome for gate in report.gates if gate.outcome != "pass"]
    numbers = {
        "gates": (
            f" {len(worst)} of {len(report.gates)} not passed" if worst else "",
            "bad" if "fail" in worst else "warn",
        ),
        "warnings": (
            f" {formatting.count(sum(len(one.lines) for name, one, _ in sections if name == 'warnings'))}",
            "warn",
        ),
        "requests": (" went out late" if any(late(report)) else "", "warn"),
        "stragglers": (f" {formatting.count(named)}" if named else "", "warn"),
        "losses": ("", "warn"),
        "nodes": (f" {formatting.count(ill)} not complete" if ill else "", "warn"),
        "backends": backends_link(report),
    }
    links = []
    for name, section, _ in sections:
        said, kind = numbers.get(name, ("", ""))
        marked = f' class="{kind}"' if kind and (said or name in ("losses", "backends")) else ""
        title = section.title.partition(",")[0]
        links.append(f'<a href="#{name}"{marked}>{escape(title)}{said}</a>')
    return f'<nav aria-label="Sections">{"".join(links)}</nav>'


def _command(section: Section) -> str:
    if not section:
        return ""
    line, facts = section.lines
    return f"<pre>{escape(line)}</pre><p>{escape(facts)}</p>"


def _gates(gates: list[GateResult]) -> str:
    if not gates:
        return ""
    rows = []
    for gate in gates:
        kind, said = _OUTCOMES[gate.outcome]
        rows.append(
            f"<tr><td><code>{escape(printable(gate.expression))}</code></td>"
            f'<td class="left"><span class="badge {kind}">{said}</span></td>'
            f'<td class="left">{escape(printable(gate.reason))}</td></tr>'
        )
    heads = (
        '<th scope="col">gate</th><th scope="col" class="left">outcome</th><th scope="col" class="left">why</th>'
    )
    return (
        f'<div class="scroll"><table class="gates"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _series(report: Report, section: Section) -> str:
    if section.table is None or not section.table.rows:
        return ""
    return (
        f'<div id="series-table"></div>{embedded(series_data(report), "series-data")}'
        f"<noscript>{table(section.table, _WITHOUT_SCRIPT)}</noscript>"
    )
