"""`telemetry tail`: snapshots or records as JSON lines, until the run ends."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

import msgspec
from msgspec.structs import asdict

from telemetry import limits
from telemetry.cli import console, find_run
from telemetry.common.formatting import number_of, printable_json
from telemetry.errors import EndpointError, RunNotFoundError
from telemetry.wire.events import StreamRecord
from telemetry.wire.exit_codes import Exit

_TURN_S = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    find_run.add_run_argument(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--all", action="store_true", help="print every snapshot; without this a slow reader skips to the newest"
    )
    what.add_argument(
        "--records", action="store_true", help="print the record stream from its beginning: marks, params, …"
    )
    parser.add_argument("-n", "--count", type=_natural, default=None, metavar="N", help="stop after N lines")


def run(args: argparse.Namespace) -> int:
    target = find_run.find(args)
    lines = _record_lines(target) if args.records else _snapshot_lines(target, conflate=not args.all)
    for line in islice(lines, args.count):
        sys.stdout.buffer.write(printable_json(line.decode()).encode() + b"\n")
        sys.stdout.buffer.flush()
    return Exit.OK


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of lines")
    return int(text)


def _snapshot_lines(target: find_run.RunTarget, *, conflate: bool) -> Iterator[bytes]:
    """Yield each snapshot on one line. For a run that has ended, yield its last one."""
    from telemetry.transport import subscribe
    from telemetry.wire.codec import snapshot_to_json

    if target.endpoint:
        try:
            snapshots = subscribe(target.endpoint, conflate=conflate)
        except EndpointError as silence:
            yield snapshot_to_json(find_run.from_disk(target, silence).snapshot)
            return
        with snapshots:
            yield from map(snapshot_to_json, snapshots)
    else:
        yield snapshot_to_json(find_run.report_of(target).snapshot)


def _record_lines(target: find_run.RunTarget) -> Iterator[bytes]:
    """Yield each record on one line, from the first on. Gaps are filled from the log on disk where possible."""
    following, followed = 0, False
    if target.endpoint:
        from telemetry.transport.record_stream import RecordStream

        # an aggregator that is gone by now has left all its records in the log
        with suppress(EndpointError), RecordStream(target.endpoint) as stream:
            followed = True
            while not stream.ended:
                record = stream.recv(_TURN_S)
                if record is not None:
                    yield _record_line(record)
            following = stream.next_seq
            if stream.missed:
                console.say(f"{number_of(stream.missed, 'record')} skipped: no longer available")
    try:
        yield from map(_record_line, _records_on_disk(target, following))
    except RunNotFoundError:
        if not followed:  # else the run is on another machine, and all records were printed
            raise


def _records_on_disk(target: find_run.RunTarget, from_seq: int) -> Iterator[StreamRecord]:
    """Yield the records of the log from `from_seq` on. Raises RunNotFoundError or RunDirectoryError."""
    from telemetry.store.records import RecordLog
    from telemetry.store.run_directory import resolve

    log = RecordLog(resolve(target.directory_spec, target.root).records)
    while records := log.read(from_seq, limits.CATCHUP_RECORDS):
        yield from records
        from_seq = records[-1].seq + 1


def _record_line(record: StreamRecord) -> bytes:
    """Encode a record with the field names of the record log."""
    head = {
        "seq": record.seq,
        "wall_ns": record.wall_ns,
        "producer": record.producer,
        "type": type(record.record).__struct_config__.tag,
    }
    return msgspec.json.encode(head | asdict(record.record))
