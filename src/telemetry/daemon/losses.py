"""What could not be read back of a journal, and what the files beside it lack, as warnings."""

from __future__ import annotations

from collections.abc import Iterator

from telemetry import humane
from telemetry.daemon.fill import Filler
from telemetry.daemon.fold import Fold
from telemetry.daemon.refine import HOLE
from telemetry.humane import number_of

_NEWER = "notes of the journal are of a newer version and were passed over"


def journal_losses(fold: Fold) -> Iterator[str]:
    """After the end of its entries."""
    reader = fold.reader
    if reader.tail_damaged:
        until = humane.timestamp(fold.numbers.wall_ns(fold.now_ns))
        yield (
            f"{reader.tail_bytes:,} bytes at the end of the journal are damaged and left out: "
            f"what came after {until} is not in the result"
        )
    elif reader.tail_bytes:
        yield f"the journal ended with {reader.tail_bytes:,} torn bytes, which are left out"
    if reader.damaged:
        yield HOLE
    if fold.unreadable:
        yield f"{fold.unreadable:,} {_NEWER}"


def file_losses(fold: Fold, filler: Filler) -> Iterator[str]:
    """Of the history and the record log, after `filler.end`."""
    for name, file in {"history": filler.history, "record log": filler.records}.items():
        if file is not None and file.failed:
            yield f"the {name} could not be written: {file.failed}"
    if filler.lost_seconds:
        yield f"{number_of(filler.lost_seconds, 'second of the history is', 'seconds of the history are')} lost"
    if filler.lost_records:
        yield f"{number_of(filler.lost_records, 'record of the stream is', 'records of the stream are')} lost"
    if ahead := filler.unjournaled_records(fold):
        yield f"the journal lost {ahead:,} records that the record log has; those sent again are in it twice"
