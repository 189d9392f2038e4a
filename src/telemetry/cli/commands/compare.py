"""`telemetry compare A B` and `A… --vs B…`: the differences between two sets of runs, as far as data shows them."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from telemetry.cli import console, find_run
from telemetry.cli.outputs import Output, add_output_arguments, make_folders, outputs, write
from telemetry.errors import UsageError
from telemetry.report import formats_of, render_as
from telemetry.wire.exit_codes import Exit

if TYPE_CHECKING:
    from telemetry.judge.compare import Comparison
    from telemetry.report.other_tools import ToolColumn
    from telemetry.store.calibrations import Calibration, Command
    from telemetry.wire.report import Report

FORMATS: Final = formats_of("comparison")
STEM: Final = "comparison"
_FORMS_OF_TOOLS: Final = ("text", "json", "md")
_FRACTION: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+) ?(%?)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "before",
        nargs="+",
        metavar="A",
        help="runs before the change: a directory, a run id, `latest`, or a name (all runs of that name)",
    )
    parser.add_argument(
        "--vs",
        nargs="+",
        default=[],
        metavar="B",
        dest="after",
        help="runs after the change, given in the same way; two runs need no --vs: `telemetry compare A B`",
    )
    find_run.add_dir_argument(parser)
    parser.add_argument("--last", type=int, metavar="N", help="use only the newest N runs of a name")
    add_output_arguments(parser, FORMATS, STEM)
    parser.add_argument(
        "--tools",
        action="store_true",
        help="show what several tools say of one load, and why they differ; A are runs, or result files, which are "
        "imported",
    )
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="GLOB",
        help="compare only these metrics: `latency` (with all labels), `latency{route=/a}`, "
        "`latency:p99` (one figure) or `command:cpu`; comparing fewer figures detects smaller "
        "differences",
    )
    parser.add_argument(
        "--min-effect", type=fraction, default=0.02, metavar="2%", help="smallest difference that matters"
    )
    for flag, direction in (("--lower-is-better", "smaller"), ("--higher-is-better", "larger")):
        parser.add_argument(
            flag, action="append", default=[], metavar="GLOB", help=f"metrics for which {direction} is better"
        )
    parser.add_argument(
        "--calibration",
        metavar="NAME",
        help="calibration with the run-to-run noise, from `telemetry calibrate` (default: the one of the command "
        "of the runs)",
    )
    parser.add_argument(
        "--allow-incomplete", action="store_true", help="also use runs that are lossy, interrupted or failed"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        dest="whole",
        help="show each figure that can't be told, with its reason; --metric does this, too",
    )
    parser.add_argument(
        "--fail-on", choices=("worse",), help="exit 99 if any figure is worse, 3 if some are undecided"
    )


def run(args: argparse.Namespace) -> int:
    from telemetry.judge.compare import SIDES, Directions, Options, compare
    from telemetry.store.calibrations import read_calibration

    wanted = outputs(args.formats, args.files, FORMATS, STEM)
    if args.tools:
        return _compare_tools(args, wanted)
    options = Options(
        min_effect=args.min_effect,
        directions=Directions(lower=args.lower_is_better, higher=args.higher_is_better),
        only=args.metric,
        overlays=any(output.form == "html" for output in wanted),
        allow_incomplete=args.allow_incomplete,
    )
    if args.last is not None and args.last < 1:
        raise UsageError(f"--last {args.last} selects no runs", hint="give 1 or more")
    root = find_run.root_directory(args.dir)
    html = any(output.form == "html" for output in wanted)
    before, after = _sides(args, root, html=html)
    commands = [_commands(side) for side in (before, after)]
    if args.calibration:
        calibration: Calibration | None = read_calibration(root, args.calibration)
    else:
        calibration = _own_calibration(root, [command for side in commands for command in side])
    of = [
        side
        for side, side_commands in zip(SIDES, commands, strict=True)
        if calibration and calibration.command in side_commands
    ]
    comparison = compare(before, after, options, calibration, of)
    make_folders(wanted)
    whole = args.whole or bool(args.metric)  # whoever names a figure wants to see it
    for output in wanted:
        _write(comparison, output, whole=whole)
    return _code(comparison) if args.fail_on else Exit.OK


def _compare_tools(args: argparse.Namespace, wanted: Sequence[Output]) -> int:
    """Write one table of many tools. Raises UsageError."""
    from telemetry.report.other_tools import render_tools, tools_json, with_different_titles

    if unfit := [output.form for output in wanted if output.form not in _FORMS_OF_TOOLS]:
        raise UsageError(
            f"--tools does not work with the format {unfit[0]}", hint=f"use {', '.join(_FORMS_OF_TOOLS)}"
        )
    specs = [*args.before, *args.after]
    if len(specs) < 2:
        raise UsageError("--tools needs two results or more", hint=f"telemetry compare --tools {specs[0]} OTHER")
    columns = with_different_titles(
        [_tool_column(spec, args.dir) for spec in specs], [Path(spec).name for spec in specs]
    )
    make_folders(wanted)
    for output in wanted:
        if output.form == "json":
            text = json.dumps(tools_json(columns), indent=2, ensure_ascii=False) + "\n"
        else:
            to_file = output.path is not None
            text = render_tools(
                columns,
                console.PIPED_WIDTH if to_file else console.width(sys.stdout),
                is_markdown=output.form == "md",
                color=not to_file and console.color(sys.stdout),
            )
        write(text, output.path)
    return Exit.OK


def _tool_column(spec: str, flag: str | None) -> ToolColumn:
    """Return the column of a run, or of a result file, which becomes a run."""
    from telemetry.cli.commands.import_ import import_file
    from telemetry.config import load
    from telemetry.report.other_tools import tool_column
    from telemetry.store.run_directory import RunDirectory, is_run, resolve

    root, path = find_run.root_directory(flag), Path(spec)
    if path.exists() and not is_run(path):
        directory = RunDirectory.open(Path(import_file(path, load({"run.dir": flag}).config).snapshot.directory))
        console.say(f"imported {path} as {directory.path}")
    else:
        directory = resolve(spec, root)
    return tool_column(_report(directory.path, whole=False), directory)


def fraction(text: str) -> float:
    """Parse `2%`, `2 %` or `0.02`. Raises ArgumentTypeError."""
    match = _FRACTION.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid share: write it like 2% or 0.02")
    return float(match[1]) / (100 if match[2] else 1)


def _code(comparison: Comparison) -> Exit:
    if comparison.verdict == "worse":
        return Exit.GATE_FAILED
    return Exit.INCONCLUSIVE if comparison.verdict in ("differs", "cannot_tell") else Exit.OK


def _sides(args: argparse.Namespace, root: Path, *, html: bool) -> tuple[list[Report], list[Report]]:
    """Return the results of both sides, each run once; runs of a name are sorted oldest first.

    With one run on each side, results include confidence bounds. For a page, the newest runs of each side include
    figures over time. Both read the histories of these runs.
    """
    from telemetry.judge.compare.overlays import RUNS

    before, after = (
        list(dict.fromkeys(path for spec in specs for path in find_run.directories(spec, root, args.last)))
        for specs in _specs(args)
    )
    alone = len(before) == len(after) == 1
    sides = []
    for side in (before, after):
        most = len(side) if alone else RUNS if html else 0
        first = len(side) - most
        sides.append([_report(path, whole=index >= first) for index, path in enumerate(side)])
    return sides[0], sides[1]


def _specs(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Return the runs before and after as they were given. Two runs need no `--vs`. Raises UsageError."""
    if args.after:
        return args.before, args.after
    if len(args.before) == 2:
        return args.before[:1], args.before[1:]
    before = " ".join(shlex.quote(run) for run in args.before)
    if len(args.before) == 1:
        raise UsageError("a comparison needs two sides", hint=f"telemetry compare {before} --vs OTHER")
    first, *rest = (shlex.quote(run) for run in args.before)
    raise UsageError(
        f"which of the {len(args.before)} runs are those after the change?",
        hint=f"put them after --vs, such as: telemetry compare {first} --vs {' '.join(rest)}; "
        f"for curves of all on one page: telemetry ls {before} --html runs.html",
    )


