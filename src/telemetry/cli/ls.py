"""`telemetry ls`: live runs of this user, and finished ones on disk."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from telemetry.cli import console, runs
from telemetry.cli.exits import Exit
from telemetry.errors import TelemetryError

if TYPE_CHECKING:
    from telemetry.store.liveruns import LiveRun
    from telemetry.store.rundir import RunDirectory

_PING_TIMEOUT_S = 0.5
DEAD = "DEAD"
"""Stands for a state where an aggregator died without leaving a result."""


class Listed(Struct, kw_only=True, frozen=True):
    """One run. `pid` and `endpoint` are null unless it is live."""

    name: str
    run_id: str
    state: str
    completeness: str | None = None
    pid: int | None = None
    endpoint: str | None = None
    dir: str
    started_ns: int = 0


class _Head(Struct):
    """The beginning of a final file, as far as a list needs it."""

    name: str
    run_id: str
    state: str
    completeness: str
    started_ns: int = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    runs.add_dir_argument(parser)
    parser.add_argument("--live", action="store_true", help="only live runs")
    parser.add_argument("--json", action="store_true", help="print JSON: a list of objects")


def run(args: argparse.Namespace) -> int:
    found = listed(runs.root_directory(args.dir), only_live=args.live)
    if args.json:
        console.write_json(found)
    elif found:
        _print_table(found)
    else:
        console.say("no live runs" if args.live else "no runs")
    return Exit.OK


def listed(root: Path, *, only_live: bool = False) -> list[Listed]:
    """Live runs, the newest first, then those on disk below `root`, the newest first."""
    from telemetry.store.liveruns import list_live
    from telemetry.store.rundir import list_runs
    from telemetry.transport import runtime_directory

    live = [_live(found) for found in list_live(runtime_directory()) if found.alive]
    known = {item.run_id for item in live}
    on_disk = [] if only_live else [_finished(directory) for directory in list_runs(root)]
    finished = [item for item in on_disk if item.run_id not in known]
    return live + finished


def _live(found: LiveRun) -> Listed:
    return Listed(
        name=found.name,
        run_id=found.run_id,
        state=_state_now(found),
        pid=found.pid,
        endpoint=found.endpoint,
        dir=found.dir,
        started_ns=found.started_ns,
    )


def _state_now(found: LiveRun) -> str:
    """The state by its own word, or the announced one if it doesn't answer at once."""
    from telemetry.transport import ControlClient
    from telemetry.wire.control import Ping, Pong

    try:
        with ControlClient(found.endpoint) as client:
            answer = client.request(Ping(), _PING_TIMEOUT_S)
    except TelemetryError:
        return found.state
    return answer.state if isinstance(answer, Pong) else found.state


def _finished(directory: RunDirectory) -> Listed:
    try:
        head = msgspec.json.decode(directory.final.read_bytes(), type=_Head)
    except (OSError, msgspec.MsgspecError):
        return _without_result(directory)
    return Listed(
        name=head.name,
        run_id=head.run_id,
        state=head.state,
        completeness=head.completeness,
        dir=str(directory.path),
        started_ns=head.started_ns,
    )


def _without_result(directory: RunDirectory) -> Listed:
    try:
        name = directory.read_manifest().name
    except TelemetryError:
        name = directory.slug
    return Listed(
        name=name, run_id=directory.run_id, state=DEAD, dir=str(directory.path), started_ns=directory.started_ns
    )


def _print_table(found: list[Listed]) -> None:
    from telemetry.report.humane import NOTHING, printable, timestamp
    from telemetry.report.table import Column, Table, layout

    heads = [
        Column("name"),
        Column("run", right=False),
        Column("state", right=False),
        Column("result", 1, right=False),
        Column("started", 2, right=False),
        Column("pid", 3),
        Column("directory", 4, right=False),
    ]
    rows = [
        [
            printable(item.name),
            item.run_id,
            item.state,
            item.completeness or NOTHING,
            timestamp(item.started_ns) if item.started_ns else NOTHING,
            str(item.pid or NOTHING),
            printable(item.dir),
        ]
        for item in found
    ]
    console.write("\n".join(layout(Table(heads, rows), console.width(sys.stdout))) + "\n")
