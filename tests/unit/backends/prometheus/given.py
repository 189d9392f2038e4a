"""A snapshot with one of everything."""

from __future__ import annotations

from telemetry.wire.snapshot import (
    Accounting,
    AxisStat,
    CounterStat,
    GaugeStat,
    MetricsSnapshot,
    NodeStat,
    ProducerStat,
    Progress,
    SeriesStat,
)

SNAPSHOT = MetricsSnapshot(
    run_id="r1",
    name='a "run"\n\\',
    state="LIVE",
    started_ns=1_790_000_000_000_000_000,
    time_ns=1_790_000_010_500_000_000,
    elapsed_s=10.5,
    accounting=Accounting(emitted=9, applied=6, dropped={"negative": 2}, missing=1),
    producers=[ProducerStat(producer="p1", status="late")],
    nodes=[NodeStat(node="n1"), NodeStat(node="n2"), NodeStat(node="n3", status="lost")],
    progress=[Progress(name="requests", done=3.0, total=10.0)],
    counters=[
        CounterStat(name="requests", labels={"route": "/a"}, value=3),
        CounterStat(name="read", unit="KiB", value=1.5),
        CounterStat(name="requests", labels={"route": "/b"}, value=2**60),
    ],
    gauges=[GaugeStat(name="depth", value=-2.5), GaugeStat(name="unset")],
    series=[
        SeriesStat(
            name="latency",
            labels={"route": "/a"},
            unit="ms",
            count=5,
            total=3.3,
            min=0.0,
            max=9_000.0,
            percentiles={"50": 0.2, "99.9": 9_000.0},
            histogram=[(0, 1), (66, 3), (129, 1)],
            cell_unit=1e-6,
        ),
        SeriesStat(name="latency", labels={"route": "/b"}, unit="ms", cell_unit=1e-6),
        SeriesStat(name="length", unit="tokens", count=3, total=9, histogram=[(4, 2), (8, 1)], cell_unit=1.0),
    ],
    axes=[AxisStat(name="train", closed=8, newest=7, values={"train/loss": 0.5, "nan": None})],
)
