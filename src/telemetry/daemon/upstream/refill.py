"""Refill of a leaf's outbox from its journal, with the intervals that it had not written when it was killed."""

from __future__ import annotations

from telemetry.daemon.recovery.rebuild import EntryEffects, Fold
from telemetry.daemon.upstream.interval import IntervalCollector
from telemetry.daemon.upstream.writer import OutboxWriter
from telemetry.store.outbox import DiskOutbox


class Refill:
    """A consumer of all steps of a fold, beside `telemetry.daemon.recovery.backfill.Backfill`."""

    def __init__(self, outbox: DiskOutbox, producer: str, *, spans: bool) -> None:
        """Prepare the refill. `producer` is the id of the leaf at the root."""
        self.collector = IntervalCollector(spans=spans)
        self.writer = OutboxWriter(outbox, producer)
        self.lost = 0
        """Number of intervals that are in neither the outbox nor the journal."""
        self._outbox = outbox
        self._is_sealed = outbox.closing

    def begin(self, fold: Fold) -> None:
        """Prepare for a fold. If it begins too late, definitions are missing as well, so all are sent again."""
        if fold.numbers.run.rolls >= max(1, self._outbox.rolls):
            fold.numbers.aggregator.leaf.define_again()

    def take(self, step: EntryEffects, fold: Fold) -> None:
        self.collector.add(step.streamed)
        if step.interval is None:
            return
        if self._is_sealed or step.roll < self._outbox.rolls:
            self.collector.skip(fold.numbers)
            return
        if not self.writer.added_up:
            self.lost += step.roll - self._outbox.rolls
        account = fold.numbers.aggregator.node_account(step.roll)
        self.writer.take(self.collector.end(fold.numbers, step.interval, step.roll, account))

    def end(self, fold: Fold) -> None:
        """Drop batches of intervals that the journal lost in a power cut. May raise OSError.

        Definitions were lost with them, so all are sent again.
        """
        if not self._is_sealed:
            self._outbox.cut(fold.numbers.run.rolls)
            fold.numbers.aggregator.leaf.define_again()
        self.writer.release()
