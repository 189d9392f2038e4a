"""Sections of a report about requests: their outcomes, their rates, and bounds of percentiles."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from telemetry.common import formatting, wording
from telemetry.common.formatting import NOTHING, number_of, printable
from telemetry.history.request_model import Number, RequestCounts, request_counts
from telemetry.history.requests import late_words
from telemetry.report.series import few_notes, keep_of, percentile_words, series_table
from telemetry.report.table import ReportTable, Section, TableColumn
from telemetry.wire import requests as words
from telemetry.wire.cells import CELLS, edge
from telemetry.wire.report import EarlyStop, Report, RequestFigures
from telemetry.wire.snapshot import SeriesStat

KINDS_SHOWN: Final = 8
"""Number of shown kinds, those with the most requests, and of shown windows, the first ones."""
_REASONS_SHOWN: Final = 6
_REASON_COLUMNS: Final = 64
_AT_MOST: Final = "≈"
"""Mark of a percentile of several windows together."""
_CELLS: Final = (
    "bounds are from display histograms and may be up to 25 % too high; with a history, `telemetry "
    "report` computes them from the values"
)
_OPTIONAL: Final = frozenset({"failed", "expired", "in flight", "overall", "tokens"})
"""Columns of the table of windows that are left out if they say nothing."""
_OF_CONVERSATIONS: Final = (words.CONVERSATION_DURATION, words.CONVERSATION_TURNS)
_LATENCIES: Final = {words.LATENCY: ("50", "99"), words.CORRECTED: ("99",)}
"""Map of word → percentiles that are compared between windows."""
_PER_S: Final = ("requests_per_s", "tokens_per_s")
"""Rates of windows, in the order of their columns."""


def late(report: Report) -> Iterator[str]:
    """Yield findings to show above the figures: requests went out so late that raw latencies are misleading."""
    for counts in sorted(request_counts(report.snapshot), key=lambda counts: -counts.issued)[:KINDS_SHOWN]:
        yield from late_in(report, parts_of(counts))


def title_of(of: RequestCounts) -> str:
    """Return a title such as `Requests: llm{model=a}, window measured`."""
    return f"Requests: {wording.instrument(of.kind, of.labels)}{_window(of)}"


def parts_of(whole: RequestCounts) -> Sequence[RequestCounts]:
    """Return what is reported separately: each tracking window, or all requests of the kind if it has none."""
    return whole.windows[:KINDS_SHOWN] or (whole,)


def outcomes(of: RequestCounts, *, part: bool = False) -> Iterator[tuple[str, Number, str]]:
    """Yield (outcome, number, text with reasons).

    With `part`, leave out requests in flight, unknown for a part of a run.
    """
    yield (
        "completed",
        of.completed,
        f"{formatting.count(of.completed)} completed{_named(of.finishes, 'finish reason')}",
    )
    failed, expired = (formatting.with_share(number, of.ended) for number in (of.failures, of.expired))
    yield "failed", of.failures, f"{failed} failed{_named(of.failed, 'reason')}"
    yield "expired", of.expired, f"{expired} expired"
    if not part:
        yield "in flight", of.in_flight, f"{formatting.count(of.in_flight)} in flight"


def is_part(report: Report) -> bool:
    """Return whether the counters cover only a part of the run."""
    return any(figures.in_flight is None for figures in report.requests)


def measured(report: Report, of: RequestCounts) -> Section:
    """Return the series of one window, named without the kind."""
    shown = [word for word in words.INSTRUMENTS if word in of.series and word not in _OF_CONVERSATIONS]
    stats = [of.series[word] for word in shown if of.series[word].count]
    return series_table(title_of(of), report, stats, [word_of(stat, of.kind) for stat in stats])


def windows(report: Report, whole: RequestCounts) -> Section:
    """Return all windows side by side, and their sum, whose percentiles are estimates."""
    part = is_part(report)
    own = {id(stat) for stat in report.snapshot.series}
    words_shown = [word for word in _LATENCIES if word == words.LATENCY or _has_values(whole, word)]

    def row(of: RequestCounts, name: str) -> list[str]:
        return [*_window_row(of, name, part), *_latency_cells(report, of, words_shown, own)]

    heads = [
        TableColumn("window"),
        TableColumn("issued"),
        TableColumn("completed", 1),
        TableColumn("failed", 2),
        TableColumn("expired", 7),
        TableColumn("in flight", 8),
        TableColumn("overall", 3),
        TableColumn("tokens", 6),
        TableColumn("latency p50", 5),
        TableColumn("p99", 4),
        *(TableColumn("p99 corrected", 2) for _ in words_shown[1:]),
    ]
    rows = [*(row(window, window.window or "(outside)") for window in parts_of(whole)), row(whole, "all windows")]
    estimated = any(cell.startswith(_AT_MOST) for cell in rows[-1])
    notes = (
        [f"{_AT_MOST} is an upper bound: percentiles of several windows together are not known more precisely"]
        if estimated
        else []
    )
    notes += few_notes(report, rows)
    if (hidden := len(whole.windows) - KINDS_SHOWN) > 0:
        notes.append(f"{number_of(hidden, 'more window is', 'more windows are')} in the JSON form")
    return Section(title_of(whole), table=_without_zeros(ReportTable(heads, rows)), notes=notes)


def _without_zeros(table: ReportTable) -> ReportTable:
    """Return the table without outcomes and rates that no window has."""
    kept = [
        index
        for index, head in enumerate(table.columns)
        if head.title not in _OPTIONAL or any(row[index] not in ("0", NOTHING) for row in table.rows)
    ]
    rows = [[row[index] for index in kept] for row in table.rows]
    return ReportTable([table.columns[index] for index in kept], rows)


def early_stopping(report: Report, of: RequestCounts) -> Section:
    """Return the bounds of percentiles, or how many more samples a bound needs."""
    figures = figures_of(report, of)
    by_word = figures.early_stopping if figures is not None else {}
    title = f"{title_of(of)}, early stopping"
    if figures is None or not by_word:
        return Section(title)
    keys = sorted({key for stops in by_word.values() for key in stops}, key=wording.by_number)
    heads = [TableColumn("percentile is below"), *(TableColumn(f"p{printable(key)}", keep_of(key)) for key in keys)]
    rows = [
        [word, *(_stop(stops.get(key), of.series[word].unit) for key in keys)]
        for word, stops in by_word.items()
        if word in of.series
    ]
    rule = f"{formatting.percent(figures.confidence)} confidence"
    if figures.tolerance:
        rule += f" and a tolerance of {formatting.percent(figures.tolerance)}"
    notes = [f"with {rule}, using MLPerf's early stopping; “more” is the number of samples still missing"]
    if any(_of_cells(of.series[word], stops.values()) for word, stops in by_word.items() if word in of.series):
        notes.append(_CELLS)
    return Section(title, table=ReportTable(heads, rows), notes=notes)


def turns(report: Report, of: RequestCounts) -> Section:
    """Return durations by turn of the conversation. In a part of a run, only turns with values."""
    heads = [TableColumn("turn"), TableColumn("count")]
    rows = []
    for index, word in enumerate(("ttft", "latency")):
        heads += [
            TableColumn(f"{word} p50", 2 + index),
            TableColumn("p90", 6 + index),
            TableColumn("p99", 1 - index),
            TableColumn("max", 4 + index),
        ]
    for turn, stats in of.turns.items():
        pair = [stats.get(word) for word in (words.TURN_TTFT, words.TURN_LATENCY)]
        count = max((stat.count for stat in pair if stat is not None), default=0)
        if count:
            cells = (cell for stat in pair for cell in _shape(report, stat))
            rows.append([printable(turn), formatting.count(count), *cells])
    return Section(f"{title_of(of)}, by turn", table=ReportTable(heads, rows), notes=few_notes(report, rows))


def conversations(report: Report, whole: RequestCounts) -> Section:
    """Return the durations of conversations, and their numbers of turns."""
    own = {id(stat) for stat in report.snapshot.series}
    parts_by_id = {
        id(part.series[word]): (part, part.series[word])
        for word in _OF_CONVERSATIONS
        for part in (whole, *whole.windows)
        if word in part.series
    }
    kept = [(part, stat) for key, (part, stat) in parts_by_id.items() if key in own and stat.count]
    names = [f"{word_of(stat, whole.kind)}{_window(part) if part.window else ''}" for part, stat in kept]
    title = f"Requests: {wording.instrument(whole.kind, whole.labels)}, conversations"
    return series_table(title, report, [stat for _, stat in kept], names)


def odd(whole: RequestCounts) -> Iterator[str]:
    """Yield the numbers of calls and durations that are in no figure."""
    if whole.after_end:
        yield f"{number_of(whole.after_end, 'call')} for requests that had already ended or are unknown"
    if whole.out_of_order:
        yield f"{number_of(whole.out_of_order, 'duration')} ignored: the end is before the beginning"


def late_in(report: Report, parts: Sequence[RequestCounts]) -> Iterator[str]:
    """Yield findings that requests of these windows went out late."""
    for part in parts:
        if (finding := late_words(part)) and finding in report.findings:
            yield finding


def figures_of(report: Report, of: RequestCounts) -> RequestFigures | None:
    """Return the report's figures of the same requests."""
    for figures in report.requests:
        if figures.kind == of.kind and figures.labels == of.labels:
            return next((part for part in (figures, *figures.windows) if part.window == of.window), None)
    return None


