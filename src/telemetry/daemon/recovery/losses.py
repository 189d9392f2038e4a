"""Warnings about unreadable parts of a journal, and about gaps in the files beside it."""

from __future__ import annotations

from collections.abc import Iterator

from telemetry.common import formatting
from telemetry.common.formatting import number_of
from telemetry.daemon.exact_percentiles import HOLE
from telemetry.daemon.recovery.backfill import Backfill
from telemetry.daemon.recovery.rebuild import Fold


def journal_losses(fold: Fold) -> Iterator[str]:
    """Yield warnings about a journal whose entries were all read."""
    reader = fold.reader
    if reader.tail_damaged:
        until = formatting.timestamp(fold.numbers.wall_ns(fold.now_ns))
        yield (
            f"{_are(reader.tail_bytes, 'byte', 'at the end of the journal')} damaged and skipped: "
            f"events after {until} are not in the result"
        )
    elif reader.tail_bytes:
        torn = number_of(reader.tail_bytes, "incomplete byte, which is", "incomplete bytes, which are")
        yield f"the journal ended with {torn} skipped"
    if reader.damaged:
        yield HOLE
    if fold.unreadable:
        yield f"{_are(fold.unreadable, 'note', 'of the journal')} from a newer version and skipped"


def file_losses(fold: Fold, filler: Backfill) -> Iterator[str]:
    """Yield warnings about the history, the record log and the request log. Call it after `filler.end`."""
    files = {"history": filler.history, "record log": filler.records, "request log": filler.requests}
    for name, file in files.items():
        if file is not None and file.failed:
            yield f"can't write the {name}: {file.failed}"
    if filler.history is not None:
        yield from filler.history.notices
    if filler.lost_seconds:
        yield f"{_are(filler.lost_seconds, 'second', 'of the history')} lost"
    if filler.lost_records:
        yield f"{_are(filler.lost_records, 'record', 'of the stream')} lost"
    if filler.lost_logged:
        lost = "batch of the request log is", "batches of the request log are"
        yield f"{number_of(filler.lost_logged, *lost)} lost"
    if ahead := filler.unjournaled_records(fold):
        records = number_of(ahead, "record")
        yield (
            f"the journal lost {records} that the record log has; records that were sent again appear in it twice"
        )


def _are(number: int, noun: str, where: str) -> str:
    """Return `1 record of the stream is` or `2 records of the stream are`."""
    return number_of(number, f"{noun} {where} is", f"{noun}s {where} are")
