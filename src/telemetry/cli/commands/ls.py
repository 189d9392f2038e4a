"""`telemetry ls`: live runs of this user, and finished runs on disk."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from telemetry.cli import console, find_run
from telemetry.cli.exit_codes import Exit
from telemetry.errors import TelemetryError
from telemetry.wire.gates import Outcome

if TYPE_CHECKING:
    from telemetry.store.live_runs import LiveRun
    from telemetry.store.run_directory import RunDirectory
    from telemetry.wire.snapshot import MetricsSnapshot

_ANSWER_TIMEOUT_S = 0.5
DEAD = "DEAD"
"""State of a run whose aggregator died without writing a result."""
RESTARTING = "RESTARTING"
"""State of a run whose aggregator died, while the process that started it restarts the aggregator."""
_SOMEWHERE = "LIVE"
"""State of a run that some process holds, but no process on this host has announced.

It is starting, or it runs on another host.
"""
_OFFERED = 5
_GATES = {"fail": "gate failed", "inconclusive": "gate inconclusive"}
"""Words for gates that did not pass."""
_RED, _YELLOW, _GREEN, _PLAIN = "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[0m"


class Listed(Struct, kw_only=True, frozen=True):
    """A run of the list. `pid` and `endpoint` are null unless it is live."""

    name: str
    run_id: str
    state: str
    completeness: str | None = None
    pid: int | None = None
    endpoint: str | None = None
    dir: str
    started_ns: int = 0
    duration_s: float | None = None
    """Time from the start to the end or until now. Null: unknown."""
    events: int | None = None
    """Number of events in the result, or so far. Null: unknown."""
    exit_code: int | None = None
    """Exit code of the command of `telemetry run`. Null: none, or ended by a signal."""
    signal: str | None = None
    """Signal that ended the command."""
    failed: bool = False
    """True if the command failed: an exit code other than 0, or a signal."""
    gates: Outcome | None = None
    """Worst outcome of the gates of `telemetry run`. Null: none, or unknown."""
    nodes: int = 0
    """Number of nodes of a run on several machines."""
    recoverable: bool = False
    """True if `telemetry recover` can make a result from the files."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    find_run.add_dir_argument(parser)
    parser.add_argument("--live", action="store_true", help="show only live runs")
    parser.add_argument("--json", action="store_true", help="print a JSON list of objects")


def run(args: argparse.Namespace) -> int:
    found = listed(find_run.root_directory(args.dir), only_live=args.live)
    if args.json:
        console.write_json(found)
    elif found:
        _print_table(found)
        _offer_recovery([item for item in found if item.recoverable])
    else:
        console.say("no live runs" if args.live else "no runs")
    return Exit.OK


def listed(root: Path, *, only_live: bool = False) -> list[Listed]:
    """List live runs, runs on disk below `root`, and dead runs elsewhere; the newest first."""
    from telemetry.store.live_runs import list_live
    from telemetry.store.run_directory import list_runs
    from telemetry.transport import runtime_directory

    announced = list_live(runtime_directory())
    live = [_live(found) for found in announced if found.alive]
    known = {item.run_id for item in live}
    if only_live:
        return _newest_first(live)
    fallback_dirs = find_run.fallback_dirs()
    on_disk = [_on_disk(directory, fallback_dirs) for directory in list_runs(root) if directory.run_id not in known]
    known |= {item.run_id for item in on_disk}
    elsewhere = [item for found in announced if (item := _announced(found, fallback_dirs)) is not None]
    return _newest_first(live + on_disk + [item for item in elsewhere if item.run_id not in known])


def _newest_first(found: list[Listed]) -> list[Listed]:
    return sorted(found, key=lambda item: -item.started_ns)


def _live(found: LiveRun) -> Listed:
    snapshot = _now(found)
    return Listed(
        name=found.name,
        run_id=found.run_id,
        state=snapshot.state if snapshot else found.state,
        duration_s=snapshot.elapsed_s if snapshot else None,
        events=snapshot.accounting.applied if snapshot else None,
        nodes=len(snapshot.nodes) if snapshot else 0,
        pid=found.pid,
        endpoint=found.endpoint,
        dir=found.dir,
        started_ns=found.started_ns,
    )


def _now(found: LiveRun) -> MetricsSnapshot | None:
    """Ask the aggregator for its state. Return None if it does not answer within `_ANSWER_TIMEOUT_S`."""
    try:
        return find_run.ask(found.endpoint, _ANSWER_TIMEOUT_S)
    except TelemetryError:
        return None


def _announced(found: LiveRun, fallback_dirs: Sequence[str]) -> Listed | None:
    """Return a run whose aggregator was killed, or None if the run has a result.

    Deletes the announcement and the sockets of a run that is complete or can't be recovered.
    """
    from telemetry.store.live_runs import forget
    from telemetry.store.run_directory import RunDirectory
    from telemetry.transport import runtime_directory

    if found.alive:
        return None
    try:
        item = _on_disk(RunDirectory.open(Path(found.dir)), fallback_dirs)
    except TelemetryError:
        item = None
    if item is None or item.completeness is not None or (item.state == DEAD and not item.recoverable):
        forget(runtime_directory(), found.run_id)
    return item if item is not None and item.completeness is None else None


