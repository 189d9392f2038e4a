"""The bytes of protocol 1.2, one file a message: what was released stays readable for ever.

The values are those of 1.1, and what 1.2 added to them. What came later has its default in them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from tests.golden import test_v1_0 as v1_0
from tests.golden import test_v1_1 as v1_1

from telemetry.wire import codec, control, events, snapshot

HERE = Path(__file__).parent / "v1.2"
VERSION = (1, 2)
MONO_NS, WALL_NS, LABELS = v1_0.MONO_NS, v1_0.WALL_NS, v1_0.LABELS


DEFINE = v1_1.DEFINE
IN_A_STEP: dict[str, events.EventRecord] = {
    "text": events.Note("prompt", "hello", MONO_NS, "train", 3),
    "artifact": events.Artifact("weights", "file:///tmp/w", "model", MONO_NS, "train", 3),
}
EVERY_RECORD: list[events.EventRecord] = [
    *(IN_A_STEP.get(str(record.__struct_config__.tag), record) for record in v1_1.EVERY_RECORD),
    events.Axis("train", "mean", {"*/tokens": "sum", "lr": "last"}, MONO_NS),
    events.Table("samples", ["prompt", "reward"], [["hello", 0.5], [None, 1]], MONO_NS, "train", 3),
    events.Bins("lengths", [0.0, 1.0, 2.5], [3, 4], MONO_NS, "train", 3),
]

AXIS = snapshot.AxisStat(
    name="train",
    closed=3,
    open=1,
    newest=2,
    oldest_open=3,
    waiting_for=["p2"],
    producers=2,
    timeouts=1,
    corrections=1,
    values={"loss": 0.25, "grad": None},
)
BACKEND = snapshot.BackendStat(
    name="runs",
    kind="wandb",
    state="retrying",
    pid=7,
    time_ns=WALL_NS,
    next_record=5,
    queued=2,
    written=4,
    retried=3,
    repeated=1,
    dropped={"too_large": 1},
    no_place={"span": 2},
    breaker="half-open",
    failures=5,
    restarts=1,
    last_error="503",
    calling_s=0.5,
    place="https://example.org/runs/1",
)
SNAPSHOT = replace(v1_1.SNAPSHOT, protocol=VERSION, axes=[AXIS], backends=[BACKEND])
STREAM_RECORD = replace(v1_1.STREAM_RECORD, version=VERSION)
STEP = events.ClosedStep(
    "train",
    3,
    {"loss": 0.25, "grad": None},
    {"loss": events.Spread(2, 0.0, 0.5, 0.25, "p1", "p2")},
    2,
    "late",
    1,
)
STREAM_STEP = events.StreamRecord(VERSION, "a1b2c3", 6, "", WALL_NS, STEP)

REQUESTS: dict[str, control.Request] = {
    **v1_1.REQUESTS,
    "hello": replace(v1_0.REQUESTS["hello"], version=VERSION),
    "backend": control.TellBackend(id=11, stat=BACKEND),
}
RESPONSES: dict[str, control.Response] = {
    **v1_1.RESPONSES,
    "welcome": replace(v1_0.RESPONSES["welcome"], version=VERSION),
    "status": replace(v1_0.RESPONSES["status"], snapshot=SNAPSHOT),
    "caught_up": replace(v1_0.RESPONSES["caught_up"], records=[STREAM_RECORD, STREAM_STEP], next_seq=7),
    "noted": control.Noted(id=11, state="LIVE"),
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
    """Every record type of 1.2 is still read, and a batch as a small producer makes it."""
    decoded = codec.decode_batch(golden(name))
    expected = {
        "batch_records": EVERY_RECORD,
        "batch_minimal": [events.Sample("latency", 1.5, 0, "ms"), events.Count("requests")],
    }
    assert [codec.decode_record(raw) for raw in decoded.records] == expected[name]


def test_a_reader_of_1_1_takes_what_it_knows_of_1_2() -> None:
    """A reader of 1.1 skips the values behind the fields that it knows."""

    class Note11(msgspec.Struct, array_like=True, tag="text"):
        name: str
        text: str
        time_ns: int

    note = next(
        raw for raw in codec.decode_batch(golden("batch_records")).records if codec.record_tag(raw) == "text"
    )
    assert msgspec.msgpack.decode(note, type=Note11) == Note11("prompt", "hello", MONO_NS)
