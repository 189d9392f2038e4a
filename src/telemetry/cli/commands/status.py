"""`telemetry status`: the state of a run, in a few lines."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from telemetry.cli import console, find_run
from telemetry.errors import RunDirectoryError
from telemetry.wire.exit_codes import Exit
from telemetry.wire.report import Report

if TYPE_CHECKING:
    from telemetry.store.dead_run import LeftOver


class DeadRun(Struct, kw_only=True, frozen=True):
    """JSON form of a run whose aggregator ended without a result."""

    run_id: str
    state: str
    """`DEAD`, or `RESTARTING` while the process that started the aggregator restarts it."""
    dir: str
    last_seen_ns: int
    """Wall-clock time."""
    journal_segments: int
    journal_bytes: int
    recoverable: bool

    @staticmethod
    def of(left: LeftOver) -> DeadRun:
        kept = bool(find_run.keeper(left.directory))
        return DeadRun(
            run_id=left.directory.run_id,
            state="RESTARTING" if kept else "DEAD",
            dir=str(left.directory.path),
            last_seen_ns=left.since_ns,
            journal_segments=left.segments,
            journal_bytes=left.journal_bytes,
            recoverable=left.recoverable and not kept,
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    find_run.add_run_argument(parser)
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the whole snapshot as JSON; for a dead run, what can be recovered",
    )


def run(args: argparse.Namespace) -> int:
    from telemetry.report import render

    target = find_run.find(args)
    try:
        report = find_run.report_of(target)
    except RunDirectoryError:
        left = find_run.dead(target) if args.json else None
        if left is None:
            raise
        console.write_json(DeadRun.of(left))
        return Exit.ERROR
    if args.json:
        console.write(render(report, "json"))
    else:
        console.write("\n".join(_lines(target, report)) + "\n")
    return Exit.OK


def _lines(target: find_run.RunTarget, report: Report) -> Iterator[str]:
    from telemetry.common.formatting import count, printable
    from telemetry.report import backends
    from telemetry.report.content import content
    from telemetry.report.text import render_section

    parts = content(report, full=True)
    yield parts.headline
    yield from filter(None, [parts.gates])
    yield from parts.facts
    if report.source == "status":
        pid = f" · pid {target.live.pid}" if target.live else ""
        yield printable(f"aggregator {target.endpoint}{pid}")
    if report.directory:
        yield printable(f"directory {report.directory}")
    if steps := [f"{axis.name} {count(axis.newest)}" for axis in report.snapshot.axes if axis.newest is not None]:
        yield printable(f"newest steps: {' · '.join(steps)}")
    if to := backends.line(report):
        yield f"backends: {to}"
    for section in parts.sections:
        if section.title in ("Losses", "Nodes", "Producers", "Progress", "Warnings"):
            yield ""
            yield section.title
            yield from render_section(section, console.width(sys.stdout))
