"""Short parts of a report: alarms, warnings, masked values, parameters, the machine, and the cost of the run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from telemetry.common import formatting, wording
from telemetry.common.formatting import NOTHING, listed, number_of, printable
from telemetry.common.headline_choice import shown_params
from telemetry.history.headlines import failures, headline, not_finite
from telemetry.history.requests import unended
from telemetry.integrations.capture.capture_log import Signs, not_imported, read_signs
from telemetry.redaction import COUNTER, COUNTER_LABEL
from telemetry.redaction.named import NAMED
from telemetry.report.requests import late
from telemetry.report.series import part_s
from telemetry.report.table import DOT, ReportTable, Section, TableColumn, cut
from telemetry.wire.collectors import PROCESS_LABEL, is_of_machine, is_of_surroundings
from telemetry.wire.events import Scalar
from telemetry.wire.gates import worst
from telemetry.wire.report import Report
from telemetry.wire.requests import window_ages
from telemetry.wire.snapshot import CommandFacts, CounterStat, GaugeStat, MetricsSnapshot, without_single_nodes

_LATE: Final = 0.05
"""Share of late ticks from which they are mentioned, as in the findings."""
_TICKS: Final = 50
"""Ticks of a run that is long enough to mention late ones."""
_WARNINGS: Final = 5
_MARKS: Final = 4
_PARAMS: Final = 12
_EMPTY: Final = ("", "{}", "[]")
"""Values of parameters that say nothing: an empty text, dictionary or list."""
_VALUE_COLUMNS: Final = 40
_COMMIT_CHARS: Final = 12
_COMMAND_COLUMNS: Final = 160
_REASON_COLUMNS: Final = 320
_VARIES: Final = re.compile(r"`[^`]*`|\S*\d\S*")
"""Parts of a warning in which two warnings of the same kind differ."""
_NAMED: Final = 4
_CHECKS: Final[Mapping[str, str]] = {
    "lightning": "does a Trainer run, and does its module call self.log()?",
    "logging": "only messages of level WARNING or above are recorded.",
    "tensorboard": "does a process make a SummaryWriter and add values to it? Some programs do so on rank 0 only.",
    "transformers": "does a Trainer run, and does it reach logging_steps?",
    "wandb": "does a process call wandb.init() and log()?",
}
"""What to look at if a library was imported and logged nothing, by capture."""
_ROOT: Final = "runs"
"""Name of the default folder of runs, in which commands find a run by its id."""
_LIMITS: Final = "slo."
"""Prefix of parameters that the summary of requests shows."""


def alarms(report: Report) -> Iterator[str]:
    """Yield how the command or the program failed, and that nothing was recorded, or that nothing of it arrived."""
    snapshot = report.snapshot
    command = snapshot.command
    failed = wording.failure(snapshot)
    if failed and command is None:
        yield failed
    elif failed and command is not None:
        how = "command" if command.signal else "command failed:"
        cause = f" ({why})" if (why := wording.cause(command)) else ""
        yield f"{how} {wording.ending(command)}{cause}{DOT}{_typed(command)}"
    if failed and (reason := wording.last_exception(snapshot.marks)):
        yield cut(reason, _REASON_COLUMNS)
    if report.final and not has_data(snapshot):
        connected = number_of(snapshot.direct_producers, "producer")
        signs = _signs(report)
        unfinished = sum(stat.completeness != "complete" for stat in snapshot.own_producers)
        if unfinished:
            who = "it" if snapshot.direct_producers == 1 else f"{formatting.count(unfinished)} of them"
            yield f"no value arrived: {connected} connected, and {who} did not say how much it had recorded"
        elif signs.wanted and not signs.hooked:
            yield f"nothing was recorded: {not_imported(signs.wanted)}"
        elif signs.wanted:
            yield f"nothing was recorded: the capture of {listed(signs.wanted, _NAMED)} got no value"
        elif snapshot.direct_producers:
            yield f"nothing was recorded: {connected} connected, but recorded no value"
        else:
            yield "nothing was recorded: does the program call telemetry.start()?"


def concerns(report: Report) -> Iterator[str]:
    """Yield what did not go well in a run whose data may be complete: values that are not finite, and failures."""
    yield from not_finite(report.snapshot)
    failed = failures(headline(report.snapshot, recent=False, requests=report.requests, seconds=part_s(report)))
    if failed:
        yield DOT.join(failed)


def went_well(report: Report) -> str:
    """Say that the run went well, and by what that is known. Empty if it did not, goes on, or nothing shows it.

    A run that a program starts itself has no exit code. A program that did not end may have failed.

    Whether the data are complete is another question.
    """
    snapshot, command = report.snapshot, report.snapshot.command
    is_well = snapshot.state == "COMPLETE" and snapshot.completeness in ("complete", "lossy")
    is_well = is_well and worst(report.gates) == "pass" and report.time_range is None
    if not is_well or any(alarms(report)) or any(concerns(report)) or wording.last_exception(snapshot.marks):
        return ""
    signs = [wording.ending(command)] if command is not None else []
    signs += [f"{number_of(len(report.gates), 'gate')} passed"] if report.gates else []
    return f"went well: {DOT.join(signs)}" if signs else ""


def advice(report: Report) -> Iterator[str]:
    """Yield what to try if nothing was recorded."""
    snapshot = report.snapshot
    if not report.final or snapshot.command is None or has_data(snapshot):
        return
    signs = _signs(report)
    for name in signs.wanted if signs.hooked else ():  # else the alarm says so
        if processes := signs.hooked.get(name):
            check = _CHECKS.get(name, "does it log through this library?")
            by = listed(processes, _NAMED)
            yield printable(f"{name} was imported by {by}, but logged nothing: {check}")
        else:
            yield f"{name} was not imported by any Python process that the capture reached"
    if not signs.wanted and not snapshot.direct_producers:
        yield (
            "to record what the program logs through a library: telemetry run --capture NAME "
            "(names: telemetry capture list)"
        )


def _signs(report: Report) -> Signs:
    return read_signs(report.directory) if report.directory else Signs()


def has_data(snapshot: MetricsSnapshot) -> bool:
    """Return whether the job has recorded something. The figures of the machine are none of it."""
    account = snapshot.accounting
    names = chain((stat.name for stat in snapshot.counters), (stat.name for stat in snapshot.gauges))
    named = any(not is_of_machine(name) for name in names)
    metrics = snapshot.series or named or snapshot.axes
    return bool(account.emitted or account.bad_frames or snapshot.node_count or metrics or snapshot.marks)


def progress(snapshot: MetricsSnapshot) -> Section:
    """List counters that have not reached their expected total."""
    rows = [
        [printable(item.name), f"{formatting.count(item.done)} of {formatting.count(item.total)}"]
        for item in snapshot.progress
        if item.done < item.total
    ]
    return Section("Progress", table=ReportTable([TableColumn("name"), TableColumn("done")], rows))


def marks(snapshot: MetricsSnapshot) -> Section:
    """List the newest marks, without those of tracking windows."""
    own = {f"tracking {window} {what}" for window in window_ages(snapshot) for what in ("began", "ended")}
    others = [mark for mark in snapshot.marks if mark.text not in own]
    ordered = sorted(others, key=lambda mark: mark.time_ns)
    shown = ordered[-_MARKS:]
    more = [f"the last {len(shown)} of {len(ordered)}"] if len(shown) < len(ordered) else []
    lines = [
        f"{formatting.clock_time(mark.time_ns)}  {wording.instrument(mark.text, mark.labels)}" for mark in shown
    ]
    return Section("Marks, UTC", more + lines)


def params(values: Mapping[str, Scalar]) -> dict[str, str]:
    """Return the parameters of a run as text, without the choice of figures to show first."""
    return {printable(name): printable(_scalar(value)) for name, value in shown_params(values).items()}


def _scalar(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: NOTHING}[value]
    return str(value)


# --- warnings ------------------------------------------------------------------------------------


def warnings(report: Report, most: int = _WARNINGS) -> Section:
    """List warnings and findings that the report does not show elsewhere; one line for those of the same kind."""
    elsewhere = _shown_elsewhere(report) if report.findings else set()
    findings = [text for text in report.findings if text not in elsewhere]
    lines = list(_grouped(printable(text) for text in (*report.snapshot.warnings, *findings)))
    more = [f"{number_of(len(lines) - most, 'more is', 'more are')} in the full report"]
    return Section("Warnings", lines[:most] + (more if len(lines) > most else []))


def _shown_elsewhere(report: Report) -> set[str]:
    """Return the findings that stand beside the figures they are about."""
    from telemetry.history.backends import of_backends
    from telemetry.history.findings import late_ticks, lost, part_of_run, too_few  # arrays

    of_part = chain(part_of_run(report, whole=True), part_of_run(report, whole=False))
    of_events = chain(lost(report), late_ticks(report), too_few(report), of_part)
    return {*of_events, *of_backends(report), *unended(report), *late(report)}


def _grouped(texts: Iterable[str]) -> Iterator[str]:
    """Yield the first text of each kind, with the number of the others."""
    groups: dict[str, list[str]] = {}
    for text in texts:
        groups.setdefault(_VARIES.sub("#", text), []).append(text)
    for first, *others in groups.values():
        yield f"{first} ({len(others):,} more like this)" if others else first


# --- what the run has cost -----------------------------------------------------------------------


def closing(report: Report) -> Section:
    """Return lines about parameters, the command, the cost of telemetry, and where the rest of the figures is."""
    return Section("", list(_closing(report)))


def _closing(report: Report) -> Iterator[str]:
    snapshot = report.snapshot
    if text := _params(snapshot):
        yield f"parameters: {text}"
    if text := code(params(snapshot.params)):
        yield f"code: {text}"
    command = snapshot.command
    if command is not None:
        facts = [
            *([_typed(command)] if not (command.signal or command.exit_code) else []),
            f"CPU {formatting.duration_s(command.cpu_user_s + command.cpu_system_s)}",
            *([f"peak memory {formatting.size(command.max_rss_bytes)}"] if command.max_rss_bytes else []),
        ]
        yield f"command: {DOT.join(facts)}"
    if text := machine_words(report):
        yield f"machine: {text}"
    if text := masked_words(snapshot):
        yield f"masked: {text}"
    if snapshot.cost.ticks:
        yield f"cost of telemetry: {_cost(snapshot)}"
    if snapshot.directory:
        yield printable(f"files: {snapshot.directory}")
        if report.final and has_data(snapshot):
            run = run_argument(snapshot)
            yield printable(f"all figures: telemetry report {run} --full, in a browser: telemetry open {run}")


def run_argument(snapshot: MetricsSnapshot) -> str:
    """Return what names the run on a command line: its id below the usual folder, else its directory."""
    is_usual = Path(snapshot.directory).parent.name == _ROOT
    return shlex.quote(snapshot.run_id if is_usual or not snapshot.directory else snapshot.directory)


def _params(snapshot: MetricsSnapshot) -> str:
    own = params(
        {
            name: value
            for name, value in snapshot.params.items()
            if not name.startswith(_LIMITS) and not is_of_surroundings(name)
        }
    )
    filled = [(name, value) for name, value in own.items() if value not in _EMPTY]
    shown = [f"{name} {cut(value, _VALUE_COLUMNS)}" for name, value in filled[:_PARAMS]]
    more = [f"{len(filled) - _PARAMS:,} more"] if len(filled) > _PARAMS else []
    return DOT.join([*shown, *more])


def code(values: Mapping[str, str]) -> str:
    """Return commit, branch and number of changed files; empty if they were not recorded."""
    commit, branch = values.get("git.commit", ""), values.get("git.branch", "")
    changed = values.get("git.changed_files", "0")
    facts = [
        *(
            [f"commit {commit[:_COMMIT_CHARS]}" + (f" of branch {cut(branch, _VALUE_COLUMNS)}" if branch else "")]
            if commit
            else []
        ),
        *([f"{number_of(int(changed), 'changed file')}"] if changed.isdecimal() and changed != "0" else []),
    ]
    return DOT.join(facts)


def _cost(snapshot: MetricsSnapshot) -> str:
    cost = snapshot.cost
    stored = cost.journal_bytes + cost.history_bytes
    facts = [f"CPU {formatting.duration_s(cost.cpu_s)}", f"memory {formatting.size(cost.rss_bytes)}"]
    facts += [f"disk {formatting.size(stored)}"] if stored else []
    if cost.ticks_late > _LATE * cost.ticks and cost.ticks >= _TICKS:
        facts.append(
            f"{formatting.count(cost.ticks_late)} of {number_of(cost.ticks, 'tick')} late: the machine was busy"
        )
    return DOT.join(facts)


def _typed(command: CommandFacts) -> str:
    """Return the command as typed; a long one is shortened."""
    return cut(printable(shlex.join(command.argv)), _COMMAND_COLUMNS)


def masked_words(snapshot: MetricsSnapshot) -> str:
    """Return how many values each rule has masked: `3 github · 1 value with a secret name`. Empty without any."""
    masked = [stat for stat in snapshot.counters if stat.name == COUNTER and stat.value > 0]
    return DOT.join(map(_words, sorted(masked, key=lambda stat: (-stat.value, stat.labels.get(COUNTER_LABEL, "")))))


def _words(stat: CounterStat) -> str:
    rule = stat.labels.get(COUNTER_LABEL, "")
    if rule == NAMED:
        return number_of(stat.value, "value with a secret name", "values with a secret name")
    return f"{formatting.count(stat.value)} {printable(rule)}".strip()


def masked(snapshot: MetricsSnapshot) -> Section:
    """Return one line about masked values."""
    text = masked_words(snapshot)
    return Section("Masked values", [text] if text else [])


_HUNDRED: Final = 100.0


def machine_words(report: Report) -> str:
    """Return CPU and memory of the machine, of the container and of the GPUs.

    Empty without collectors, and for a run that ended before their second sample.
    """
    is_known = _named(report, "host.cpu") or _named(report, "gpu.utilization")
    return DOT.join(_facts(report)) if is_known else ""


def _facts(report: Report) -> Iterator[str]:
    host, container = _named(report, "host.cpu"), _named(report, "container.cpu")
    machines = max((stat.over_nodes.nodes if stat.over_nodes is not None else 1 for stat in host), default=0)
    machines = max(machines, len(host))
    several = f" of {number_of(machines, 'machine')}" if machines > 1 else ""
    yield from _percent(report, f"CPU{several}", host)
    yield from _memory(report, "memory", "host.memory")
    if container:
        yield from _percent(report, "CPU of the container", container)
    yield from _memory(report, "memory of the container", "container.memory")
    gpus = _named(report, "gpu.utilization")
    yield from _percent(report, f"{number_of(len(gpus), 'GPU')}", gpus)
    yield from _memory(report, "GPU memory", "gpu.memory")


def _percent(report: Report, title: str, stats: Sequence[GaugeStat]) -> Iterator[str]:
    """Yield the mean, if the report has the values over time, and the peak."""
    peaks = [stat.max for stat in stats if stat.max is not None]
    if peaks:
        mean = _mean(report, stats)
        parts = [f"mean {_whole(mean)}"] if mean is not None else []
        yield f"{title} {', '.join([*parts, f'peak {_whole(max(peaks))}'])}"


def _memory(report: Report, title: str, name: str) -> Iterator[str]:
    """Yield the peak of the machine or GPU that used the most, and all that it has."""
    stats = [stat for stat in _named(report, name) if stat.max is not None]
    if not stats:
        return
    fullest = max(stats, key=lambda stat: stat.max or 0.0)
    share = next((stat for stat in _named(report, f"{name}_percent") if stat.labels == fullest.labels), None)
    total = ""
    if share is not None and share.value and fullest.value:
        total = f" of {formatting.size(_HUNDRED * fullest.value / share.value)}"
    yield f"{title} peak {formatting.quantity(fullest.max, fullest.unit)}{total}"


def _named(report: Report, name: str) -> list[GaugeStat]:
    """Return the gauges of this name, without those of single programs."""
    return [
        stat
        for stat in without_single_nodes(report.snapshot.gauges)
        if stat.name == name and stat.value is not None and PROCESS_LABEL not in stat.labels
    ]


def _mean(report: Report, stats: Sequence[GaugeStat]) -> float | None:
    """Return the mean over time of these gauges together; None if the report has no values over time."""
    wanted = [(stat.name, stat.labels) for stat in stats]
    drawn = report.pictures.gauges if report.pictures else []
    values = [
        value
        for gauge in drawn
        if (gauge.name, gauge.labels) in wanted
        for value in gauge.values
        if value is not None
    ]
    return sum(values) / len(values) if values else None


def _whole(percent: float) -> str:
    return f"{percent:.0f} %"
