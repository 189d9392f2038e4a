"""Runs that have ended, made by a real aggregator, each with a history of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.store.final_snapshot import write_final
from telemetry.store.history import HistoryWriter
from telemetry.store.run_directory import Manifest, RunDirectory
from telemetry.testing import batch
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.wire.events import Define
from telemetry.wire.snapshot import MetricsSnapshot

SECOND = 1_000_000_000
LATENCY = Define(0, "latency", "series", "ms")
REQUESTS = Define(1, "requests", "counter")
LOAD = Define(2, "load", "gauge")

Made = tuple[RunDirectory, MetricsSnapshot]
MakeRun = Callable[..., Made]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """`make_run(run_id, {instrument id: [value, …]}, definitions=…, start_s=0.0, history=True, name=…, host=…,
    **fields of the result)` leaves a run directory; the n-th value of each instrument is in its n-th second."""

    def make(
        run_id: str,
        values: Mapping[int, Sequence[float]],
        *,
        definitions: Sequence[Define] = (LATENCY, REQUESTS, LOAD),
        start_s: float = 0.0,
        history: bool = True,
        name: str = "job",
        host: str = "",
        **fields: Any,
    ) -> Made:
        started_ns = WALL_NS + round(start_s * SECOND)
        run = RunDirectory.create(tmp_path / "runs", name, run_id, started_ns)
        run.write_manifest(Manifest(run_id=run_id, name=name, host=host))
        aggregator = Aggregator(AggregatorConfig(percentiles=("50", "99")))
        writer = HistoryWriter(run.history) if history else None
        seconds = max(map(len, values.values()), default=0)
        for second in range(seconds):
            rows = [(index, MONO_NS, own[second]) for index, own in values.items() if second < len(own)]
            sent = batch(
                f"p-{run_id}", second, second * len(values), records=definitions if not second else (), rows=rows
            )
            aggregator.admit(sent, MONO_NS)
            start_ns = started_ns + second * SECOND
            aggregator.apply([sent], MONO_NS, start_ns)
            interval = aggregator.roll(start_ns, start_ns + SECOND, SECOND)
            if writer is not None:
                writer.append(interval, aggregator.keys())
        if writer is not None:
            writer.close()
        facts = SnapshotFacts(run_id=run_id, name=name, state="COMPLETE")
        snapshot = aggregator.snapshot(facts, MONO_NS, started_ns + seconds * SECOND)
        snapshot = replace(
            snapshot, started_ns=started_ns, elapsed_s=float(seconds), **{"directory": str(run.path), **fields}
        )
        write_final(snapshot, [run.final])
        return run, snapshot

    return make
