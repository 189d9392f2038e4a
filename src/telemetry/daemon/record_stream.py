"""The record stream: one contiguous sequence, written to disk before it is published."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from telemetry.aggregator import StreamedRecord
from telemetry.store.records import RecordLog
from telemetry.transport.hub import Hub
from telemetry.wire.codec import encode_stream_record
from telemetry.wire.events import StreamRecord
from telemetry.wire.version import PROTOCOL


class RecordPublisher:
    """Publisher of records. It numbers them, appends them to the log and publishes them on `rec/1`."""

    def __init__(self, run_id: str, log: RecordLog, hub: Hub, next_seq: int | None = None) -> None:
        """Start at `next_seq`, by default the end of the log. Only a log that failed ends at another number."""
        self._run_id = run_id
        self._log = log
        self._hub = hub
        self.next_seq = log.next_seq if next_seq is None else next_seq
        self.on_published: Callable[[Sequence[StreamedRecord]], object] = lambda streamed: None
        """Callback for records that were just published."""

    def publish(self, streamed: Sequence[StreamedRecord]) -> None:
        if not streamed:
            return
        records = [
            StreamRecord(PROTOCOL, self._run_id, seq, item.producer, item.wall_ns, item.record)
            for seq, item in enumerate(streamed, self.next_seq)
        ]
        self.next_seq += len(records)
        self._log.append(records)
        for record in records:
            self._hub.publish_record(encode_stream_record(record))
        self.on_published(streamed)
