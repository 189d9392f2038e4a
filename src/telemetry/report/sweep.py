"""A sweep as people and programs read it: text, Markdown, CSV and JSON, and what the page says in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from telemetry.common import formatting, slo
from telemetry.common.formatting import NOTHING, number_of, printable, printable_json
from telemetry.errors import UsageError
from telemetry.history.headlines.loads import ATTAINED
from telemetry.history.headlines.model import per_second
from telemetry.judge.sweeps import model
from telemetry.judge.sweeps.build import describe
from telemetry.judge.sweeps.figures import ATTAINMENT, GOODPUT, REQUESTS, TOKENS
from telemetry.judge.sweeps.model import VERDICT_WORDS, Sweep, SweepPoint, Verdict
from telemetry.judge.sweeps.params import told, value_text
from telemetry.report import markdown, text
from telemetry.report.csv import quoted
from telemetry.report.table import DOT, ReportTable, Section, TableColumn, wrapped
from telemetry.report.text import INDENT

VERDICT: Final = "verdict"
"""Title of the column of verdicts."""
_KEEP: Final = {
    REQUESTS: 1,
    ATTAINMENT: 2,
    "latency_p99": 2,
    "ttft_p99": 3,
    GOODPUT: 3,
    TOKENS: 4,
    "failed": 5,
}
_USUAL_KEEP: Final = 6
_DETAIL_KEEP: Final = 8
_BOLD: Final = "\x1b[1m"
_RESET: Final = "\x1b[0m"
_COLORS: Final[dict[Verdict, str]] = {"pass": "\x1b[1;32m", "fail": "\x1b[1;33m", "none": _BOLD}
_SHORT: Final = {"output tokens/s": "tokens/s"}


def verdict_of(sweep: Sweep) -> Verdict:
    """Return `pass` if a point passes, `fail` if none does, and `none` without gates and limits."""
    if not sweep.judged:
        return "none"
    return "pass" if any(point.verdict == "pass" for point in sweep.points) else "fail"


def conclusion(sweep: Sweep) -> str:
    """Return the result of the sweep in one sentence."""
    if sweep.knee is not None:
        point = next(point for point in sweep.points if point.params == sweep.knee.params)
        beyond = "; no higher load was tried, so the knee may lie beyond" if sweep.knee.is_last else ""
        return (
            f"knee: {told(sweep.knee.params)} with {_throughput(sweep, sweep.knee.throughput)}, "
            f"the highest throughput {_rule(sweep)}{_at_knee(sweep, point)}{beyond}"
        )
    if sweep.judged:
        passing = [point for point in sweep.points if point.verdict == "pass"]
        if passing:
            return f"{number_of(len(passing), 'point passes', 'points pass')} of {len(sweep.points):,}"
        return f"no point {_rule(sweep)}{_nearest(sweep)}"
    return _best(sweep)


def facts(sweep: Sweep) -> Iterator[str]:
    """Describe what the figures are about."""
    runs = sum(len(point.runs) for point in sweep.points)
    of = f" of {sweep.name}" if sweep.name else ""
    about = _about(sweep)
    limits = f"limits: {_limits(sweep.slo)}" if sweep.slo else ""
    parts = [f"{number_of(len(sweep.points), 'point')}, {number_of(runs, 'run')}{of}", about, limits]
    yield DOT.join(part for part in parts if part)


def _about(sweep: Sweep) -> str:
    if sweep.subject in ("", sweep.name):
        return ""
    return f"{'axis' if sweep.flavour == 'training' else 'figures of'} {printable(sweep.subject)}"


def points_table(sweep: Sweep) -> ReportTable:
    """Return a row for each point: parameters, figures and verdict."""
    names = [*sweep.by[1:], *sweep.by[:1]]
    repeated = any(len(point.runs) > 1 for point in sweep.points)
    heads = [TableColumn(printable(name)) for name in names]
    heads += [TableColumn("runs", keep=4)] if repeated else []
    main = [column for column in sweep.columns if not column.detail]
    details = [column for column in sweep.columns if column.detail]
    heads += [_head(sweep, column) for column in main]
    has_verdicts = any(VERDICT_WORDS[point.verdict] for point in sweep.points)
    heads += [TableColumn(VERDICT, keep=1, right=False)] if has_verdicts else []
    heads += [_head(sweep, column) for column in details]
    rows = []
    for point in sweep.points:
        row = [printable(value_text(point.params.get(name))) for name in names]
        row += [str(len(point.runs))] if repeated else []
        row += [amount(column, point) for column in main]
        row += [VERDICT_WORDS[point.verdict] or NOTHING] if has_verdicts else []
        row += [amount(column, point) for column in details]
        rows.append(row)
    return ReportTable(heads, rows)


def _head(sweep: Sweep, column: model.SweepColumn) -> TableColumn:
    keep = _DETAIL_KEEP if column.detail else _KEEP.get(column.key, _USUAL_KEEP)
    title = _SHORT.get(column.title, printable(column.title))
    return TableColumn(title, keep=keep, strong=column.key == sweep.throughput)


def amount(column: model.SweepColumn, point: SweepPoint) -> str:
    """Format a figure of a point with its unit."""
    return value_of(column, point.value(column.key))


def value_of(column: model.SweepColumn, value: float | None) -> str:
    """Format a value of a figure with its unit."""
    if value is None:
        return NOTHING
    if column.unit == "share":
        return f"{value * 100:.1f} %"
    if column.unit == "1/s":
        return per_second("", value).text
    return formatting.quantity(value, column.unit)


def reasons(sweep: Sweep) -> Iterator[str]:
    """Yield why points do not pass, and notes."""
    for point in sweep.points:
        if point.reason and not (sweep.judged == "attainment" and point.verdict == "fail"):
            yield f"{describe(point)}: {VERDICT_WORDS[point.verdict]}: {printable(point.reason)}"
    if any(len(point.runs) > 1 for point in sweep.points):
        yield "figures are medians of the runs of a point; attainment is that of all their requests"
    if sweep.throughput == REQUESTS and not sweep.judged:
        yield "--goodput or --gate shows which load is within limits"
    yield from map(printable, sweep.notes)


def sweep_text(sweep: Sweep, width: int = 100, color: bool = False) -> str:
    """Render lines that end with a newline. The first is the conclusion."""
    lines = [
        _painted(line, _COLORS.get(verdict_of(sweep), _BOLD), color)
        for line in wrapped(conclusion(sweep).replace(" %", "\N{NO-BREAK SPACE}%"), width, "", INDENT)
    ]
    lines += [line for fact in facts(sweep) for line in wrapped(fact, width, "", INDENT)]
    lines += ["", *text.render_section(Section("", table=points_table(sweep)), width, color=color)]
    notes = [line for note in reasons(sweep) for line in wrapped(note, width, "", INDENT)]
    return "\n".join([*lines, *(["", *notes] if notes else [])]) + "\n"


def sweep_markdown(sweep: Sweep) -> str:
    """Return GitHub-flavoured Markdown, ending with a newline."""
    blocks = [f"**{markdown.escape(conclusion(sweep))}**", *map(markdown.escape, facts(sweep))]
    blocks += markdown.render_section(Section("", table=points_table(sweep), notes=list(reasons(sweep))))
    return "\n\n".join(blocks) + "\n"


def sweep_json(sweep: Sweep) -> str:
    """Return one strict JSON object with the field names of `Sweep`, indented, ending with a newline."""
    return printable_json(msgspec.json.format(msgspec.json.encode(sweep), indent=2).decode()) + "\n"


def sweep_csv(sweep: Sweep) -> str:
    """Return a header and a line for each point, ending with a newline. All text is quoted, numbers are not.

    Three columns for each figure: its value, and with several runs the smallest and the largest one.
    """
    names = [*sweep.by[1:], *sweep.by[:1]]
    keys = [column.key for column in sweep.columns]
    heads = [*names, "runs", "verdict", "reason", *(f"{key}{end}" for key in keys for end in ("", "_low", "_high"))]
    lines = [",".join(map(quoted, heads))]
    for point in sweep.points:
        values = [point.params.get(name) for name in names]
        cells = [quoted(value) if isinstance(value, str) else _number(value) for value in values]
        cells += [str(len(point.runs)), quoted(point.verdict), quoted(point.reason)]
        for key in keys:
            reading = point.figures.get(key, model.PointFigure())
            cells += map(_number, (reading.value, reading.low, reading.high))
        lines.append(",".join(cells))
    return "\n".join(lines) + "\n"


def _rule(sweep: Sweep) -> str:
    if sweep.judged == "gates":
        return "that passes its gates" if sweep.knee else "passes its gates"
    return f"{'with' if sweep.knee else 'has'} attainment of at least {ATTAINED:.0%}".replace("%", " %")


def _throughput(sweep: Sweep, value: float) -> str:
    title = "requests/s" if sweep.throughput == REQUESTS else printable(sweep.throughput)
    return f"{per_second('', value).text} {title}"


def _at_knee(sweep: Sweep, point: SweepPoint) -> str:
    """Return the interval of the attainment and the slowest percentile at the knee."""
    parts = []
    share = point.figures.get(ATTAINMENT)
    if share is not None and share.low is not None and share.high is not None:
        parts.append(f" ({_percent(share.value)}; 95 %: {_percent(share.low)} to {_percent(share.high)})")
    columns = {column.key: column for column in sweep.columns}
    if "latency_p99" in columns and point.value("latency_p99") is not None:
        parts.append(f", latency p99 {amount(columns['latency_p99'], point)}")
    return "".join(parts)


def _nearest(sweep: Sweep) -> str:
    shares = [(point.value(ATTAINMENT), point) for point in sweep.points]
    pairs = [(share, point) for share, point in shares if share is not None]
    if sweep.judged != "attainment" or not pairs:
        return ""
    share, point = max(pairs, key=lambda pair: pair[0])
    return f"; the best is {describe(point)} with {_percent(share)}"


def _best(sweep: Sweep) -> str:
    """Return the best point by throughput, or by the first figure that has a better side."""
    columns = [column for column in sweep.columns if column.key == sweep.throughput]
    columns += [column for column in sweep.columns if column.key.startswith("best(")]
    columns += [column for column in sweep.columns if column.better != "neither"]
    for column in columns:
        pairs = [(point.value(column.key), point) for point in sweep.points if point.verdict != "failed"]
        candidates = [(value, point) for value, point in pairs if value is not None]
        if candidates:
            pick = min if column.better == "lower" else max
            value, point = pick(candidates, key=lambda pair: pair[0])
            if column.key == sweep.throughput:
                return f"highest throughput: {_throughput(sweep, value)} at {describe(point)}"
            title = column.title if column.title.startswith("best ") else f"best {column.title}"
            return f"{printable(title)}: {value_of(column, value)} at {describe(point)}"
    return f"{number_of(len(sweep.points), 'point')}"


def _limits(limits: str) -> str:
    try:
        return slo.describe(slo.parse(limits))
    except UsageError:  # another program may have written anything
        return printable(limits)


def _percent(share: float | None) -> str:
    return NOTHING if share is None else f"{share * 100:.1f} %"


def _number(value: float | bool | None) -> str:
    return "" if value is None else repr(value)


def _painted(line: str, code: str, color: bool) -> str:
    return f"{code}{line}{_RESET}" if color else line
