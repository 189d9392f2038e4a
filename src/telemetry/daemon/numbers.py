"""A run's numbers: its aggregator, and what is known of the run beside it, changed by what is in the journal alone.
Whatever changes them may lead to records of the stream, which wait here for who publishes them.

The live run and the fold of its journal both come through here, so that they arrive at the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from telemetry.aggregator import Aggregator, StreamedRecord
from telemetry.errors import RunDirectoryError
from telemetry.store.append_file import Buffer
from telemetry.wire.codec import Malformed, decode_batch, decode_checkpoint, encode_checkpoint
from telemetry.wire.control import CannotResend, End, Hello, Watch
from telemetry.wire.events import EventBatch
from telemetry.wire.history import Interval
from telemetry.wire.journal import BadFrames, Checkpoint, Closed, Ending, Note, Rolled, RunState

LATEST_NS: Final = (1 << 63) - 1  # no clock gets there, and 64 bits with a sign hold it


class Numbers:
    """One owner. `now_ns` is the stamp of what is applied, on the run's monotonic clock."""

    def __init__(self, aggregator: Aggregator, run: RunState) -> None:
        self.aggregator = aggregator
        self.run = run
        self.frames, self.frame_bytes = run.frames, run.frame_bytes
        """Batches that were taken, as messages, and their bytes."""
        self._untaken: list[StreamedRecord] = []

    @staticmethod
    def restore(checkpoint: Buffer) -> Numbers:
        """Raises RunDirectoryError for a checkpoint that can't be read."""
        try:
            saved = decode_checkpoint(checkpoint)
            aggregator = Aggregator.restore(bytes(saved.numbers))
            aggregator.record_room.taken_bytes = saved.run.record_bytes
            return Numbers(aggregator, saved.run)
        except Malformed as malformed:
            raise RunDirectoryError(
                f"a checkpoint of the journal can't be read: {malformed}", hint="use the version that wrote it"
            ) from malformed

    def start_over(self, checkpoint: Buffer) -> None:
        """From another checkpoint; raises as `restore`."""
        restored = Numbers.restore(checkpoint)
        self.aggregator, self.run = restored.aggregator, restored.run
        self.frames, self.frame_bytes = restored.frames, restored.frame_bytes

    def adopt(self, checkpoint: Buffer) -> None:
        """What a checkpoint says of the run, which a restart changes beside the journal. The aggregator stays; one
        that can't be read changes nothing."""
        with suppress(Malformed):
            self.run = decode_checkpoint(checkpoint).run

    def checkpoint(self) -> bytearray:
        """All of it, for the beginning of a segment. Between turns only: what is admitted has to be applied."""
        self.run = replace(
            self.run,
            record_bytes=self.aggregator.record_room.taken_bytes,
            frames=self.frames,
            frame_bytes=self.frame_bytes,
        )
        head = encode_checkpoint(Checkpoint(run=self.run, numbers=Raw()))  # they are its last field
        return self.aggregator.checkpoint(head)

    def wall_ns(self, now_ns: int) -> int:
        """The run's wall clock. It follows the system's once in each interval, so that the journal tells it.

        Within 64 bits with a sign, whatever a journal says.
        """
        return min(max(0, now_ns + self.run.rolled_wall_ns - self.run.rolled_mono_ns), LATEST_NS)

    def admit(self, frame: Buffer, now_ns: int) -> EventBatch | None:
        """The batch in a frame if it can be read and is new, and is to be applied then; else it is counted."""
        try:
            batch = decode_batch(frame)
        except Malformed as malformed:
            self.aggregator.bad_frame(malformed.reason)
            return None
        if not self.aggregator.admit(batch, now_ns):
            return None
        self.frames += 1
        self.frame_bytes += len(frame)
        return batch

    def apply(self, batches: Sequence[EventBatch], now_ns: int) -> None:
        """One turn's admitted batches."""
        self._stream(self.aggregator.apply(batches, now_ns, self.wall_ns(now_ns)))

    def take_streamed(self) -> list[StreamedRecord]:
        """The records of the stream since the last call: the numbers of these are the last below `run.records`."""
        taken, self._untaken = self._untaken, []
        return taken

    def _stream(self, streamed: Sequence[StreamedRecord]) -> None:
        if streamed:
            self._untaken += streamed
            self.run = replace(self.run, records=self.run.records + len(streamed))

    def roll(self, rolled: Rolled, now_ns: int) -> Interval:
        """Ends an interval of the history."""
        interval = self.aggregator.roll(rolled.start_wall_ns, rolled.end_wall_ns, rolled.elapsed_ns)
        self._stream(self.aggregator.pass_time(rolled.elapsed_ns))
        self.run = replace(
            self.run,
            rolled_wall_ns=rolled.end_wall_ns,
            rolled_mono_ns=now_ns,
            rolls=self.run.rolls + 1,
            snapshot_seq=rolled.snapshot_seq,
        )
        return interval

    def take_note(self, note: Note, now_ns: int) -> None:
        """Any note but `Rolled`."""
        match note:
            case Hello():
                self.aggregator.hello(note, now_ns, self.wall_ns(now_ns))
            case End():
                self._stream(self.aggregator.end(note, now_ns))
            case CannotResend():
                self._stream(self.aggregator.cannot_resend(note.producer, note.first, note.last, now_ns))
            case Watch():
                self.run = replace(self.run, watched=[*self.run.watched, note.pid])
            case BadFrames():
                self.aggregator.add_bad_frames(note.counts)
            case Ending():
                self.run = replace(self.run, ending=note)
            case Closed():
                self.close()

    def close(self) -> None:
        """Nothing more will come, unless another aggregator goes on with the run. A second time changes nothing."""
        self._stream(self.aggregator.close())
