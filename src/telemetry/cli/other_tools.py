"""`telemetry report --as` and `--goodput`: the requests of a run by other definitions and limits."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from telemetry.cli import console, find_run, time_range_options
from telemetry.cli.outputs import Output, make_folders, write
from telemetry.common import slo
from telemetry.errors import UsageError
from telemetry.wire.exit_codes import Exit, strictly
from telemetry.wire.report import Report

if TYPE_CHECKING:
    from telemetry.store.run_directory import RunDirectory

_FORMS: Final = ("text", "json")


def goodput_of(args: argparse.Namespace) -> dict[str, dict[str, int]] | None:
    """Return the limits of `--goodput` by kind; None without that option. Raises UsageError."""
    if args.goodput is None:
        return None
    try:
        return slo.parse_by_kind(args.goodput)
    except UsageError as error:
        hint = f"{error.hint}; give RUN before --goodput"
        raise UsageError(f"--goodput: {error.message}", hint=hint) from None


def judged_again(report: Report, target: find_run.RunTarget, limits: Mapping[str, Mapping[str, int]]) -> Report:
    """Return the report as if the requests had had these limits. Raises what `with_goodput` raises."""
    from telemetry.history.goodput import with_goodput

    return with_goodput(report, _directory(target, report), limits)


def write_as_tool(args: argparse.Namespace, wanted: Sequence[Output]) -> int:
    """Write the requests of a run as another tool shows them. Raises UsageError."""
    from telemetry.report.other_tools import parse_tool, render_beside, render_json, render_text, select

    tool = parse_tool(args.tool)
    if unfit := [output.form for output in wanted if output.form not in _FORMS]:
        raise UsageError(f"--as does not work with the format {unfit[0]}", hint=f"use {' or '.join(_FORMS)}")
    target, limits = find_run.find(args), goodput_of(args)
    report = time_range_options.report_of(target, time_range_options.choice_of(args), None)
    chosen = select(report, _directory(target, report), args.requests or "", limits)
    make_folders(wanted)
    for output in wanted:
        if output.form == "json":
            text = render_json(tool, chosen, beside=args.beside)
        else:
            width = console.PIPED_WIDTH if output.path is not None else console.width(sys.stdout)
            text = (render_beside if args.beside else render_text)(tool, chosen, width)
        write(text, output.path)
    return strictly(report.completeness) if args.strict else Exit.OK


def _directory(target: find_run.RunTarget, report: Report) -> RunDirectory:
    """Return the directory of the run. Raises UsageError if it is not on this machine."""
    directory = time_range_options.directory_of(target, report)
    if directory is None:
        raise UsageError(
            "the request log of the run is not on this machine", hint="give the directory of the run as RUN"
        )
    return directory
