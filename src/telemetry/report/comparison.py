"""A comparison as people read it: text and Markdown, and what the page says in words.

Everything here is a field of the comparison, rounded for reading. All text from outside passes through `printable`.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from telemetry.common import formatting, wording
from telemetry.common.formatting import NOTHING, number_of, printable, printable_json
from telemetry.judge.compare import (
    COMMAND_WORDS,
    ONE_SIDED,
    VERDICT_WORDS,
    ChangedSetting,
    Comparison,
    MetricResult,
    SideRun,
    Verdict,
    largest,
    largest_outside,
    largest_without_bounds,
    main_difference,
)
from telemetry.report import markdown, text
from telemetry.report.content import Content
from telemetry.report.table import DOT, ReportTable, Section, TableColumn, cut, without_empty_columns
from telemetry.report.text import INDENT
from telemetry.wire.units import TIME_NS

_TOLD: Final = ("worse", "better", "changed")
_BOLD: Final = "\x1b[1m"
_RESET: Final = "\x1b[0m"
_COLORS: Final[dict[Verdict, str]] = {
    "worse": "\x1b[1;31m",
    "better": "\x1b[1;32m",
    "cannot_tell": "\x1b[1;33m",
    "changed": "\x1b[1;33m",
    "differs": "\x1b[1;33m",
}
_NAMES_SHOWN: Final = 6
"""Figures that are named beside a reason: they have rows of their own."""
_ROWS_SHOWN: Final = 200
"""Rows of a table of figures without a difference, and names of instruments in a line. The rest is counted."""
_SETTINGS_SHOWN: Final = 12
_VALUES_SHOWN: Final = 3
_VALUE_COLUMNS: Final = 60
_REASONS_SHOWN: Final = 3
_TIMES_FROM: Final = 1.5
"""Factor from which a difference is written as one."""


def comparison_json(comparison: Comparison) -> str:
    """Render one strict JSON object, indented, ending with a newline.

    It has the headline and the fields of `Comparison`.
    """
    fields = {name: getattr(comparison, name) for name in comparison.__struct_fields__}
    document = {"schema_version": comparison.schema_version, "headline": headline(comparison), **fields}
    return printable_json(msgspec.json.format(msgspec.json.encode(document), indent=2).decode()) + "\n"


def comparison_text(comparison: Comparison, width: int = 100, color: bool = False, *, whole: bool = False) -> str:
    """Render lines that end with a newline. The first is the headline.

    Figures that can't be told are one line, unless the `whole` comparison is asked for.
    """
    content = comparison_content(comparison, whole=whole)
    lines = [_painted(content.headline, _COLORS.get(comparison.verdict, _BOLD), color)]
    lines += [line.removeprefix(INDENT) for line in text.render_section(Section("", content.facts), width)]
    for section in content.sections:
        lines += ["", _painted(section.title, _BOLD, color)]
        lines += [line.rstrip() for line in text.render_section(section, width)]
    return "\n".join(lines) + "\n"


def comparison_markdown(comparison: Comparison, *, whole: bool = False) -> str:
    """GitHub-flavoured Markdown, ending with a newline. For `whole` see `comparison_text`."""
    content = comparison_content(comparison, whole=whole)
    blocks = [f"**{markdown.escape(content.headline)}**", *(markdown.escape(fact) for fact in content.facts)]
    for section in content.sections:
        blocks += [f"### {markdown.escape(section.title)}", *markdown.render_section(section)]
    return "\n\n".join(blocks) + "\n"


def comparison_content(comparison: Comparison, *, whole: bool = True) -> Content:
    """The comparison: each figure has a row with its verdict. For `whole` see `comparison_text`."""
    differing = [metric for metric in comparison.metrics if metric.verdict in _TOLD]
    untold = [metric for metric in comparison.metrics if metric.verdict == "cannot_tell"]
    sections = [
        Section("Notes", [printable(note) for note in comparison.notes]),
        Section("Differences", table=differences(differing), notes=list(reasons(differing))),
        *(Section(name, table=information(metrics)) for name, metrics in two_runs(comparison)),
        unchanged(comparison),
        *(obstacles_of(untold) if whole or len(untold) == len(comparison.metrics) else [folded(comparison)]),
        left_out(comparison, whole=whole),
    ]
    sentence = headline(comparison)
    counted = [comparison.headline()] if sentence != comparison.headline() else []
    facts = [*map(printable, counted), *top_lines(comparison), *comparison_facts(comparison)]
    return Content(printable(sentence), facts, [part for part in sections if part])


def headline(comparison: Comparison) -> str:
    """Return one line: how much two single runs differ, or else the verdicts of all figures together.

    `after is 10.4× faster at latency p50 (47.9 → 4.60 ms); one run a side: noise unknown`
    """
    metric = main_difference(comparison)
    if metric is None or metric.before is None or metric.after is None:
        return comparison.headline()
    noise = "noise unknown"
    if metric.noise is not None:
        noise = f"beyond the noise of the calibration, {metric.noise}"
    return f"after is {_how_much(metric)} at {figure_name(metric)} ({_both(metric)}); one run a side: {noise}"


def _how_much(metric: MetricResult) -> str:
    """`10.4× faster`, `12 % lower`."""
    before, after = metric.before or 0.0, metric.after or 0.0
    is_time = metric.of == "series" and metric.unit in TIME_NS and metric.better == "lower"
    up, down = ("slower", "faster") if is_time else ("higher", "lower")
    word = up if after > before else down
    if before > 0 and after > 0 and (factor := max(after / before, before / after)) >= _TIMES_FROM:
        return f"{factor:.3g}× {word}" if factor < 1000 else f"{factor:,.0f}× {word}"
    return word if metric.difference is None else f"{formatting.percent(abs(metric.difference))} {word}"


def _both(metric: MetricResult) -> str:
    """`47.9 → 4.60 ms`: the unit stands once if both values have it."""
    before, after = amount(metric, metric.before), amount(metric, metric.after)
    number, _, unit = before.rpartition(" ")
    return f"{number if number and after.endswith(f' {unit}') else before} → {after}"


def two_runs(comparison: Comparison) -> Iterator[tuple[str, list[MetricResult]]]:
    """Yield the figures of a comparison of two single runs, by whether they differ, with a title for each group."""
    groups: dict[str, tuple[Verdict, ...]] = {
        "Differ in these two runs": ("differs",),
        "No difference that matters in these two runs": ("same",),
        "No difference shown in these two runs": ("not_shown",),
    }
    single = [metric for metric in comparison.metrics if metric.before_within is not None]
    for heading, verdicts in groups.items():
        if metrics := [metric for metric in single if metric.verdict in verdicts]:
            yield heading, metrics


def title(comparison: Comparison) -> str:
    """Name both sides: `main against branch`, or by run ids and numbers of runs if they have the same names."""
    sides = [comparison.before, comparison.after]
    names = [", ".join(dict.fromkeys(run.name for run in side)) for side in sides]
    if names[0] == names[1]:
        alone = all(len(side) == 1 for side in sides)
        own = [side[0].run_id if alone else number_of(len(side), "run") for side in sides]
        names = [f"{names[0]} {own[0]}", own[1]]
    return printable(f"{names[0]} against {names[1]}")


def top_lines(comparison: Comparison) -> Iterator[str]:
    """Describe what a reader looks for first: values that are not finite, the largest differences, and settings."""
    yield from map(printable, comparison.concerns)
    if shown := _summed(largest(comparison)):
        yield f"largest {'differences' if len(shown) > 1 else 'difference'}: {DOT.join(shown)}"
    yield from outside_line(comparison)
    yield from settings_line(comparison)


def outside_line(comparison: Comparison) -> Iterator[str]:
    """Name the figures in which a single run lies outside all runs of the other side."""
    if shown := _summed(largest_outside(comparison)):
        yield f"outside all runs of the other side: {DOT.join(shown)}"


def _summed(metrics: Sequence[MetricResult]) -> list[str]:
    """`latency p99 47.9 ms → 4.60 ms (−90 %)` of each figure."""
    return [
        f"{figure_name(metric)} {amount(metric, metric.before)} → {amount(metric, metric.after)} ({change(metric)})"
        for metric in metrics
    ]


def settings_line(comparison: Comparison) -> Iterator[str]:
    """`differs: lr 1.0 → 1.6`; nothing if all settings are equal."""
    if comparison.settings:
        shown = [
            f"{printable(setting.name)} {_setting(setting, 'before')} → {_setting(setting, 'after')}"
            for setting in comparison.settings[:_SETTINGS_SHOWN]
        ]
        hidden = len(comparison.settings) - len(shown)
        yield f"differs: {DOT.join([*shown, *([f'{hidden:,} more'] if hidden else [])])}"


def _setting(setting: ChangedSetting, side: str) -> str:
    values = setting.before if side == "before" else setting.after
    return _named([cut(printable(value), _VALUE_COLUMNS) for value in values], _VALUES_SHOWN) if values else NOTHING


def comparison_facts(comparison: Comparison) -> Iterator[str]:
    """Describe the runs, and the rules behind the verdicts."""
    yield f"before: {_side(comparison.before)}"
    yield f"after: {_side(comparison.after)}"
    level = formatting.percent(comparison.confidence)
    tested = sum(metric.p_adjusted is not None for metric in comparison.metrics)
    if tested:
        of_all = f"for all {tested:,} figures together" if tested > 1 else "for the only figure"
        ways = "each run is compared with its neighbour · " if comparison.paired else ""
        yield (
            f"{ways}intervals and verdicts: {level} {of_all} · smallest difference that matters: "
            f"{formatting.percent(comparison.min_effect)}"
        )
    yield printable(_calibration_words(comparison))


def _calibration_words(comparison: Comparison) -> str:
    """Name the calibration and the command that it belongs to."""
    if not comparison.calibration:
        return "calibration: none was made of these commands"
    sides = comparison.calibration_of
    whose = (
        "the command of both sides" if len(sides) > 1 else f"the command {sides[0]}" if sides else "another command"
    )
    command = cut(shlex.join(comparison.calibration_argv), _VALUE_COLUMNS)
    runs = number_of(comparison.calibration_runs, "run")
    return f"calibration: {comparison.calibration}, the noise between {runs} of {whose}: {command}"


def figure_name(metric: MetricResult) -> str:
    """`latency{route=/a} p99`, `command wall time`."""
    if metric.of == "command":
        return f"command {COMMAND_WORDS.get(metric.statistic, printable(metric.statistic))}"
    name = wording.instrument(metric.name, metric.labels, metric.unit)
    if metric.of == "requests":
        name = wording.instrument(metric.name, metric.labels)
    return (
        name if metric.of == "counter" and metric.statistic == "value" else f"{name} {printable(metric.statistic)}"
    )


def amount(metric: MetricResult, value: float | None) -> str:
    """Format a value of this figure, with its unit."""
    if metric.statistic == "rate":
        return formatting.rate(value, metric.unit)
    if metric.statistic == "share":
        return NOTHING if value is None else formatting.percent(value)
    if metric.of == "requests":
        if metric.statistic == "attainment":
            return NOTHING if value is None else formatting.percent(value)
        return formatting.rate(value)
    if metric.of == "steps":
        return formatting.count(value) if metric.statistic == "steps" else formatting.scaled(value)
    return formatting.quantity(value, metric.unit)


def interval(metric: MetricResult) -> str:
    """`+8.1 % … +13.2 %`; nothing without one."""
    if metric.method == "" or metric.difference is None:
        return ""
    if metric.method == "exact":
        return "exactly"
    return f"{formatting.signed_percent(metric.low)} … {formatting.signed_percent(metric.high)}"


def change(metric: MetricResult) -> str:
    """Format the difference; a change from 0 has none."""
    if metric.difference is None and metric.before == 0 and metric.after:
        return "from 0"
    return formatting.signed_percent(metric.difference)


def differences(metrics: Sequence[MetricResult]) -> ReportTable:
    """List figures whose verdict rests on an interval."""
    heads = [
        TableColumn("figure"),
        TableColumn("before", 2),
        TableColumn("after", 2),
        TableColumn("difference"),
        TableColumn("interval", 1),
        TableColumn("verdict", right=False),
    ]
    return ReportTable(
        heads, [[*_numbers(metric), interval(metric), VERDICT_WORDS[metric.verdict]] for metric in metrics]
    )


def information(metrics: Sequence[MetricResult]) -> ReportTable:
    """List figures of one run per side, with the bounds within each run, and the noise, where there are any."""
    bounds = TableColumn("bounds within the run", 3, spare=True)
    heads = [
        TableColumn("figure"),
        TableColumn("before", 1),
        bounds,
        TableColumn("after", 1),
        bounds,
        TableColumn("difference"),
    ]
    rows = []
    for metric in metrics:
        name, before, after, difference = _numbers(metric)
        row = [name, before, _bounds(metric, "before"), after, _bounds(metric, "after"), difference]
        rows.append([*row, _against_noise(metric)])
    return without_empty_columns(ReportTable([*heads, TableColumn("noise", 2, right=False)], rows))


def obstacles(metrics: Sequence[MetricResult]) -> Section:
    """List figures that can't be compared, and why. An instrument of one side alone is named once."""
    lines = []
    for reason in ONE_SIDED:
        names = dict.fromkeys(_instrument(metric) for metric in metrics if metric.reason == reason)
        if names:
            lines.append(f"{reason.removesuffix(' it')} {_named(list(names), _ROWS_SHOWN)}")
    others = [metric for metric in metrics if metric.reason not in ONE_SIDED]
    return Section("Cannot tell", lines, table=_whys(others) if others else None)


