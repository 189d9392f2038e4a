"""The bytes of protocol 1.5, one file a message: what was released stays readable for ever.

The values are those of 1.4, and what 1.5 added to them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from tests.golden import test_v1_0 as v1_0
from tests.golden import test_v1_4 as v1_4

from telemetry.wire import codec, control, events, nodes

HERE = Path(__file__).parent / "v1.5"
VERSION = (1, 5)
MONO_NS, WALL_NS, LABELS = v1_0.MONO_NS, v1_0.WALL_NS, v1_0.LABELS


def _with_times(record: nodes.NodeRecord) -> nodes.NodeRecord:
    """An interval or a part of a step with what 1.5 added, any other record as it is."""
    if isinstance(record, nodes.StepPart):
        return replace(record, first_ns=WALL_NS - 1, not_finite=["loss"])
    if not isinstance(record, nodes.NodeInterval):
        return record
    first, last = (struct.pack("<q", WALL_NS + moved) for moved in (-1, 9))
    series = replace(record.series, first_ns=first, last_ns=last)
    return replace(record, series=series, counters=replace(record.counters, first_ns=first, last_ns=last))


DEFINE = v1_4.DEFINE
EVERY_RECORD = v1_4.EVERY_RECORD
EVERY_NODE_RECORD = [_with_times(record) for record in v1_4.EVERY_NODE_RECORD]
EVERY_REQUEST_RECORD = v1_4.EVERY_REQUEST_RECORD
SNAPSHOT = replace(
    v1_4.SNAPSHOT,
    protocol=VERSION,
    counters=[replace(stat, began_ns=WALL_NS, ended_ns=WALL_NS + 9) for stat in v1_4.SNAPSHOT.counters],
    series=[replace(stat, began_ns=WALL_NS - 1, ended_ns=WALL_NS + 8) for stat in v1_4.SNAPSHOT.series],
    axes=[
        replace(stat, not_finite={"grad": 2}, lowest=0, highest=4, began_ns=WALL_NS, ended_ns=WALL_NS + 9)
        for stat in v1_4.SNAPSHOT.axes
    ],
)
STREAM_RECORD = replace(v1_4.STREAM_RECORD, version=VERSION)
STREAM_STEP = replace(v1_4.STREAM_STEP, version=VERSION)

REQUESTS: dict[str, control.Request] = {
    **v1_4.REQUESTS,
    "hello": replace(v1_4.HELLO, version=VERSION, names_run=True),
    "hello_leaf": replace(v1_4.HELLO_OF_LEAF, version=VERSION),
}
RESPONSES: dict[str, control.Response] = {
    **v1_4.RESPONSES,
    "step_state": replace(
        v1_4.STEP_STATE,
        texts={"note": "ok"},
        distributions={"lengths": control.StepDistribution(edges=[0.0, 1.0, 2.0], counts=[3, 1])},
    ),
    "welcome": replace(v1_0.RESPONSES["welcome"], version=VERSION),
    "status": replace(v1_0.RESPONSES["status"], snapshot=SNAPSHOT),
    "caught_up": replace(v1_0.RESPONSES["caught_up"], records=[STREAM_RECORD, STREAM_STEP], next_seq=7),
}


def golden(name: str) -> bytes:
    return (HERE / f"{name}.bin").read_bytes()


def test_every_file_is_decoded_here() -> None:
    """The golden files are exactly the messages decoded here: none is left over, none is missing."""
    messages = {f"request_{name}" for name in REQUESTS} | {f"response_{name}" for name in RESPONSES}
    batches = {f"batch_{name}" for name in ("rows", "records", "minimal", "nodes", "requests")}
    others = {"snapshot", "stream_record", "stream_step", "interval"}
    assert {path.stem for path in HERE.glob("*.bin")} == messages | batches | others


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
    """Every record type of 1.5 is still read, and a batch as a small producer makes it."""
    decoded = codec.decode_batch(golden(name))
    expected = {
        "batch_records": EVERY_RECORD,
        "batch_nodes": EVERY_NODE_RECORD,
        "batch_requests": EVERY_REQUEST_RECORD,
        "batch_minimal": [events.Sample("latency", 1.5, 0, "ms"), events.Count("requests")],
    }
    assert [codec.decode_record(raw) for raw in decoded.records] == expected[name]


def test_a_reader_of_1_4_takes_what_it_knows_of_1_5() -> None:
    """A reader of 1.4 passes over the keys that it does not know."""

    class StepState14(msgspec.Struct, tag="step_state", tag_field="type"):
        state: str
        values: dict[str, float | None]

    class Hello14(msgspec.Struct, tag_field="type", tag="hello"):
        producer: str
        ring: str

    state = msgspec.msgpack.decode(golden("response_step_state"), type=StepState14)
    assert state.values == v1_4.STEP_STATE.values
    hello = msgspec.msgpack.decode(golden("request_hello"), type=Hello14)
    assert (hello.producer, hello.ring) == ("p1", "/run/user/1000/telemetry/p1.ring")
