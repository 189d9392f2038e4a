"""The record stream of a run."""

from __future__ import annotations

from typing import Any

import zmq

from telemetry.aggregator import StreamedRecord
from telemetry.daemon.record_stream import RecordPublisher
from telemetry.store.records import RecordLog
from telemetry.wire import codec
from telemetry.wire.codec import decode_stream_record
from telemetry.wire.events import Mark, StreamRecord


def test_records_are_numbered_logged_and_published(make_service: Any) -> None:
    """One contiguous sequence over all producers and calls, the same in the log as on the socket."""
    parts = make_service().parts
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with context, context.socket(zmq.SUB) as reader:
        reader.setsockopt(zmq.RCVTIMEO, 100)
        reader.subscribe(codec.RECORDS)
        reader.connect(parts.hub.endpoints.records)
        stream = RecordPublisher("r1", parts.records, parts.hub)
        heard: list[StreamRecord] = []
        while not heard:  # the subscription takes a moment; until then nothing is heard, and nothing is lost
            stream.publish([StreamedRecord("a", 5, Mark("x"))])
            try:
                heard.append(decode_stream_record(reader.recv()))
            except zmq.Again:
                continue
        reader.setsockopt(zmq.RCVTIMEO, 30_000)
        while heard[-1].seq < stream.next_seq - 1:  # a slow machine may publish again before the first one is heard
            heard = [decode_stream_record(reader.recv())]
        stream.publish([])
        stream.publish([StreamedRecord("a", 6, Mark("y")), StreamedRecord("b", 7, Mark("z"))])
        heard += [decode_stream_record(reader.recv()) for _ in range(2)]
    first = heard[0].seq
    assert [(one.seq, one.producer, one.wall_ns) for one in heard[1:]] == [(first + 1, "a", 6), (first + 2, "b", 7)]
    assert [one.run_id for one in heard] == ["r1"] * 3
    logged = RecordLog(parts.directory.records).read(0, 1_000)
    assert [one.seq for one in logged] == list(range(first + 3))
    assert logged[-3:] == heard
    assert stream.next_seq == first + 3


def test_a_log_that_exists_is_continued(make_service: Any) -> None:
    """Numbers go on where the log ends."""
    parts = make_service().parts
    RecordPublisher("r1", parts.records, parts.hub).publish([StreamedRecord("a", 5, Mark("x"))])
    log = RecordLog(parts.directory.records)
    assert RecordPublisher("r1", log, parts.hub).next_seq == 1
    assert RecordPublisher("r1", log, parts.hub, 5).next_seq == 5
