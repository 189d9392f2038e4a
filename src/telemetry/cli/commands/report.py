"""`telemetry report`: the result of a run, in several formats, also by the definitions of other tools (`--as`)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from telemetry.cli import console, find_run, time_range_options
from telemetry.cli.outputs import Output, add_output_arguments, make_folders, outputs, say_wrote, write, write_all
from telemetry.common import slo, wording
from telemetry.common.formatting import did_you_mean
from telemetry.common.memory import uncollected
from telemetry.errors import UsageError
from telemetry.report import TABLE, render
from telemetry.wire.exit_codes import Exit, strictly
from telemetry.wire.report import Report

if TYPE_CHECKING:
    from telemetry.history import RecordedRun
    from telemetry.store.run_directory import RunDirectory
    from telemetry.wire.snapshot import SeriesStat


def add_arguments(parser: argparse.ArgumentParser) -> None:
    find_run.add_run_argument(parser)
    add_output_arguments(parser)
    parser.add_argument(
        "--series",
        metavar="NAME",
        help="write only this series to .hgrm: its name, or name{label=value,…} as shown in tables",
    )
    parser.add_argument(
        "--requests",
        metavar="NAME",
        help="kind of requests for --as and --format endpoints, if the run has several: its name, or "
        "name{label=value,…}",
    )
    parser.add_argument(
        "--no-legacy-window",
        dest="legacy_window",
        action="store_false",
        help="with --format endpoints: compute qps and tps over the whole duration, not as LoadGen does",
    )
    parser.add_argument(
        "--as",
        dest="tool",
        metavar="TOOL[@VERSION]",
        help="show the requests by the definitions and in the layout of another benchmark tool: vllm, sglang, "
        "sglang-native or aiperf; --json has its names",
    )
    parser.add_argument(
        "--beside",
        action="store_true",
        help="with --as: show our figures and those of the tool, and why they differ",
    )
    parser.add_argument(
        "--goodput",
        nargs="+",
        metavar="KEY:LIMIT",
        help="judge the requests by other limits than those of the run, such as ttft:300 tpot:50 (in ms), from the "
        "request log; chat=ttft:300 is for one kind",
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="show all figures in text and Markdown, such as every percentile, early stopping and all parameters",
    )
    time_range_options.add_part_arguments(parser)
    parser.add_argument(
        "--pictures", action="store_true", help="add the figures that the HTML page draws to --json, as `pictures`"
    )
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of --json, then exit")
    parser.add_argument(
        "--strict", action="store_true", help="exit 4 unless the result is complete, 5 if the run was interrupted"
    )


def run(args: argparse.Namespace) -> int:
    if args.schema:
        return _schema()
    wanted = outputs(args.formats, args.files)
    if args.series is not None and all(output.form != "hgrm" for output in wanted):
        raise UsageError("--series works only with the format hgrm", hint="add --format hgrm")
    if args.pictures and all(output.form != "json" for output in wanted):
        raise UsageError("--pictures works only with the format json", hint="add --format json")
    if args.beside and args.tool is None:
        raise UsageError("--beside works only with --as", hint="add --as vllm, sglang, sglang-native or aiperf")
    if not args.legacy_window and all(output.form != "endpoints" for output in wanted):
        raise UsageError("--no-legacy-window works only with the format endpoints", hint="add --format endpoints")
    if args.tool is None and args.requests is not None and all(output.form != "endpoints" for output in wanted):
        raise UsageError(
            "--requests works only with --as and the format endpoints",
            hint="add --format endpoints, or --as TOOL",
        )
    with uncollected():
        return _report(args, wanted) if args.tool is None else write_as_tool(args, wanted)


def _report(args: argparse.Namespace, wanted: Sequence[Output]) -> int:
    target = find_run.find(args)
    choice, step_s = time_range_options.choice_of(args), time_range_options.step_of(args)
    limits = goodput_of(args)
    bare = all(TABLE[output.form].bare for output in wanted)
    if limits is None and choice.whole and step_s is None and bare:
        report = find_run.report_of(target)
    else:
        pictures = args.pictures or any(output.form == "html" for output in wanted)
        report = time_range_options.report_of(target, choice, step_s, pictures=pictures)
    if limits is not None:
        report = judged_again(report, target, limits)
    make_folders(wanted)
    for output in wanted:
        if output.form == "hlog":
            _write_hlog(target, output.path, report)
        elif output.form == "hgrm":
            _write_hgrm(list(_distributions(target, report, args.series)), output)
        elif output.form == "endpoints":
            _write_summary(report, target, args, output)
        else:
            drawn = report if args.pictures or output.form == "html" else replace(report, pictures=None)
            _write(drawn, output, steps=args.every is not None, full=args.full)
    return strictly(report.completeness) if args.strict else Exit.OK


def _write(report: Report, output: Output, *, steps: bool, full: bool) -> None:
    width, color = console.PIPED_WIDTH, False
    if output.path is None:
        width, color = console.width(sys.stdout), console.color(sys.stdout)
    write(render(report, output.form, width=width, color=color, steps=steps, full=full), output.path)


def _write_summary(report: Report, target: find_run.RunTarget, args: argparse.Namespace, output: Output) -> None:
    from telemetry.report.endpoints import render_summary

    summary = render_summary(
        report,
        args.requests or "",
        legacy_window=args.legacy_window,
        directory=time_range_options.directory_of(target, report),
        say=console.say,
    )
    write(summary, output.path)


def _schema() -> int:
    from telemetry.report.json import json_schema

    console.write_json(json_schema())
    return Exit.OK


def _write_hlog(target: find_run.RunTarget, output: Path | None, report: Report) -> None:
    if output is None:
        raise UsageError("a histogram log must be written to a file", hint="add -o FILE")
    from telemetry.store.interval_log import export_hlog
    from telemetry.store.run_directory import resolve

    directory = resolve(target.directory_spec, target.root)
    part = report.time_range
    if part is None or not part.found:
        export_hlog(directory, output)
    else:
        start_ns, end_ns = (report.snapshot.started_ns + round(at_s * 1e9) for at_s in (part.start_s, part.end_s))
        export_hlog(directory, output, start_ns=start_ns, end_ns=end_ns)
    say_wrote(output)


def _write_hgrm(distributions: Sequence[tuple[str, str]], output: Output) -> None:
    """Write distributions. `distributions` holds (series name, text) pairs."""
    from telemetry.report.hgrm import sections

    if output.path is None:
        write(sections(text for _, text in distributions), None)
    elif len(distributions) == 1:
        write(distributions[0][1], output.path)
    elif distributions and output.folder:
        files = (f"{file}{output.path.suffix}" for file in _file_names([name for name, _ in distributions]))
        write_all(zip(files, (text for _, text in distributions), strict=True), output.path.with_suffix(""))
    elif not distributions:
        raise UsageError(f"the run has no series to write to {output.path}")
    else:
        hint = "choose one with --series NAME, or write all to a folder: --format hgrm -o DIR/"
        raise UsageError(f"{output.path} can hold one series, but the run has {len(distributions):,}", hint=hint)


def _distributions(target: find_run.RunTarget, report: Report, wanted: str | None) -> Iterator[tuple[str, str]]:
    """Yield the name and the distribution of each series.

    The distribution covers all values if the history has them, else only the percentiles of the result. A message
    says so.
    """
    from telemetry.report.hgrm import digests, distribution, result_distribution

    stats = _chosen(report, wanted)
    by_index = digests(_recorded(target), stats, report.time_range) if report.source != "status" else {}
    coarse = 0
    for index, stat in enumerate(stats):
        digest = by_index.get(index)
        coarse += digest is None
        text = result_distribution(stat) if digest is None else distribution(digest, stat.stddev)
        yield wording.instrument(stat.name, stat.labels), text
    if coarse:
        console.say(
            f"the history lacks values for {coarse:,} of {len(stats):,} series: their "
            "distributions contain only the percentiles of the result"
        )


def _recorded(target: find_run.RunTarget) -> RecordedRun:
    from telemetry.common.memory import keep_freed
    from telemetry.history import open_run

    keep_freed()
    return open_run(target.directory_spec, target.root, find_run.fallback_dirs())


def _chosen(report: Report, wanted: str | None) -> list[SeriesStat]:
    """Return the series with this name, with or without labels. None means all series."""
    stats = report.snapshot.series
    if wanted is None:
        return stats
    named = {index: {stat.name, wording.instrument(stat.name, stat.labels)} for index, stat in enumerate(stats)}
    matching = [stats[index] for index, names in named.items() if wanted in names]
    if not matching:
        all_names = sorted({name for names in named.values() for name in names})
        hint = did_you_mean(wanted, all_names) or "`telemetry report` shows the series"
        raise UsageError(f"the run has no series {wanted!r}", hint=hint)
    return matching


def _file_names(names: Sequence[str]) -> Iterator[str]:
    """Yield a unique file name for each name."""
    from telemetry.store.run_directory import slug

    taken: set[str] = set()
    for name in names:
        plain = slug(name)
        numbered = (f"{plain}-{number}" for number in count(2))
        file = next(candidate for candidate in chain([plain], numbered) if candidate not in taken)
        taken.add(file)
        yield file


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
