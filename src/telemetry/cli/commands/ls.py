"""`telemetry ls`: live runs of this user, and finished runs on disk."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from telemetry.cli import console, find_run
from telemetry.cli.listed_runs import (
    DEAD,
    RESTARTING,
    Listed,
    listed,
    listed_as,
    newest_first,
    newest_snapshot,
)
from telemetry.errors import RunNotFoundError, UsageError
from telemetry.wire.exit_codes import Exit

if TYPE_CHECKING:
    from telemetry.report.run_list import Health, ListedRun

_OFFERED = 5
_FAILURE_COLUMNS = 36
_GATES = {"fail": "gate failed", "inconclusive": "gate inconclusive"}
"""Words for gates that did not pass."""
_RED, _YELLOW, _GREEN, _PLAIN = "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[0m"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs",
        nargs="*",
        metavar="RUN",
        help="show only these runs: names (`train-*` is a pattern), ids, directories or `latest`",
    )
    find_run.add_dir_argument(parser)
    parser.add_argument("--live", action="store_true", help="show only live runs")
    parser.add_argument("--json", action="store_true", help="print a JSON list of objects")
    parser.add_argument(
        "-o",
        "--html",
        type=Path,
        metavar="FILE",
        help="write a page: a table of the runs with their figures, and curves of the runs that are chosen there",
    )
    parser.add_argument(
        "--reports",
        action="store_true",
        help="with --html: also write missing reports of the runs to a folder beside FILE; the page links to them",
    )


def run(args: argparse.Namespace) -> int:
    if args.reports and args.html is None:
        raise UsageError("--reports works only with --html", hint="add --html FILE")
    root = find_run.root_directory(args.dir)
    runs = _named(listed(root, only_live=args.live, everywhere=args.dir is None), args, root)
    if args.html is not None:
        _write_page(runs, args, root)
    elif args.json:
        console.write_json(runs)
    elif runs:
        _print_table(runs)
        _offer_recovery([item for item in runs if item.recoverable])
    else:
        console.say("no live runs" if args.live else "no runs")
    return Exit.OK


def _named(listed_runs: list[Listed], args: argparse.Namespace, root: Path) -> list[Listed]:
    """Return the runs that the arguments name; all without any. Raises RunNotFoundError."""
    if not args.runs:
        return listed_runs
    chosen: list[Listed] = []
    for spec in args.runs:
        matching = [] if spec == find_run.LATEST else [item for item in listed_runs if _is_named(item, spec)]
        if not matching:
            matching = [_listed_as(listed_runs, spec, root, only_live=args.live)]
        chosen += [item for item in matching if item not in chosen]
    return newest_first(chosen)


def _is_named(item: Listed, spec: str) -> bool:
    where = Path(item.dir)
    is_directory = os.path.realpath(spec) == os.path.realpath(where)
    return spec in (item.run_id, where.name) or fnmatchcase(item.name, spec) or is_directory


def _listed_as(runs: list[Listed], spec: str, root: Path, *, only_live: bool) -> Listed:
    """Return the run that other commands take for `spec`. Raises RunNotFoundError."""
    try:
        item = listed_as(runs, spec, root)
        if not only_live or item.endpoint:
            return item
    except RunNotFoundError:
        if os.path.exists(spec):  # a folder or a file; the error says what a run is
            raise
    from telemetry.common.formatting import did_you_mean

    names = [find_run.LATEST, *(word for item in runs for word in (item.name, item.run_id))]
    hint = did_you_mean(spec, [word for word in names if word != spec], most=3) or "`telemetry ls` shows the runs"
    raise RunNotFoundError(f"no {'live ' if only_live else ''}run {spec}", hint=hint)


def _write_page(listed_runs: list[Listed], args: argparse.Namespace, root: Path) -> None:
    from telemetry.cli.run_list_page import check_path, write_run_list

    check_path(args.html)
    runs = [_page_row(item, named=bool(args.runs)) for item in listed_runs]
    title = " ".join(args.runs) if args.runs else f"Runs in {root}"
    write_run_list(runs, args.html, title=title, with_reports=args.reports)


def _page_row(item: Listed, *, named: bool) -> tuple[ListedRun, Path | None]:
    """Return the row of a run, and its directory if it has a result.

    A run of another folder that was not `named` adds no columns of parameters to the page.
    """
    row = _row(item)
    if item.elsewhere and not named:
        return replace(row, details=replace(row.details, params={})), None
    return row, Path(item.dir) if item.completeness is not None else None


def _row(item: Listed) -> ListedRun:
    from telemetry.report.run_list import ListedRun, RunDetails, live_details

    exit_word = _exit(item)
    # A run that does not answer quickly has a row without figures.
    snapshot = newest_snapshot(item.endpoint) if item.endpoint else None
    return ListedRun(
        name=item.name,
        run_id=item.run_id,
        result=_result(item, f"in {Path(item.dir).parent}"),
        health=_health(item),
        exit=exit_word if item.failed else "",
        started_ns=item.started_ns,
        duration_s=item.duration_s,
        events=item.events,
        details=live_details(snapshot) if snapshot is not None else RunDetails(),
    )


def _offer_recovery(runs: list[Listed]) -> None:
    from telemetry.common.formatting import printable

    for item in runs[:_OFFERED]:
        command = f"telemetry recover {shlex.quote(item.dir)}"
        console.say(
            printable(f"the aggregator of {item.name} died; run `{command}` to make a result from its journal")
        )
    if len(runs) > _OFFERED:
        console.say(f"and {len(runs) - _OFFERED:,} more")


def _from_here(directory: str) -> str:
    """Return the path relative to the working directory if it is below it."""
    path = Path(directory)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else directory


def _print_table(runs: list[Listed]) -> None:
    from telemetry.common.formatting import NOTHING, duration_s, printable, scaled
    from telemetry.report.table import ReportTable, TableColumn, fit, layout

    with_nodes = any(item.nodes for item in runs)
    heads = [
        TableColumn("name"),
        TableColumn("run", right=False),
        TableColumn("result", right=False),
        TableColumn("exit", 1),
        TableColumn("figures", 1, right=False),
        TableColumn("took", 1),
        *([TableColumn("nodes", 2)] if with_nodes else []),
        TableColumn("started (UTC)", 2, right=False),
        TableColumn("events", 3),
        TableColumn("pid", 3),
        TableColumn("directory", 4, right=False),
    ]
    rows = [
        [
            printable(item.name),
            item.run_id,
            _result(item),
            _exit(item),
            item.summary or NOTHING,
            duration_s(item.duration_s),
            *([str(item.nodes or NOTHING)] if with_nodes else []),
            _started(item.started_ns),
            scaled(item.events),
            str(item.pid or NOTHING),
            printable(_from_here(item.dir)),
        ]
        for item in runs
    ]
    table, width = ReportTable(heads, rows), console.width(sys.stdout)
    head, *lines = layout(table, width)
    if console.color(sys.stdout):
        lines = [_painted(line, head, item) for line, item in zip(lines, runs, strict=True)]
    console.write("\n".join([head, *lines]) + "\n")
    shown = fit(table, width).columns
    # A run is found by its id, and its figures tell more than its events: these columns are no loss.
    if hidden := [head.title for head in heads[:-3] if head not in shown]:
        console.say(f"hidden columns: {', '.join(hidden)}; use a wider terminal or --json")


def _result(item: Listed, where: str = "elsewhere") -> str:
    """Return the outcome of a run in a word, or the state of one that has no result, and what is wrong with it.

    A live or dead run of another folder says `where` it is.
    """
    if item.completeness is None:
        word = item.state if item.state in (DEAD, RESTARTING) else item.state.lower()
    else:
        word = "failed" if item.failed else item.completeness
    if item.failure:
        from telemetry.report.table import cut

        word = f"failed: {cut(item.failure, _FAILURE_COLUMNS)}"
    gates = _GATES.get(item.gates, "") if item.gates else ""
    return ", ".join(part for part in (word, gates, item.concern, where if item.elsewhere else "") if part)


def _exit(item: Listed) -> str:
    """Return the signal or the exit code of the command, or the one that gates gave to `telemetry run`."""
    from telemetry.common.formatting import NOTHING, printable
    from telemetry.wire.gates import RUN_EXIT_CODES

    if item.signal:
        return printable(item.signal)
    of_run = RUN_EXIT_CODES[item.gates] if item.gates and item.exit_code == 0 else 0
    return str(of_run) if of_run else NOTHING if item.exit_code is None else str(item.exit_code)


def _started(started_ns: int) -> str:
    """Return the start in UTC, without the year and the seconds."""
    from telemetry.common.formatting import NOTHING, timestamp

    return timestamp(started_ns)[5:16] if started_ns else NOTHING


def _painted(line: str, head: str, item: Listed) -> str:
    """Return a row with its result in colour."""
    from telemetry.common.formatting import columns, printable

    word, name = _result(item), printable(item.name)
    start = head.index("result") - (columns(name) - len(name))
    end = start + len(word)
    return f"{line[:start]}{_color(item)}{line[start:end]}{_PLAIN}{line[end:]}"


def _color(item: Listed) -> str:
    return {"bad": _RED, "warn": _YELLOW}.get(_health(item), _GREEN)


def _health(item: Listed) -> Health:
    if item.failed or item.state == DEAD or item.completeness == "interrupted" or item.gates == "fail":
        return "bad"
    if item.completeness in ("lossy", "incomplete") or item.gates == "inconclusive" or item.concern:
        return "warn"
    return "calm" if item.completeness is None else "good"
