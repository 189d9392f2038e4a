"""Batches of the outbox on disk, as a producer's session sends them."""

from __future__ import annotations

from collections.abc import Sequence

from telemetry.client.sending.outbox import Packed
from telemetry.store.outbox import DiskOutbox


class StoredBatches:
    """The batches of an outbox from the oldest on. For the thread of the session."""

    def __init__(self, outbox: DiskOutbox, producer: str) -> None:
        self.producer = producer
        self.wall_offset_ns = 0
        """Difference to the root's wall clock. Unused: the root converts times by the leaf's monotonic clock."""
        self.contradicted = False
        """True if the root has acknowledged batches that were never in this outbox."""
        self._outbox = outbox
        self._next = 0
        """Number from which on batches were not handed out."""

    @property
    def announcer(self) -> StoredBatches:
        return self

    @property
    def next_seq(self) -> int:
        return self._outbox.next_seq

    @property
    def emitted(self) -> int:
        return self._outbox.emitted

    @property
    def dropped(self) -> dict[str, int]:
        return self._outbox.dropped

    @property
    def empty(self) -> bool:
        return self._next >= self._outbox.next_seq

    @property
    def full(self) -> bool:
        """True if a batch may follow at once."""
        return self._next < self._outbox.released

    def pack(self, *, definitions_only: bool = False) -> Packed | None:
        """Return the next batch that may be sent. Definitions are in the batches before their first use."""
        if definitions_only:
            return None
        released = self._outbox.released
        stored = self._outbox.read(self._next)
        if stored is None:
            self._next = max(self._next, released)  # batches that can't be read are passed over
            return None
        self._next = stored.seq + 1
        return Packed(stored.seq, stored.events, stored.frame)

    def abandon(self, unsent: Sequence[Packed]) -> None:
        """Leave the account as it is: batches on disk belong to it, sent or not."""

    # --- as announcements ------------------------------------------------------------------------

    @property
    def due(self) -> bool:
        return False

    def acknowledged(self, batches: int) -> None:
        """Forget acknowledged batches on disk. After a restart, they are not sent again."""
        self.contradicted = self.contradicted or batches > self._outbox.next_seq
        self._next = max(self._next, min(batches, self._outbox.next_seq))
        self._outbox.acknowledge(batches)

    def announce_again(self) -> None:
        """Do nothing: no batch with definitions is forgotten before the root has it in its journal."""
