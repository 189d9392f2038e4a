"""The bytes of protocol 1.6, one file a message. `python -m tests.golden.test_v1_6` writes files that are missing.

A file that exists is never written again: what was released stays readable for ever. The values are those of 1.5,
and what 1.6 added to them.
"""

from __future__ import annotations

import struct
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.golden import test_v1_0 as v1_0
from tests.golden import test_v1_5 as v1_5

from telemetry.wire import codec, control, events, nodes, request_log, snapshot

HERE = Path(__file__).parent / "v1.6"
VERSION = (1, 6)
MONO_NS, WALL_NS, LABELS = v1_0.MONO_NS, v1_0.WALL_NS, v1_0.LABELS


def batch(
    seq: int,
    first: int,
    records: Sequence[events.BaseRecord],
    rows: list[float],
    **changes: Any,
) -> bytes:
    """An `ev/1` frame of the producer called `p1`."""
    outgoing = events.OutgoingBatch(
        version=VERSION,
        producer="p1",
        seq=seq,
        first=first,
        anchor=changes.get("anchor", (MONO_NS, WALL_NS)),
        dropped=changes.get("dropped", {}),
        records=records,
        rows=rows,
    )
    return bytes(codec.encode_batch(outgoing))


def _with_more(record: events.EventRecord) -> events.EventRecord:
    """A span or an axis with what 1.6 added, any other record as it is."""
    if isinstance(record, events.Span):
        return replace(record, source=events.SpanSource(WALL_NS, "worker", "h", 7, 0))
    if isinstance(record, events.Axis):
        return replace(record, groups={"pp": 3, "node": "n3"}, rank=5)
    return record


DEFINE = v1_5.DEFINE
EVERY_RECORD = [_with_more(record) for record in v1_5.EVERY_RECORD]
EVERY_NODE_RECORD = v1_5.EVERY_NODE_RECORD
EVERY_REQUEST_RECORD = v1_5.EVERY_REQUEST_RECORD
SPREAD = snapshot.NodeSpread(nodes=20, least=1.0, least_node="n3", greatest=99.5, greatest_node="n7")
SNAPSHOT = replace(
    v1_5.SNAPSHOT,
    protocol=VERSION,
    gauges=[replace(stat, over_nodes=SPREAD) for stat in v1_5.SNAPSHOT.gauges],
    root=snapshot.RootStat(address="tcp://head:5757", node="n3", state="silent", reason="it does not answer"),
)
STREAM_RECORD = replace(v1_5.STREAM_RECORD, version=VERSION)
STREAM_STEP = replace(v1_5.STREAM_STEP, version=VERSION)

REQUESTS: dict[str, control.Request] = {
    **v1_5.REQUESTS,
    "hello": replace(v1_5.REQUESTS["hello"], version=VERSION),
    "hello_leaf": replace(v1_5.REQUESTS["hello_leaf"], version=VERSION),
}
RESPONSES: dict[str, control.Response] = {
    **v1_5.RESPONSES,
    "welcome": replace(v1_0.RESPONSES["welcome"], version=VERSION),
    "status": replace(v1_0.RESPONSES["status"], snapshot=SNAPSHOT),
    "caught_up": replace(v1_0.RESPONSES["caught_up"], records=[STREAM_RECORD, STREAM_STEP], next_seq=7),
}

BATCHES: dict[str, bytes] = {
    "batch_rows": batch(1, 14, [DEFINE], v1_0.ROWS, dropped={"buffer_full": 2}),
    "batch_records": batch(0, 0, EVERY_RECORD, []),
    "batch_nodes": batch(2, 30, EVERY_NODE_RECORD, []),
    "batch_requests": batch(3, 35, EVERY_REQUEST_RECORD, []),
    "batch_minimal": batch(
        0,
        0,
        [events.Sample("latency", 1.5, 0, "ms"), events.Count("requests")],
        [],
        anchor=(0, 0),
    ),
}


def samples() -> dict[str, bytes]:
    """File name → the bytes the code makes today."""
    made = dict(BATCHES)
    made["snapshot"] = codec.encode_snapshot(SNAPSHOT)
    made["stream_record"] = codec.encode_stream_record(STREAM_RECORD)
    made["stream_step"] = codec.encode_stream_record(STREAM_STEP)
    made["interval"] = codec.encode_interval(v1_0.INTERVAL)
    made |= {f"request_{name}": codec.encode_control(message) for name, message in REQUESTS.items()}
    made |= {f"response_{name}": codec.encode_control(message) for name, message in RESPONSES.items()}
    return made


def golden(name: str) -> bytes:
    return (HERE / f"{name}.bin").read_bytes()


