"""What a report says, once, for every text form of it: a headline and sections.

Everything here is a field of the snapshot or of the report, rounded for reading; nothing is computed that the JSON
form does not carry, but ages. All text from outside passes through `printable`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from telemetry import humane, phrases
from telemetry.humane import NOTHING, printable
from telemetry.report.table import Column, Section, Table
from telemetry.wire.report import SOURCE_WORDS, Report
from telemetry.wire.snapshot import CommandFacts, MetricsSnapshot, ProducerStat, SeriesStat

_PRODUCERS_SHOWN: Final = 20
_MARKS_SHOWN: Final = 20
_GAPS_SHOWN: Final = 4
_PARAM_CHARS: Final = 56
"""Of a value: with its name it fits 80 columns."""
_FIRST_PERCENTILES: Final = {"50": 1, "99": 2, "90": 5, "99.9": 6, "95": 7}
"""What a narrow table keeps longest; see Column.keep."""


@dataclass(frozen=True)
class Content:
    headline: str
    facts: list[str]
    sections: list[Section]


def content(report: Report) -> Content:
    """The whole report. Sections with nothing to say are left out."""
    snapshot = report.snapshot
    sections = [
        _losses(snapshot),
        _producers(report),
        _command(snapshot.command),
        _series(snapshot),
        _counters(snapshot),
        _gauges(snapshot),
        _progress(snapshot),
        _marks(snapshot),
        _params(snapshot),
        _cost(snapshot),
        Section("Warnings", [printable(text) for text in snapshot.warnings]),
        Section("Files", [printable(snapshot.directory)] if snapshot.directory else []),
    ]
    return Content(printable(report.headline()), list(_facts(report)), [part for part in sections if part])


def _facts(report: Report) -> Iterator[str]:
    snapshot = report.snapshot
    parts = [f"run {snapshot.run_id}"]
    if snapshot.started_ns:
        parts.append(f"started {humane.timestamp(snapshot.started_ns)}")
    parts.append(f"{'took' if report.final else 'running for'} {humane.duration_s(snapshot.elapsed_s)}")
    if snapshot.reason:
        parts.append(snapshot.reason)
    yield printable(" · ".join(parts))
    if report.source_reason or not report.final:
        reason = f": {report.source_reason}" if report.source_reason else ""
        yield printable(f"from {SOURCE_WORDS[report.source]}{reason}")
    silent = _named(snapshot, snapshot.pending.producers) if report.final else []
    if silent:
        yield f"never ended: {', '.join(silent)}"
    awaited = [] if report.final else _named(snapshot, snapshot.pending.producers)
    if waiting := [*awaited, *phrases.waiting(snapshot.pending)]:
        yield printable(f"waiting for {', '.join(waiting)}")


def _named(snapshot: MetricsSnapshot, producers: Sequence[str]) -> list[str]:
    """By name, host and pid, those of unknown ones by their id."""
    known = {stat.producer: stat for stat in snapshot.producers}
    shown = [
        phrases.producer(known[key]) if key in known else printable(key) for key in producers[:_PRODUCERS_SHOWN]
    ]
    return [*shown, "…"] if len(producers) > _PRODUCERS_SHOWN else shown


def _losses(snapshot: MetricsSnapshot) -> Section:
    account = snapshot.accounting
    losses = [
        *((reason, number, "events") for reason, number in account.dropped_by_producer.items()),
        *((reason, number, "events") for reason, number in account.dropped.items()),
        *((reason, number, "frames") for reason, number in account.bad_frames.items()),
    ]
    rows = [
        [printable(reason), f"{humane.count(number)} {what}", phrases.REASON_WORDS.get(reason, "")]
        for reason, number, what in losses
    ]
    if account.missing:
        rows.append(["missing", f"{humane.count(account.missing)} events", "sent, but never arrived"])
    if account.waiting:
        rows.append(["waiting", f"{humane.count(account.waiting)} events", "no definition has come for their id"])
    return Section(
        "Losses", table=Table([Column("reason"), Column("how many"), Column("why", 1, right=False)], rows)
    )


def _producers(report: Report) -> Section:
    """One line if all went well, else a table of those that did not."""
    producers, account = report.snapshot.producers, report.snapshot.accounting
    troubled = [stat for stat in producers if stat.completeness != "complete" or stat.missing]
    if not producers:
        return Section("Producers", ["none"])
    fine = humane.count(len(producers) - len(troubled))
    if not troubled:
        repaired = f", {phrases.batches(account.repaired)} repaired" if account.repaired else ""
        return Section("Producers", [f"{fine}, all complete{repaired}"])
    heads = [
        Column("producer"),
        Column("status", 2, right=False),
        Column("result", right=False),
        Column("emitted", 1),
        Column("received", 3),
        Column("applied", 1),
        Column("missing", 1),
    ]
    rows = [_producer_row(stat, over=report.source != "status" or report.final) for stat in troubled]
    notes = [f"{fine} more, all complete"] if len(troubled) < len(producers) else []
    for stat in troubled[:_PRODUCERS_SHOWN]:
        said = list(_producer_notes(stat, report, alone=len(producers) == 1))
        notes += [f"{phrases.producer(stat)}: {' · '.join(said)}"] if said else []
    return Section("Producers", table=Table(heads, rows), notes=notes, rows_shown=_PRODUCERS_SHOWN)


def _producer_row(stat: ProducerStat, *, over: bool) -> list[str]:
    """`over`: the run is, and nobody is live."""
    status = "not ended" if over and stat.status == "live" else stat.status
    numbers = (stat.emitted, stat.received, stat.applied, stat.missing)
    return [phrases.producer(stat), status, stat.completeness, *(humane.count(number) for number in numbers)]


def _producer_notes(stat: ProducerStat, report: Report, *, alone: bool) -> Iterator[str]:
    """What happened to it. Losses of the only producer are those of the run."""
    if said := _whereabouts(stat, report):
        yield said
    losses = {**stat.dropped_by_producer, **stat.dropped}
    if losses and not alone:
        yield printable(", ".join(f"{reason} {humane.count(n)}" for reason, n in losses.items()))
    if stat.missing_batches:
        may_come = "" if report.final else ", which may still come"
        yield f"missing batches {_ranges(stat.missing_batches)}{may_come}"
    if stat.unrepairable:
        which = f" ({_ranges(stat.unrepairable_batches)})" if stat.unrepairable_batches else ""
        yield f"{phrases.batches(stat.unrepairable)} lost for good{which}"
    if stat.repaired:
        yield f"{phrases.batches(stat.repaired)} repaired"


def _whereabouts(stat: ProducerStat, report: Report) -> str:
    """Of one that has not ended, unless it is well."""
    over = report.source != "status" or report.final
    if stat.completeness in ("complete", "lossy") or (stat.status == "live" and not over):
        return ""
    silence = report.snapshot.time_ns - stat.last_event_ns
    age = f"{humane.duration_ns(max(0, silence))} {'before the end' if over else 'ago'}"
    last = f"its last event was {age}" if stat.last_event_ns else "no event of it came"
    return f"never ended, {last}" if over and stat.completeness == "incomplete" else last


def _ranges(batches: Sequence[tuple[int, int]]) -> str:
    shown = [(humane.count(first), humane.count(last)) for first, last in batches[:_GAPS_SHOWN]]
    said = [first if first == last else f"{first}–{last}" for first, last in shown]
    return ", ".join([*said, "…"] if len(batches) > _GAPS_SHOWN else said)


def _command(command: CommandFacts | None) -> Section:
    if command is None:
        return Section("Command")
    facts = [
        phrases.ending(command),
        f"wall {humane.duration_s(command.wall_s)}",
        f"CPU {humane.duration_s(command.cpu_user_s)} user, {humane.duration_s(command.cpu_system_s)} system",
        f"peak memory {humane.size(command.max_rss_bytes)}",
    ]
    return Section("Command", [printable(shlex.join(command.argv)), " · ".join(facts)])


def _series(snapshot: MetricsSnapshot) -> Section:
    stats = snapshot.series
    if not stats:
        return Section("Series")
    keys = sorted({key for stat in stats for key in stat.percentiles}, key=_by_number)
    bounds = {phrases.error_bound(stat) for stat in stats if stat.count}
    title = f"Series, percentiles {next(iter(bounds))}" if len(bounds) == 1 else "Series"
    heads = [
        Column("name"),
        Column("count"),
        Column("mean", 4),
        Column("min", 8),
        *(Column(f"p{printable(key)}", _FIRST_PERCENTILES.get(key, 9)) for key in keys),
        Column("max", 3),
        Column("stddev", 10),
    ]
    mixed = len(bounds) > 1
    if mixed:
        heads.append(Column("error", 1))
    rows = [_series_row(stat, keys) + ([phrases.error_bound(stat)] if mixed else []) for stat in stats]
    notes = [note for stat in stats if (note := _series_note(stat))]
    if snapshot.exact_reason and not snapshot.exact:
        notes.append(f"not exact: {printable(snapshot.exact_reason)}")
    return Section(title, table=Table(heads, rows), notes=notes)


def _by_number(percentile: str) -> tuple[bool, float, str]:
    """What is no number comes last."""
    try:
        return False, float(percentile), percentile
    except ValueError:
        return True, 0.0, percentile


def _series_row(stat: SeriesStat, keys: list[str]) -> list[str]:
    values = [stat.mean, stat.min, *(stat.percentiles.get(key) for key in keys), stat.max, stat.stddev]
    cells = [humane.quantity(value, stat.unit) for value in values]
    return [phrases.instrument(stat.name, stat.labels, stat.unit), humane.count(stat.count), *cells]


def _series_note(stat: SeriesStat) -> str:
    said = phrases.outside(stat)
    return f"{phrases.instrument(stat.name, stat.labels)}: {said}" if said else ""


def _counters(snapshot: MetricsSnapshot) -> Section:
    heads = [Column("name"), Column("value"), Column(_window_title(snapshot), 1)]
    rows = [
        [
            phrases.instrument(stat.name, stat.labels, stat.unit),
            humane.quantity(stat.value, stat.unit) if humane.carries_unit(stat.unit) else humane.count(stat.value),
            humane.rate(stat.rate, stat.unit),
        ]
        for stat in snapshot.counters
    ]
    return Section("Counters", table=Table(heads, rows))


def _window_title(snapshot: MetricsSnapshot) -> str:
    return f"last {snapshot.window_s:g} s" if snapshot.window_s else "rate"


def _gauges(snapshot: MetricsSnapshot) -> Section:
    heads = [Column("name"), Column("last value"), Column("min", 1), Column("max", 1)]
    rows = [
        [
            phrases.instrument(stat.name, stat.labels, stat.unit),
            *(humane.quantity(value, stat.unit) for value in (stat.value, stat.min, stat.max)),
        ]
        for stat in sorted(snapshot.gauges, key=lambda stat: (stat.name, sorted(stat.labels.items())))
    ]
    return Section("Gauges", table=Table(heads, rows))


def _progress(snapshot: MetricsSnapshot) -> Section:
    rows = [[printable(item.name), humane.count(item.done), humane.count(item.total)] for item in snapshot.progress]
    return Section("Progress", table=Table([Column("name"), Column("done"), Column("of")], rows))


def _marks(snapshot: MetricsSnapshot) -> Section:
    shown = snapshot.marks[-_MARKS_SHOWN:]
    earlier = [f"the last {len(shown)} of {len(snapshot.marks)}"] if len(shown) < len(snapshot.marks) else []
    lines = [f"{humane.clock_time(mark.time_ns)}  {phrases.instrument(mark.text, mark.labels)}" for mark in shown]
    return Section("Marks, UTC", earlier + lines)


def _params(snapshot: MetricsSnapshot) -> Section:
    values = {name: printable(_scalar(value)) for name, value in snapshot.params.items()}
    rows = [[printable(name), _cut(value)] for name, value in values.items()]
    notes = (
        ["values that end with … are whole in the JSON form"]
        if max(map(len, values.values()), default=0) > _PARAM_CHARS
        else []
    )
    return Section("Parameters", table=Table([Column("name"), Column("value", right=False)], rows), notes=notes)


def _cut(text: str) -> str:
    return text if len(text) <= _PARAM_CHARS else f"{text[: _PARAM_CHARS - 1]}…"


def _scalar(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: NOTHING}[value]
    return str(value)


def _cost(snapshot: MetricsSnapshot) -> Section:
    cost = snapshot.cost
    if not cost.ticks:
        return Section("Cost of telemetry")
    late = f", {humane.count(cost.ticks_late)} of {humane.count(cost.ticks)} ticks late" if cost.ticks_late else ""
    disk = [
        f"{humane.size(number)} {what}"
        for what, number in (("journal", cost.journal_bytes), ("history", cost.history_bytes))
        if number
    ]
    facts = [
        f"CPU {humane.duration_s(cost.cpu_s)}",
        f"memory {humane.size(cost.rss_bytes)}",
        f"received {humane.size(cost.frame_bytes)} in {humane.count(cost.frames)} frames",
        f"longest tick {humane.duration_ns(cost.tick_ms_max * 1e6)}{late}",
        *disk,
    ]
    return Section("Cost of telemetry", [" · ".join(facts)])