def _window(of: RequestCounts) -> str:
    if of.window is None:
        return ""
    return f", window {printable(of.window)}" if of.window else ", outside any window"


def _window_row(of: RequestCounts, name: str, part: bool) -> list[str]:
    counts = (of.issued, of.completed, of.failures, of.expired, None if part else of.in_flight)
    overall = of.rates.overall
    rates = (_rate(getattr(overall, field), of, field) for field in _PER_S)
    return [printable(name), *map(formatting.count, counts), *rates]


def _rate(per_s: float | None, of: RequestCounts, field: str) -> str:
    """Return a rate. A single completed request has no rate of requests."""
    return NOTHING if field == "requests_per_s" and of.completed == 1 else formatting.rate(per_s)


def _latency_cells(report: Report, of: RequestCounts, shown: Sequence[str], own: Collection[int]) -> Iterator[str]:
    """Yield cells of percentiles. A name that is not in the snapshot stands for a sum of several series."""
    for word in shown:
        stat = of.series.get(word)
        for key in _LATENCIES[word]:
            if stat is None or id(stat) in own:
                yield NOTHING if stat is None else percentile_words(report, stat, key)
                continue
            value = formatting.quantity(stat.percentiles.get(key), stat.unit)
            yield value if value == NOTHING else f"{_AT_MOST}{value}"


