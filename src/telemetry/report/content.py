"""The content of a report for every text form: alarms, a headline, facts and sections.

Numbers are fields of the snapshot or of the report, rounded for reading. Only ages and rates over the whole run are
computed. All text from outside passes through `printable`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from telemetry.common import formatting, wording
from telemetry.common.formatting import number_of, printable
from telemetry.common.headline_choice import chosen
from telemetry.history.headlines import Headline, headline
from telemetry.report import brief
from telemetry.report.accounting import PRODUCERS_SHOWN, losses, producers, troubled
from telemetry.report.backends import backends
from telemetry.report.brief import masked
from telemetry.report.distributions import distributions
from telemetry.report.gates import gate_lines, tally
from telemetry.report.imported import imported
from telemetry.report.nodes import nodes
from telemetry.report.over_time import busiest, courses, each_over_time
from telemetry.report.request_summary import request_sections
from telemetry.report.requests import late
from telemetry.report.series import counters, gauges, machine, part_s, series, series_summary
from telemetry.report.sources import sources_sections
from telemetry.report.spans import spans
from telemetry.report.steps import steps
from telemetry.report.stragglers import stragglers
from telemetry.report.table import DOT, ReportTable, Section, TableColumn, cut
from telemetry.wire.collectors import is_of_surroundings
from telemetry.wire.events import Scalar
from telemetry.wire.report import SOURCE_WORDS, Report, TimeRange
from telemetry.wire.snapshot import PROGRAM_FAILED, CommandFacts, MetricsSnapshot

OverTime = Literal["none", "courses", "busiest", "each"]
_ROWS: Final = 12
"""Rows of counters and of gauges in a short report."""
_MARKS_SHOWN: Final = 20
_PARAM_COLUMNS: Final = 56
"""The columns of a value: with its name it fits into 80."""
_ENDINGS: Final = ("the command exited", "the command was killed", PROGRAM_FAILED)
"""Starts of reasons that the outcome of the command says too."""
_UNNAMED: Final = "an expected node"
_PARTS: Final = {
    "given": ("only", "no such time range"),
    "trim_warmup": ("without the warm-up,", "no end of the warm-up"),
    "steady": ("steady time range,", "no steady time range"),
}
"""TimeRange.chosen → how a part of this kind is introduced, and what is said if there is none."""


@dataclass(frozen=True)
class Content:
    headline: str
    facts: list[str]
    sections: list[Section]
    alarms: Sequence[str] = ()
    """How the command failed, and why nothing was recorded. They come before the headline."""
    gates: str = ""
    """Outcomes of the gates in one line; empty without gates."""
    concerns: Sequence[str] = ()
    """What did not go well, although the data may be complete."""
    went_well: str = ""
    """Line about a run that went well; empty for any other."""


def content(report: Report, *, full: bool = True, over_time: OverTime = "courses") -> Content:
    """Return the report: a summary, then details. Sections with nothing to say are left out.

    Without `full`, figures that few readers need are left out, and the rest is shorter. Over time: a line for each
    of the busiest series, the steps of a few of them, or those of each.
    """
    details = _full(report) if full else _brief(report)
    sections = [*_summary(report, full=full), *_over_time(report, over_time), *details]
    return Content(
        printable(report.headline()),
        list(_about(report)),
        [section for section in sections if section],
        list(brief.alarms(report)),
        gates_words(report) if report.gates else "",
        [printable(line) for line in brief.concerns(report)],
        brief.went_well(report),
    )


def _summary(report: Report, *, full: bool) -> Iterator[Section]:
    """Yield what a user wants to know first. What comes first depends on the kind of run."""
    yield gate_lines([gate for gate in report.gates if full or gate.outcome != "pass"])
    yield _chosen(report)
    first = next((head.flavour for head in headlines(report)), "metrics")
    parts = [list(steps(report, full=full)), list(request_sections(report, full=full))]
    for part in parts if first == "training" else reversed(parts):
        yield from part
    yield stragglers(report)
    yield spans(report)
    yield distributions(report)
    yield series(report) if full else series_summary(report)
    most = None if full else _ROWS
    yield counters(report.snapshot, part_s(report), most=most)
    yield gauges(report.snapshot, most=most)
    if full:
        yield machine(report.snapshot)
    yield imported(report, full=full)
    yield progress(report.snapshot) if full else brief.progress(report.snapshot)


def headlines(report: Report) -> list[Headline]:
    """Return the headlines of a report, the most important first."""
    return headline(
        report.snapshot, recent=False, curves=report.curves, requests=report.requests, seconds=part_s(report)
    )


def _chosen(report: Report) -> Section:
    """Return the figures that the user chose to see first."""
    if not chosen(report.snapshot.params):
        return Section("Headline")
    heads = headlines(report)
    rows = [[figure.title, figure.text, figure.note] for line in heads for figure in line.figures]
    columns = [TableColumn(""), TableColumn("", strong=True), TableColumn("", right=False, wraps=True)]
    return Section("Headline", table=ReportTable(columns, rows))


def _over_time(report: Report, form: OverTime) -> Iterator[Section]:
    if form == "each":
        yield from each_over_time(report)
    elif form != "none":
        yield {"courses": courses, "busiest": busiest}[form](report)


def _full(report: Report) -> Iterator[Section]:
    snapshot = report.snapshot
    yield losses(snapshot)
    yield nodes(report)
    yield producers(report)
    yield backends(report)
    yield from sources_sections(report)
    yield marks(snapshot)
    yield warnings(report)
    yield params(snapshot)
    yield surroundings(snapshot)
    yield masked(snapshot)
    yield command(snapshot.command)
    yield cost(snapshot)
    yield files(snapshot)


def _brief(report: Report) -> Iterator[Section]:
    yield losses(report.snapshot)
    yield nodes(report)
    if report.snapshot.direct_producers > 1 or troubled(report):
        yield producers(report)
    yield backends(report)
    yield from sources_sections(report)
    yield brief.marks(report.snapshot)
    yield brief.warnings(report)
    yield brief.closing(report)


def _about(report: Report) -> Iterator[str]:
    """Yield what to try if nothing was recorded, then the facts but the gates."""
    yield from brief.advice(report)
    lines = facts(report)
    yield from list(lines)[1:] if report.gates else lines


def facts(report: Report) -> Iterator[str]:
    """Yield the outcome of gates, the run, its start and length, the time range, and the source of the numbers."""
    snapshot = report.snapshot
    if report.gates:
        yield gates_words(report)
    yield printable(DOT.join(_run_facts(report)))
    yield from time_range_facts(report)
    if report.source_reason or not report.final:
        reason = f": {report.source_reason}" if report.source_reason else ""
        yield printable(f"from {SOURCE_WORDS[report.source]}{reason}")
    silent = _named(snapshot, wording.not_ended(snapshot)) if report.final else []
    if silent:
        yield f"never ended: {', '.join(silent)}"
    lacking = wording.incomplete_nodes(snapshot) if report.final else []
    if lacking:
        more = ", …" if len(lacking) > PRODUCERS_SHOWN else ""
        yield f"nodes that are not complete: {', '.join(lacking[:PRODUCERS_SHOWN])}{more}"
    unfinished = [stat.producer for stat in snapshot.own_producers if stat.unfinished] if report.final else []
    if unfinished:
        yield f"still recording when the run ended: {', '.join(_named(snapshot, unfinished))}"
    if beyond := wording.overflow(snapshot):
        yield f"without figures of their own: {beyond}, which are counted in overflow"
    awaited = [] if report.final else _named(snapshot, snapshot.pending.producers)
    if waiting := ", ".join([*awaited, *wording.waiting(snapshot)]):
        yield printable(f"waiting for {waiting}" if snapshot.state == "DRAINING" else waiting)


def _run_facts(report: Report) -> Iterator[str]:
    snapshot = report.snapshot
    yield f"{'took' if report.final else 'running for'} {formatting.duration_s(snapshot.elapsed_s)}"
    if snapshot.command is not None:
        yield wording.run_ending(snapshot.command, report.gates)
    if snapshot.started_ns:
        yield f"started {formatting.timestamp(snapshot.started_ns)}"
    yield f"run {snapshot.run_id}"
    if snapshot.reason and not snapshot.reason.startswith(_ENDINGS):
        yield snapshot.reason


def time_range_facts(report: Report) -> Iterator[str]:
    """Yield the time range of series, counters and gauges, and what is not of this time range."""
    if report.time_range is not None:
        yield time_range_words(report.time_range)
        if report.snapshot.axes:
            yield "steps and their values are those of the whole run"


def time_range_words(time_range: TimeRange) -> str:
    """Describe a time range, and how it was found."""
    introduced, missing = _PARTS[time_range.chosen]
    start, end = formatting.duration_s(time_range.start_s), formatting.duration_s(time_range.end_s)
    looked = f"{missing} was found between {start} and {end} of the run, so this shows that whole time range"
    sentence = f"{introduced} {start} to {end} of the run" if time_range.found else looked
    return printable(f"{sentence}: {time_range.reason}" if time_range.reason else sentence)


def gates_words(report: Report) -> str:
    return f"gates: {tally(report.gates)}"


def _named(snapshot: MetricsSnapshot, producers: Sequence[str]) -> list[str]:
    """Name producers by name, host and pid, and leaves by their node; unknown ones by their id."""
    name_by_key = wording.names(snapshot)
    shown = [name_by_key.get(key) or printable(key) or _UNNAMED for key in producers[:PRODUCERS_SHOWN]]
    return [*shown, "…"] if len(producers) > PRODUCERS_SHOWN else shown


def command(command: CommandFacts | None) -> Section:
    """Describe the wrapped command: its exit code, time and memory."""
    if command is None:
        return Section("Command")
    facts = [
        wording.ending(command),
        f"wall {formatting.duration_s(command.wall_s)}",
        f"CPU {formatting.duration_s(command.cpu_user_s)} user,"
        f" {formatting.duration_s(command.cpu_system_s)} system",
        *([f"peak memory {formatting.size(command.max_rss_bytes)}"] if command.max_rss_bytes else []),
    ]
    return Section("Command", [printable(shlex.join(command.argv)), " · ".join(facts)])


def progress(snapshot: MetricsSnapshot) -> Section:
    """List counters that have an expected total."""
    rows = [
        [printable(item.name), formatting.count(item.done), formatting.count(item.total)]
        for item in snapshot.progress
    ]
    return Section(
        "Progress", table=ReportTable([TableColumn("name"), TableColumn("done"), TableColumn("of")], rows)
    )


def marks(snapshot: MetricsSnapshot) -> Section:
    """List the newest marks."""
    shown = sorted(snapshot.marks, key=lambda mark: mark.time_ns)[-_MARKS_SHOWN:]
    earlier = [f"the last {len(shown)} of {len(snapshot.marks)}"] if len(shown) < len(snapshot.marks) else []
    lines = [
        f"{formatting.clock_time(mark.time_ns)}  {wording.instrument(mark.text, mark.labels)}" for mark in shown
    ]
    return Section("Marks, UTC", earlier + lines)


def params(snapshot: MetricsSnapshot) -> Section:
    """List the params of the run; long values are shortened."""
    return _values(
        "Parameters", {name: value for name, value in snapshot.params.items() if not is_of_surroundings(name)}
    )


def surroundings(snapshot: MetricsSnapshot) -> Section:
    """List code, machine and software, as the collectors found them at the start."""
    return _values(
        "Environment", {name: value for name, value in snapshot.params.items() if is_of_surroundings(name)}
    )


def _values(title: str, params: Mapping[str, Scalar]) -> Section:
    values = brief.params(params)
    shown = {name: cut(value, _PARAM_COLUMNS) for name, value in values.items()}
    rows = [[name, value] for name, value in shown.items()]
    notes = ["values that end with … are complete in the JSON form"] if shown != values else []
    return Section(
        title, table=ReportTable([TableColumn("name"), TableColumn("value", right=False)], rows), notes=notes
    )


def cost(snapshot: MetricsSnapshot) -> Section:
    """List the CPU, memory and disk that telemetry itself used."""
    cost = snapshot.cost
    if not cost.ticks:
        return Section("Cost of telemetry")
    late = (
        f", {formatting.count(cost.ticks_late)} of {number_of(cost.ticks, 'tick')} late" if cost.ticks_late else ""
    )
    disk = [
        f"{formatting.size(number)} {what}"
        for what, number in (("journal", cost.journal_bytes), ("history", cost.history_bytes))
        if number
    ]
    facts = [
        f"CPU {formatting.duration_s(cost.cpu_s)}",
        f"memory {formatting.size(cost.rss_bytes)}",
        f"received {formatting.size(cost.frame_bytes)} in {number_of(cost.frames, 'frame')}",
        f"longest tick {formatting.duration_ns(cost.tick_ms_max * 1e6)}{late}",
        *disk,
    ]
    return Section("Cost of telemetry", [" · ".join(facts)])


def warnings(report: Report) -> Section:
    """List warnings of the run and findings. Findings that stand above the requests are left out."""
    above = set(late(report))
    findings = [text for text in report.findings if text not in above]
    return Section("Warnings", [printable(text) for text in (*report.snapshot.warnings, *findings)])


def files(snapshot: MetricsSnapshot) -> Section:
    """Name the run directory."""
    return Section("Files", [printable(snapshot.directory)] if snapshot.directory else [])
