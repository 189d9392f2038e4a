"""A comparison as one HTML file: the verdict first, all figures, then the percentile curves of both sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from telemetry.common import formatting, wording
from telemetry.common.formatting import number_of, printable
from telemetry.judge.compare import VERDICT_WORDS, Comparison, Curve, MetricResult, SideRun, Verdict, largest
from telemetry.report import comparison as compared
from telemetry.report.comparison_overlays import overlay_sections, script
from telemetry.report.html import curves, page
from telemetry.report.html.help import question
from telemetry.report.html.sections import block, breakable, content, table
from telemetry.report.table import ReportTable, Section, TableColumn

_MARKS: Final[dict[Verdict, tuple[str, str]]] = {
    "worse": ("bad", "✕"),
    "better": ("good", "✓"),
    "changed": ("warn", "≠"),
    "differs": ("warn", "≠"),
    "cannot_tell": ("warn", "?"),
    "not_shown": ("calm", "≈"),
    "same": ("calm", "="),
    "left_out": ("calm", "–"),
}
_TILES: Final[dict[Verdict, str]] = {"worse": "bad-tile", "better": "good-tile"}
_FIRST: Final = 12
"""Rows of a table above the charts: those with the largest differences. The others follow on request."""
_CURVES_SHOWN: Final = 100
"""Charts on the page: those of figures that differ come first."""


def comparison_html(comparison: Comparison) -> str:
    """A whole document, as `page` makes it: one file, nothing from elsewhere."""
    kind, mark = _MARKS[comparison.verdict]
    word, headline = VERDICT_WORDS[comparison.verdict], compared.headline(comparison)
    counted = comparison.headline().removeprefix(f"{word}: ")
    lead = "" if headline == comparison.headline() else f"<strong>{escape(printable(headline))}</strong><br>"
    text = (
        f"<small>{escape(comparison.headline())}</small>"
        if lead
        else f"<strong>{escape(word)}</strong> · {escape(counted)}"
    )
    head = (
        f"<h1>{escape(compared.title(comparison))}</h1>"
        f'<p class="banner {kind}" id="verdict"><span aria-hidden="true">{mark}</span> {lead}{text}</p>'
        f"{_concerns(comparison)}{_largest(comparison)}"
    )
    lines = [*compared.outside_line(comparison), *compared.settings_line(comparison)]
    differ = "".join(f"<p>{escape(line)}</p>" for line in lines)
    facts = "".join(f'<p class="soft">{escape(fact)}</p>' for fact in compared.comparison_facts(comparison))
    notes = block(Section("Notes", [printable(note) for note in comparison.notes]), "notes")
    body = "\n".join((head, differ, facts, notes, *_sections(comparison)))
    code = script() if comparison.overlays else ""
    return page(f"{compared.title(comparison)} – telemetry comparison", body, code)


def _sections(comparison: Comparison) -> Iterator[str]:
    judged = [metric for metric in comparison.metrics if metric.verdict not in ("cannot_tell", "left_out")]
    figures = [metric for metric in judged if metric.before_within is None]
    yield block(Section("Figures", notes=list(compared.reasons(figures))), "figures", _figures(figures))
    for number, (heading, metrics) in enumerate(compared.two_runs(comparison), 1):
        name = f"information-{number}" if number > 1 else "information"
        yield block(Section(heading), name, table(compared.information(metrics), first=_FIRST))
    for section, name, body in overlay_sections(comparison):
        yield block(section, name, body)
    yield _folded(comparison)
    yield block(compared.left_out(comparison), "left-out")
    yield block(Section("Percentiles"), "curves", _charts(comparison))
    yield block(Section("Runs"), "runs", _runs(comparison))


def _folded(comparison: Comparison) -> str:
    """Return the figures that can't be told, behind a line that names the largest differences."""
    untold = [metric for metric in comparison.metrics if metric.verdict == "cannot_tell"]
    parts = [content(section, explained=True) for section in compared.obstacles_of(untold) if section]
    if not parts:
        return ""
    summary = "; ".join(
        [f"{number_of(len(untold), 'figure')} that can't be told", *compared.largest_untold(comparison)]
    )
    body = f"<details><summary>{escape(summary)}</summary>{''.join(parts)}</details>"
    return block(Section("Cannot tell", ["…"]), "untold", body)


def _concerns(comparison: Comparison) -> str:
    """Return the banner of values that were not finite."""
    lines = "<br>".join(escape(printable(line)) for line in comparison.concerns)
    mark = '<span aria-hidden="true">!</span>'
    return f'<p class="banner warn" id="concerns">{mark} {lines}</p>' if lines else ""