def _has_values(of: RequestCounts, word: str) -> bool:
    return word in of.series and of.series[word].count > 0


def _of_cells(stat: SeriesStat, stops: Iterable[EarlyStop]) -> bool:
    """Return whether bounds are ends of cells of the display histogram. Ignores a bound that is the maximum."""
    ends = {edge(cell + 1) * stat.cell_unit for cell, _ in stat.histogram if 0 <= cell < CELLS}
    bounds = {stop.bound for stop in stops} - {None, stat.max}
    return bool(bounds) and bounds <= ends


def _stop(stop: EarlyStop | None, unit: str) -> str:
    if stop is None:
        return NOTHING
    if stop.missing:
        return f"{formatting.count(stop.missing)} more"
    return formatting.quantity(stop.bound, unit)


def _shape(report: Report, stat: SeriesStat | None) -> list[str]:
    """Return p50, p90, p99 and the maximum."""
    if stat is None:
        return [NOTHING] * 4
    cells = [percentile_words(report, stat, key) for key in ("50", "90", "99")]
    return [*cells, formatting.quantity(stat.max, stat.unit)]


def word_of(stat: SeriesStat, kind: str) -> str:
    """Return the word, with its unit if that is not the unit by definition."""
    word = words.canonical(stat.name.removeprefix(f"{kind}."))
    return word if stat.unit == words.INSTRUMENTS[word][1] else wording.instrument(word, {}, stat.unit)


def _named(numbers: Mapping[str, Number], what: str) -> str:
    """Return numbers with their names, such as ` (7 stop, 3 length)`, largest first.

    `what` is the kind of the names.
    """
    ordered = sorted(numbers.items(), key=lambda item: -item[1])
    names = [_reason(name) for name, _ in ordered[:_REASONS_SHOWN]]
    cut = [formatting.without_middle(name, _REASON_COLUMNS) for name in names]
    shown = [f"{formatting.count(number)} {name}" for (_, number), name in zip(ordered, cut, strict=False)]
    hidden = len(ordered) - len(shown)
    if hidden:
        shown.append(number_of(hidden, f"more {what}"))
    return f" ({', '.join(shown)})" if shown else ""


def _reason(name: str) -> str:
    return (printable(name) if name.strip() else "(blank)") if name else "without a reason"