def test_every_sample_has_its_file_and_no_file_is_left_over() -> None:
    """The directory holds exactly the messages the protocol knows."""
    assert {path.stem for path in HERE.glob("*.bin")} == set(samples())


def test_every_message_type_has_a_sample() -> None:
    """A new record tag, request or response can't be released without bytes."""
    assert {type(record) for record in EVERY_RECORD} == set(typing.get_args(events.EventRecord))
    assert tuple(type(record) for record in EVERY_NODE_RECORD) == nodes.NODE_RECORDS
    assert tuple(type(record) for record in EVERY_REQUEST_RECORD) == request_log.REQUEST_RECORDS
    assert {type(message) for message in REQUESTS.values()} == set(typing.get_args(control.Request))
    assert {type(message) for message in RESPONSES.values()} == set(typing.get_args(control.Response))


@pytest.mark.parametrize("name", sorted(samples()))
def test_encoding_gives_the_golden_bytes(name: str) -> None:
    """Today's encoder gives byte for byte what 1.6 sent."""
    assert samples()[name].hex() == golden(name).hex()


@pytest.mark.parametrize(
    ("name", "decode", "expected"),
    [
        ("snapshot", codec.decode_snapshot, SNAPSHOT),
        ("stream_record", codec.decode_stream_record, STREAM_RECORD),
        ("stream_step", codec.decode_stream_record, STREAM_STEP),
        ("interval", codec.decode_interval, v1_0.INTERVAL),
        *((f"request_{name}", codec.decode_request, message) for name, message in REQUESTS.items()),
        *((f"response_{name}", codec.decode_response, message) for name, message in RESPONSES.items()),
    ],
)
def test_golden_bytes_decode_to_the_values(name: str, decode: Callable[[bytes], object], expected: object) -> None:
    """Every released byte string still means what it meant."""
    decoded = decode(golden(name))
    if isinstance(decoded, control.History) and isinstance(expected, control.History):
        assert [bytes(raw) for raw in decoded.intervals] == [golden("interval")]
        decoded = msgspec.structs.replace(decoded, intervals=[])
        expected = msgspec.structs.replace(expected, intervals=[])
    assert decoded == expected


def test_golden_batch_of_rows_decodes() -> None:
    """Rows lie in the frame as 27-byte events behind a one-byte header."""
    decoded = codec.decode_batch(golden("batch_rows"))
    assert (decoded.version, decoded.producer, decoded.seq, decoded.first) == (VERSION, "p1", 1, 14)
    assert decoded.anchor == (MONO_NS, WALL_NS)
    assert decoded.dropped == {"buffer_full": 2}
    assert [codec.decode_record(raw) for raw in decoded.records] == [DEFINE]
    body = decoded.rows.body
    assert body is not None
    assert [field for row in struct.iter_unpack(">xdxQxd", body) for field in row] == v1_0.ROWS


@pytest.mark.parametrize("name", ["batch_records", "batch_minimal", "batch_nodes", "batch_requests"])
def test_golden_batches_of_records_decode(name: str) -> None:
    """Every record type of 1.6 is still read, and a batch as a small producer makes it."""
    decoded = codec.decode_batch(golden(name))
    expected = {
        "batch_records": EVERY_RECORD,
        "batch_nodes": EVERY_NODE_RECORD,
        "batch_requests": EVERY_REQUEST_RECORD,
        "batch_minimal": [events.Sample("latency", 1.5, 0, "ms"), events.Count("requests")],
    }
    assert [codec.decode_record(raw) for raw in decoded.records] == expected[name]


def test_a_reader_of_1_5_takes_what_it_knows_of_1_6() -> None:
    """A reader of 1.5 passes over the fields and keys that it does not know."""

    class Span15(msgspec.Struct, array_like=True, tag="span"):
        name: str
        start_ns: int
        end_ns: int
        track: str
        labels: dict[str, str]

    class Status15(msgspec.Struct):
        snapshot: dict[str, Any]

    span = next(
        raw for raw in codec.decode_batch(golden("batch_records")).records if codec.record_tag(raw) == "span"
    )
    assert msgspec.msgpack.decode(span, type=Span15) == Span15("load", MONO_NS, MONO_NS + 1_000, "gpu0", LABELS)
    snapshot15 = msgspec.msgpack.decode(golden("response_status"), type=Status15).snapshot
    assert [gauge["value"] for gauge in snapshot15["gauges"]] == [stat.value for stat in v1_5.SNAPSHOT.gauges]


if __name__ == "__main__":
    for file_name, data in samples().items():
        target = HERE / f"{file_name}.bin"
        if not target.exists():
            target.write_bytes(data)
            print("wrote", target.name, len(data))
