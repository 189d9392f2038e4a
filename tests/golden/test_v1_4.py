"""The bytes of protocol 1.4, one file a message: what was released stays readable for ever.

The values are those of 1.3, and what 1.4 added to them. What came later has its default in them.
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
from tests.golden import test_v1_3 as v1_3

from telemetry.wire import codec, control, events, nodes, request_log, snapshot

HERE = Path(__file__).parent / "v1.4"
VERSION = (1, 4)
MONO_NS, WALL_NS, LABELS = v1_0.MONO_NS, v1_0.WALL_NS, v1_0.LABELS


DEFINE = v1_3.DEFINE
AXIS = events.Axis("train", "mean", {"*/tokens": "sum", "lr": "last"}, MONO_NS, "reported", ["wait_s"])
TEXT = events.Uncounted("a b", "llm.output_tokens", MONO_NS, LABELS, "llm.tpot", 5, 1, 7, 3, True, "p1")
EXTENDED: dict[type, events.EventRecord] = {events.Axis: AXIS, events.Uncounted: TEXT}
EVERY_RECORD: list[events.EventRecord] = [
    *(EXTENDED.get(type(record), record) for record in v1_3.EVERY_RECORD),
    events.StepClear("train", 4, MONO_NS),
]
ACCOUNT = snapshot.Accounting(emitted=5, received=4, applied=4, missing=1, salvaged=3)
EVERY_NODE_RECORD: list[nodes.NodeRecord] = [
    nodes.NodeInterval(
        7,
        WALL_NS,
        WALL_NS + 10**9,
        nodes.SeriesSums(
            id=struct.pack("<I", 0),
            count=struct.pack("<Q", 2),
            total=struct.pack("<d", 3.0),
            rest=struct.pack("<d", 0.0),
            mean=struct.pack("<d", 1.5),
            squares=struct.pack("<d", 0.5),
            min=struct.pack("<d", 1.0),
            max=struct.pack("<d", 2.0),
            integral=b"\x01",
            imprecise=struct.pack("<Q", 0),
            below=struct.pack("<Q", 0),
            above=struct.pack("<Q", 0),
            occupied=struct.pack("<I", 1),
            slots=struct.pack("<I", 9),
            counts=struct.pack("<I", 2),
        ),
        nodes.CounterSums(
            id=struct.pack("<I", 1),
            events=struct.pack("<Q", 3),
            whole=struct.pack("<q", 3),
            huge=struct.pack("<d", 0.0),
            fraction=struct.pack("<d", 0.0),
            fractional=b"\x00",
            imprecise=struct.pack("<Q", 0),
        ),
        nodes.GaugeSums(
            id=struct.pack("<I", 2),
            events=struct.pack("<Q", 1),
            value=struct.pack("<d", 0.5),
            time_ns=struct.pack("<q", WALL_NS),
            min=struct.pack("<d", 0.5),
            max=struct.pack("<d", 0.5),
            imprecise=struct.pack("<Q", 0),
        ),
        nodes.ExtentSums(
            id=struct.pack("<I", 0),
            first_ns=struct.pack("<q", WALL_NS),
            last_ns=struct.pack("<q", WALL_NS + 1),
            last_done_ns=struct.pack("<q", WALL_NS + 2),
            end_ns=struct.pack("<q", WALL_NS + 3),
            inside=struct.pack("<Q", 1),
            inside_total=struct.pack("<d", 1.0),
        ),
    ),
    nodes.NodeAccount(
        7,
        6,
        ACCOUNT,
        producers=2,
        completeness="incomplete",
        owing=["p2"],
        reason="stopped on request",
        hindrance="the journal is off",
        clock_error_ns=150_000,
        endpoint="ipc:///run/user/1000/telemetry/a/control",
        directory="/runs/a",
        nodes=1,
        warnings=["a warning"],
    ),
    nodes.Member("p1", "worker", "h", 7, 0),
    nodes.Relay("p1", WALL_NS, msgspec.Raw(msgspec.msgpack.encode(events.Mark("warm", MONO_NS, LABELS)))),
    nodes.StepPart(
        "train",
        3,
        {"loss": nodes.PartialValue(2, 0.5, 0.0, 0.0, 0.5, "p1", "p2", 0.5, WALL_NS, "p2"), "grad": None},
        WALL_NS,
        2,
        ranks={"wait_s": [(0, 0.25), ("p2", 0.5)]},
        number=4,
    ),
]
EVERY_REQUEST_RECORD: list[request_log.RequestRecord] = [
    request_log.EndedRequests(
        "llm",
        LABELS,
        [
            request_log.RequestEntry(
                7,
                MONO_NS,
                MONO_NS + 900,
                "completed",
                "stop",
                MONO_NS - 5,
                MONO_NS + 300,
                2,
                [250, -1],
                [3, None],
                4,
                12,
                8.5,
                "2",
                {"ttft": 500},
            ),
            request_log.RequestEntry(8, MONO_NS, MONO_NS + 5, "failed", "http_503"),
            request_log.RequestEntry(9, MONO_NS, MONO_NS + 5, "expired"),
        ],
        3,
        MONO_NS,
    ),
    request_log.RequestTokens("p1", 8, "output_tokens", 9, MONO_NS),
]
BACKEND = replace(v1_2.BACKEND, refused=[2, 3])
NODE = snapshot.NodeStat(
    node="gpu-1",
    leaf="0a1b2c3d",
    host="h",
    pid=7,
    reason="it has not ended",
    producers=2,
    owing=["p2"],
    nodes=1,
    account=ACCOUNT,
    missing_batches=1,
    events_per_s=2.5,
    interval_ns=WALL_NS,
    last_seen_ns=WALL_NS,
    clock_error_s=0.00015,
    endpoint="ipc:///run/user/1000/telemetry/a/control",
    directory="/runs/a",
    warnings=["a warning"],
)
SNAPSHOT = replace(
    v1_3.SNAPSHOT,
    protocol=VERSION,
    accounting=replace(v1_3.SNAPSHOT.accounting, salvaged=3),
    producers=[replace(stat, salvaged=2) for stat in v1_3.SNAPSHOT.producers],
    folded=snapshot.FoldedProducers(producers=7, events=1_000, repaired=2, duplicates=3, salvaged=1),
    backends=[BACKEND],
    nodes=[NODE],
    missing_nodes=1,
    request_log=snapshot.RequestLogStat(kept=5, left_out=2, cap_bytes=1 << 28),
)
STREAM_RECORD = replace(v1_3.STREAM_RECORD, version=VERSION)
STREAM_STEP = replace(
    v1_3.STREAM_STEP,
    version=VERSION,
    record=replace(v1_3.STREAM_STEP.record, ranks={"loss": [(0, 0.0), ("p2", 0.5)]}),
)

HELLO = replace(v1_0.REQUESTS["hello"], version=VERSION, ring="/run/user/1000/telemetry/p1.ring")
HELLO_OF_LEAF = replace(v1_0.REQUESTS["hello"], version=VERSION, node="gpu-1")
REQUESTS: dict[str, control.Request] = {
    **v1_3.REQUESTS,
    "hello": HELLO,
    "hello_leaf": HELLO_OF_LEAF,
    "backend": control.TellBackend(id=11, stat=BACKEND),
    "step": control.GetStep(id=12, axis="train", step=3),
    "nodes": control.ExpectNodes(id=13, nodes=["gpu-1", "gpu-2"], count=2),
    "members": control.GetMembers(id=14, node="gpu-1"),
    "found": nodes.Found(
        id=15,
        producer="0a1b2c3d",
        number=1,
        part=1,
        last=True,
        values=nodes.FoundValues(struct.pack("<I", 0), struct.pack("<I", 1), struct.pack("<d", 1.5)),
        bins=nodes.FoundBins(
            struct.pack("<I", 1),
            struct.pack("<I", 3),
            struct.pack("<Q", 9),
            struct.pack("<q", 4),
            struct.pack("<q", 5),
        ),
        unfit=nodes.UnfitRanges(struct.pack("<I", 2), b"\x01"),
    ),
}
STEP_STATE = control.StepState(
    id=12,
    state="closed",
    values={"loss": 0.25, "grad": None},
    producers=2,
    revision=1,
    next_record=7,
    backends=[BACKEND],
)
RESPONSES: dict[str, control.Response] = {
    **v1_3.RESPONSES,
    "welcome": replace(v1_0.RESPONSES["welcome"], version=VERSION),
    "status": replace(v1_0.RESPONSES["status"], snapshot=SNAPSHOT),
    "caught_up": replace(v1_0.RESPONSES["caught_up"], records=[STREAM_RECORD, STREAM_STEP], next_seq=7),
    "pong": replace(v1_0.RESPONSES["pong"], drain_s=7.5),
    "members": control.Members(
        id=14, members=[control.MemberFacts(producer="p1", name="worker", host="h", pid=7, rank=0)]
    ),
    "search": nodes.Search(
        number=1,
        bins=16,
        series=nodes.SearchedSeries(
            struct.pack("<I", 0), b"\x03", struct.pack("<d", 1e6), struct.pack("<d", 2.0**52)
        ),
        ranges=nodes.SearchedRanges(
            struct.pack("<I", 0),
            struct.pack("<I", 9),
            struct.pack("<q", 1),
            struct.pack("<q", 2),
            struct.pack("<Q", 3),
            b"\x01",
            b"\x01",
        ),
    ),
    "step_state": STEP_STATE,
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
    """Every record type of 1.4 is still read, and a batch as a small producer makes it."""
    decoded = codec.decode_batch(golden(name))
    expected = {
        "batch_records": EVERY_RECORD,
        "batch_nodes": EVERY_NODE_RECORD,
        "batch_requests": EVERY_REQUEST_RECORD,
        "batch_minimal": [events.Sample("latency", 1.5, 0, "ms"), events.Count("requests")],
    }
    assert [codec.decode_record(raw) for raw in decoded.records] == expected[name]


def test_a_reader_of_1_3_takes_what_it_knows_of_1_4() -> None:
    """A reader of 1.3 passes over the field behind those that it knows."""

    class Axis13(msgspec.Struct, array_like=True, tag="axis"):
        name: str
        reduce: str
        reductions: dict[str, str]
        time_ns: int

    axis = next(
        raw for raw in codec.decode_batch(golden("batch_records")).records if codec.record_tag(raw) == "axis"
    )
    expected = Axis13("train", "mean", {"*/tokens": "sum", "lr": "last"}, MONO_NS)
    assert msgspec.msgpack.decode(axis, type=Axis13) == expected
