"""What the forms on the wire cost: rows against their alternatives, named maps against arrays.

    python -m benchmarks.wire_rows [--tiny]

The figures of docs/adr/0002 and docs/adr/0003.
"""

from __future__ import annotations

import random
import struct
from typing import Any

import msgspec
import numpy as np

from benchmarks.forms import Form, show, tiny_asked
from telemetry.wire import codec, rows
from telemetry.wire.events import OutgoingBatch
from telemetry.wire.snapshot import CounterStat, MetricsSnapshot, SeriesStat, WindowStat

Numbers = list[float]
ROW = np.dtype(
    [("m0", "u1"), ("id", ">f8"), ("m1", "u1"), ("time", ">u8"), ("m2", "u1"), ("value", ">f8")]
)  # 27 bytes: a marker before each of three numbers


def make_rows(events: int) -> Numbers:
    """Rows as a producer's buffer holds them: float id, integer clock, float value."""
    source = random.Random(1)
    clock_ns = 5_000_000_000_000
    out: Numbers = []
    for _ in range(events):
        clock_ns += source.randrange(20_000)
        out += (float(source.randrange(100)), clock_ns, source.lognormvariate(0, 1))
    return out


def outgoing(numbers: Numbers) -> OutgoingBatch:
    return OutgoingBatch((1, 0), "p" * 22, 1, 1, (1, 1), {}, [], numbers)


def to_columns(data: bytes) -> tuple[Any, Any, Any]:
    """A frame to three aligned columns, markers checked."""
    body = codec.decode_batch(data).rows.body
    assert body is not None
    view = np.frombuffer(body, ROW)
    marks = view["m0"].astype(np.uint16) + view["m1"] + view["m2"]
    assert int(marks.min()) == int(marks.max()) == rows.ID_MARK + rows.TIME_MARK + rows.VALUE_MARK
    return view["id"].astype(np.intp), view["time"].astype(np.int64), view["value"].astype(np.float64)


def row_forms(events: int) -> list[Form]:
    numbers = make_rows(events)
    packer = struct.Struct("<" + "dqd" * events)
    frame = bytes(codec.encode_batch(outgoing(numbers)))
    plain = msgspec.msgpack.Decoder(list[float | int])
    body = codec.decode_batch(frame).rows.data
    triples = list(zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True))
    named = [{"id": a, "time": b, "value": c} for a, b, c in triples]
    encode = msgspec.msgpack.encode
    return [
        Form(
            "encode: flat msgpack rows (the choice)",
            lambda: codec.encode_batch(outgoing(numbers)),
            events,
            "event",
            events * rows.ROW_BYTES,
        ),
        Form("encode: struct.pack, 24-byte rows", lambda: packer.pack(*numbers), events, "event", packer.size),
        Form("encode: array of triples", lambda: encode(triples), events, "event", len(encode(triples))),
        Form("encode: array of maps", lambda: encode(named), events, "event", len(encode(named))),
        Form("decode: header, rows left raw", lambda: codec.decode_batch(frame), events, "event"),
        Form("decode: header and numpy columns (the choice)", lambda: to_columns(frame), events, "event"),
        Form("decode: rows to a Python list", lambda: plain.decode(body), events, "event"),
    ]


def array_like(kind: type) -> type:
    """The same struct without names on the wire."""
    fields = [(field.name, Any, None) for field in msgspec.structs.fields(kind)]
    return msgspec.defstruct(f"{kind.__name__}Array", fields, array_like=True)


def make_snapshot(series: int) -> MetricsSnapshot:
    """`series` distributions with 40 display cells each, and as many counters."""
    percentiles = dict.fromkeys(("50", "75", "90", "95", "99", "99.9", "99.99"), 1.25)
    return MetricsSnapshot(
        run_id="a1b2c3",
        name="bench",
        series=[
            SeriesStat(
                name=f"latency.{index}",
                labels={"route": "/a"},
                unit="ms",
                count=1_000_000,
                total=1_250_000.5,
                min=0.5,
                max=90.5,
                mean=1.25,
                stddev=0.75,
                percentiles=percentiles,
                histogram=[(70 + cell, 25_000) for cell in range(40)],
                window=WindowStat(seconds=10.0, count=10_000, rate=1_000.0, percentiles=percentiles),
            )
            for index in range(series)
        ],
        counters=[CounterStat(name=f"requests.{index}", value=index) for index in range(series)],
    )


def snapshot_forms(series: int) -> list[Form]:
    whole = make_snapshot(series)
    series_array, counter_array = array_like(SeriesStat), array_like(CounterStat)
    arrays = (
        [series_array(*msgspec.structs.astuple(one)) for one in whole.series],
        [counter_array(*msgspec.structs.astuple(one)) for one in whole.counters],
    )
    maps = (whole.series, whole.counters)
    encode = msgspec.msgpack.Encoder().encode
    return [
        Form("snapshot: named maps (the choice)", lambda: encode(maps), series, "series", len(encode(maps))),
        Form("snapshot: arrays by position", lambda: encode(arrays), series, "series", len(encode(arrays))),
    ]


def main() -> None:
    events, series, rounds, repeats = (
        (100, 2, 1, 1) if tiny_asked("What the forms on the wire cost.") else (10_000, 100, 15, 40)
    )
    show(row_forms(events) + snapshot_forms(series), rounds, repeats)


if __name__ == "__main__":
    main()