def obstacles_of(untold: Sequence[MetricResult]) -> Iterator[Section]:
    """Yield the figures that can't be told: those of two single runs by their reason, then the others."""
    single = [metric for metric in untold if metric.before_within is not None]
    for reason in dict.fromkeys(map(_obstacle, single)):
        table = information([metric for metric in single if _obstacle(metric) == reason])
        yield Section(f"Cannot tell: {printable(reason)}", table=table)
    yield obstacles([metric for metric in untold if metric.before_within is None])


def folded(comparison: Comparison) -> Section:
    """Describe the figures that can't be told: how many there are, and why, and the largest differences."""
    untold = [metric for metric in comparison.metrics if metric.verdict == "cannot_tell"]
    reasons = Counter(printable(_obstacle(metric)) for metric in untold)
    whys = [f"{reason} ({number:,})" if len(reasons) > 1 else reason for reason, number in reasons.most_common()]
    figures = number_of(len(untold), "figure")
    lines = [f"{figures}: {formatting.listed(whys, _REASONS_SHOWN)}; --all shows them"] if untold else []
    return Section("Cannot tell", [*lines, *largest_untold(comparison)])


def largest_untold(comparison: Comparison) -> Iterator[str]:
    """Name the largest differences of two single runs among figures without bounds."""
    if shown := _summed(largest_without_bounds(comparison)):
        yield f"largest without bounds: {DOT.join(shown)}"