def _largest(comparison: Comparison) -> str:
    """Return tiles with the largest differences, coloured by the verdict on each."""
    tiles = []
    for metric in largest(comparison):
        name = compared.figure_name(metric)
        kind = f" {_TILES[metric.verdict]}" if metric.verdict in _TILES else ""
        tiles.append(
            f'<div class="tile{kind}"><dt><bdi>{escape(name)}</bdi>{question(name)}</dt>'
            f'<dd class="figure">{escape(compared.change(metric))}</dd>'
            f'<dd class="note">{escape(compared.amount(metric, metric.before))} → '
            f"{escape(compared.amount(metric, metric.after))}</dd></div>"
        )
    if not tiles:
        return ""
    return f'<p class="subject">Largest differences</p><dl class="tiles">{"".join(tiles)}</dl>'


def _figures(metrics: Sequence[MetricResult]) -> str:
    """Table of all figures with an interval; figures that differ come first."""
    if not metrics:
        return ""
    noisy = any(metric.noise for metric in metrics)
    titles = [
        ("figure", ""),
        ("verdict", ' class="left"'),
        ("before", ""),
        ("after", ""),
        ("difference", ""),
        ("interval", ""),
        *([("noise", "")] if noisy else []),
    ]
    heads = "".join(f'<th scope="col"{kind}>{title}</th>' for title, kind in titles)
    rows = "".join(_row(metric, noisy=noisy) for metric in metrics)
    head = f"<thead><tr>{heads}</tr></thead>"
    return f'<div class="scroll"><table data-first="{_FIRST}">{head}<tbody>{rows}</tbody></table></div>'


def _row(metric: MetricResult, *, noisy: bool) -> str:
    kind, mark = _MARKS[metric.verdict]
    cells = [
        compared.amount(metric, metric.before),
        compared.amount(metric, metric.after),
        compared.change(metric),
        compared.interval(metric),
    ]
    if noisy:
        cells.append(str(metric.noise or ""))
    badge = f'<span class="badge {kind}">{mark}&nbsp;{escape(VERDICT_WORDS[metric.verdict])}</span>'
    numbers = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    name = breakable(escape(compared.figure_name(metric)))
    return f'<tr><th scope="row">{name}</th><td class="left">{badge}</td>{numbers}</tr>'


def _charts(comparison: Comparison) -> str:
    differ = {
        (metric.name, tuple(sorted(metric.labels.items())))
        for metric in comparison.metrics
        if metric.of == "series" and metric.verdict in ("worse", "better", "changed", "differs")
    }
    ordered = sorted(
        comparison.curves, key=lambda curve: (curve.name, tuple(sorted(curve.labels.items()))) not in differ
    )
    charts = [_chart(curve, comparison) for curve in ordered[:_CURVES_SHOWN]]
    hidden = len(ordered) - len(charts)
    left = number_of(hidden, "more series is", "more series are")
    more = f'<p class="soft">{left} in the JSON form.</p>' if hidden else ""
    return "".join(charts) + more


def _chart(curve: Curve, comparison: Comparison) -> str:
    lines = [
        (_side("before", comparison.before), curve.before),
        (_side("after", comparison.after), curve.after),
    ]
    return curves(wording.instrument(curve.name, curve.labels), lines, curve.unit)


def _side(side: str, runs: Sequence[SideRun]) -> str:
    return side if len(runs) == 1 else f"{side}, median of {len(runs):,} runs"


def _runs(comparison: Comparison) -> str:
    heads = [
        TableColumn("run"),
        TableColumn("side", right=False),
        TableColumn("name", right=False),
        TableColumn("started", right=False),
        TableColumn("took"),
        TableColumn("result", right=False),
    ]
    rows = [
        [
            printable(run.run_id),
            side,
            printable(run.name),
            formatting.timestamp(run.started_ns) if run.started_ns else formatting.NOTHING,
            formatting.duration_s(run.seconds),
            _result(run),
        ]
        for side, runs in (("before", comparison.before), ("after", comparison.after))
        for run in runs
    ]
    return table(ReportTable(heads, rows))


def _result(run: SideRun) -> str:
    if run.signal:
        return printable(f"{run.completeness}, ended by {run.signal}")
    return run.completeness if run.exit_code in (0, None) else f"{run.completeness}, exit code {run.exit_code}"
