"""Answers of the control channel that are read from disk, by the worker: records, and intervals of the history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Raw

from telemetry import limits
from telemetry.daemon.components import Parts
from telemetry.store.history import HistoryReader
from telemetry.store.records import RecordLog
from telemetry.wire import control as msg
from telemetry.wire.codec import encode_interval

_READS_KEPT: Final = 64  # of a queue shared with the run's own writes; 128 MiB of replies


class DiskReads:
    """A bounded number of reads that wait for the worker. `reply` is called once for each, on the loop's thread."""

    def __init__(self, parts: Parts, reply: Callable[[bytes, msg.Response, int], object]) -> None:
        self._worker = parts.worker
        self._reply = reply
        self._past = HistoryReader(parts.directory.history)
        """Reader of the history. Only the worker uses it, for one query after the other."""
        self._records = parts.records
        self._waiting = 0
        """Number of answers that the worker still owes."""

    def records(self, peer: bytes, request: msg.Catchup) -> None:
        """Answer with records of the run."""
        self._answer(peer, request.id, lambda: read_records(self._records, request.from_seq))

    def history(self, peer: bytes, request: msg.GetHistory, keys: list[msg.SeriesKey]) -> None:
        """Answer with intervals of the history, and these keys."""
        self._answer(peer, request.id, lambda: read_history(self._past, request, keys))

    def _answer(self, peer: bytes, request_id: int, read: Callable[[], msg.Response]) -> None:
        def done(answer: msg.Response | None, error: Exception | None) -> None:
            self._waiting -= 1
            failed = msg.Error(code="unavailable", message=f"could not be read: {error}")
            self._reply(peer, failed if answer is None else answer, request_id)

        if self._waiting < _READS_KEPT and self._worker.submit(read, done):
            self._waiting += 1
        else:
            self._reply(peer, msg.Error(code="unavailable", message="the disk is far behind"), request_id)


def read_records(log: RecordLog, from_seq: int) -> msg.CaughtUp:
    """Return as many records as fit into one reply, and the next sequence number."""
    records = log.read(from_seq, limits.CATCHUP_RECORDS, limits.CATCHUP_REPLY_BYTES)
    following = records[-1].seq + 1 if records else from_seq
    return msg.CaughtUp(records=records, next_seq=following, last_seq=log.next_seq - 1)


def read_history(reader: HistoryReader, request: msg.GetHistory, keys: list[msg.SeriesKey]) -> msg.History:
    """Return as many intervals as fit into one reply, and the start time of the next one."""
    intervals: list[Raw] = []
    size = 0
    if request.slices:
        found = reader.fine(request.start_ns, request.end_ns)
    else:
        found = reader.intervals(request.start_ns, request.end_ns, request.level_s)
    for interval in found:
        raw = encode_interval(interval)
        if intervals and size + len(raw) > limits.HISTORY_REPLY_BYTES:
            return msg.History(keys=keys, intervals=intervals, next_ns=interval.start_ns)
        intervals.append(Raw(raw))
        size += len(raw)
    return msg.History(keys=keys, intervals=intervals)
