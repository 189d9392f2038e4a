"""The records of a run one after the other: from its record log, and those that the log may not have."""

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
    """In order, each once. One owner, but for `known`. What the log of a directory has comes from there."""

    def __init__(self, directory: RunDirectory | None, next_seq: int) -> None:
        """Without a directory there is only what is offered. Raises RunDirectoryError if the log can't be read."""
        self.missed = 0
        """Records that nobody has any more."""
        self.trouble = ""
        """What was found to be wrong with the log, for the user."""
        self._log = RecordLog(directory.records) if directory is not None else None
        self._next = next_seq
        self._known = next_seq
        self._page: deque[StreamRecord] = deque()

    @property
    def next_seq(self) -> int:
        """The number of the next record."""
        return self._next

    @property
    def known(self) -> int:
        """One above the newest record that is known of. Any thread."""
        return max(self._known, self._log.next_seq if self._log is not None else 0)

    def peek(self) -> StreamRecord | None:
        """The next record, if there is one. Blocks on the disk. Raises RunDirectoryError if the log can't be read
        now; a line of it that is damaged is passed over."""
        if not self._page:
            self._page.extend(self._read())
        return self._page[0] if self._page else None

    def pop(self) -> None:
        """It was taken."""
        taken = self._page.popleft()
        self.missed += max(taken.seq - self._next, 0)
        self._next = taken.seq + 1

    def offer(self, record: StreamRecord) -> None:
        """A record from the stream, in order. It counts if the log does not have it, as when its disk is full.
        Raises as `peek`."""
        self._known = max(self._known, record.seq + 1)
        if not self._page:
            self._page.extend(self._read())
        following = self._page[-1].seq + 1 if self._page else self._next
        gap_is_logged = record.seq > following and self._log is not None and self._log.read(following, 1)
        if record.seq >= following and not gap_is_logged:
            self._page.append(record)

    def again(self, number: int) -> StreamRecord | None:
        """One that was taken before, if the log has it. Raises RunDirectoryError."""
        found = self._log.read(number, 1) if self._log is not None else []
        return found[0] if found else None

    def _read(self) -> list[StreamRecord]:
        if self._log is None:
            return []
        try:
            return self._log.read(self._next, _PAGE, _PAGE_BYTES)
        except DamagedRecord as error:
            if self._next >= self._log.next_seq:  # the last line, which nothing follows
                self.trouble = f"a record is lost: {error.message}"
                return []
            return self._read_singly(self._log)

    def _read_singly(self, log: RecordLog) -> list[StreamRecord]:
        """The first record that can be read; damaged ones before it count as missed."""
        while self._next < log.next_seq:
            try:
                return log.read(self._next, 1)
            except DamagedRecord as error:
                self._next += 1
                self.missed += 1
                self.trouble = f"a record is lost: {error.message}"
        return []
