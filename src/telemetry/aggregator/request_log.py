"""Intake of the request log. Its budget is computed from the records, so that a run and its journal agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from msgspec import Raw

from telemetry import limits
from telemetry.wire.control import TOKEN_COUNTER
from telemetry.wire.drop_reasons import Count
from telemetry.wire.events import Natural
from telemetry.wire.request_log import EndedRequests, LoggedRecords, RequestEntry, RequestRecord
from telemetry.wire.snapshot import RequestLogStat

_FRAME_BYTES: Final = 64
"""Bytes of a frame besides the id of the producer and the records: head, clocks and lengths."""
_FOR_TOKENS: Final = 8
"""An eighth of the room is kept for tokens, which are counted later than the requests that they belong to."""


class RequestLogIntake:
    """Room for records in the request log up to a cap, and the accepted records until they are taken.

    The first requests of a run are kept. Once a record does not fit, all later requests are left out and counted.
    """

    STATE: ClassVar[Mapping[str, Any]] = {
        "kept": Count,
        "left_out": Count,
        "taken_bytes": Natural,
        "is_full": bool,
    }
    DERIVED: ClassVar[tuple[str, ...]] = ("_cap_bytes", "_batch", "_untaken")

    def __init__(self, cap_bytes: int) -> None:
        self.kept = 0
        self.left_out = 0
        """Number of requests that are not in the log, here or at their producers."""
        self.taken_bytes = 0
        """Upper bound of the size of all frames."""
        self.is_full = False
        self._cap_bytes = cap_bytes
        self._batch: list[Raw] = []
        """Accepted records of the batch that is being read."""
        self._untaken: list[LoggedRecords] = []

    def read(self, producer: str, record: RequestRecord, raw: Raw) -> bool:
        """Accept a record, or leave it out and count it. Return False for a record that contradicts itself."""
        size = len(raw) + (0 if self._batch else _FRAME_BYTES + len(producer.encode()))
        if isinstance(record, EndedRequests):
            if not all(map(fits_together, record.entries)):
                return False
            self.left_out = min(self.left_out + record.left_out, limits.EVENT_NUMBERS)
            if not record.entries:
                return True
            if self.is_full or self.taken_bytes + size > self._cap_bytes - self._cap_bytes // _FOR_TOKENS:
                self.is_full = True
                self.left_out = min(self.left_out + len(record.entries), limits.EVENT_NUMBERS)
                return True
            self.kept += len(record.entries)
        else:
            if producer not in (record.producer, TOKEN_COUNTER):
                return False
            if self.taken_bytes + size > self._cap_bytes:
                return True
        self.taken_bytes += size
        self._batch.append(raw.copy())  # the original keeps the whole frame in memory
        return True

    def end_batch(self, producer: str, offset_ns: int, step_ns: int) -> None:
        """End a batch. `offset_ns` and `step_ns` as in `LoggedRecords`."""
        if self._batch:
            self._untaken.append(LoggedRecords(producer, offset_ns, step_ns, self._batch))
            self._batch = []

    def take(self) -> list[LoggedRecords]:
        """Return the accepted records since the last call."""
        taken, self._untaken = self._untaken, []
        return taken

    def stat(self) -> RequestLogStat | None:
        if not (self.kept or self.left_out):
            return None
        return RequestLogStat(
            kept=self.kept, left_out=self.left_out, cap_bytes=self._cap_bytes if self.is_full else 0
        )


def fits_together(entry: RequestEntry) -> bool:
    """Check that chunks follow a first output, and that their tokens are as many.

    Times are kept as they are: a program may have given them in the wrong order.
    """
    chunks = len(entry.gaps_ns)
    if (chunks or entry.chunks_left_out) and entry.first_ns is None:
        return False
    return not entry.chunk_tokens or len(entry.chunk_tokens) == chunks
