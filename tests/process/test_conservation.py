"""Tests that nothing vanishes: what loops of real producers sent is compared with the report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def conserve(ground: Any, *sizes: str, **environ: str) -> tuple[int, dict[str, Any]]:
    """(exit code, outcome) of the benchmark in a directory of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.conservation", *sizes],
        cwd=ROOT,
        env=ground.environ | {"TMPDIR": str(ground.folder)} | environ,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_blocking_producers_lose_nothing(ground: Any) -> None:
    """Several threads of several processes: every sum is right to the last event."""
    code, outcome = conserve(ground, "--processes", "3", "--threads", "2", "--events", "40000")
    assert (code, outcome["faults"]) == (0, [])
    assert outcome["sent"] == outcome["emitted"] == outcome["received"] == outcome["applied"] == 240_000
    assert (outcome["completeness"], outcome["source"], outcome["exact"]) == ("complete", "pubsub", True)
    assert (outcome["lost"], outcome["dropped"], outcome["missing"]) == (0, {}, 0)
    assert outcome["series_total"] == outcome["series_total_sent"] == 6 * 20 * 499_500
    assert outcome["percentiles"]["50"] == 499
    assert outcome["percentiles"]["99.9"] == 998


def test_dropping_producers_count_what_they_drop(ground: Any) -> None:
    """The number of sent events is applied plus dropped, by reason, if the buffer is small.

    The aggregator stands still for a while.
    """
    sizes = ["--processes", "2", "--threads", "2", "--events", "1500000", "--policy", "drop", "--stop-s", "1.5"]
    code, outcome = conserve(ground, *sizes, TELEMETRY_EMIT__BUFFER_EVENTS="5000")
    assert (code, outcome["faults"]) == (0, [])
    assert outcome["sent"] == 6_000_000
    assert outcome["completeness"] == "lossy"
    assert set(outcome["dropped"]) == {"buffer_full"}
    assert outcome["dropped"]["buffer_full"] == outcome["lost"] > 0
    assert outcome["missing"] == 0
    assert outcome["applied"] + outcome["lost"] == outcome["sent"]
