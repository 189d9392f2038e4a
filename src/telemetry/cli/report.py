"""`telemetry report`: what a run came to."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telemetry.cli import console, runs
from telemetry.cli.exits import Exit, strictly
from telemetry.errors import RunDirectoryError, UsageError
from telemetry.wire.report import Report

if TYPE_CHECKING:
    from telemetry.report import Format

FORMATS = ("text", "json", "md", "hlog")
_BY_SUFFIX = {".json": "json", ".md": "md", ".hlog": "hlog"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    runs.add_run_argument(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--format", choices=FORMATS, help="default: that of FILE's suffix, else text")
    form.add_argument("--json", dest="format", action="store_const", const="json", help="the same as --format json")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write there instead of stdout")
    parser.add_argument(
        "--strict", action="store_true", help="exit 4 unless the result is complete, 5 if the run was interrupted"
    )


def run(args: argparse.Namespace) -> int:
    form: Any = args.format or _BY_SUFFIX.get(args.output.suffix if args.output else "", "text")
    target = runs.find(args)
    report = runs.report_of(target)
    if form == "hlog":
        _write_hlog(target, args.output)
    else:
        _write(report, form, args.output)
    return strictly(report.completeness) if args.strict else Exit.OK


def _write(report: Report, form: Format, output: Path | None) -> None:
    from telemetry.report import render

    if output is None:
        width, color = console.width(sys.stdout), console.color(sys.stdout)
        console.write(render(report, form, width=width, color=color))
        return
    from telemetry.store.atomic import write_atomic

    try:
        write_atomic(output, render(report, form, width=console.PIPED_WIDTH).encode())
    except OSError as error:
        raise RunDirectoryError(f"{output} can't be written: {error.strerror}") from error


def _write_hlog(target: runs.Target, output: Path | None) -> None:
    if output is None:
        raise UsageError("a histogram log goes to a file", hint="add -o FILE")
    from telemetry.store.hlog import export_hlog
    from telemetry.store.rundir import resolve

    export_hlog(resolve(target.directory_spec, target.root), output)
