"""Benchmarks run here once, too short for figures: a benchmark that no longer runs measures nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_SLOW = ("statistics", "collectors", "scrape", "report", "writers", "gateway", "stragglers", "nodes.fan_in")


@pytest.mark.parametrize(
    "module",
    [
        *("wire_rows", "choices", "history", "row_paths", "verdicts"),
        *(pytest.param(module, marks=pytest.mark.slow) for module in _SLOW),
    ],
)
def test_a_benchmark_of_choices_runs(module: str) -> None:
    """A benchmark of choices with `--tiny` does all its work once and prints its table."""
    command = [sys.executable, "-m", f"benchmarks.{module}", "--tiny"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=True)
    assert "|" in done.stdout
