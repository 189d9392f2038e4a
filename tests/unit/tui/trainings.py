"""A training job, played through the aggregator itself: steps of three axes, and backends that they go to."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from functools import cache

from msgspec import structs
from msgspec.structs import replace
from tests.unit.tui import feeds
from tests.unit.tui.feeds import SECOND_NS, FakeFeed, Recorded, Row

from telemetry.aggregator.core import SnapshotFacts
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.testing.clock import FakeClock
from telemetry.tui.app import Cockpit
from telemetry.tui.feed.news import CurvesOf, NewSnapshot
from telemetry.tui.model.scene import Baseline
from telemetry.wire.events import Axis, Define, EventRecord, Mark, Scalars, StepEnd
from telemetry.wire.snapshot import BackendStat, MetricsSnapshot

SECONDS = 60
STEPS = 20
"""A second, of training."""
RANKS = (("trainer", 0), ("trainer", 1), ("rollout", 2))
_SPANS = (("iteration", 250.0, 0.02), ("forward", 96.0, 1.0), ("backward", 118.0, 1.0), ("load_batch", 24.0, 1.0))
"""Name, median in ms, and the share of it that no span inside has."""
REFUSED = "connection refused: https://api.wandb.ai"
DIRECTORY = "runs/spirals-20231114T221320Z-a1b2"


class Training(Recorded):
    """Two ranks train, and the slower of them lags; one rolls out; the first evaluates now and then."""

    def __init__(self) -> None:
        super().__init__("spirals", [(f"{name}-{rank}", rank) for name, rank in RANKS], SECONDS)

    def records(self, second: int, rank: int) -> Iterator[EventRecord]:
        if second == 0:
            yield Axis("train", "mean", {"*/tokens": "sum"})
            yield Define(0, "step.time", "series", "ms", {"rank": str(rank)})
            yield Define(1, "tokens", "counter", "tokens")
            for index, (name, *_) in enumerate(_SPANS):
                yield Define(10 + index, f"span.{name}", "series", "ms")
                yield Define(20 + index, f"span_self.{name}", "counter", "ms")
            yield Define(30, "host.cpu", "gauge", "%")
            yield Define(31, "gpu.memory", "gauge", "MiB", {"gpu": str(rank)})
            yield Define(32, "gpu.utilization", "gauge", "%", {"gpu": str(rank)})
        if rank == 0 and second in (0, 40):
            yield Mark("learning rate halved" if second else "training begins", MONO_NS + second * SECOND_NS)
        if rank == 2:
            yield from _rollout(second)
            return
        yield from _train(second, rank)
        if rank == 0 and second % 15 == 14:
            step = (second + 1) * STEPS
            accuracy = 1.0 - 0.45 * math.exp(-step / 500)
            yield Scalars("eval", step, {"accuracy": accuracy, "loss": 0.9 - accuracy / 2}, _at(second))
            yield StepEnd("eval", step, _at(second))

    def rows(self, second: int, rank: int, begin_ns: int) -> list[Row]:
        times = [(0, begin_ns + at, 40.0 + 4 * rank + at % 7) for at in range(STEPS)]
        spans: list[Row] = []
        for index, (_, median_ms, share) in enumerate(_SPANS):
            lasted = [median_ms * (1 + 0.1 * math.sin(second + at)) for at in range(4)]
            spans += [(10 + index, begin_ns + at, value) for at, value in enumerate(lasted)]
            spans.append((20 + index, begin_ns, share * sum(lasted)))
        machine = [
            (30, begin_ns, 55.0 + 20 * math.sin(second / 7)),
            (31, begin_ns, 61_440.0 + 512 * rank),
            (32, begin_ns, 88.0 + 4 * math.sin(second / 3 + rank)),
        ]
        return [*times, (1, begin_ns, 64.0 * STEPS), *spans, *machine]

    def _facts(self, second: int) -> SnapshotFacts:
        return dataclasses.replace(super()._facts(second), backends=writers(second))


def _train(second: int, rank: int) -> Iterator[EventRecord]:
    """The second rank is three steps behind the first."""
    begin = second * STEPS - (3 if rank else 0)
    for step in range(max(0, begin), begin + STEPS):
        noise = math.sin(step * 1.7 + rank)
        loss = 0.12 + 1.1 * math.exp(-step / 300) + 0.03 * noise
        values = {
            "loss": loss,
            "accuracy": 1.0 - 0.5 * loss + 0.01 * noise,
            "gradient/norm": 2.0 * loss + 0.1 * noise if step % 400 != 399 else None,
            "train/tokens": 64.0,
            "learning_rate": 3e-4 if second < 40 else 1.5e-4,
        }
        yield Scalars("train", step, values, _at(second))
        yield StepEnd("train", step, _at(second))


def _rollout(second: int) -> Iterator[EventRecord]:
    if second % 4 == 3:
        step = second // 4
        values = {"reward": 40.0 + 30.0 * math.sin(step / 5), "episode/length": 212.0 + 3 * step}
        yield Scalars("rollout", step, values, _at(second))
        yield StepEnd("rollout", step, _at(second))


def _at(second: int) -> int:
    return MONO_NS + second * SECOND_NS


def writers(second: int) -> list[BackendStat]:
    """One that is well, one whose server is away since the 35th second, one that hangs, and one that is not
    configured."""
    now_ns = WALL_NS + (second + 1) * SECOND_NS
    records, away = 27 * (second + 1), second >= 35
    lost = 27 * 35 if away else records
    return [
        BackendStat(
            name="tensorboard",
            kind="tensorboard",
            state="idle",
            pid=4_201,
            time_ns=now_ns - SECOND_NS // 4,
            next_record=records,
            written=records + second // 10,
            no_place={"span": 12},
            place=f"/data/{DIRECTORY}/backends/tensorboard/data",
        ),
        BackendStat(
            name="wandb",
            kind="wandb",
            state="retrying" if away else "writing",
            pid=4_202,
            time_ns=now_ns - SECOND_NS // 4,
            next_record=lost,
            queued=records - lost,
            written=lost,
            retried=second - 34 if away else 0,
            dropped={"too_large": 2},
            breaker="open" if away else "closed",
            failures=second - 34 if away else 0,
            last_error=REFUSED if away else "",
            place="https://wandb.ai/spirals/runs/a1b2",
        ),
        BackendStat(
            name="otlp",
            kind="otlp",
            state="writing",
            pid=4_203,
            time_ns=now_ns - SECOND_NS // 4,
            next_record=records // 2,
            queued=records - records // 2,
            written=records // 2,
            calling_s=max(0.0, second - 30.0),
            place="http://collector:4318",
        ),
        BackendStat(
            name="mlflow",
            kind="mlflow",
            state="failed",
            time_ns=WALL_NS + SECOND_NS,
            last_error="mlflow is not installed: pip install 'telemetryd[mlflow]'",
        ),
    ]


@cache
def training() -> Training:
    """Played once."""
    return Training()


def well(snapshot: MetricsSnapshot) -> MetricsSnapshot:
    """The same without trouble."""
    backends = [
        replace(stat, state="writing", dropped={}, last_error="", calling_s=0.0, breaker="closed", queued=0)
        for stat in snapshot.backends[:3]
    ]
    return replace(snapshot, backends=backends)


def done(snapshot: MetricsSnapshot) -> MetricsSnapshot:
    """Return the snapshot after the run, when the first three backends have got all of it."""
    backends = [replace(stat, state="done", retried=0) for stat in well(snapshot).backends]
    axes = [replace(stat, open=0, oldest_open=None, waiting_for=[], producers=0) for stat in snapshot.axes]
    return replace(snapshot, backends=backends, axes=axes)


def live(snapshot: MetricsSnapshot | None = None) -> FakeFeed:
    """Return a feed of the job at its last second, as `FakeClock` has it."""
    fresh = NewSnapshot(snapshot or training().last, FakeClock().monotonic_ns())
    return FakeFeed(fresh, training().trends(), CurvesOf(training().curves()), run=training())


def watched(app: Cockpit) -> Cockpit:
    """The same, having heard each second before."""
    for snapshot in training().snapshots[:-1]:
        app._known.learn(NewSnapshot(snapshot, FakeClock().monotonic_ns()))
    return app


@cache
def earlier() -> Baseline:
    """An earlier run, which learned more slowly."""
    curves = training().curves()
    slower = [
        structs.replace(
            curve,
            values=[None if value is None else value * 1.15 + 0.05 for value in curve.values],
            low=[],
            high=[],
        )
        for curve in curves
        if curve.name in ("loss", "gradient/norm")
    ]
    return Baseline(replace(feeds.ended(training().last), name="spirals-old"), tuple(slower))