def _obstacle(metric: MetricResult) -> str:
    """Return the reason without the noise of two single runs, which has a column of its own."""
    return metric.reason if metric.before_within is None else metric.reason.partition("; ")[0]


def _whys(metrics: Sequence[MetricResult]) -> ReportTable:
    heads = [
        TableColumn("figure"),
        TableColumn("before", 2),
        TableColumn("after", 2),
        TableColumn("difference", 1),
        TableColumn("why", right=False),
    ]
    return ReportTable(heads, [[*_numbers(metric), printable(metric.reason)] for metric in metrics])


def _numbers(metric: MetricResult) -> list[str]:
    """Return name, both sides, and the difference."""
    return [figure_name(metric), amount(metric, metric.before), amount(metric, metric.after), change(metric)]


def _bounds(metric: MetricResult, side: str) -> str:
    within = metric.before_within if side == "before" else metric.after_within
    if within is None or (within.low is None and within.high is None):
        return ""
    return f"{amount(metric, within.low)} … {amount(metric, within.high)}"


def _against_noise(metric: MetricResult) -> str:
    noise = metric.noise
    if noise is None or noise.exceeded is None:
        return ""
    return f"{'beyond' if noise.exceeded else 'within'} {noise}"


def reasons(metrics: Sequence[MetricResult]) -> Iterator[str]:
    """List each reason once, with its figures."""
    for reason in dict.fromkeys(metric.reason for metric in metrics if metric.reason):
        yield f"{printable(reason)}: {_listed([metric for metric in metrics if metric.reason == reason])}"


