"""Requests in a report: success, requests a second, limits, times and their phases, sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from telemetry.common import formatting, wording
from telemetry.common.formatting import number_of, printable
from telemetry.common.slo import describe, parse
from telemetry.errors import UsageError
from telemetry.history.headlines import all_kinds
from telemetry.history.rates import Paces, per_second
from telemetry.history.request_model import RequestCounts, request_counts
from telemetry.report.requests import (
    KINDS_SHOWN,
    conversations,
    early_stopping,
    figures_of,
    is_part,
    late_in,
    measured,
    odd,
    outcomes,
    parts_of,
    title_of,
    turns,
    windows,
    word_of,
)
from telemetry.report.series import part_s, summary_table
from telemetry.report.table import DOT, ReportTable, Section, TableColumn
from telemetry.wire import requests as words
from telemetry.wire.report import EarlyRule, Report, RequestFigures
from telemetry.wire.snapshot import SeriesStat
from telemetry.wire.units import TIME_NS

_KINDS: Final = 3
"""Kinds with a summary in a short report: those with the most requests."""
_TURNS: Final = 5
"""Turns of conversations in a short report."""
_MEASURED: Final = (
    *(words.TTFT, words.TPOT, words.ITL, words.LATENCY, words.CORRECTED),
    *(words.INPUT_TOKENS, words.OUTPUT_TOKENS),
)
"""Series of a short report, in this order."""
_NAMES: Final = {
    words.CORRECTED: "  from planned",
    words.INPUT_TOKENS: "input tokens",
    words.OUTPUT_TOKENS: "output tokens",
}
MEAN_REQUEST: Final = "mean request"
"""Name of the row that tells where the time of a request goes."""
_ADDED: Final = frozenset({"requests/s", "output tokens/s", "requests", "share"})
"""Units of figures of all kinds together."""
_FIGURES: Final = (TableColumn(""), TableColumn("", strong=True), TableColumn("", right=False, wraps=True))


def request_sections(report: Report, *, full: bool) -> Iterator[Section]:
    """Yield a section of all requests if there are several kinds, and those of each kind, the busiest first.

    Without `full` only the tracking window with the most requests has its figures, beside a table of all windows.
    """
    return (section for section, _ in sections_of(report, full=full))


def sections_of(report: Report, *, full: bool) -> Iterator[tuple[Section, RequestCounts | None]]:
    """Yield the sections, each with the requests whose outcomes are its first line, or None."""
    candidates = sorted(request_counts(report.snapshot), key=lambda counts: -counts.issued)
    kinds = [counts for counts in candidates if not is_part(report) or _has_requests(counts)]
    shown = kinds[: KINDS_SHOWN if full else _KINDS]
    if len(kinds) > 1:
        yield _total(report), None
    for counts in shown:
        yield from _kind(report, counts, full=full)
    if hidden := kinds[len(shown) :]:
        names = formatting.listed([wording.instrument(counts.kind, counts.labels) for counts in hidden], 8)
        document = "JSON form" if full else "full report"
        yield Section("Requests of other kinds", [f"{names}: see the {document}"]), None


def _total(report: Report) -> Section:
    """Return counts and rates of the requests of all kinds together. Percentiles do not add up."""
    total = all_kinds(report.snapshot, seconds=part_s(report))
    if total is None:
        return Section("")
    rows = [[figure.title, figure.text, figure.note] for figure in total.figures if figure.unit in _ADDED]
    return Section(f"Requests: {total.subject}", table=ReportTable(list(_FIGURES), rows))


def _has_requests(of: RequestCounts) -> bool:
    """Return whether any request was issued or ended: a time range may have none of a kind."""
    return bool(of.issued or of.ended)


def _kind(report: Report, whole: RequestCounts, *, full: bool) -> Iterator[tuple[Section, RequestCounts | None]]:
    parts = parts_of(whole)
    after, cautions = list(odd(whole)), list(late_in(report, parts))
    if len(parts) > 1:
        lines = [_outcomes(report, whole), *after]
        yield replace(windows(report, whole), lines=lines, cautions=cautions), whole
        after, cautions = [], []
    shown = parts if full else [max(parts, key=lambda part: (bool(part.window), part.issued))]
    for part in shown:
        table = ReportTable(list(_FIGURES), list(_figures(report, part, full=full)))
        title = f"{title_of(part)}{_exactness(part)}"
        yield Section(title, [_outcomes(report, part), *after], cautions=cautions, table=table), part
        yield _measured(report, part, full=full), None
        if part.window != "" and (full or _asks_early(report, whole)):
            # Limits do not concern requests outside of windows.
            yield early_stopping(report, part), None
        by_turn = turns(report, part)
        yield by_turn if full else _shortened(by_turn), None
    if full:
        yield conversations(report, whole), None


def _asks_early(report: Report, of: RequestCounts) -> bool:
    """Return whether the settings or the program asked for early stopping."""
    is_condition = words.stop_param(of.kind, of.labels) in report.snapshot.params
    return is_condition or report.early_rule != EarlyRule()


def _outcomes(report: Report, of: RequestCounts) -> str:
    """Return `1,450 of 1,500 completed (1,388 stop) · 45 failed (33 timeout) · 2 expired · 3 in flight`."""
    (_, _, completed), *others = outcomes(of, part=is_part(report))
    summary = completed.replace(" completed", f" of {formatting.count(of.issued)} completed", 1)
    return printable(DOT.join([summary, *(text for _, number, text in others if number)]))


def _figures(report: Report, of: RequestCounts, *, full: bool) -> Iterator[list[str]]:
    """Yield rows of name, value and further figures. Rows without data are left out.

    `full`: with output tokens per second by each definition.
    """
    figures = figures_of(report, of)
    if figures is None:
        return
    if load := list(_load(of, figures)):
        first, *rest = load
        yield ["time", first, DOT.join(rest)]
    rates, seconds = of.rates, _seconds(report, of)
    if rates.overall.requests_per_s is not None:
        others = (
            ("while issuing", rates.while_issuing.requests_per_s),
            ("as LoadGen counts", rates.loadgen.requests_per_s),
        )
        yield [
            "requests/s",
            _requests_per_s(rates.overall.requests_per_s, of),
            DOT.join(f"{_requests_per_s(rate, of)} {name}" for name, rate in others if rate is not None),
        ]
    elif seconds:
        yield ["requests/s", _per_s(per_second(of.completed, seconds)), "completed in the time range"]
    if figures.output_tokens_per_s is not None and of.has_tokens:
        defined = (
            ("while issuing", rates.while_issuing.tokens_per_s),
            ("as LoadGen counts", rates.loadgen.tokens_per_s),
        )
        parts = [f"{_per_s(rate)} {name}" for name, rate in defined if rate is not None and full]
        others = (("input", figures.input_tokens_per_s), ("total", figures.total_tokens_per_s))
        parts += [f"{name} {_per_s(rate)}" for name, rate in others if rate is not None]
        if figures.peak_output_tokens_per_s is not None:
            parts.append(f"best second {_per_s(figures.peak_output_tokens_per_s)}")
        yield ["output tokens/s", _per_s(figures.output_tokens_per_s), DOT.join(parts)]
    elif seconds and of.has_tokens and (tokens := of.series.get(words.OUTPUT_TOKENS)) is not None and tokens.count:
        yield ["output tokens/s", _per_s(per_second(tokens.total, seconds)), ""]
    if figures.good is not None:
        rate = per_second(figures.good, seconds) if seconds else figures.goodput_per_s
        yield ["goodput/s", _per_s(rate), DOT.join(_attainment(of, figures))]
    tpot = of.series.get(words.TPOT)
    if tpot is not None and tpot.count and (pace := _pace(tpot)):
        yield pace
    if mean := _mean_request(of):
        yield mean
    talks, turns_of = of.series.get(words.CONVERSATION_DURATION), of.series.get(words.CONVERSATION_TURNS)
    if talks is not None and talks.count:
        took = f"{formatting.quantity(talks.mean, talks.unit)} each"
        has_turns = turns_of is not None and turns_of.count
        turns_each = [f"{formatting.scaled(turns_of.mean)} turns"] if turns_of is not None and has_turns else []
        yield ["conversations", formatting.count(talks.count), DOT.join([took, *turns_each])]


def _requests_per_s(rate: float | None, of: RequestCounts) -> str:
    """Return a rate of requests. A single completed request has none."""
    return formatting.NOTHING if of.completed == 1 else _per_s(rate)


def _load(of: RequestCounts, figures: RequestFigures) -> Iterator[str]:
    """Yield the time from first issue to last end, how requests were planned, and how many were in flight."""
    latency = of.series.get(words.LATENCY)
    extent = latency.extent if latency is not None else None
    if extent is not None and figures.in_flight is not None:
        yield formatting.duration_ns(extent.end_ns - extent.first_ns)
        if figures.offered_per_s is not None:
            delay = of.series.get(words.QUEUE_DELAY)
            late = delay.percentiles.get("99") if delay is not None and delay.count else None
            lateness = ""
            if delay is not None and late is not None:
                whose = " of completed requests" if delay.count < of.issued else ""
                lateness = f" ({formatting.quantity(late, delay.unit)} late at p99{whose})"
            yield f"{_per_s(figures.offered_per_s)} requests/s {'offered' if lateness else 'issued'}{lateness}"
        flight = (
            [f"mean {formatting.scaled(figures.concurrency_mean)}"] if figures.concurrency_mean is not None else []
        )
        if figures.concurrency_peak is not None:
            least = "" if figures.concurrency_peak_exact else "≥ "
            flight.append(f"peak {least}{formatting.count(figures.concurrency_peak)}")
        if flight:
            yield f"in flight: {', '.join(flight)}"


def _attainment(of: RequestCounts, figures: RequestFigures) -> Iterator[str]:
    """Yield the share of requests within all limits, with its interval, and within each limit."""
    ended = of.completed + of.failures + of.expired
    if figures.attainment is not None:
        between = ""
        if figures.attainment_low is not None and figures.attainment_high is not None:
            between = f" (95 %: {_share(figures.attainment_low)} to {_share(figures.attainment_high)})"
        yield f"{_share(figures.attainment)} %{between} of {formatting.count(ended)} within {_limits(figures.slo)}"
    if len(figures.met) > 1 and ended:
        yield ", ".join(f"{printable(key)} {_share(met / ended)} %" for key, met in figures.met.items())


def _share(share: float) -> str:
    """Return a share in percent. Only all is 100, and only none is 0."""
    digits = next((n for n in range(1, 6) if round(share, n + 2) not in (0.0, 1.0) or share in (0.0, 1.0)), 6)
    return f"{share * 100:.{digits}f}"


def _limits(slo: str) -> str:
    """Return limits such as `ttft 200 ms, tpot 50 ms`."""
    try:
        return describe(parse(slo))
    except UsageError:  # unknown, or written by another version
        return printable(slo) or "their limits"


def _pace(tpot: SeriesStat) -> list[str]:
    """Return the speed of the output as one user sees it: the inverse of the time per token."""
    per_s = {key: _inverse(tpot, key) for key in ("50", "90", "99")}
    if per_s["50"] is None:
        return []
    slow = ((key, per_s[key]) for key in ("90", "99"))
    notes = [f"{_per_s(rate)} at p{key} of tpot" for key, rate in slow if rate is not None]
    return ["tokens/s per user", _per_s(per_s["50"]), DOT.join(["median", *notes])]


def _mean_request(of: RequestCounts) -> list[str]:
    """Return how long a request takes on average, and each phase of it; empty if the phases are unknown."""
    mean_phases = phases(of)
    total = sum(phase.mean_ns for phase in mean_phases)
    if total <= 0:
        return []
    parts = [f"{phase.name} {formatting.duration_ns(phase.mean_ns)}" for phase in mean_phases]
    return [MEAN_REQUEST, formatting.duration_ns(total), DOT.join(parts)]


def _inverse(tpot: SeriesStat, key: str) -> float | None:
    value, unit = tpot.percentiles.get(key), TIME_NS.get(tpot.unit)
    return 1e9 / (value * unit) if value and unit else None


def _measured(report: Report, of: RequestCounts, *, full: bool) -> Section:
    """Return the durations and sizes of requests."""
    if full:
        return replace(measured(report, of), title="", continues=True)
    shown = [word for word in _MEASURED if word != words.OUTPUT_TOKENS or of.has_tokens]
    stats = [of.series[word] for word in shown if word in of.series and of.series[word].count]
    if not stats:
        return Section("")
    names = [_named(stat, of.kind) for stat in stats]
    section = summary_table("", report, stats, names)
    figures = figures_of(report, of)
    notes = []
    if any(stat is of.series.get(words.ITL) for stat in stats) and figures is not None and figures.tokens_per_chunk:
        tokens = formatting.scaled(figures.tokens_per_chunk)
        notes.append(f"itl is the time between two chunks, which have {tokens} tokens on average")
    return replace(section, notes=notes + section.notes, continues=True)


def _exactness(of: RequestCounts) -> str:
    """Return `, percentiles exact` if all series are equally exact."""
    errors = {wording.error_bound(of.series[word]) for word in _MEASURED if word in of.series}
    bounds = errors - {formatting.NOTHING}
    return f", percentiles {bounds.pop()}" if len(bounds) == 1 else ""


def _named(stat: SeriesStat, kind: str) -> str:
    name = word_of(stat, kind)
    return _NAMES.get(name, name)


def _per_s(rate: float | None) -> str:
    """Return a rate without its unit; whole from a thousand on."""
    return formatting.scaled(rate) if rate is None or abs(rate) < 1000 else formatting.count(round(rate))


def _shortened(section: Section) -> Section:
    """Return a table with its first rows, and the number of the others."""
    if section.table is None or len(section.table.rows) <= _TURNS:
        return section
    rows: Sequence[list[str]] = section.table.rows[:_TURNS]
    more = number_of(len(section.table.rows) - _TURNS, "more turn is", "more turns are")
    notes = [*section.notes, f"{more} in the full report"]
    return replace(section, table=ReportTable(section.table.columns, list(rows)), notes=notes)


def _seconds(report: Report, of: RequestCounts) -> float | None:
    """Return the time in the report's time range in which there were such requests; None for the whole run."""
    part = part_s(report) if is_part(report) else None
    latency = of.series.get(words.LATENCY)
    if part is None or latency is None:
        return part
    return Paces(report.snapshot, part).of(latency).seconds


class Phase(NamedTuple):
    """A phase of a request and its mean duration. Means of phases add up, which percentiles do not."""

    name: str
    mean_ns: float


def phases(of: RequestCounts) -> list[Phase]:
    """Return the phases of completed requests. Empty unless each of them reported its first output.

    The queue is a phase if each of them was planned.
    """
    latency, first = _mean_ns(of, words.LATENCY), _mean_ns(of, words.TTFT)
    if latency is None or first is None or first > latency:
        return []
    queue = _mean_ns(of, words.QUEUE_DELAY)
    waiting = "first token" if of.has_tokens else "first byte"
    return [
        *([Phase("queue", queue)] if queue is not None else []),
        Phase(waiting, first),
        Phase("receiving", latency - first),
    ]


def _mean_ns(of: RequestCounts, word: str) -> float | None:
    """Return the mean of a duration that all completed requests have; None for any other."""
    stat, latency = of.series.get(word), of.series.get(words.LATENCY)
    if stat is None or stat.mean is None or not stat.count or stat.count != _count(latency):
        return None
    return float(stat.mean) * TIME_NS[stat.unit] if stat.unit in TIME_NS else None


def _count(stat: SeriesStat | None) -> int:
    return 0 if stat is None else stat.count
