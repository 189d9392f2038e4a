"""Made-up runs that differ in parameters: loads with limits, and trainings."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from msgspec.structs import replace

from telemetry.wire.events import Scalar
from telemetry.wire.gates import GateResult, Outcome
from telemetry.wire.pictures import StepCurve
from telemetry.wire.report import Report
from telemetry.wire.snapshot import AxisStat, CommandFacts, CounterStat, Extent, MetricsSnapshot, SeriesStat

SECONDS = 10
_NUMBERS = count(1)


def load_run(
    params: Mapping[str, Scalar],
    per_s: float = 10.0,
    *,
    good: float | None = 1.0,
    p99_ms: float = 20.0,
    ttft: bool = True,
    gate: Outcome | None = None,
    **parts: Any,
) -> Report:
    """Return a run of ten seconds with `per_s` requests a second, of which the share `good` is within limits.

    All other keywords go to the snapshot.
    """
    number = int(per_s * SECONDS)
    counts = {"issued": number, "completed": number}
    counts |= {} if good is None else {"good": round(number * good)}
    counters = [
        CounterStat(name=f"llm.{word}", value=value, events=value, unit="requests")
        for word, value in counts.items()
    ]
    times = ("latency", "ttft") if ttft else ("latency",)
    series = [_series(f"llm.{word}", number, p99_ms) for word in times]
    gates = [GateResult(expression="p99(latency) < 1s", outcome=gate, reason="it is so")] if gate else []
    return _report(params, parts, gates=gates, counters=counters, series=series)


def training_run(params: Mapping[str, Scalar], last: float, best: float, **parts: Any) -> Report:
    """Return a run of 100 steps whose loss ends at `last`."""
    axis = AxisStat(name="train", closed=100, newest=100, values={"loss": last})
    curve = StepCurve(
        axis="train",
        name="loss",
        steps=[1, 100],
        values=[2.0, last],
        count=100,
        first=2.0,
        last=last,
        min=best,
        max=2.0,
    )
    return replace(_report(params, parts, axes=[axis]), curves=[curve])


def _report(
    params: Mapping[str, Scalar], parts: dict[str, Any], gates: list[GateResult] | None = None, **own: Any
) -> Report:
    number = next(_NUMBERS)
    usual: dict[str, Any] = {
        "run_id": f"r{number}",
        "name": "llm",
        "state": "COMPLETE",
        "completeness": "complete",
        "started_ns": number * 10**9,
        "elapsed_s": float(SECONDS),
        "params": dict(params),
        "command": CommandFacts(argv=["x"], pid=7, exit_code=0, wall_s=10.0),
    }
    return Report(snapshot=MetricsSnapshot(**(usual | own | parts)), source="file", gates=gates or [])


def _series(name: str, number: int, p99_ms: float) -> SeriesStat:
    p99 = p99_ms * 1e6
    extent = Extent(first_ns=0, last_ns=SECONDS * 10**9, end_ns=SECONDS * 10**9)
    return SeriesStat(
        name=name,
        unit="ns",
        count=number,
        min=p99 / 10,
        max=p99 * 2,
        mean=p99 / 2,
        total=p99 * number / 2,
        percentiles={"50": p99 / 2, "99": p99},
        extent=extent,
    )
