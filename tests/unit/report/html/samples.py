"""Hand-made reports with pictures: a load, requests to a language model, and a training run."""

from __future__ import annotations

import math

from msgspec.structs import replace
from tests.golden.report.renderings import requests_report, stored_report

from telemetry.wire.pictures import (
    CounterOverTime,
    Distribution,
    GaugeOverTime,
    HeatMap,
    Pictures,
    RequestSlots,
    RequestsOverTime,
    StepCurve,
)
from telemetry.wire.report import Report, SeriesOverTime, SeriesPoint
from telemetry.wire.snapshot import AxisStat, CommandFacts, MarkStat, MetricsSnapshot, SeriesStat

EVIL = "</script><img src=x onerror=alert(1)>\"'><svg onload=alert(2)>"
RTL = "\u05d0\u05d1\u05d2 \u0645\u0631\u062d\u0628\u0627"
LONG = "a-name-of-two-hundred-characters-" * 7
STEPS = 30
EDGES = [float(second) for second in range(STEPS + 1)]


def load_report(marks: list[str] | None = None) -> Report:
    """Return a load with routes, a counter of errors, gauges, and marks at the seconds 5, 10 …"""
    report = stored_report()
    stat = report.snapshot.series[0]
    routes = [replace(stat, labels={"route": route}, count=stat.count - at) for at, route in enumerate("abc")]
    named = [MarkStat(text=text, time_ns=(5 * at + 5) * 10**9 + 1) for at, text in enumerate(marks or ["deploy"])]
    command = CommandFacts(argv=["bench", "--clients", "32"], exit_code=0, wall_s=30.0)
    snapshot = replace(report.snapshot, series=routes, started_ns=1, marks=named, command=command)
    edges = [1.0, 2.0, 4.0, 8.0, 16.0]
    pictures = Pictures(
        edges_s=EDGES,
        counters=[
            CounterOverTime(name="errors", unit="", rates=[float(step % 3) for step in range(STEPS)]),
            CounterOverTime(name="sent", unit="B", rates=[1_000.0 + step for step in range(STEPS)]),
        ],
        gauges=[
            GaugeOverTime(
                name="gpu", labels={"rank": rank}, unit="%", values=[90.0 + step for step in range(STEPS)]
            )
            for rank in "01"
        ],
        heat_maps=[_heat_map(routes[0], edges)],
        distributions=[
            Distribution(name=stat.name, labels={"route": "a"}, unit="ms", edges=edges, counts=[3, 9, 0, 5])
        ],
    )
    over = [SeriesOverTime(name=one.name, labels=one.labels, unit=one.unit, points=_points()) for one in routes]
    return replace(report, snapshot=snapshot, over_time=over, pictures=pictures, time_range=None, bounds=[])


def llm_report() -> Report:
    """Return requests to a language model, with failures, limits and output tokens."""
    report = requests_report()
    kind = report.requests[0]
    wave = [10.0 + math.sin(step) for step in range(STEPS)]
    requests = RequestsOverTime(
        kind=kind.kind,
        labels=kind.labels,
        completed_per_s=list(wave),
        failed_per_s=[0.5] * STEPS,
        in_flight=list(wave),
        output_tokens_per_s=[100.0 * value for value in wave],
        good_per_s=[0.9 * value for value in wave],
    )
    over = [
        SeriesOverTime(name=stat.name, labels=stat.labels, unit=stat.unit, points=_points())
        for stat in report.snapshot.series
        if stat.count
    ]
    begins = [0.5 * at for at in range(40)]
    slots = RequestSlots(
        total=40,
        slots=[at % 4 for at in range(40)],
        begin_s=begins,
        issued_s=[begin + 0.1 for begin in begins],
        first_s=[None if at == 7 else begin + 0.5 for at, begin in enumerate(begins)],
        end_s=[begin + 1.9 for begin in begins],
        reasons=["http_503" if at == 7 else "" for at in range(40)],
    )
    return replace(report, pictures=Pictures(edges_s=EDGES, requests=[requests], slots=slots), over_time=over)


def training_report(names: list[str] | None = None) -> Report:
    """Return 1,000 steps of two ranks on the axis `train`; each value has these names."""
    shown = names or ["train/loss", "train/accuracy", "eval/loss", "lr"]
    steps = list(range(10, 1_001, 10))
    curves = [_curve(name, steps) for name in shown]
    axis = AxisStat(
        name="train",
        closed=1_000,
        newest=1_000,
        values={one.name: one.last for one in curves},
        lowest=1,
        highest=1_000,
        began_ns=1,
        ended_ns=100_000_000_001,
    )
    snapshot = MetricsSnapshot(
        run_id="r", name="resnet", state="COMPLETE", completeness="complete", axes=[axis], elapsed_s=100.0
    )
    return Report(snapshot=snapshot, source="file", curves=curves)


def _curve(name: str, steps: list[int]) -> StepCurve:
    values = [2.0 * math.exp(-step / 300) + 0.1 for step in steps]
    return StepCurve(
        axis="train",
        name=name,
        steps=steps,
        times_s=[step / 10 for step in steps],
        values=list(values),
        low=[value - 0.05 for value in values],
        high=[value + 0.05 for value in values],
        count=1_000,
        producers=2,
        first=values[0],
        last=values[-1],
        last_low=values[-1] - 0.05,
        last_high=values[-1] + 0.05,
        min=values[-1],
        max=values[0],
        min_step=steps[-1],
        max_step=steps[0],
    )


def _points() -> list[SeriesPoint]:
    return [
        SeriesPoint(
            start_s=EDGES[step],
            end_s=EDGES[step + 1],
            count=100,
            rate=100.0,
            max=9.0 + step,
            percentiles={"50": 1.0 + step, "90": 2.0 + step, "99": 5.0 + step},
        )
        for step in range(STEPS)
    ]


def _heat_map(stat: SeriesStat, edges: list[float]) -> HeatMap:
    counts = [[0, step, 100 - step, 1] for step in range(STEPS)]
    return HeatMap(name=stat.name, labels=stat.labels, unit=stat.unit, edges=edges, counts=counts)


def _distribution(stat: SeriesStat, edges: list[float]) -> Distribution:
    return Distribution(name=stat.name, labels=stat.labels, unit=stat.unit, edges=edges, counts=[3, 9, 0, 5])
