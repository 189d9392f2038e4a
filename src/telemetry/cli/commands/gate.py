"""`telemetry gate`: checks whether a run met its conditions."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, Final

from telemetry.cli import console, find_run, time_range_options
from telemetry.cli.outputs import Output, add_output_arguments, make_folders, outputs, write
from telemetry.errors import UsageError
from telemetry.report import formats_of, render_as

if TYPE_CHECKING:
    from telemetry.history import RecordedRun
    from telemetry.judge.gates.evidence import Evidence
    from telemetry.store.calibrations import Command
    from telemetry.wire.report import Report

FORMATS: Final = formats_of("gates")
STEM: Final = "gates"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _let_flags_stand_anywhere(parser)
    find_run.add_run_argument(parser, required=True)
    parser.add_argument(
        "expressions",
        nargs="*",
        metavar="EXPR",
        help="condition such as 'p99(latency) < 250ms' (default: the setting gates.expressions)",
    )
    parser.add_argument("--baseline", default=None, metavar="RUN", help="run that `baseline` stands for in a gate")
    parser.add_argument(
        "--calibration",
        default=None,
        metavar="NAME",
        help="calibration with the run-to-run noise, for `baseline` (default: the one of the command of the run)",
    )
    parser.add_argument(
        "--confident",
        action="store_true",
        help="pass only if the whole confidence interval is on the passing side of the limit",
    )
    time_range_options.add_part_arguments(parser, steps=False)
    add_output_arguments(parser, FORMATS, STEM)


def _let_flags_stand_anywhere(parser: argparse.ArgumentParser) -> None:
    """Accept flags between RUN and EXPR too.

    The plain parser would take the empty list there as the value of EXPR.
    """
    plain = parser.parse_known_args

    def parse(args: Any = None, namespace: Any = None) -> Any:
        parser.parse_known_args = plain  # type: ignore[method-assign]
        try:
            return parser.parse_known_intermixed_args(args, namespace)
        finally:
            parser.parse_known_args = parse  # type: ignore[method-assign]

    parser.parse_known_args = parse  # type: ignore[method-assign]


def run(args: argparse.Namespace) -> int:
    from msgspec.structs import replace

    from telemetry.cli.beside_run.gates import demands, exit_code
    from telemetry.config.load import load
    from telemetry.history import open_run
    from telemetry.judge.gates.check import check
    from telemetry.judge.gates.parser import parse_all
    from telemetry.judge.gates.run_evidence import evidence_of

    config = load({"run.dir": args.dir}).config
    texts = args.expressions or list(config.gates.expressions)
    _refuse_nothing(args, texts)
    parse_all(texts)
    wanted = outputs(args.formats, args.files, FORMATS, STEM)
    target = find_run.find(args)
    recorded = open_run(target.directory_spec, target.root, config.run.fallback_dirs)
    choice = time_range_options.choice_of(args)
    asked = demands(
        texts,
        config,
        target.root,
        command=_command(recorded),
        baseline=args.baseline,
        confident=args.confident,
        calibration=args.calibration,
        choice=choice,
    )
    evidence = evidence_of(recorded, choice)
    results = check(asked.gates, evidence, asked.rules)
    make_folders(wanted)
    for output in wanted:
        _write(replace(recorded.result, gates=results), output, _span(evidence))
    return exit_code(results)


def _command(recorded: RecordedRun) -> Command | None:
    """Return the command of the run, for its calibration; None without one."""
    from telemetry.store.calibrations import command_of

    directory, facts = recorded.directory, recorded.result.snapshot.command
    return None if directory is None or facts is None else command_of(directory, facts.argv)


def _refuse_nothing(args: argparse.Namespace, texts: list[str]) -> None:
    """Raise UsageError if there is no gate, or if the first gate was given in place of the run."""
    if any(mark in args.target for mark in ("<", ">", "==", "!=")):
        raise UsageError(
            f"expected a run, got {args.target!r}",
            hint="give the run first: telemetry gate RUN EXPR …",
        )
    if not texts:
        raise UsageError(
            "no gates to check",
            hint="give one: telemetry gate RUN 'p99(latency) < 250ms'; or set expressions = […] under "
            "[gates] in telemetry.toml",
        )


def _span(evidence: Evidence) -> str:
    """Return the checked time range for the first line; empty for a whole run and if no range was found."""
    from telemetry.common.formatting import duration_s

    if evidence.whole or evidence.obstacle:
        return ""
    return f" · only {duration_s(evidence.start_s)} to {duration_s(evidence.end_s)} of the run"


def _write(report: Report, output: Output, span: str) -> None:
    color = output.path is None and console.color(sys.stdout)
    write(render_as("gates", report, output.form, span=span, color=color), output.path)
