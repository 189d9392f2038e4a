"""Runs to compare, made up: each a report with one series, one counter and a command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest

from telemetry.wire.report import Report
from telemetry.wire.snapshot import CommandFacts, CounterStat, MetricsSnapshot, SeriesStat

STARTED_NS = 1_772_366_400_000_000_000


@pytest.fixture
def run() -> Callable[..., Report]:
    """`run(p50, at=0, …)`: one that took 10 s and started `at` seconds after midnight. Keywords go to its parts:
    `series`, `counters`, `command`, and all else to the snapshot."""
    numbers = count()

    def make(p50: float = 10.0, at: float = 0, **parts: Any) -> Report:
        series = parts.pop("series", [_series("latency", p50)])
        command = parts.pop("command", CommandFacts(argv=["x"], exit_code=0, wall_s=10.0, cpu_user_s=1.0))
        snapshot = {
            "run_id": f"r{next(numbers)}",
            "name": "job",
            "state": "COMPLETE",
            "completeness": "complete",
            "started_ns": STARTED_NS + int(at * 1e9),
            "elapsed_s": 10.0,
            "series": series,
            "counters": parts.pop("counters", [CounterStat(name="requests", value=1_000, events=1_000)]),
            "command": command,
        }
        return Report(snapshot=MetricsSnapshot(**(snapshot | parts)), source="file")

    return make


@pytest.fixture
def series() -> Callable[..., SeriesStat]:
    """`series(name, p50, count=1_000, unit="ms")`: one whose percentiles are multiples of the 50th."""
    return _series


def _series(name: str, p50: float, count: int = 1_000, unit: str = "ms", **parts: Any) -> SeriesStat:
    values: dict[str, Any] = {
        "count": count,
        "min": p50 / 2,
        "max": p50 * 4,
        "mean": p50 * 1.1,
        "percentiles": {"50": p50, "90": p50 * 1.5, "99": p50 * 2, "99.9": p50 * 3},
    }
    return SeriesStat(name=name, unit=unit, **(values | parts))


@pytest.fixture
def by_turns(run: Callable[..., Report]) -> Callable[..., tuple[list[Report], list[Report]]]:
    """`by_turns(p50s before, p50s after)`: run after run, one of each side."""

    def make(before: Sequence[float], after: Sequence[float]) -> tuple[list[Report], list[Report]]:
        return (
            [run(p50, at=2 * number) for number, p50 in enumerate(before)],
            [run(p50, at=2 * number + 1) for number, p50 in enumerate(after)],
        )

    return make
