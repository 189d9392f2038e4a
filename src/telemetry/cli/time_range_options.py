"""Options for the time range that a command is about, and for the steps of its curves."""

from __future__ import annotations

import argparse
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from telemetry.cli import find_run
from telemetry.errors import RunNotFoundError, UsageError
from telemetry.wire.report import Report

if TYPE_CHECKING:
    from telemetry.history import TimeRangeChoice
    from telemetry.store.run_directory import RunDirectory

_VALUE: Final = re.compile(r"-\.?\d")


def add_part_arguments(parser: argparse.ArgumentParser, *, steps: bool = True) -> None:
    """Add the flags that `choice_of` reads, and with `steps` those of `step_of`."""
    parser._negative_number_matcher = _VALUE  # as in Python 3.14: `-10s` is a value, not a flag
    part = parser.add_argument_group("time range")
    part.add_argument(
        "--from",
        dest="from_s",
        metavar="TIME",
        help="start of the time range, such as 30s or 5m after the start of the run, or -1m before its end",
    )
    part.add_argument("--to", dest="to_s", metavar="TIME", help="end of the time range, in the same form")
    group = part.add_mutually_exclusive_group()
    group.add_argument(
        "--trim-warmup", action="store_true", help="leave out the warm-up: the time before the figures are stable"
    )
    group.add_argument(
        "--steady", action="store_true", help="use the longest time range in which the figures do not change"
    )
    if steps:
        part.add_argument(
            "--every", metavar="TIME", help="step of figures over time, such as 10s (default: about 60 steps)"
        )


def choice_of(args: argparse.Namespace) -> TimeRangeChoice:
    """Return the chosen time range. Raises UsageError for an invalid time."""
    from telemetry.history import TimeRangeChoice

    return TimeRangeChoice(
        from_s=_time(args.from_s, "--from"),
        to_s=_time(args.to_s, "--to"),
        trim_warmup=args.trim_warmup,
        steady=args.steady,
    )


def step_of(args: argparse.Namespace) -> float | None:
    """Return the step in seconds. Raises UsageError for an invalid time or a step of zero or less."""
    step_s = _time(args.every, "--every")
    if step_s is not None and step_s <= 0.0:
        raise UsageError(f"--every {args.every} is not a step above 0 s", hint="write it like 10s or 1m")
    return step_s


def report_of(
    target: find_run.RunTarget, choice: TimeRangeChoice, step_s: float | None, *, pictures: bool = False
) -> Report:
    """Return the report of a time range of a run, with `pictures` also the figures for pictures.

    For a live run only the whole run is possible, from its aggregator.

    Raises what `find_run.report_of` and `RecordedRun.time_range` raise.
    """
    report = find_run.report_of(target)
    if report.source == "status" and not report.final:
        if choice.whole and step_s is None:
            from telemetry.history.run import with_history

            return with_history(report)
        raise UsageError(
            "the run is still going, and time ranges are for runs that have ended",
            hint="`telemetry top` shows any time range of a live run",
        )
    from telemetry.common.memory import keep_freed
    from telemetry.history import RecordedRun

    keep_freed()
    return RecordedRun(report, directory_of(target, report)).time_range(choice, step_s, pictures=pictures)


def directory_of(target: find_run.RunTarget, report: Report) -> RunDirectory | None:
    """Return the directory of a run. None for a result without a directory, and for a run on another machine."""
    from telemetry.store.run_directory import resolve

    # A run that was found by its address reports its directory itself.
    for spec in (target.directory_spec, *([report.directory] if report.source == "status" else [])):
        with suppress(RunNotFoundError):
            directory = resolve(spec, target.root)
            if directory.run_id in ("", report.snapshot.run_id):
                return directory
    return None


def _time(text: str | None, flag: str) -> float | None:
    from telemetry.history import parse_time

    if text is None:
        return None
    try:
        return parse_time(text)
    except UsageError as error:
        raise UsageError(f"{flag}: {error.message}", hint=error.hint) from None
