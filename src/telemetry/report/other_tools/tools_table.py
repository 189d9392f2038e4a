"""One table of many tools: what each says of the same load, the same by our definitions, and why they differ."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from telemetry.common.formatting import NOTHING, listed, number_of, percent, printable
from telemetry.errors import UsageError
from telemetry.report import markdown, text
from telemetry.report.other_tools import own_definitions
from telemetry.report.other_tools.definitions import (
    ASPECTS,
    DEFINITIONS,
    FIGURES,
    NOUNS,
    OF_ASPECT,
    OURS,
    Definition,
)
from telemetry.report.other_tools.differences import shown
from telemetry.report.other_tools.recompute import by_its_definitions
from telemetry.report.other_tools.selection import select
from telemetry.report.table import DOT, ReportTable, Section, TableColumn, without_empty_columns
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.report import Report

_OWN: Final = "telemetry"
_CLOSE: Final = 0.05
"""Relative difference up to which two tools agree about a load: two runs of one tool differ as much."""


@dataclass(frozen=True)
class ToolColumn:
    """One tool: the figures that it states, and ours of the requests that it recorded."""

    title: str
    tool: str
    definition: Definition | None
    """None: the definitions of the tool are not known."""
    stated: dict[str, float]
    ours: dict[str, float]
    unknown: Sequence[str]
    """What the file of the tool lacks."""


def tool_column(report: Report, directory: RunDirectory) -> ToolColumn:
    """Return the column of a run. Blocks on the disk."""
    origin = report.imported
    try:
        answers = select(report, directory, needs_output=False).answers
        own = own_definitions.figures(dataclasses.replace(answers, measured_ns=None), {})
    except UsageError:  # a summary has no requests, but it may have their durations
        own = _of_durations(report)
    has_tokens = bool(own.get("output_tokens"))
    ours = {
        key: float(value)
        for key, value in own.items()
        if key in FIGURES and value is not None and (has_tokens or "tokens" not in key)
    }
    if origin is None:
        return ToolColumn(_OWN, _OWN, OURS, ours, ours, [])
    definition = DEFINITIONS.get(origin.tool)
    by_name = dict(by_its_definitions(report, directory, origin)) if definition else {}
    by_name |= {figure.name: figure.value for figure in origin.stated}
    stated = {}
    for key, (name, factor) in (definition.names if definition else {}).items():
        if isinstance(value := by_name.get(name), int | float):
            stated[key] = value * factor
    name = " ".join(filter(None, (origin.tool, origin.version)))
    return ToolColumn(name, origin.tool, definition, stated, ours, origin.unknown)


def render_tools(
    columns: Sequence[ToolColumn], width: int, *, is_markdown: bool = False, color: bool = False
) -> str:
    """Return the page of several tools about one load, as text or Markdown."""
    names = listed([printable(of.title) for of in columns], 8)
    head = [f"one load by {number_of(len(columns), 'tool')}: {names}", *_verdict(columns)]
    sections = [_figures(columns), _differences(columns), _definitions(columns), _unknown(columns)]
    lines = [f"# {head[0]}", "", *(f"* {line}" for line in head[1:])] if is_markdown else head
    for section in filter(None, sections):
        if is_markdown:
            lines += ["", f"## {section.title}", "", *markdown.render_section(section)]
        else:
            lines += ["", section.title, *text.render_section(section, width, color=color)]
    return "\n".join(lines) + "\n"


def tools_json(columns: Sequence[ToolColumn]) -> dict[str, Any]:
    """Return the figures and the reasons as plain values."""
    return {
        "tools": [
            {
                "tool": of.title,
                "stated": of.stated,
                "ours": of.ours,
                "definitions": {} if of.definition is None else _aspects(of.definition),
                "unknown": list(of.unknown),
            }
            for of in columns
        ],
        "differences": [
            {"figure": title, "stated": stated, "ours": ours, "why": list(why)}
            for title, stated, ours, why in _spreads(columns)
        ],
    }


def _of_durations(report: Report) -> dict[str, float | None]:
    """Return figures of the durations of a load that has no single requests; empty unless there is one series."""
    series = [stat for stat in report.snapshot.series if stat.name.endswith(".duration") and stat.count]
    if len(series) != 1 or series[0].unit != "ms":
        return {}
    stat = series[0]
    percentiles = {f"latency_p{key}": value for key, value in stat.percentiles.items()}
    return {"latency_mean": stat.mean, "latency_max": stat.max, **percentiles}


def with_different_titles(columns: Sequence[ToolColumn], names: Sequence[str]) -> list[ToolColumn]:
    """Return the columns, with their `names` in the titles that several have."""
    titles = [of.title for of in columns]
    return [
        dataclasses.replace(of, title=f"{of.title} {name}") if titles.count(of.title) > 1 else of
        for of, name in zip(columns, names, strict=True)
    ]


def _verdict(columns: Sequence[ToolColumn]) -> Iterator[str]:
    spreads = list(_spreads(columns))
    defined = [title for title, stated, ours, _ in spreads if stated > 1 + _CLOSE >= ours > 0]
    measured = [title for title, _, ours, _ in spreads if ours > 1 + _CLOSE]
    if defined:
        yield f"differ by definition alone: {listed(defined, 6)}"
    if measured:
        yield f"differ by our definitions, too, so the tools measured different things: {listed(measured, 6)}"
    if not defined and not measured and spreads:
        yield f"no figure differs by more than {percent(_CLOSE)}"


def _figures(columns: Sequence[ToolColumn]) -> Section:
    heads = [TableColumn("")]
    for of in columns:
        heads += [TableColumn(printable(of.title), strong=True), TableColumn("ours")]
    rows = [
        [title, *(cell for of in columns for cell in (_cell(of.stated.get(key)), _cell(of.ours.get(key))))]
        for key, title in FIGURES.items()
        if any(key in of.stated or key in of.ours for of in columns)
    ]
    notes = [
        "the figure that a tool states, or computes from these requests, and beside it ours from the same requests"
    ]
    return Section("Figures", table=without_empty_columns(ReportTable(heads, rows)), notes=notes)


def _cell(value: float | None) -> str:
    return NOTHING if value is None else shown(value)


def _differences(columns: Sequence[ToolColumn]) -> Section:
    heads = [
        TableColumn(""),
        TableColumn("stated"),
        TableColumn("ours"),
        TableColumn("why", right=False, wraps=True),
    ]
    rows = [
        [title, _times(stated), _times(ours), DOT.join(why)]
        for title, stated, ours, why in _spreads(columns)
        if max(stated, ours) > 1 + _CLOSE
    ]
    return Section("Differences: largest ÷ smallest", table=ReportTable(heads, rows))


def _times(factor: float) -> str:
    return f"×{factor:.2f}" if factor else NOTHING


def _spreads(columns: Sequence[ToolColumn]) -> Iterator[tuple[str, float, float, Sequence[str]]]:
    """Yield title, largest ÷ smallest as stated and by our definitions (0: fewer than two), and the reasons."""
    for key, title in FIGURES.items():
        stated = _factor([of.stated[key] for of in columns if key in of.stated])
        ours = _factor([of.ours[key] for of in columns if key in of.ours])
        if stated or ours:
            yield title, stated, ours, list(_reasons(key, [of for of in columns if key in of.stated]))


def _factor(values: Sequence[float]) -> float:
    least = min(values, default=0.0)
    return max(values) / least if len(values) > 1 and least > 0 else 0.0


def _reasons(key: str, columns: Sequence[ToolColumn]) -> Iterator[str]:
    """Yield in what the definitions of a figure differ between the tools that state it."""
    for aspect, beginnings in OF_ASPECT.items():
        texts = {
            of.title: str(getattr(of.definition, aspect))
            for of in columns
            if of.definition is not None and key.startswith(beginnings)
        }
        if len(set(texts.values())) > 1:
            yield NOUNS[aspect]


def _definitions(columns: Sequence[ToolColumn]) -> Section:
    """Return what each tool means, those with the same meaning together."""
    rows = []
    for aspect, title in ASPECTS.items():
        tools_by_text: dict[str, list[str]] = {}
        for of in columns:
            if of.definition is not None and (words := getattr(of.definition, aspect)):
                tools_by_text.setdefault(words, []).append(printable(of.tool))
        texts = [f"{words} ({', '.join(dict.fromkeys(tools))})" for words, tools in tools_by_text.items()]
        rows.append([title, DOT.join(texts)])
    notes = [f"the definitions of {printable(of.title)} are not known" for of in columns if of.definition is None]
    heads = [TableColumn(""), TableColumn("", right=False, wraps=True)]
    return Section("Definitions", table=ReportTable(heads, [row for row in rows if row[1]]), notes=notes)


def _aspects(definition: Definition) -> dict[str, str]:
    return {aspect: words for aspect in ASPECTS if (words := getattr(definition, aspect))}


def _unknown(columns: Sequence[ToolColumn]) -> Section:
    return Section(
        "Unknown", [f"{printable(of.title)}: {printable(what)}" for of in columns for what in of.unknown]
    )
