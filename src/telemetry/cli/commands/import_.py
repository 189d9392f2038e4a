"""`telemetry import`: runs made from the result files of other tools."""

from __future__ import annotations

import argparse
import math
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from telemetry.cli import console, find_run
from telemetry.cli.commands.recover import ProgressLine
from telemetry.errors import UsageError
from telemetry.wire.exit_codes import Exit
from telemetry.wire.report import Report

if TYPE_CHECKING:
    from telemetry.config.schema import Config
    from telemetry.daemon.recovery.recover import OnProgress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        type=Path,
        help="a result file, or a folder of results; each makes a run",
    )
    parser.add_argument(
        "--as",
        dest="tool",
        default="",
        metavar="TOOL",
        help="tool that wrote the files (default: by their content)",
    )
    parser.add_argument(
        "--columns",
        metavar="WHAT=NAME,…",
        help="read any CSV file by the names of its columns: time=, value=, label=, duration=, ok=, unit=",
    )
    parser.add_argument("--name", default="", help="name of the run (default: the name of the file)")
    find_run.add_dir_argument(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as in `serve`
    from telemetry.compat.importers.registry import UnknownFileError
    from telemetry.config import load

    config, columns = load({"run.dir": args.dir}).config, _columns(args.columns)
    reports = []
    for path in args.files:
        try:
            with ProgressLine() as progress:
                report = import_file(path, config, args.tool, columns, name=args.name, on_progress=progress)
        except UnknownFileError as error:
            console.say(f"{error.message}. It looks for:")
            for form in error.forms:
                console.say(f"  {form}")
            raise
        _say(report)
        reports.append(report)
    for report in reports:
        if args.json:
            from telemetry.report import render

            console.write(render(report, "json"))
        else:
            console.write(f"{report.snapshot.directory}\n")
    return Exit.OK


def import_file(
    path: Path,
    config: Config,
    tool: str = "",
    columns: Mapping[str, str] = MappingProxyType({}),
    *,
    name: str = "",
    on_progress: OnProgress = lambda *_: None,
) -> Report:
    """Make a run from a result file and return its report. Raises UsageError, RunDirectoryError."""
    from telemetry.common.memory import uncollected
    from telemetry.compat.importers.registry import read_results
    from telemetry.daemon.imported_run import import_results
    from telemetry.report.other_tools import with_recomputed

    with uncollected():
        on_progress("reading", math.nan)
        results, origin = read_results(path, tool or ("csv" if columns else ""), columns)
        return import_results(
            results,
            origin,
            config,
            name=name or results.name or _stem(path),
            run_id=secrets.token_hex(4),
            written_ns=path.stat().st_mtime_ns,
            argv=["telemetry", *sys.argv[1:]],
            recompute=lambda run, directory: with_recomputed(
                Report(snapshot=run, source="file"), directory, origin
            ),
            on_progress=on_progress,
        )


def _say(report: Report) -> None:
    console.say(report.headline())
    for unknown in report.imported.unknown if report.imported is not None else ():
        console.say(f"unknown: {unknown}")
    for warning in report.snapshot.warnings:
        console.say(warning)


def _stem(path: Path) -> str:
    """Return the name of a file without its end, such as `.json` or `.json.gz`."""
    name = path.absolute().name
    return name if path.is_dir() else Path(name.removesuffix(".gz")).stem or name


def _columns(text: str | None) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",")] if text else []
    if bad := next((key for key, equals, name in pairs if not (key and equals and name)), None):
        raise UsageError(f"--columns {text}: {bad!r} has no name of a column", hint="write time=NAME,value=NAME")
    return {key: name for key, _, name in pairs}
