"""The sequence of a run's records, from its record log and from the stream for records that the log lacks."""

from __future__ import annotations

from collections import deque
from typing import Final

from telemetry.limits import MIB
from telemetry.store.records import DamagedRecord, RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.events import StreamRecord

_PAGE: Final = 500
_PAGE_BYTES: Final = MIB


class Records:
    """The records in order, each once.

    Not thread-safe, except for `known`. Records in the log are read from there.
    """

    def __init__(self, directory: RunDirectory | None, next_seq: int) -> None:
        """Open the log.

        Without a directory, only offered records exist. Raises RunDirectoryError if it can't be read.
        """
        self.missed = 0
        """Records that are lost everywhere."""
        self.trouble = ""
        """Message to the user about damage in the log."""
        self._log = RecordLog(directory.records) if directory is not None else None
        self._next = next_seq
        self._known = next_seq
        self._page: deque[StreamRecord] = deque()

    @property
    def next_seq(self) -> int:
        """Number of the next record."""
        return self._next

    @property
    def known(self) -> int:
        """Number after the newest known record. Readable from any thread."""
        return max(self._known, self._log.next_seq if self._log is not None else 0)

    def peek(self) -> StreamRecord | None:
        """Return the next record, if any. Skips damaged lines. Blocks on the disk.

        Raises RunDirectoryError if the log can't be read now.
        """
        if not self._page:
            self._page.extend(self._read())
        return self._page[0] if self._page else None

    def pop(self) -> None:
        """Mark the next record as taken."""
        taken = self._page.popleft()
        self.missed += max(taken.seq - self._next, 0)
        self._next = taken.seq + 1

    def offer(self, record: StreamRecord) -> None:
        """Offer a record from the stream, in order.

        It is used if the log lacks it, for example after a full disk. Raises like `peek`.
        """
        self._known = max(self._known, record.seq + 1)
        if not self._page:
            self._page.extend(self._read())
        following = self._page[-1].seq + 1 if self._page else self._next
        gap_is_logged = record.seq > following and self._log is not None and self._log.read(following, 1)
        if record.seq >= following and not gap_is_logged:
            self._page.append(record)

    def again(self, number: int) -> StreamRecord | None:
        """Return a record that was taken before, if the log has it. Raises RunDirectoryError."""
        records = self._log.read(number, 1) if self._log is not None else []
        return records[0] if records else None

    def _read(self) -> list[StreamRecord]:
        if self._log is None:
            return []
        try:
            return self._log.read(self._next, _PAGE, _PAGE_BYTES)
        except DamagedRecord as error:
            if self._next >= self._log.next_seq:  # the last line of the log
                self.trouble = f"a record is lost: {error.message}"
                return []
            return self._read_singly(self._log)

    def _read_singly(self, log: RecordLog) -> list[StreamRecord]:
        """Return the first readable record. Damaged records before it count as missed."""
        while self._next < log.next_seq:
            try:
                return log.read(self._next, 1)
            except DamagedRecord as error:
                self._next += 1
                self.missed += 1
                self.trouble = f"a record is lost: {error.message}"
        return []
