"""Backfill, from the journal, of files that a dead aggregator left incomplete, with warnings about what is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from telemetry.common import formatting
from telemetry.common.formatting import number_of
from telemetry.daemon.exact_percentiles import HOLE
from telemetry.daemon.recovery.rebuild import EntryEffects, Fold
from telemetry.errors import RunDirectoryError
from telemetry.store.history import HistoryWriter
from telemetry.store.journal import CHECKPOINT, JournalReader
from telemetry.store.outbox import DiskOutbox
from telemetry.store.records import RecordLog
from telemetry.store.request_log import RequestLogWriter
from telemetry.wire.codec import Malformed, decode_checkpoint
from telemetry.wire.events import StreamRecord
from telemetry.wire.history import Interval
from telemetry.wire.journal import RunState
from telemetry.wire.version import PROTOCOL


class Backfill:
    """A consumer of all steps of a fold. It appends what the files lack, and skips what they have.

    Seconds that are in neither the history nor the journal are left out of the history. Records are numbered
    without gaps: records after lost ones move up. A file that failed stays as it is.
    """

    def __init__(
        self, history: HistoryWriter | None, records: RecordLog, requests: RequestLogWriter | None = None
    ) -> None:
        self.history = history
        self.records = records
        self.requests = requests
        self.lost_seconds = 0
        self.lost_records = 0
        self.lost_logged = 0
        """Number of frames of the request log that are neither in it nor in the journal."""
        self._moved_up = 0
        """Difference between a record's number in the journal and its lower number in the log."""
        self._numbered = 0
        """Number of records so far, as the journal counts them."""

    def take(self, step: EntryEffects, fold: Fold) -> None:
        run = fold.numbers.run
        if step.slices and self.history is not None:
            self.history.append_slices(step.slices)
        if step.interval is not None:
            self._append_interval(step.interval, step.roll, fold)
        if step.streamed:
            self._append_records(step, run.run_id)
        elif run.records != self._numbered:  # after a restart, which continues the log's numbers, or after damage
            self._moved_up = 0
        self._numbered = run.records
        if self.requests is not None and not self.requests.failed and step.logged:
            self.lost_logged += max(0, step.first_logged - self.requests.next_number)
            self.requests.append(step.logged, step.first_logged)

    def end(self, fold: Fold) -> None:
        """Count what is still missing at the end of the journal as lost."""
        run = fold.numbers.run
        if self.history is not None and not self.history.failed:
            self.lost_seconds += max(0, run.rolls - self.history.rolls)
        if not self.records.failed:
            self.lost_records += max(0, run.records - self._moved_up - self.records.next_seq)
        if self.requests is not None and not self.requests.failed:
            self.lost_logged += max(0, run.requests - self.requests.next_number)

    def unjournaled_records(self, fold: Fold) -> int:
        """Return the number of records in the log that are missing from a completely read journal."""
        ahead = self.records.next_seq + self._moved_up - fold.numbers.run.records
        return 0 if self.records.failed else max(0, ahead)

    def _append_interval(self, interval: Interval, roll: int, fold: Fold) -> None:
        history = self.history
        if history is None or history.failed or roll < history.rolls:
            return
        self.lost_seconds += roll - history.rolls
        history.append(interval, fold.numbers.aggregator.keys(), roll)

    def _append_records(self, step: EntryEffects, run_id: str) -> None:
        if self.records.failed:
            return
        following = self.records.next_seq
        missing = step.first_record - self._moved_up - following
        if missing > 0:
            self.lost_records += missing
            self._moved_up += missing
        overlap = max(0, -missing)
        self.records.append(
            [
                StreamRecord(PROTOCOL, run_id, seq, item.producer, item.wall_ns, item.record)
                for seq, item in enumerate(step.streamed[overlap:], following)
            ]
        )


def first_segment(
    reader: JournalReader,
    history: HistoryWriter | None,
    records: RecordLog,
    back: int | None = None,
    outbox: DiskOutbox | None = None,
    *,
    requests: RequestLogWriter | None = None,
) -> int | None:
    """Return the newest segment whose checkpoint precedes all that the files lack.

    Return None for the oldest segment.

    A file that failed is ignored. With `back`, return at most that many segments before the newest, whatever is
    lost. A checkpoint lacks the records of the interval in which it was made, so that interval must be in the
    outbox of a leaf. Raises RunDirectoryError if no checkpoint can be read.
    """
    newest = reader.last_checkpoint()
    oldest = next(reader.frames()).segment
    last = oldest if back is None else max(oldest, newest - back)
    for number in range(newest, last, -1):
        run = _run_at(reader, number)
        if run is None:
            continue
        if (
            (records.failed or run.records <= records.next_seq)
            and (history is None or history.failed or run.rolls <= history.rolls)
            and (requests is None or requests.failed or run.requests <= requests.next_number)
            and (outbox is None or outbox.closing or run.rolls < outbox.rolls)
        ):
            return number
    return None if last == oldest else last


def _run_at(reader: JournalReader, segment: int) -> RunState | None:
    """Return the run state in the checkpoint at the head of a segment, or None if it can't be read."""
    first = next(reader.frames(segment), None)
    if first is None or first.segment != segment or first.kind != CHECKPOINT:
        return None
    try:
        return decode_checkpoint(first.data).run
    except Malformed as malformed:
        raise RunDirectoryError(
            f"can't read a checkpoint of the journal: {malformed}", hint="use the version that wrote it"
        ) from malformed


RESTARTED: Final = (
    "the machine was restarted since: after a power loss, up to one second at the end of the journal is missing"
)


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