def _commands(side: Sequence[Report]) -> list[Command]:
    """Return the different commands of the runs of a side."""
    from telemetry.store.calibrations import command_of
    from telemetry.store.run_directory import RunDirectory

    facts = [(report.snapshot.directory, report.snapshot.command) for report in side]
    commands = [
        command_of(RunDirectory(Path(path)), command.argv) for path, command in facts if command is not None
    ]
    return list(dict.fromkeys(command for command in commands if command is not None))


def _own_calibration(root: Path, commands: Sequence[Command]) -> Calibration | None:
    """Return the calibration of a command of the runs; the first one that has one wins."""
    from telemetry.store.calibrations import find_calibration

    return next(
        (calibration for command in commands if (calibration := find_calibration(root, command)) is not None), None
    )


def _write(comparison: Comparison, output: Output, *, whole: bool) -> None:
    width, color = console.PIPED_WIDTH, False
    if output.path is None:
        width, color = console.width(sys.stdout), console.color(sys.stdout)
    text = render_as("comparison", comparison, output.form, width=width, color=color, whole=whole)
    write(text, output.path)


def _report(path: Path, *, whole: bool) -> Report:
    """Return the result of a run, with the values of its steps.

    With `whole`, also read the history of the run, and add confidence bounds and figures over time.
    """
    from msgspec.structs import replace

    from telemetry.history import open_run

    run = open_run(path, path.parent, find_run.fallback_dirs())
    return run.report() if whole else replace(run.result, curves=run.curves)
