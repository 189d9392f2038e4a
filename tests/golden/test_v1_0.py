"""The bytes of protocol 1.0, one file a message: what was released stays readable for ever.

What 1.0 did not have yet has its default in the values below.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from telemetry.wire import codec, control, events, history, snapshot

HERE = Path(__file__).parent / "v1.0"
VERSION = (1, 0)
MONO_NS = 5_000_000_000_000
WALL_NS = 1_760_000_000_000_000_000
LABELS = {"route": "/a"}


EVERY_RECORD: list[events.EventRecord] = [
    events.Define(0, "latency", "series", "ms", LABELS, 3, 0.001, 60_000.0),
    events.Sample("latency", 1.25, MONO_NS, "ms", LABELS),
    events.Count("requests", 2.0, MONO_NS, "requests", LABELS),
    events.Gauge("queue", 7.0, MONO_NS, "items", LABELS),
    events.Expect("requests", 1000.0, MONO_NS),
    events.Mark("warm", MONO_NS, LABELS),
    events.Params({"model": "m", "batch": 8, "rate": 0.5, "fast": True, "seed": None}, MONO_NS),
    events.Scalars("step", 3, {"loss": 0.25, "grad": None}, MONO_NS),
    events.StepEnd("step", 3, MONO_NS),
    events.Span("load", MONO_NS, MONO_NS + 1_000, "gpu0", LABELS),
    events.Note("prompt", "hello", MONO_NS),
    events.Artifact("weights", "file:///tmp/w", "model", MONO_NS),
    events.Session("warm", MONO_NS),
]

ROWS: list[float] = [0.0, MONO_NS + 1, 1.5, 0.0, MONO_NS + 2, 2.5, 1.0, MONO_NS + 3, 1.0]

SNAPSHOT = snapshot.MetricsSnapshot(
    schema_version=1,
    protocol=VERSION,
    run_id="a1b2c3",
    name="demo",
    epoch="e1",
    seq=42,
    state="COMPLETE",
    completeness="lossy",
    reason="finished",
    exact=True,
    exact_reason="",
    started_ns=WALL_NS,
    time_ns=WALL_NS + 2_000_000_000,
    elapsed_s=2.0,
    refresh_hz=10.0,
    window_s=10.0,
    pending=snapshot.Pending(producers=["p1"], events=1, deferred=2, deadline_s=0.5),
    accounting=snapshot.Accounting(
        emitted=10,
        received=8,
        applied=7,
        waiting=0,
        dropped={"not_finite": 1},
        dropped_by_producer={"buffer_full": 1},
        missing=1,
        repaired=5,
        unrepairable=2,
        duplicates=1,
        bad_frames={"wrong_topic": 1},
    ),
    producers=[
        snapshot.ProducerStat(
            producer="p1",
            name="worker",
            host="h",
            pid=7,
            rank=0,
            status="ended",
            completeness="lossy",
            emitted=10,
            received=8,
            applied=7,
            dropped={"not_finite": 1},
            dropped_by_producer={"buffer_full": 1},
            missing=1,
            missing_batches=[(2, 3)],
            unrepairable_batches=[(5, 6)],
            repaired=5,
            unrepairable=2,
            duplicates=1,
            waiting=0,
            events_per_s=4.0,
            lag_s=0.05,
            last_seen_ns=WALL_NS + 1,
            last_event_ns=WALL_NS,
        )
    ],
    progress=[snapshot.Progress(name="requests", done=7.0, total=10.0)],
    counters=[snapshot.CounterStat(name="requests", labels=LABELS, unit="requests", value=7, events=7, rate=3.5)],
    gauges=[
        snapshot.GaugeStat(
            name="queue", labels=LABELS, unit="items", value=7, min=1, max=9, events=3, time_ns=WALL_NS
        )
    ],
    series=[
        snapshot.SeriesStat(
            name="latency",
            labels=LABELS,
            unit="ms",
            digits=3,
            count=2,
            total=4.0,
            min=1.5,
            max=2.5,
            mean=2.0,
            stddev=0.5,
            percentiles={"50": 1.5, "99.9": 2.5},
            exact=True,
            error_bound=0.0,
            resolution=0.0,
            below=1,
            above=1,
            imprecise=1,
            histogram=[(73, 1), (76, 1)],
            cell_unit=1e-06,
            window=snapshot.WindowStat(seconds=2.0, count=2, rate=1.0, percentiles={"50": 1.5}),
        )
    ],
    marks=[snapshot.MarkStat(text="warm", time_ns=WALL_NS, producer="p1", labels=LABELS)],
    params={"model": "m"},
    command=snapshot.CommandFacts(
        argv=["./bench"],
        pid=8,
        exit_code=0,
        signal=None,
        wall_s=2.0,
        cpu_user_s=1.0,
        cpu_system_s=0.5,
        max_rss_bytes=1_000_000,
    ),
    cost=snapshot.SelfCost(
        cpu_s=0.1,
        cpu_percent=5.0,
        rss_bytes=50_000_000,
        events_per_s=3.5,
        frames=4,
        frame_bytes=1_000,
        ticks=20,
        ticks_late=1,
        tick_ms=0.5,
        tick_ms_max=2.0,
        journal_bytes=1_000,
        history_bytes=200,
        series=1,
        pages=1,
    ),
    overflow={"series": 3},
    warnings=["a warning"],
    directory="runs/demo",
)

STREAM_RECORD = events.StreamRecord(VERSION, "a1b2c3", 5, "p1", WALL_NS, events.Mark("warm", MONO_NS, LABELS))
INTERVAL = history.Interval(
    WALL_NS,
    WALL_NS + 1_000_000_000,
    history.SeriesColumns(
        index=struct.pack("<I", 0),
        count=struct.pack("<Q", 2),
        total=struct.pack("<d", 4.0),
        min=struct.pack("<d", 1.5),
        max=struct.pack("<d", 2.5),
        occupied=struct.pack("<I", 2),
        slots=struct.pack("<2I", 1500, 2000),
        counts=struct.pack("<2I", 1, 1),
    ),
    history.ValueColumns(index=struct.pack("<I", 0), value=struct.pack("<d", 7.0)),
    history.ValueColumns(index=struct.pack("<I", 0), value=struct.pack("<d", 3.0)),
)

REQUESTS: dict[str, control.Request] = {
    "hello": control.Hello(
        id=1, version=VERSION, producer="p1", name="worker", host="h", pid=7, rank=0, mono_ns=MONO_NS
    ),
    "ping": control.Ping(id=2, producer="p1", mono_ns=MONO_NS),
    "end": control.End(id=3, producer="p1", batches=2, emitted=10, dropped={"buffer_full": 1}),
    "cannot_resend": control.CannotResend(producer="p1", first=0, last=1),
    "barrier": control.Barrier(id=4, producer="p1", batches=2),
    "get_status": control.GetStatus(id=5),
    "get_history": control.GetHistory(id=6, start_ns=WALL_NS, end_ns=WALL_NS + 1, level_s=1),
    "catchup": control.Catchup(id=7, from_seq=5),
    "stop": control.Stop(id=8, reason="enough", interrupted=True, command=SNAPSHOT.command),
    "watch": control.Watch(id=9, pid=7),
}

RESPONSES: dict[str, control.Response] = {
    "welcome": control.Welcome(
        id=1,
        version=VERSION,
        run_id="a1b2c3",
        name="demo",
        epoch="e1",
        state="LIVE",
        events="ipc:///tmp/t/ev",
        snapshots="ipc:///tmp/t/sn",
        records="ipc:///tmp/t/rec",
        directory="runs/demo",
        refresh_hz=10.0,
        mono_ns=MONO_NS,
        wall_ns=WALL_NS,
        echo_ns=MONO_NS,
    ),
    "pong": control.Pong(id=2, epoch="e1", state="LIVE", mono_ns=MONO_NS, echo_ns=MONO_NS),
    "ack": control.Ack(epoch="e1", batches=2),
    "resend": control.Resend(first=0, last=1),
    "ended": control.Ended(id=3, emitted=10, received=8, missing=1),
    "barrier_reached": control.BarrierReached(id=4, batches=2),
    "status": control.Status(id=5, snapshot=SNAPSHOT),
    "history": control.History(
        id=6,
        keys=[
            control.SeriesKey(
                index=0, name="latency", kind="series", unit="ms", labels=LABELS, digits=3, ticks_per_unit=1e6
            )
        ],
        intervals=[msgspec.Raw(codec.encode_interval(INTERVAL))],
        next_ns=WALL_NS,
    ),
    "caught_up": control.CaughtUp(id=7, records=[STREAM_RECORD], next_seq=6, last_seq=5),
    "stopping": control.Stopping(id=8, state="DRAINING"),
    "watching": control.Watching(id=9, pid=7),
    "error": control.Error(id=10, code="unknown_message", message="what is `dance`?"),
}


def golden(name: str) -> bytes:
    return (HERE / f"{name}.bin").read_bytes()


def test_every_file_is_decoded_here() -> None:
    """The golden files are exactly the messages decoded here: none is left over, none is missing."""
    messages = {f"request_{name}" for name in REQUESTS} | {f"response_{name}" for name in RESPONSES}
    others = {"batch_rows", "batch_records", "batch_minimal", "snapshot", "stream_record", "interval"}
    assert {path.stem for path in HERE.glob("*.bin")} == messages | others


@pytest.mark.parametrize(
    ("name", "decode", "expected"),
    [
        ("snapshot", codec.decode_snapshot, SNAPSHOT),
        ("stream_record", codec.decode_stream_record, STREAM_RECORD),
        ("interval", codec.decode_interval, INTERVAL),
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
    body = decoded.rows.body
    assert body is not None
    assert [
        field for row in struct.iter_unpack(">xdxQxd", body) for field in row
    ] == ROWS  # id, time and value, each behind its marker byte


def test_golden_batch_of_records_decodes() -> None:
    """Every record type of 1.0 is still read."""
    decoded = codec.decode_batch(golden("batch_records"))
    assert [codec.decode_record(raw) for raw in decoded.records] == EVERY_RECORD


def test_golden_minimal_batch_decodes() -> None:
    """A batch without clock or definitions, as a small producer makes it."""
    decoded = codec.decode_batch(golden("batch_minimal"))
    assert decoded.anchor == (0, 0)
    assert [codec.decode_record(raw) for raw in decoded.records] == [
        events.Sample("latency", 1.5, 0, "ms"),
        events.Count("requests"),
    ]
