"""The report as one HTML file: the verdict, the main figures, pictures, then tables of all figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape
from statistics import fmean
from typing import Any, Final, NamedTuple

from telemetry.common import formatting, wording
from telemetry.common.formatting import number_of, printable
from telemetry.history.span_model import SpanTimes, span_times
from telemetry.report import accounting, brief, content
from telemetry.report import series as measured
from telemetry.report.backends import backends, state
from telemetry.report.brief import machine_words, masked
from telemetry.report.distributions import distributions
from telemetry.report.gates import gate_lines
from telemetry.report.html.data import Column, column, embedded
from telemetry.report.html.grids import counters_data, gauges_data, held, over_time
from telemetry.report.html.head import OUTCOMES, head, tiles
from telemetry.report.html.help import explanation
from telemetry.report.html.main_series import LINES, NameGroup, main_groups
from telemetry.report.html.over_time import TimeCharts, identity
from telemetry.report.html.page import asset, page
from telemetry.report.html.requests import requests_section, slots_section
from telemetry.report.html.sections import block, table, without_bounds
from telemetry.report.html.sections import content as below_title
from telemetry.report.html.series import series_data
from telemetry.report.html.steps import steps_section
from telemetry.report.html.stragglers import stragglers_section
from telemetry.report.imported import imported
from telemetry.report.nodes import nodes, not_well
from telemetry.report.over_time import busiest
from telemetry.report.requests import late
from telemetry.report.sources import sources_sections
from telemetry.report.spans import spans
from telemetry.report.table import DOT, Section
from telemetry.wire.collectors import is_of_machine
from telemetry.wire.gates import GateResult
from telemetry.wire.pictures import GaugeOverTime
from telemetry.wire.report import Report
from telemetry.wire.snapshot import BACKEND_ENDED
from telemetry.wire.spans import UNIT

_GROUPS: Final = {"host": "Host", "gpu": "GPU", "container": "Container", "process": "Processes"}
_TRANSFER: Final = "B/s"
_ALIKE: Final = frozenset({"node", "gpu"})
"""Labels for machines and devices that do the same: a mean over them is a figure. One over other labels is none."""
Item = dict[str, Any]
_Key = tuple[str, str, str]
"""Prefix, first word, and unit: gauges that share them are lines of one chart."""
_BARS: Final = 20
"""Largest number of bars: the names with the most self time."""
_WIDTH: Final = 1_000
SCRIPTS: Final = ("heat_map.js", "slots.js", "grid.js", "shape.js", "series_table.js", "report.js")
"""Scripts of the report, after those of every page."""
_WITHOUT_SCRIPT: Final = 200
"""Rows of the table of series for browsers without scripts."""
_DRAWN: Final = ("over-time", "slots", "more-over-time", "distribution")
"""Sections that scripts fill. Those without a table for browsers without scripts are hidden there."""
_OF_REQUESTS: Final = (
    *("over-time", "requests", "slots", "more-over-time", "distribution", "series", "histograms"),
    *("counters", "gauges", "steps", "spans", "stragglers", "machine"),
)
_ORDER: Final = {
    "training": (
        *("steps", "stragglers", "over-time", "series", "spans", "more-over-time", "distribution", "histograms"),
        *("gauges", "counters", "requests", "slots", "machine"),
    ),
    "llm": _OF_REQUESTS,
    "load": _OF_REQUESTS,
    "metrics": _OF_REQUESTS,
}
"""Sections by flavour of the run: the main chart, the table of percentiles, then the other pictures. Sections of
tables follow in a fixed order."""
Part = tuple[str, Section, str]
"""Name, section and HTML of a part of the page."""


def render_html(report: Report) -> str:
    """Return a whole document, made by `page`. Details of a series are drawn when it is opened."""
    heads = content.headlines(report)
    parts = list(_ordered(report, heads[0].flavour if heads else "metrics"))
    top = head(report), tiles(report, heads), _links(report, parts), _run(report)
    body = "\n".join((*top, *(html for _, _, html in parts)))
    return page(f"{report.snapshot.name} – telemetry report", body, "\n".join(map(asset, SCRIPTS)))


def _run(report: Report) -> str:
    """Return the name of the run for the command that reports a time range; empty if it has no time ranges."""
    if not report.final or not report.directory or not report.over_time:
        return ""
    return f'<div id="run" hidden data-run="{escape(printable(brief.run_argument(report.snapshot)))}"></div>'


def _ordered(report: Report, flavour: str) -> Iterator[Part]:
    """Yield the parts that have content, in the order of the flavour, then tables.

    A run that is too short for charts over time has its distribution in their place. Without requests, the table of
    series has their place.
    """
    pictures = {part[0]: part for part in _pictures(report)}
    order = list(_ORDER[flavour])
    for missing, instead in (("over-time", "distribution"), ("requests", "series")):
        if missing not in pictures and order.index(missing) < order.index(instead):
            order.remove(instead)
            order[order.index(missing)] = instead
    yield from (pictures[name] for name in order if name in pictures)
    yield from _tables(report)


def _pictures(report: Report) -> Iterator[Part]:
    groups = main_groups(report)
    requests, requests_html = requests_section(report)
    steps, steps_html = steps_section(report)
    slow, heat_map = stragglers_section(report)
    counters = measured.counters(report.snapshot, measured.part_s(report))
    gauges, machine = measured.gauges(report.snapshot), measured.machine(report.snapshot)
    series = measured.series(report, requests=True)
    bodies = {
        **_over_time(report, groups),
        "series": (series, _series(report, series)),
        "distribution": _distribution(report, groups),
        "requests": (requests, requests_html),
        "slots": slots_section(report),
        "steps": (steps, steps_html),
        "stragglers": (slow, heat_map),
        "spans": (spans(report), spans_body(report)),
        "histograms": _histograms(report),
        "machine": (machine, _machine(report, machine)),
        "counters": (counters, _grid("counters", counters_data(report), counters)),
        "gauges": (gauges, _grid("gauges", gauges_data(report), gauges)),
    }
    for name, (section, body) in bodies.items():
        if section:
            scripted = name in _DRAWN and "<noscript>" not in body
            yield name, section, block(section, name, body, scripted=scripted)


def _histograms(report: Report) -> tuple[Section, str]:
    section = distributions(report)
    return section, table(section.table) if section.table is not None else ""


def _over_time(report: Report, groups: list[NameGroup]) -> dict[str, tuple[Section, str]]:
    """Return the main chart over time, with the data of all, and the place of the others."""
    data = TimeCharts(report).data(groups)
    if data is None:
        return {}
    steps = busiest(report)
    without = f"<noscript>{block(steps)}</noscript>" if steps else ""
    html = f'<div id="time-charts" class="charts"></div>{embedded(data, "pictures-data")}{without}'
    parts = {"over-time": (Section("Over time", ["…"]), html)}
    if len(data["charts"]) > 1:
        more = '<div id="more-charts" class="charts"></div>'
        parts["more-over-time"] = Section("More over time", ["…"]), more
    return parts


def _distribution(report: Report, groups: list[NameGroup]) -> tuple[Section, str]:
    """Return the main distributions; their figures are in the data of the table of series.

    Series whose values are all the same have no shape to draw.
    """
    places = {identity(stat): index for index, stat in enumerate(report.snapshot.series)}
    chosen = [
        {
            "title": group.title,
            "help": explanation(f"{group.title} percentiles bounds"),
            "lines": [
                (name, places[identity(stat)])
                for name, stat in group.lines
                if identity(stat) in places and stat.min != stat.max
            ],
        }
        for group in groups
    ]
    shown = [group for group in chosen if group["lines"]]
    if not shown:
        return Section("Distribution"), ""
    html = f'<div id="distribution-charts"></div>{embedded(shown, "distribution-data")}'
    return Section("Distribution", ["…"]), html


def _grid(name: str, data: dict[str, Any] | None, section: Section) -> str:
    """Return a grid of small charts above the table; empty without charts, for the table alone."""
    if data is None or section.table is None:
        return ""
    return f'<div id="{name}-grid"></div>{embedded(data, f"{name}-data")}{table(section.table)}'


def _machine(report: Report, section: Section) -> str:
    """Return charts and table of the machine behind one line; empty without figures."""
    if section.table is None:
        return ""
    inner = _grid("machine", machine_data(report), section) or table(section.table)
    return _folded(machine_words(report) or "Charts and table of values", inner)


def _folded(line: str, inner: str) -> str:
    """Return a part behind one line, which scripts fold."""
    return f"<details open><summary>{escape(printable(line))}</summary>{inner}</details>"


def _tables(report: Report) -> Iterator[Part]:
    snapshot = report.snapshot
    command, surroundings = content.command(snapshot.command), content.surroundings(snapshot)
    bodies = {
        "environment": _surroundings(report, surroundings),
        "command": command_body(command),
        "gates": gates_body(report.gates),
        "backends": backends_body(report),
    }
    sources = [(f"sources-{at}", section) for at, section in enumerate(sources_sections(report))]
    for name, section in (
        ("gates", gate_lines(report.gates)),
        ("progress", content.progress(snapshot)),
        ("marks", content.marks(snapshot)),
        ("losses", accounting.losses(snapshot)),
        ("warnings", brief.warnings(report, most=_WITHOUT_SCRIPT)),
        ("nodes", nodes(report)),
        ("producers", accounting.producers(report)),
        ("backends", backends(report)),
        *sources,
        ("imported", imported(report)),
        ("parameters", content.params(snapshot)),
        ("environment", replace(surroundings, notes=[])),
        ("masked", masked(snapshot)),
        ("command", command),
        ("cost", content.cost(snapshot)),
        ("files", content.files(snapshot)),
    ):
        if section:
            yield name, section, block(section, name, bodies.get(name, ""))


def _surroundings(report: Report, section: Section) -> str:
    """Return the table of code and software behind one line; empty without values."""
    if section.table is None or not section.table.rows:
        return ""
    code = brief.code(brief.params(report.snapshot.params))
    values = number_of(len(section.table.rows), "value")
    return _folded(DOT.join(filter(None, (code, values))), below_title(section))


def _links(report: Report, parts: list[Part]) -> str:
    """Return links to each section, with counts of possible problems."""
    ill = len(not_well(report)) + report.snapshot.missing_nodes
    slow = sum(len(stragglers.slow) for stragglers in report.stragglers)
    worst = [gate.outcome for gate in report.gates if gate.outcome != "pass"]
    numbers = {
        "gates": (
            f" {len(worst)} of {len(report.gates)} not passed" if worst else "",
            "bad" if "fail" in worst else "warn",
        ),
        "warnings": (
            f" {formatting.count(sum(len(section.lines) for name, section, _ in parts if name == 'warnings'))}",
            "warn",
        ),
        "requests": (" went out late" if any(late(report)) else "", "warn"),
        "stragglers": (f" {formatting.count(slow)}" if slow else "", "warn"),
        "losses": ("", "warn"),
        "nodes": (f" {formatting.count(ill)} not complete" if ill else "", "warn"),
        "backends": backends_link(report),
    }
    links = []
    for name, section, html in parts:
        text, kind = numbers.get(name, ("", ""))
        marked = f' class="{kind}"' if kind and (text or name in ("losses", "backends")) else ""
        hidden = " hidden data-scripted" if html.startswith(f'<section id="{name}" hidden') else ""
        title = section.title.partition(",")[0]
        links.append(f'<a href="#{name}"{marked}{hidden}>{escape(title)}{text}</a>')
    return f'<nav aria-label="Sections">{"".join(links)}</nav>'


def _series(report: Report, section: Section) -> str:
    if section.table is None or not section.table.rows:
        return ""
    return (
        f'<div id="series-table"></div>{embedded(series_data(report), "series-data")}'
        f"<noscript>{table(without_bounds(section.table), _WITHOUT_SCRIPT)}</noscript>"
    )


def backends_body(report: Report) -> str:
    """Return the table; empty without backends."""
    looks = [state(stat, report)[1] for stat in report.snapshot.backends]
    whole = backends(report).table
    return table(whole, badges={1: looks}) if whole is not None else ""


def backends_link(report: Report) -> tuple[str, str]:
    """Return the text beside the link to backends, and its style."""
    missing = sum(stat.state in ("undelivered", "failed") for stat in report.snapshot.backends)
    if missing:
        return f" {missing} not delivered", "bad"
    unsure = any(stat.dropped or stat.state not in BACKEND_ENDED for stat in report.snapshot.backends)
    return ("", "warn") if unsure and report.final else ("", "")


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
        kind, label = OUTCOMES[gate.outcome]
        rows.append(
            f"<tr><td><code>{escape(printable(gate.expression))}</code></td>"
            f'<td class="left"><span class="badge {kind}">{label}</span></td>'
            f'<td class="left">{escape(wording.gate_reason(gate))}</td></tr>'
        )
    heads = (
        '<th scope="col">gate</th><th scope="col" class="left">outcome</th><th scope="col" class="left">why</th>'
    )
    return (
        f'<div class="scroll"><table class="gates"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def spans_body(report: Report) -> str:
    """Return bars and table; empty without spans."""
    times = [span for span in span_times(report.snapshot) if span.share is not None][:_BARS]
    most = max((span.share or 0.0 for span in times), default=0.0)
    rows = "".join(_row(span, most) for span in times)
    bars = f'<table class="shares"><tbody>{rows}</tbody></table>' if most > 0.0 else ""
    section = spans(report)
    return f"{bars}{table(section.table)}" if section.table is not None else ""


def _row(span: SpanTimes, most: float) -> str:
    share = span.share or 0.0
    return (
        f'<tr><th scope="row"><bdi>{escape(printable(span.name))}</bdi></th>'
        f"<td>{escape(formatting.quantity(span.self_ms, UNIT))}</td><td>{escape(formatting.percent(share))}</td>"
        f'<td class="share"><svg viewBox="0 0 {_WIDTH} 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="c0 bar" width="{share / most * _WIDTH:.1f}" height="10"/></svg></td></tr>'
    )


def machine_data(report: Report) -> dict[str, Any] | None:
    """Return the charts; None without such gauges."""
    gauges = report.pictures.gauges if report.pictures else []
    charts: dict[_Key, list[GaugeOverTime]] = {}
    for gauge in gauges:
        if is_of_machine(gauge.name) and any(value is not None for value in gauge.values):
            charts.setdefault(_key(gauge), []).append(gauge)
    order = list(_GROUPS)
    items = [_item(key, of) for key, of in sorted(charts.items(), key=lambda item: order.index(item[0][0]))]
    data = over_time(report, items, "charts")
    return None if data is None else data | {"held": True, "size": "small"}


def _key(gauge: GaugeOverTime) -> _Key:
    prefix, _, rest = gauge.name.partition(".")
    if prefix == "gpu":
        return prefix, rest, gauge.unit
    if prefix == "process" and gauge.unit == _TRANSFER:
        return prefix, "disk", gauge.unit
    stem = rest.partition("_")[0] if prefix != "process" else rest
    return prefix, stem, gauge.unit


def _item(key: _Key, of: Sequence[GaugeOverTime]) -> Item:
    prefix, stem, unit = key
    name = of[0].name if len({gauge.name for gauge in of}) == 1 else f"{prefix}.{stem}"
    item: Item = {"name": wording.instrument(name, {}, unit), "group": _GROUPS[prefix], "unit": printable(unit)}
    if len(of) == 1:
        values = held(of[0].values)
        numbers = _known(values)
        facts = [("mean", formatting.quantity(fmean(numbers), unit))]
        if min(numbers) < max(numbers):
            facts.append(("max", formatting.quantity(max(numbers), unit)))
        return item | {"lines": [{"name": "", "values": column(values)}], "facts": facts}
    groups = _alike(of) if len(of) > LINES else [[gauge] for gauge in of]
    folds = [_Fold.of(group) for group in groups]
    size = max(len(group) for group in groups)
    mean = f"mean of {size}" if size > 1 else "mean"
    if len(folds) == 1:
        [fold] = folds
        line = {"name": "", "values": column(fold.mean), "low": column(fold.low), "high": column(fold.high)}
        return item | {"lines": [line], "facts": [(mean, formatting.quantity(fold.whole, unit))]}
    largest = sorted(range(len(folds)), key=lambda index: -folds[index].whole)[:LINES]
    lines = [
        {
            "name": _name_of(fold.gauge, stem, [other.gauge for other in folds]),
            "values": column(fold.mean),
            "whole": formatting.quantity(fold.whole, unit),
        }
        for fold in (folds[index] for index in sorted(largest))
    ]
    left_out = [(f"{len(folds) - LINES} smaller", "not drawn")] if len(folds) > LINES else []
    return item | {"lines": lines, "facts": [*left_out, (f"{mean}:", "")]}


def _alike(of: Sequence[GaugeOverTime]) -> list[list[GaugeOverTime]]:
    """Return the gauges of one name, whose labels differ only in machine and device, together."""
    groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[GaugeOverTime]] = {}
    for gauge in of:
        groups.setdefault((gauge.name, tuple(sorted(_kind_labels(gauge).items()))), []).append(gauge)
    return list(groups.values())


def _kind_labels(gauge: GaugeOverTime) -> dict[str, str]:
    return {name: value for name, value in gauge.labels.items() if name not in _ALIKE}


class _Fold(NamedTuple):
    """The mean of alike gauges over time, between the least and the greatest of them."""

    gauge: GaugeOverTime
    """The first of them; with several, only with the labels that they share."""
    mean: Column
    low: Column
    high: Column
    whole: float
    """Mean over the whole time."""

    @classmethod
    def of(cls, group: Sequence[GaugeOverTime]) -> _Fold:
        rows = [_known(row) for row in zip(*(held(gauge.values) for gauge in group), strict=True)]
        mean: Column = [fmean(row) if row else None for row in rows]
        first = group[0] if len(group) == 1 else GaugeOverTime(name=group[0].name, labels=_kind_labels(group[0]))
        low, high = ([end(row, default=None) for row in rows] for end in (min, max))
        return cls(first, mean, low, high, fmean(_known(mean)))


def _name_of(gauge: GaugeOverTime, stem: str, of: Sequence[GaugeOverTime]) -> str:
    """Return a short name among the lines of a chart: its labels, or what its name has beyond the others."""
    labels = wording.instrument("", gauge.labels).strip("{}").removeprefix("process=")
    if len({other.name for other in of}) == 1:
        return labels or "all"
    rest = gauge.name.partition(".")[2]
    word = rest.removeprefix(f"{stem}_")
    return printable(" ".join(filter(None, (word, labels))))


def _known(values: Column) -> list[float]:
    return [value for value in values if value is not None]
