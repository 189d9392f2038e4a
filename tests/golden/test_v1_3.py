"""The bytes of protocol 1.3, one file a message: what was released stays readable for ever.

The values are those of 1.2, and what 1.3 added to them. What came later has its default in them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from tests.golden import test_v1_0 as v1_0
from tests.golden import test_v1_2 as v1_2

from telemetry.wire import codec, control, events
from telemetry.wire.snapshot import FoldedProducers

HERE = Path(__file__).parent / "v1.3"
VERSION = (1, 3)
MONO_NS, WALL_NS, LABELS = v1_0.MONO_NS, v1_0.WALL_NS, v1_0.LABELS


DEFINE = v1_2.DEFINE
EVERY_RECORD = v1_2.EVERY_RECORD
SNAPSHOT = replace(
    v1_2.SNAPSHOT,
    protocol=VERSION,
    counters=[replace(v1_2.SNAPSHOT.counters[0], imprecise=2)],
    gauges=[replace(v1_2.SNAPSHOT.gauges[0], imprecise=3), *v1_2.SNAPSHOT.gauges[1:]],
    producers=[replace(v1_2.SNAPSHOT.producers[0], unfinished=True)],
    folded=FoldedProducers(producers=7, events=1_000, repaired=2, duplicates=3),
)
STREAM_RECORD = replace(v1_2.STREAM_RECORD, version=VERSION)
STREAM_STEP = replace(v1_2.STREAM_STEP, version=VERSION)

REQUESTS: dict[str, control.Request] = {
    **v1_2.REQUESTS,
    "hello": replace(v1_0.REQUESTS["hello"], version=VERSION),
    "end": replace(v1_0.REQUESTS["end"], unfinished=True),
}
RESPONSES: dict[str, control.Response] = {
    **v1_2.RESPONSES,
    "welcome": replace(v1_0.RESPONSES["welcome"], version=VERSION),
    "status": replace(v1_0.RESPONSES["status"], snapshot=SNAPSHOT),
    "caught_up": replace(v1_0.RESPONSES["caught_up"], records=[STREAM_RECORD, STREAM_STEP], next_seq=7),
}


def golden(name: str) -> bytes:
    return (HERE / f"{name}.bin").read_bytes()


def test_every_file_is_decoded_here() -> None:
    """The golden files are exactly the messages decoded here: none is left over, none is missing."""
    messages = {f"request_{name}" for name in REQUESTS} | {f"response_{name}" for name in RESPONSES}
    others = {
        "batch_rows",
        "batch_records",
        "batch_minimal",
        "snapshot",
        "stream_record",
        "stream_step",
        "interval",
    }
    assert {path.stem for path in HERE.glob("*.bin")} == messages | others


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


@pytest.mark.parametrize("name", ["batch_records", "batch_minimal"])
def test_golden_batches_of_records_decode(name: str) -> None:
    """Every record type of 1.3 is still read, and a batch as a small producer makes it."""
    decoded = codec.decode_batch(golden(name))
    expected = {
        "batch_records": EVERY_RECORD,
        "batch_minimal": [events.Sample("latency", 1.5, 0, "ms"), events.Count("requests")],
    }
    assert [codec.decode_record(raw) for raw in decoded.records] == expected[name]


def test_a_reader_of_1_2_takes_what_it_knows_of_1_3() -> None:
    """A reader of 1.2 passes over the key that it does not know."""

    class End12(msgspec.Struct, tag_field="type", tag="end"):
        id: int
        producer: str
        batches: int
        emitted: int
        dropped: dict[str, int]

    assert msgspec.msgpack.decode(golden("request_end"), type=End12) == End12(3, "p1", 2, 10, {"buffer_full": 1})
