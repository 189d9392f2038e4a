"""`telemetry status`: how a run is doing, in a few lines."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from telemetry.cli import console, runs
from telemetry.cli.exits import Exit
from telemetry.wire.report import Report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    runs.add_run_argument(parser)
    parser.add_argument("--json", action="store_true", help="print the whole snapshot as JSON")


def run(args: argparse.Namespace) -> int:
    from telemetry.report import render

    target = runs.find(args)
    report = runs.report_of(target)
    if args.json:
        console.write(render(report, "json"))
    else:
        console.write("\n".join(_lines(target, report)) + "\n")
    return Exit.OK


def _lines(target: runs.Target, report: Report) -> Iterator[str]:
    from telemetry.report.content import content
    from telemetry.report.humane import printable
    from telemetry.report.text import render_section

    said = content(report)
    yield said.headline
    yield from said.facts
    if report.source == "status":
        pid = f" · pid {target.live.pid}" if target.live else ""
        yield printable(f"aggregator {target.endpoint}{pid}")
    if report.directory:
        yield printable(f"directory {report.directory}")
    for section in said.sections:
        if section.title in ("Losses", "Producers", "Progress", "Warnings"):
            yield ""
            yield section.title
            yield from render_section(section, console.width(sys.stdout))