def unchanged(comparison: Comparison) -> Section:
    """List the figures without a difference, and explain their verdicts."""
    meanings: dict[Verdict, str] = {
        "same": f"shown to be within ±{formatting.percent(comparison.min_effect)}",
        "not_shown": "one may exist, but is too small to separate from noise",
    }
    metrics = [
        metric
        for verdict in meanings
        for metric in comparison.metrics
        if metric.verdict == verdict and metric.before_within is None
    ]
    notes = [
        f"{VERDICT_WORDS[verdict]}: {meaning}"
        for verdict, meaning in meanings.items()
        if any(metric.verdict == verdict for metric in metrics)
    ]
    notes += reasons([metric for metric in metrics if metric.verdict == "not_shown"])
    return Section(
        "Without a difference", table=differences(metrics[:_ROWS_SHOWN]), notes=[*_more(metrics), *notes]
    )


def left_out(comparison: Comparison, *, whole: bool = True) -> Section:
    """List the figures that no run has enough values for, or count them in a line."""
    metrics = [metric for metric in comparison.metrics if metric.verdict == "left_out"]
    if metrics and not whole:
        it = "it" if len(metrics) == 1 else "them"
        return Section("Too few values", [f"{number_of(len(metrics), 'figure')}; --all shows {it}"])
    rows = [[figure_name(metric), printable(metric.reason)] for metric in metrics[:_ROWS_SHOWN]]
    heads = [TableColumn("figure"), TableColumn("why", right=False)]
    return Section("Too few values", table=ReportTable(heads, rows), notes=list(_more(metrics)))


