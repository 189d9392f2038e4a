"""`telemetry timeline`: spans and requests of a run as a trace file, with traces of profilers on the same clock."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from telemetry.cli import console, find_run
from telemetry.errors import RunDirectoryError, UsageError
from telemetry.wire.exit_codes import Exit

_FILE: Final = "timeline.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    find_run.add_run_argument(parser)
    parser.add_argument(
        "-o", "--output", default=_FILE, metavar="FILE", help=f"trace file to write; - is stdout (default: {_FILE})"
    )
    parser.add_argument(
        "--merge",
        nargs="+",
        action="extend",
        default=[],
        metavar="TRACE",
        help="traces that torch.profiler has written on this run's machines, .json or .json.gz",
    )


def run(args: argparse.Namespace) -> int:
    from telemetry.backends.timeline.profiler import profiler_events
    from telemetry.backends.timeline.trace import has_slices, recorded_trace, spans_of, where_spans_are
    from telemetry.cli.outputs import make_folder, say_wrote
    from telemetry.store.atomic import write_atomic
    from telemetry.store.run_directory import RunDirectory

    target = find_run.find(args)
    snapshot = find_run.report_of(target).snapshot
    if not snapshot.directory:
        raise UsageError("the run has no directory on this machine", hint="run the command where the run is")
    directory = RunDirectory.open(Path(snapshot.directory))
    spans = list(spans_of(directory)) if args.merge else []
    others = [
        event
        for number, path in enumerate(args.merge)
        for event in profiler_events(Path(path), snapshot.started_ns, number, spans)
    ]
    if not has_slices(directory):
        lack = "the run has no spans and no request log"
        hint = where_spans_are(has_nodes=bool(snapshot.nodes))
        if not others:
            raise RunDirectoryError(f"{lack}, so no timeline was written", hint=hint)
        console.say(f"{lack}, so the timeline has only the merged traces ({hint})")
    trace = recorded_trace(directory, snapshot, others)
    if args.output == "-":
        console.write(trace.decode() + "\n")
        return Exit.OK
    path = Path(args.output)
    make_folder(path.parent)
    write_atomic(path, trace)
    say_wrote(path, "open it at https://ui.perfetto.dev or chrome://tracing")
    return Exit.OK
