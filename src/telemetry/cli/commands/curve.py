"""`telemetry curve RUN…`: figures of runs over the parameter in which they differ."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from telemetry.cli import console, find_run
from telemetry.cli.outputs import Output, add_output_arguments, make_folders, outputs, write
from telemetry.cli.sweep_runs import recorded
from telemetry.errors import TelemetryError, UsageError
from telemetry.report import formats_of, render_as
from telemetry.wire.exit_codes import Exit

if TYPE_CHECKING:
    from telemetry.judge.sweeps.model import Sweep
    from telemetry.wire.report import Report

FORMATS: Final = formats_of("sweep")
STEM: Final = "sweep"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="runs: a name (all runs of that name), a directory, a run id, or a folder of run directories",
    )
    find_run.add_dir_argument(parser)
    parser.add_argument("--last", type=int, metavar="N", help="use only the newest N runs of a name or folder")
    parser.add_argument(
        "--by",
        action="append",
        default=[],
        metavar="PARAM[,PARAM…]",
        help="parameters of the points, the one for the axis first (default: those that differ)",
    )
    parser.add_argument(
        "--kind", default="", help="kind of request to show (default: the one with the most requests)"
    )
    add_output_arguments(parser, FORMATS, STEM)


def run(args: argparse.Namespace) -> int:
    from telemetry.judge.sweeps.build import sweep_of

    wanted = outputs(args.formats, args.files, FORMATS, STEM)
    if args.last is not None and args.last < 1:
        raise UsageError(f"--last {args.last} selects no runs", hint="give 1 or more")
    root = find_run.root_directory(args.dir)
    reports = [report for spec in dict.fromkeys(args.runs) for report in _reports(spec, root, args.last)]
    unique = {report.snapshot.run_id: report for report in reports}
    if not unique:
        raise UsageError("none of these runs has a result", hint="`telemetry ls` shows the runs")
    by = [name.strip() for names in args.by for name in names.split(",") if name.strip()]
    write_sweep(sweep_of(list(unique.values()), by, args.kind), wanted)
    return Exit.OK


def write_sweep(sweep: Sweep, wanted: Sequence[Output]) -> None:
    """Write a sweep to all outputs. Raises RunDirectoryError."""
    make_folders(wanted)
    for output in wanted:
        width, color = console.PIPED_WIDTH, False
        if output.path is None:
            width, color = console.width(sys.stdout), console.color(sys.stdout)
        write(render_as("sweep", sweep, output.form, width=width, color=color), output.path)


def _reports(spec: str, root: Path, last: int | None) -> list[Report]:
    """Return the results that a name or a folder stands for. Of several runs, one without a result is skipped."""
    paths = _folder(spec, last) or find_run.directories(spec, root, last)
    if len(paths) == 1:
        return [recorded(paths[0])]
    reports = []
    for path in paths:
        try:
            reports.append(recorded(path))
        except TelemetryError as error:
            console.say(f"left out: {error.message}")
    return reports


def _folder(spec: str, last: int | None) -> list[Path]:
    """Return the run directories in a folder, oldest first; empty if it is no such folder."""
    from telemetry.store.run_directory import list_runs

    folder = Path(spec)
    if not folder.is_dir():
        return []
    return [run.path for run in list_runs(folder)][:last][::-1]
