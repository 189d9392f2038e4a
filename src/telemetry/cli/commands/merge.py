"""`telemetry merge`: one run made from several finished runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from telemetry.cli import console, find_run
from telemetry.cli.commands.recover import ProgressLine
from telemetry.cli.outputs import say_wrote
from telemetry.errors import UsageError
from telemetry.wire.exit_codes import Exit
from telemetry.wire.report import Report

if TYPE_CHECKING:
    from telemetry.judge.merge import Merged
    from telemetry.judge.merge.run import Refine
    from telemetry.judge.merge.sources import Input
    from telemetry.store.run_directory import RunDirectory
    from telemetry.wire.snapshot import MetricsSnapshot, SeriesStat


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "targets",
        metavar="RUN",
        nargs="+",
        help="two or more runs that have ended: directory, run id, name or `latest`",
    )
    find_run.add_dir_argument(parser)
    parser.add_argument("--name", default="", help="name of the merged run (default: <their name>-merged)")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="directory to create (default: a new one in --dir)"
    )
    parser.add_argument(
        "--align-starts", action="store_true", help="shift the runs to a common start; use this for repetitions"
    )
    parser.add_argument(
        "--coarse",
        action="store_true",
        help="add display histograms where a history lacks values; percentiles are then accurate to 25 %%",
    )
    parser.add_argument(
        "--no-exact",
        action="store_true",
        help="do not read the journals; percentiles of several runs then have the error bound of the histogram",
    )
    parser.add_argument(
        "--force", action="store_true", help="merge without asking, although the runs seem unrelated"
    )
    parser.add_argument("--json", action="store_true", help="print the merged report as JSON")


def run(args: argparse.Namespace) -> int:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as in `serve`
    from telemetry.judge.merge import MergeTarget, gather, merge
    from telemetry.judge.merge.sources import unrelated

    root = find_run.root_directory(args.dir)
    recordings = [_open(target, root) for target in args.targets]
    inputs = gather(recordings, align_starts=args.align_starts)
    if not args.force and (why := unrelated(inputs)) and not _confirmed(why):
        console.say("nothing was merged")
        return Exit.ERROR
    destination = MergeTarget(root=root, directory=args.output, name=args.name)
    with ProgressLine() as progress:
        merged = merge(
            inputs,
            destination,
            coarse=args.coarse,
            refine=None if args.no_exact else _refine(progress),
            argv=["telemetry", *sys.argv[1:]],
            on_progress=progress,
        )
    _say(merged, as_json=args.json)
    return Exit.OK


def _confirmed(why: str) -> bool:
    """Ask the user whether to merge unrelated runs. Raises UsageError without a terminal."""
    if not console.can_ask():
        raise UsageError(f"the runs seem unrelated: {why}", hint="give --force to merge them nevertheless")
    console.say(f"the runs seem unrelated: {why}")
    return console.ask("Merge them nevertheless?")


def _refine(progress: ProgressLine) -> Refine:
    """Return a function that computes exact percentiles from the journals of the runs."""
    from telemetry.daemon.recovery.merged_values import exact_of_all

    def refine(
        inputs: Sequence[Input], series: list[SeriesStat], percentiles: Sequence[str]
    ) -> tuple[list[SeriesStat], list[str]]:
        runs = [(source.label, source.directory, source.snapshot.series) for source in inputs]
        refined, reasons = exact_of_all(runs, series, percentiles, progress)
        return refined, [f"some percentiles are not exact: {reason}" for reason in reasons]

    return refine


def _open(spec: str, root: Path) -> tuple[RunDirectory, MetricsSnapshot]:
    from telemetry.history.result import load_report
    from telemetry.store.run_directory import resolve

    if "://" in spec:
        raise UsageError(f"{spec} is a live run", hint="only runs that have ended can be merged")
    directory = resolve(spec, root)
    return directory, load_report(directory.path, root, find_run.fallback_dirs()).snapshot


def _say(merged: Merged, *, as_json: bool) -> None:
    report = Report(snapshot=merged.snapshot, source="file", sources=list(merged.sources))
    console.say(report.headline())
    for warning in merged.snapshot.warnings:
        console.say(warning)
    say_wrote(merged.directory.path)
    if as_json:
        from telemetry.report import render

        console.write(render(report, "json"))
    else:
        console.write(f"{merged.directory.path}\n")
