"""What a dead aggregator left short – the last intervals of the history, the last records – from its journal."""

from __future__ import annotations

from telemetry.daemon.recovery.rebuild import Fold, Step
from telemetry.errors import RunDirectoryError
from telemetry.store.history import HistoryWriter
from telemetry.store.journal import CHECKPOINT, JournalReader
from telemetry.store.records import RecordLog
from telemetry.wire.codec import Malformed, decode_checkpoint
from telemetry.wire.events import StreamRecord
from telemetry.wire.history import Interval
from telemetry.wire.journal import RunState
from telemetry.wire.version import PROTOCOL


class Backfill:
    """Takes every step of a fold, appends what the files lack, and passes over what they have.

    Seconds that neither the history nor the journal has are left out of it. Records are numbered without a gap:
    behind lost ones the others move up. A file that failed stays as it is.
    """

    def __init__(self, history: HistoryWriter | None, records: RecordLog) -> None:
        self.history = history
        self.records = records
        self.lost_seconds = 0
        self.lost_records = 0
        self._moved_up = 0
        """How much lower than in the journal records are numbered in the log."""
        self._numbered = 0
        """Records up to here, as the journal counts them."""

    def take(self, step: Step, fold: Fold) -> None:
        run = fold.numbers.run
        if step.interval is not None:
            self._append_interval(step.interval, step.roll, fold)
        if step.streamed:
            self._append_records(step, run.run_id)
        elif run.records != self._numbered:  # behind a restart, which numbers on from the log, or behind damage
            self._moved_up = 0
        self._numbered = run.records

    def end(self, fold: Fold) -> None:
        """The journal was read to its end: what is still missing is lost."""
        run = fold.numbers.run
        if self.history is not None and not self.history.failed:
            self.lost_seconds += max(0, run.rolls - self.history.rolls)
        if not self.records.failed:
            self.lost_records += max(0, run.records - self._moved_up - self.records.next_seq)

    def unjournaled_records(self, fold: Fold) -> int:
        """Records that the log has beyond a journal that was read to its end."""
        ahead = self.records.next_seq + self._moved_up - fold.numbers.run.records
        return 0 if self.records.failed else max(0, ahead)

    def _append_interval(self, interval: Interval, roll: int, fold: Fold) -> None:
        history = self.history
        if history is None or history.failed or roll < history.rolls:
            return
        self.lost_seconds += roll - history.rolls
        history.append(interval, fold.numbers.aggregator.keys(), roll)

    def _append_records(self, step: Step, run_id: str) -> None:
        if self.records.failed:
            return
        following = self.records.next_seq
        missing = step.first_record - self._moved_up - following
        if missing > 0:
            self.lost_records += missing
            self._moved_up += missing
        known = max(0, -missing)
        self.records.append(
            [
                StreamRecord(PROTOCOL, run_id, seq, item.producer, item.wall_ns, item.record)
                for seq, item in enumerate(step.streamed[known:], following)
            ]
        )


def first_segment(
    reader: JournalReader, history: HistoryWriter | None, records: RecordLog, back: int | None = None
) -> int | None:
    """The newest segment whose checkpoint lies before all that the files lack; None for the oldest there is.

    Nothing can be done for a file that failed. `back`: at most so many segments before the newest, whatever is lost
    by that. Raises RunDirectoryError if no checkpoint can be read.
    """
    newest = reader.last_checkpoint()
    oldest = next(reader.frames()).segment
    last = oldest if back is None else max(oldest, newest - back)
    for number in range(newest, last, -1):
        run = _run_at(reader, number)
        if run is None:
            continue
        if (records.failed or run.records <= records.next_seq) and (
            history is None or history.failed or run.rolls <= history.rolls
        ):
            return number
    return None if last == oldest else last


def _run_at(reader: JournalReader, segment: int) -> RunState | None:
    """What the checkpoint at the head of a segment says of the run; None if it can't be read."""
    first = next(reader.frames(segment), None)
    if first is None or first.segment != segment or first.kind != CHECKPOINT:
        return None
    try:
        return decode_checkpoint(first.data).run
    except Malformed as malformed:
        raise RunDirectoryError(
            f"a checkpoint of the journal can't be read: {malformed}", hint="use the version that wrote it"
        ) from malformed
