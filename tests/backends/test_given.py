"""A large run of a real program, through the command that people use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.backends import given, reading_jsonl, reading_tensorboard
from tests.backends.written import Written

pytestmark = pytest.mark.slow


def check(found: Written) -> None:
    """Every step once, with the right value at the right step, and the result of every series."""
    assert found.counts["step"] == given.STEPS * given.SCALARS
    assert len(found.steps) == given.STEPS
    for step in range(given.STEPS):
        assert found.steps["train", step] == given.GivenRun.values(step)
    for number in range(given.SERIES):
        name = f"latency{number}{{route=/a}}"
        assert found.finals[f"{name}/count"] == given.VALUES
        assert (found.finals[f"{name}/min"], found.finals[f"{name}/max"]) == (1.0 + number, 100.0 + number)
        assert found.finals[f"{name}/p50"] == 50.0 + number
    assert found.counts["reading"] >= 1


def test_all_of_a_large_run_is_exported(tmp_path: Path, given_run: given.GivenRun) -> None:
    """Two backends at once get all 10,000 steps of 20 scalars and 10 series, read back from both."""
    run = given_run.copy(tmp_path)
    words = ["export", str(run), "--to", "jsonl", "--to", "tensorboard", "--every", "1", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "telemetry", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    stats: dict[str, Any] = {stat["name"]: stat for stat in json.loads(done.stdout)}
    assert {(stat["state"], stat["queued"]) for stat in stats.values()} == {("done", 0)}
    for name, read in (("jsonl", reading_jsonl.read_back), ("tensorboard", reading_tensorboard.read_back)):
        found = read(run / "backends" / name, stats[name]["place"])
        check(found)
        assert found.params["opt"] == "adam"
