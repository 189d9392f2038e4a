"""Valid input of every kind, made by the project's own encoders: what mutations start from."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from struct import pack
from typing import Any, get_args

from msgspec import Raw, msgpack
from msgspec.structs import replace

from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.testing.builders import MONO_NS, WALL_NS, frame
from telemetry.wire import codec, control, events, history, journal, request_log, snapshot
from telemetry.wire.nodes import Found, FoundValues

GOLDEN = Path(__file__).parents[1] / "golden"
LABELS = {"route": "/a"}
TIMES = (MONO_NS + 1, MONO_NS + 2)

RECORDS: tuple[events.EventRecord, ...] = (
    events.Define(0, "latency", "series", "ms", LABELS, 3, 0.001, 60_000.0, "latency"),
    events.Define(1, "requests", "counter", within="size"),
    events.Define(2, "depth", "gauge", "items"),
    events.Define(3, "size", "series", "ms", {}, 2, within="size"),
    events.Sample("latency", 1.25, MONO_NS, "ms", LABELS),
    events.Count("requests", 2.0),
    events.Gauge("queue", -7.0, MONO_NS, "items", LABELS),
    events.Expect("requests", 1000.0, MONO_NS),
    events.Mark("warm", MONO_NS, LABELS),
    events.Params({"model": "m", "batch": 8, "rate": 0.5, "fast": True, "seed": None}, MONO_NS),
    events.Scalars("step", 3, {"loss": 0.25, "grad": None}, MONO_NS),
    events.StepEnd("step", 3, MONO_NS),
    events.Scalars("step", 4, {"loss": 0.5}, MONO_NS),
    events.Axis("step", "mean", {"*/tokens": "sum", "lr": "last"}, MONO_NS),
    events.Table("t", ["a", "b"], [[1, "x"], [None, 2.5]], MONO_NS, "step", 3),
    events.Bins("b", [0.0, 1.0, 2.5], [3, 4], MONO_NS, "step", 3),
    events.Span("load", MONO_NS, MONO_NS + 1_000, "gpu0", LABELS),
    events.Note("prompt", "hello", MONO_NS, "step", 3),
    events.Artifact("weights", "file:///tmp/w", "model", MONO_NS),
    events.Session("warm", MONO_NS),
    events.Uncounted("a reply", "tokens", MONO_NS, LABELS, "per_token", 1_000, 1),
    events.Uncounted("another", "tokens"),
    events.Counted([0, 7], 1),
    events.Axis("job", "last", {}, MONO_NS, "reported"),
    events.Scalars("job", 3, {"loss": 0.25}, MONO_NS),
    events.Scalars("job", 4, {"loss": 0.25}, MONO_NS),
    events.StepEnd("job", 4, MONO_NS),
    events.StepClear("job", 3, MONO_NS),
)
REQUEST_RECORDS: tuple[request_log.RequestRecord, ...] = (
    request_log.EndedRequests(
        "llm",
        LABELS,
        [
            request_log.RequestEntry(
                *(
                    7,
                    MONO_NS,
                    MONO_NS + 900,
                    "completed",
                    "stop",
                    MONO_NS - 5,
                    MONO_NS + 300,
                    2,
                    [250, 350],
                    [3, None],
                ),
                *(4, 12, 8, "2", {"ttft": 500}),
            ),
            request_log.RequestEntry(8, MONO_NS, MONO_NS + 5, "failed", "http_503"),
        ],
        3,
        MONO_NS,
    ),
    request_log.RequestTokens("q", 8, "output_tokens", 9.5, MONO_NS),
)
DEFINES = RECORDS[:4]
BACKEND = snapshot.BackendStat(
    name="runs", kind="wandb", state="retrying", dropped={"too_large": 1}, no_place={"span": 2}, last_error="503"
)
AXIS = snapshot.AxisStat(
    name="step", closed=3, open=1, newest=3, oldest_open=4, waiting_for=["p"], producers=2, values={"loss": 0.25}
)
STEP = events.ClosedStep(
    "step", 3, {"loss": 0.25, "grad": None}, {"loss": events.Spread(2, 0.0, 0.5, 0.25, "p", "q")}, 2, "late", 1
)
ROWS = [(0, TIMES[0], 1.5), (1, TIMES[0], 1.0), (2, TIMES[1], -3.0), (3, TIMES[1], 4_096.0)]


def golden(pattern: str) -> list[bytes]:
    """Bytes of released versions, small ones first."""
    return sorted((path.read_bytes() for path in GOLDEN.glob(pattern)), key=len)


@cache
def frames() -> tuple[bytes, ...]:
    """Batches of two producers in order, with everything a batch can have."""
    loose = codec.encode_batch(
        events.OutgoingBatch((1, 0), "q", 1, 1, (MONO_NS, WALL_NS), {}, [], [2, 7, 5, 2, 0, 6.5])
    )
    made = [
        frame("p", 0, 0, records=DEFINES, rows=ROWS),
        frame("p", 1, 4, rows=ROWS * 3),
        frame("q", 0, 0, records=[RECORDS[2], RECORDS[4]], rows=ROWS[:1]),
        loose,
        frame("p", 2, 20, records=RECORDS[4:], rows=[], dropped={"buffer_full": 4}),
        frame("q", 2, 3, records=[RECORDS[8]], rows=[(9, TIMES[0], 1.0), *ROWS[:2]], anchor=(0, 0)),
        frame("q", 3, 6, records=[RECORDS[10], RECORDS[12], RECORDS[13], *REQUEST_RECORDS]),
        frame("p", 3, 39, rows=[(0, TIMES[1], float(value)) for value in range(40)]),
    ]
    return tuple(map(bytes, made))


def session(producer: str) -> list[bytes]:
    """Small batches of one more producer, in order."""
    made = [
        frame(producer, 0, 0, records=DEFINES, rows=ROWS[:2]),
        frame(producer, 1, 2, rows=ROWS),
        frame(producer, 2, 6, records=[RECORDS[4], RECORDS[5], RECORDS[6]]),
        frame(producer, 3, 9, records=[RECORDS[8], RECORDS[9]], rows=ROWS[2:], dropped={"buffer_full": 1}),
        frame(producer, 4, 14, rows=ROWS[:1] * 5),
    ]
    return list(map(bytes, made))


def requests() -> list[control.Request]:
    """Each kind, as two producers and an observer would say it."""
    return [
        control.Hello(id=1, producer="p", name="worker", host="h", pid=7, rank=0, mono_ns=MONO_NS),
        control.Hello(id=1, producer="q"),
        control.Hello(id=2),
        control.Ping(id=2, producer="p", mono_ns=MONO_NS),
        control.End(id=3, producer="p", batches=4, emitted=79, dropped={"buffer_full": 4}),
        control.End(id=3, producer="q", batches=4, emitted=11),
        control.CannotResend(producer="p", first=1, last=2),
        control.Barrier(id=4, producer="p", batches=2),
        control.GetStatus(id=5),
        control.GetHistory(id=6, start_ns=1, end_ns=WALL_NS, level_s=10),
        control.Catchup(id=7, from_seq=3),
        control.Stop(id=8, reason="done", command=snapshot.CommandFacts(argv=["a"], exit_code=0)),
        control.Watch(id=9, pid=1),
        control.TellBackend(id=10, stat=BACKEND),
        control.GetStep(id=11, axis="step", step=3),
        Found(id=14, producer="p", number=1, values=FoundValues(bytes(4), b"\1\0\0\0", bytes(8))),
    ]


def responses() -> list[control.Response]:
    """Each kind, as an aggregator would say it."""
    raw = Raw(codec.encode_interval(INTERVAL))
    key = control.SeriesKey(index=0, name="latency", kind="series", unit="ms", labels=LABELS, ticks_per_unit=1e6)
    return [
        control.Welcome(
            id=1,
            run_id="r",
            name="n",
            epoch="e1",
            state="LIVE",
            events="ipc://e",
            snapshots="ipc://s",
            records="ipc://r",
        ),
        control.Welcome(
            id=1, run_id="r", name="n", epoch="e2", state="LIVE", events="tcp://0.0.0.0:5", snapshots="", records=""
        ),
        control.Pong(id=2, epoch="e1", state="LIVE", mono_ns=MONO_NS),
        control.Pong(id=2, epoch="e1", state="DRAINING"),
        control.Ack(epoch="e1", batches=2),
        control.Resend(first=0, last=3),
        control.Ended(id=3, emitted=79, received=75, missing=0),
        control.BarrierReached(id=4, batches=2),
        control.Status(id=5, snapshot=small_snapshot()),
        control.History(id=6, keys=[key], intervals=[raw, raw], next_ns=5),
        control.CaughtUp(id=7, records=stream_records()[:3], next_seq=3, last_seq=5),
        control.Stopping(id=8, state="DRAINING"),
        control.Watching(id=9, pid=1),
        control.Noted(id=10, state="LIVE"),
        control.StepState(
            id=11, state="open", values={"loss": 0.5, "grad": None}, next_record=4, backends=[BACKEND]
        ),
        control.Error(id=1, code="refused", message="no"),
    ]


def notes() -> list[journal.Note]:
    """Each kind."""
    return [
        control.Hello(id=1, producer="p", name="worker", host="h", pid=7, rank=0, mono_ns=MONO_NS),
        control.Hello(id=1, producer="q", ring="/tmp/q.ring"),
        control.End(id=3, producer="q", batches=3, emitted=7),
        control.CannotResend(producer="p", first=1, last=2),
        journal.Rolled(start_wall_ns=WALL_NS, end_wall_ns=WALL_NS + 10**9, elapsed_ns=10**9, snapshot_seq=4),
        journal.BadFrames(counts={"wrong_topic": 2}),
        journal.Ending(reason="stopped", interrupted=True, command=snapshot.CommandFacts(argv=["a"], exit_code=0)),
        journal.Closed(),
        journal.Salvaging(producer="q"),
        journal.Sliced(),
        control.TellBackend(stat=BACKEND),
    ]


def run_state(**changes: Any) -> journal.RunState:
    facts: dict[str, Any] = {
        "run_id": "r1", "name": "n", "host": "h", "started_ns": WALL_NS, "started_mono_ns": MONO_NS,
        "rolled_wall_ns": WALL_NS, "rolled_mono_ns": MONO_NS, "rolls": 0, "records": 0, "snapshot_seq": 0,
        "ending": None, "warnings": ["w"],
    }  # fmt: skip
    return journal.RunState(**facts | changes)


INTERVAL = history.Interval(
    WALL_NS,
    WALL_NS + 10**9,
    history.SeriesColumns(
        index=pack("<2I", 0, 1),
        count=pack("<2Q", 2, 1),
        total=pack("<2d", 4.0, 9.0),
        min=pack("<2d", 1.5, 9.0),
        max=pack("<2d", 2.5, 9.0),
        occupied=pack("<2I", 2, 1),
        slots=pack("<3I", 1500, 2000, 9),
        counts=pack("<3I", 1, 1, 1),
    ),
    history.ValueColumns(index=pack("<I", 0), value=pack("<d", 7.0)),
    history.ValueColumns(index=pack("<I", 0), value=pack("<d", 3.0)),
)


def wide_interval() -> history.Interval:
    """Return an interval with so many slots that they are deflated when it is packed."""
    slots = [*range(900, 1_500, 7), *range(5, 605, 6)]
    halves = len(range(900, 1_500, 7)), 100
    series = history.SeriesColumns(
        index=pack("<2I", 0, 1),
        count=pack("<2Q", halves[0], 2 * halves[1]),
        total=pack("<2d", 9e5, 3.5e4),
        min=pack("<2d", 900.0, 5.0),
        max=pack("<2d", 1_495.5, 599.0),
        occupied=pack("<2I", *halves),
        slots=pack(f"<{sum(halves)}I", *slots),
        counts=pack(f"<{sum(halves)}I", *[1] * halves[0], *[2] * halves[1]),
    )
    return replace(INTERVAL, series=series)


@cache
def aggregator() -> Aggregator:
    """Return an aggregator after all of `frames`, hellos, one end and one roll. Callers only read it."""
    made = Aggregator(AggregatorConfig(percentiles=("50", "99.9")))
    for request in requests()[:2]:
        assert isinstance(request, control.Hello)
        made.hello(request, MONO_NS, WALL_NS)
    batches = [batch for data in frames() if made.admit(batch := codec.decode_batch(data), MONO_NS)]
    made.apply(batches, MONO_NS, WALL_NS)
    made.roll(WALL_NS, WALL_NS + 10**9, 10**9)
    made.pass_time(10**9)
    return made


@cache
def whole_snapshot() -> snapshot.MetricsSnapshot:
    facts = SnapshotFacts(run_id="r", name="n", state="LIVE")
    return aggregator().snapshot(facts, MONO_NS, WALL_NS)


def short_snapshot() -> snapshot.MetricsSnapshot:
    """One of each."""
    whole = whole_snapshot()
    return replace(
        whole,
        producers=whole.producers[:1],
        series=whole.series[:1],
        counters=whole.counters[:1],
        gauges=whole.gauges[:1],
        axes=[*whole.axes[:1], AXIS],
        backends=[BACKEND],
        command=snapshot.CommandFacts(argv=["a"]),
    )


def requests_snapshot() -> snapshot.MetricsSnapshot:
    """Two requests in a tracking window and one outside."""
    extent = snapshot.Extent(first_ns=1, last_ns=2, last_done_ns=3, end_ns=4, inside=1, inside_total=5)
    outside = snapshot.SeriesStat(
        name="q.latency",
        unit="ns",
        count=1,
        percentiles={"99": 3},
        histogram=[(3, 1)],
        cell_unit=1.0,
        extent=extent,
    )
    return replace(
        small_snapshot(),
        counters=[
            snapshot.CounterStat(name="q.issued", unit="requests", value=1),
            snapshot.CounterStat(name="q.issued", labels={"window": "w"}, unit="requests", value=2),
            snapshot.CounterStat(name="q.failed", labels={"window": "w", "reason": "r"}, unit="requests", value=1),
        ],
        series=[
            outside,
            replace(outside, labels={"window": "w"}),
            replace(outside, name="q.latency_corrected"),
            replace(outside, name="q.queue_delay"),
            replace(outside, name="q.turn.ttft", labels={"turn": "2"}),
        ],
    )


def small_snapshot() -> snapshot.MetricsSnapshot:
    return snapshot.MetricsSnapshot(run_id="r", name="n", state="COMPLETE")


def stream_records() -> list[events.StreamRecord]:
    """Return stream records, among them those of a run of 1.1, which streamed scalars as they were."""
    streamed = [record for record in (*RECORDS, STEP) if isinstance(record, get_args(events.Streamed))]
    return [events.StreamRecord((1, 0), "r", seq, "p", WALL_NS, record) for seq, record in enumerate(streamed)]


def record_bytes() -> list[bytes]:
    return [msgpack.encode(record) for record in (*RECORDS, *REQUEST_RECORDS)]