def _more(metrics: Sequence[MetricResult]) -> Iterator[str]:
    if len(metrics) > _ROWS_SHOWN:
        yield f"{number_of(len(metrics) - _ROWS_SHOWN, 'more figure is', 'more figures are')} in the JSON form"


def _listed(metrics: Sequence[MetricResult]) -> str:
    return _named([figure_name(metric) for metric in metrics], _NAMES_SHOWN)


def _named(names: Sequence[str], most: int) -> str:
    more = [f"{len(names) - most:,} more"] if len(names) > most else []
    return ", ".join([*names[:most], *more])


def _instrument(metric: MetricResult) -> str:
    return figure_name(metric) if metric.of == "command" else wording.instrument(metric.name, metric.labels)


def _side(runs: Sequence[SideRun]) -> str:
    """`10 runs of main, started 2026-11-20 14:17:30 UTC to 14:30:02`."""
    names = list(dict.fromkeys(printable(run.name) for run in runs))
    shown = [*names[:3], "…"] if len(names) > 3 else names
    started = sorted(run.started_ns for run in runs if run.started_ns)
    when = f", started {formatting.timestamp(started[0])}" if started else ""
    if len(started) > 1:
        when += f" to {formatting.timestamp(started[-1])}"
    which = f"run {printable(runs[0].run_id)}" if len(runs) == 1 else f"{len(runs):,} runs"
    return f"{which} of {', '.join(shown)}{when}"


def _painted(line: str, code: str, color: bool) -> str:
    return f"{code}{line}{_RESET}" if color else line
