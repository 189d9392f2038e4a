"""What a dead aggregator left short – the last intervals of the history, the last records – from its journal."""

from __future__ import annotations

from telemetry.daemon.fold import Fold, Step
from telemetry.errors import RunDirectoryError
from telemetry.store.history import HistoryWriter
from telemetry.store.journal import CHECKPOINT, JournalReader
from telemetry.store.records import RecordLog
from telemetry.wire.codec import Malformed, decode_checkpoint
from telemetry.wire.events import StreamRecord
from telemetry.wire.journal import RunState
from telemetry.wire.version import PROTOCOL


class Filler:
    """Takes every step of a fold, appends what the files lack, and passes over what they have.

    Seconds that neither the history nor the journal has are left out of it. Records are numbered without a gap:
    behind lost ones the others move up.
    """

    def __init__(self, history: HistoryWriter | None, records: RecordLog) -> None:
        self._history = history
        self._records = records
        self.lost_records = 0

    def take(self, step: Step, fold: Fold) -> None:
        history = self._history
        if step.interval is not None and history is not None and step.roll >= history.rolls:
            history.append(step.interval, fold.numbers.aggregator.keys(), step.roll)
        if step.streamed:
            self._append_records(step, fold.numbers.run.run_id)

    def _append_records(self, step: Step, run_id: str) -> None:
        following = self._records.next_seq
        missing = step.first_record - self.lost_records - following
        if missing > 0:
            self.lost_records += missing
        known = max(0, -missing)
        self._records.append(
            [
                StreamRecord(PROTOCOL, run_id, seq, item.producer, item.wall_ns, item.record)
                for seq, item in enumerate(step.streamed[known:], following)
            ]
        )


def first_segment(reader: JournalReader, history: HistoryWriter | None, records: RecordLog) -> int | None:
    """The newest segment whose checkpoint lies before all that the files lack; None for the oldest there is.

    Raises RunDirectoryError if no checkpoint can be read.
    """
    newest = reader.last_checkpoint()
    oldest = next(reader.frames()).segment
    rolls = history.rolls if history is not None else None
    for number in range(newest, oldest, -1):
        run = _run_at(reader, number)
        if run is None:
            continue
        if run.records <= records.next_seq and (rolls is None or run.rolls <= rolls):
            return number
    return None


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
