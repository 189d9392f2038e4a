"""The numbers of a run: its aggregator and its run state. Only entries of the journal change them.

A change may produce stream records, and frames of the request log, which wait here until they are taken. The live
run and the fold of its journal use the same code, so that they give bit-identical numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from telemetry import limits
from telemetry.aggregator import Aggregator, StreamedRecord
from telemetry.aggregator.compiled import find_rows
from telemetry.errors import RunDirectoryError
from telemetry.store.append_file import Buffer
from telemetry.wire.codec import Malformed, decode_batch, decode_checkpoint, encode_checkpoint
from telemetry.wire.collectors import COLLECTORS
from telemetry.wire.control import CannotResend, End, ExpectNodes, Hello, TellBackend, Watch
from telemetry.wire.events import EventBatch
from telemetry.wire.history import Interval, Slice
from telemetry.wire.journal import BadFrames, Checkpoint, Closed, Ending, Note, Rolled, RunState, Salvaging, Sliced
from telemetry.wire.request_log import LoggedRecords

LATEST_NS: Final = (1 << 63) - 1  # fits in a signed 64 bit integer, and no clock reaches it


class Numbers:
    """The numbers of a run, with one owner. `now_ns` stamps applied entries with the run's monotonic clock."""

    def __init__(self, aggregator: Aggregator, run: RunState) -> None:
        self.aggregator = aggregator
        self.run = run
        self.frames, self.frame_bytes = run.frames, run.frame_bytes
        """Number of applied batches, and their size in bytes as messages."""
        self._untaken: list[StreamedRecord] = []
        self._unlogged: list[LoggedRecords] = []
        self._slices: list[Slice] = []

    @staticmethod
    def restore(checkpoint: Buffer) -> Numbers:
        """Restore numbers from a checkpoint. Raise RunDirectoryError if it can't be read."""
        try:
            saved = decode_checkpoint(checkpoint)
            aggregator = Aggregator.restore(bytes(saved.numbers))
            aggregator.record_room.taken_bytes = saved.run.record_bytes
            return Numbers(aggregator, saved.run)
        except Malformed as malformed:
            raise RunDirectoryError(
                f"can't read a checkpoint of the journal: {malformed}", hint="use the version that wrote it"
            ) from malformed

    def start_over(self, checkpoint: Buffer) -> None:
        """Replace the numbers by those of another checkpoint. Raises as `restore`."""
        restored = Numbers.restore(checkpoint)
        self.aggregator, self.run = restored.aggregator, restored.run
        self.frames, self.frame_bytes = restored.frames, restored.frame_bytes

    def adopt(self, checkpoint: Buffer) -> None:
        """Take the run state from a checkpoint, because a restart changes it outside the journal.

        The aggregator stays. An unreadable checkpoint has no effect.
        """
        with suppress(Malformed):
            self.run = decode_checkpoint(checkpoint).run

    def checkpoint(self) -> bytearray:
        """Return a checkpoint of all numbers for the head of a segment.

        Call it only between turns: admitted batches must be applied.
        """
        self.run = replace(
            self.run,
            record_bytes=self.aggregator.record_room.taken_bytes,
            frames=self.frames,
            frame_bytes=self.frame_bytes,
        )
        head = encode_checkpoint(Checkpoint(run=self.run, numbers=Raw()))  # the numbers are its last field
        return self.aggregator.checkpoint(head)

    def wall_ns(self, now_ns: int) -> int:
        """Return the time of the run's clock: the system's clock at the start, continued by the monotonic clock.

        The result fits in a signed 64 bit integer for any journal.
        """
        return min(max(0, now_ns + self.run.rolled_wall_ns - self.run.rolled_mono_ns), LATEST_NS)

    def hello(self, hello: Hello, now_ns: int) -> bool:
        """Introduce a producer, which may name the run. Return False if there is no room for it."""
        accepted = self.aggregator.hello(hello, now_ns, self.wall_ns(now_ns))
        if accepted and self.is_named_by(hello):
            self.run = replace(self.run, name=hello.name, takes_name=False)
        return accepted

    def is_named_by(self, hello: Hello) -> bool:
        """Return whether the run takes its name from this hello."""
        of_job = hello.names_run and not hello.producer.startswith(COLLECTORS)
        return self.run.takes_name and of_job and hello.name.isprintable() and bool(hello.name.strip())

    def admit(self, frame: Buffer, now_ns: int) -> EventBatch | None:
        """Return the batch of a frame if it is readable and new; the caller must apply it. Otherwise count it."""
        try:
            batch = decode_batch(frame, find_rows)
        except Malformed as malformed:
            self.aggregator.bad_frame(malformed.reason)
            return None
        if not self.aggregator.admit(batch, now_ns):
            return None
        self.frames += 1
        self.frame_bytes += len(frame)
        return batch

    def apply(self, batches: Sequence[EventBatch], now_ns: int) -> None:
        """Apply the admitted batches of one turn."""
        self._stream(self.aggregator.apply(batches, now_ns, self.wall_ns(now_ns)))
        if logged := self.aggregator.requests.take():
            self._unlogged += logged
            self.run = replace(self.run, requests=self.run.requests + len(logged))

    def take_streamed(self) -> list[StreamedRecord]:
        """Return the stream records since the last call. They have the last numbers below `run.records`."""
        taken, self._untaken = self._untaken, []
        return taken

    def take_logged(self) -> list[LoggedRecords]:
        """Return frames of the request log since the last call. They have the last numbers below `run.requests`."""
        taken, self._unlogged = self._unlogged, []
        return taken

    def _stream(self, streamed: Sequence[StreamedRecord]) -> None:
        if streamed:
            self._untaken += streamed
            self.run = replace(self.run, records=self.run.records + len(streamed))

    def roll(self, rolled: Rolled, now_ns: int) -> Interval:
        """End an interval of the history, and its last slice if it has slices or those before it reach into it."""
        if self.run.interval_slices or (0 < self.run.slices < limits.SLICES and self._goes_on(rolled.end_wall_ns)):
            self._slice(rolled.end_wall_ns, now_ns)
        interval = self.aggregator.roll(rolled.start_wall_ns, rolled.end_wall_ns, rolled.elapsed_ns, now_ns)
        self._stream(self.aggregator.pass_time(rolled.elapsed_ns))
        self.run = replace(
            self.run,
            rolled_wall_ns=rolled.end_wall_ns,
            rolled_mono_ns=now_ns,
            rolls=self.run.rolls + 1,
            interval_slices=0,
            snapshot_seq=rolled.snapshot_seq,
        )
        return interval

    def _slice(self, wall_ns: int, now_ns: int) -> None:
        """End a slice of the current interval. It begins with the slice before, or with the interval."""
        run = self.run
        start_ns = run.sliced_wall_ns if self._goes_on(wall_ns) else run.rolled_wall_ns
        interval = self.aggregator.slice(start_ns, wall_ns, now_ns)
        self._slices.append(Slice(run.rolls, run.interval_slices, interval))
        self.run = replace(
            run,
            slices=run.slices + 1,
            interval_slices=run.interval_slices + 1,
            sliced_wall_ns=interval.end_ns,
        )

    def _goes_on(self, wall_ns: int) -> bool:
        """Return whether the next slice begins with the end of the newest."""
        return self.run.rolled_wall_ns - limits.SLICE_LAG_NS <= self.run.sliced_wall_ns <= wall_ns

    def take_slices(self) -> list[Slice]:
        """Return the slices since the last call."""
        taken, self._slices = self._slices, []
        return taken

    def take_note(self, note: Note, now_ns: int) -> None:
        """Apply any note except `Rolled`."""
        match note:
            case Hello():
                self.hello(note, now_ns)
            case End():
                self._stream(self.aggregator.end(note, now_ns))
            case CannotResend():
                self._stream(self.aggregator.cannot_resend(note.producer, note.first, note.last, now_ns))
            case Salvaging():
                self.aggregator.salvage(note.producer)
            case Watch():
                self.run = replace(self.run, watched=[*self.run.watched, note.pid])
            case ExpectNodes():
                self.aggregator.expected_nodes.expect(note)
            case TellBackend():
                backends = {stat.name: stat for stat in self.run.backends} | {note.stat.name: note.stat}
                self.run = replace(self.run, backends=list(backends.values()))
            case Sliced():
                self._slice(self.wall_ns(now_ns), now_ns)
            case BadFrames():
                self.aggregator.add_bad_frames(note.counts)
            case Ending():
                self.run = replace(self.run, ending=note)
            case Closed():
                self.run = replace(self.run, lost_power=self.run.lost_power or note.lost_power)
                self.close()

    def close(self) -> None:
        """Close the numbers until another aggregator resumes the run. A second call has no effect."""
        self._stream(self.aggregator.close())