def _on_disk(directory: RunDirectory, fallback_dirs: Sequence[str]) -> Listed:
    from telemetry.store.final_snapshot import find_final
    from telemetry.wire.snapshot import TERMINAL

    final = find_final(directory, fallback_dirs)
    try:
        head = final.head() if final is not None else None
    except TelemetryError:
        head = None
    if head is None or head.state not in TERMINAL:
        return _without_result(directory)
    return Listed(
        name=head.name,
        run_id=head.run_id,
        state=head.state,
        completeness=head.completeness,
        dir=str(directory.path),
        started_ns=head.started_ns,
        duration_s=head.elapsed_s,
        events=head.accounting.applied,
        exit_code=head.command.exit_code if head.command else None,
        signal=head.command.signal if head.command else None,
        failed=bool(head.command and (head.command.exit_code or head.command.signal)),
        gates=_gates(directory),
        nodes=len(head.nodes),
    )


def _gates(directory: RunDirectory) -> Outcome | None:
    from telemetry.store.gate_results import read_gates
    from telemetry.wire.gates import worst

    try:
        results = read_gates(directory.path)
    except TelemetryError:
        return None
    return worst(results) if results else None


def _without_result(directory: RunDirectory) -> Listed:
    from telemetry.store.dead_run import remains

    try:
        name = directory.read_manifest().name
    except TelemetryError:
        name = directory.slug
    state = _SOMEWHERE if directory.locked() else RESTARTING if find_run.keeper(directory) else DEAD
    return Listed(
        name=name,
        run_id=directory.run_id,
        state=state,
        dir=str(directory.path),
        started_ns=directory.started_ns,
        recoverable=state == DEAD and remains(directory).recoverable,
    )


def _offer_recovery(found: list[Listed]) -> None:
    from telemetry.formatting import printable

    for item in found[:_OFFERED]:
        command = f"telemetry recover {shlex.quote(item.dir)}"
        console.say(
            printable(f"the aggregator of {item.name} died; run `{command}` to make a result from its journal")
        )
    if len(found) > _OFFERED:
        console.say(f"and {len(found) - _OFFERED:,} more")


def _from_here(directory: str) -> str:
    """Return the path relative to the working directory if it is below it."""
    path = Path(directory)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else directory


def _print_table(found: list[Listed]) -> None:
    from telemetry.formatting import NOTHING, duration_s, printable, scaled
    from telemetry.report.table import Column, Table, fit, layout

    with_nodes = any(item.nodes for item in found)
    heads = [
        Column("name"),
        Column("run", right=False),
        Column("result", right=False),
        Column("exit", 1),
        Column("took", 1),
        Column("events", 1),
        *([Column("nodes", 2)] if with_nodes else []),
        Column("started (UTC)", 2, right=False),
        Column("pid", 3),
        Column("directory", 4, right=False),
    ]
    rows = [
        [
            printable(item.name),
            item.run_id,
            _result(item),
            _exit(item),
            duration_s(item.duration_s),
            scaled(item.events),
            *([str(item.nodes or NOTHING)] if with_nodes else []),
            _started(item.started_ns),
            str(item.pid or NOTHING),
            printable(_from_here(item.dir)),
        ]
        for item in found
    ]
    table, width = Table(heads, rows), console.width(sys.stdout)
    head, *lines = layout(table, width)
    if console.color(sys.stdout):
        lines = [_painted(line, head, item) for line, item in zip(lines, found, strict=True)]
    console.write("\n".join([head, *lines]) + "\n")
    shown = fit(table, width).columns
    # A run is found by its id, so its directory and process are no loss.
    if hidden := [head.title for head in heads[:-2] if head not in shown]:
        console.say(f"hidden columns: {' and '.join(hidden)}; use a wider terminal or --json")


def _result(item: Listed) -> str:
    """Return the outcome of a run in a word; the state of one that has no result."""
    if item.completeness is None:
        return item.state if item.state in (DEAD, RESTARTING) else item.state.lower()
    word = "failed" if item.failed else item.completeness
    return f"{word}, {_GATES[item.gates]}" if item.gates in _GATES else word


def _exit(item: Listed) -> str:
    from telemetry.formatting import NOTHING, printable

    return printable(item.signal) if item.signal else NOTHING if item.exit_code is None else str(item.exit_code)


def _started(started_ns: int) -> str:
    """Return the start in UTC, without the year and the seconds."""
    from telemetry.formatting import NOTHING, timestamp

    return timestamp(started_ns)[5:16] if started_ns else NOTHING


def _painted(line: str, head: str, item: Listed) -> str:
    """Return a row with its result in colour."""
    from telemetry.formatting import columns, printable

    word, name = _result(item), printable(item.name)
    start = head.index("result") - (columns(name) - len(name))
    end = start + len(word)
    return f"{line[:start]}{_color(item)}{line[start:end]}{_PLAIN}{line[end:]}"


def _color(item: Listed) -> str:
    if item.failed or item.state == DEAD or item.completeness == "interrupted":
        return _RED
    if item.gates == "fail":
        return _RED
    if item.completeness in ("lossy", "incomplete") or item.gates == "inconclusive":
        return _YELLOW
    return _GREEN
