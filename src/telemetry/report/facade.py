"""The methods of `Report` and `Run` that need files, arrays or HTML: save, data frames, notebooks, snapshots."""

from __future__ import annotations

import os
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from telemetry.common.formatting import printable
from telemetry.errors import ProtocolError, RunDirectoryError, UsageError
from telemetry.history.findings import alone
from telemetry.history.run import with_history
from telemetry.report import FORMATS, TABLE, format_of_suffix, render, renderer
from telemetry.report.content import Content, content
from telemetry.report.gates import ORDER, gate_lines
from telemetry.report.html.sections import block
from telemetry.report.html.sections import content as inside
from telemetry.report.live_line import describe
from telemetry.report.picture import picture
from telemetry.report.rows import frame
from telemetry.report.table import Section
from telemetry.store.atomic import write_atomic
from telemetry.wire.codec import Malformed, snapshot_from_json
from telemetry.wire.gates import Outcome, worst
from telemetry.wire.report import Report
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot

_ROWS: Final = 10
"""Rows of each table in a notebook, where hundreds would be too many."""
_ALARM: Final = "#d0362b"
_CONCERN: Final = "#a86400"
_COLORS: Final = {"complete": "#1e8a4c", "lossy": "#a86400", "incomplete": "#a86400", "interrupted": "#d0362b"}

_OUTCOMES: Final[dict[Outcome, str]] = {"pass": "#1e8a4c", "inconclusive": "#a86400", "fail": _ALARM}


class ShownRun(Protocol):
    """The part of a `Run` that a notebook shows."""

    name: str
    run_id: str
    endpoint: str
    directory: str


def save(report: Report, path: str | os.PathLike[str], format: str | None) -> None:
    """Write a report to a file atomically. See `Report.save`."""
    target = Path(path)
    form = format or format_of_suffix(target, FORMATS)
    if form is None:
        suffixes = [suffix for name in FORMATS for suffix in TABLE[name].suffixes if suffix]
        raise UsageError(
            f"the suffix {target.suffix} of {target} does not select a format",
            hint=f"use one of {', '.join(suffixes)}",
        )
    renderer("report", form)  # before the work
    full = with_history(report, over_time=True, pictures=form == "html")
    text = render(full, form)
    try:
        write_atomic(target, text.encode())
    except OSError as error:
        raise RunDirectoryError(f"can't write {target}: {error.strerror}") from error


def of_snapshot(snapshot: MetricsSnapshot | Mapping[str, Any]) -> Report:
    """Return the report of a snapshot. See `Report.from_snapshot`."""
    if not isinstance(snapshot, MetricsSnapshot):
        try:
            snapshot = snapshot_from_json(msgspec.json.encode(snapshot))
        except (Malformed, TypeError) as error:
            raise ProtocolError(f"this is not a snapshot: {error}") from error
    return alone(Report(snapshot=snapshot, source="pubsub" if snapshot.state in TERMINAL else "status"))


def report_html(report: Report) -> str:
    """Return a short report as a fragment of HTML: headline, facts, a picture, and the first rows of each table.

    Figures over time come from the run directory, if it exists. Blocks for the disk.
    """
    if report.time_range is None and not report.over_time:
        report = with_history(report, over_time=True)
    summary = content(report, full=False)
    is_well = worst(report.gates) == "pass" and not summary.concerns
    color = _COLORS.get(report.verdict, "#2f7fd0") if is_well else "inherit"
    headline = f'<p style="color: {color}; font-weight: 600">{escape(printable(report.headline()))}</p>'
    gates = _gates(report, summary)
    head = headline + gates if is_well else gates + headline
    alarms, concerns = (
        "".join(f'<p style="color: {color}; font-weight: 600">{escape(line)}</p>' for line in lines)
        for color, lines in ((_ALARM, summary.alarms), (_CONCERN, summary.concerns))
    )
    facts = "".join(f"<p>{escape(fact)}</p>" for fact in summary.facts)
    tables = "".join(_block(section) for section in summary.sections if section.title != "Gates")
    return f"<div>{alarms}{head}{concerns}{facts}{picture(report)}{tables}</div>"


def _gates(report: Report, summary: Content) -> str:
    """Return the outcomes of the gates in one line, and the gates that did not pass."""
    if not report.gates:
        return ""
    poor = sorted(
        (gate for gate in report.gates if gate.outcome != "pass"), key=lambda gate: ORDER.index(gate.outcome)
    )
    lines = [(worst(report.gates), summary.gates)]
    lines += [(gate.outcome, line) for gate in poor[:_ROWS] for line in gate_lines([gate]).lines]
    return "".join(
        f'<p style="color: {_OUTCOMES[outcome]}; font-weight: 600">{escape(line)}</p>' for outcome, line in lines
    )


def run_html(run: ShownRun, report: Report | None) -> str:
    """Return a run as a fragment of HTML: state, directory, live line or result, and commands to open it."""
    title = f"<p><strong>{escape(printable(run.name))}</strong> · {escape(_state(run, report))}</p>"
    if report is None:
        return f"<div>{title}</div>"
    if report.final:
        return f"<div>{title}{report_html(report)}</div>"
    line = f"<p>{escape(describe(report.snapshot))}</p>"
    return f"<div>{title}{line}{_ways_in(run)}</div>"


def _block(section: Section) -> str:
    if section.title:
        return block(section, rows=_ROWS, alone=True)
    return f"<div>{inside(section, rows=_ROWS, alone=True)}</div>"


def _state(run: ShownRun, report: Report | None) -> str:
    if not run.endpoint:
        return "no aggregator was reached; nothing is recorded"
    return "the aggregator does not answer" if report is None else report.outcome


def _ways_in(run: ShownRun) -> str:
    commands = (f"telemetry top {run.run_id}", f"telemetry top --web {run.run_id}")
    shown = " · ".join(f"<code>{escape(command)}</code>" for command in commands)
    link = f'<a href="{escape(Path(run.directory).as_uri())}">{escape(run.directory)}</a>' if run.directory else ""
    return f"<p>{shown}</p><p>{link}</p>"


__all__ = ["frame", "of_snapshot", "report_html", "run_html", "save"]
