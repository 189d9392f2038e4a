"""A source of a real run, whose aggregator is killed in the middle and comes back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from telemetry.backends.items import Reading, Step
from telemetry.backends.sources.open import open_source
from telemetry.backends.sources.source import Position, Read, Source
from telemetry.config import BackendsConfig, Config
from telemetry.store.live_runs import list_live
from telemetry.store.run_directory import RunDirectory
from telemetry.transport.endpoints import runtime_directory

pytestmark = pytest.mark.slow

STEPS = 1_000
CONFIG = Config(backends=BackendsConfig(every_s=1))
PRODUCER = f"""
import time, telemetry
run = telemetry.start("job", policy="block")
latency, made = run.series("latency", unit="ms"), run.counter("made")
print(run.endpoint, flush=True)
for step in range({STEPS}):
    run.log({{"loss": 1.0 / (1 + step), "step": step}}, step=step, axis="train")
    latency.record(step)
    made.add()
    time.sleep(0.003)
run.finish()
"""


def aggregator_of(endpoint: str) -> int:
    return next(run.pid for run in list_live(runtime_directory()) if run.endpoint == endpoint)


def open_at(endpoint: str, position: Position, directory: Path | None = None) -> Source:
    known = RunDirectory.open(directory) if directory is not None else None
    return open_source("jsonl", position, CONFIG, endpoint=endpoint, directory=known)


def steps(reads: list[Read]) -> dict[int, float]:
    return {read.item.step: read.item.values["step"] for read in reads if isinstance(read.item, Step)}


def read_on(source: Source, enough: int, reads: list[Read]) -> None:
    while len(reads) < enough and not source.over:
        reads += source.read(100, 1.0)


def test_every_step_comes_once_whatever_dies(short_dir: Path) -> None:
    """The aggregator and the reader are killed in turn: all steps and all values are there, none twice, and the
    directory tells the same afterwards."""
    producer = subprocess.Popen(
        [sys.executable, "-c", PRODUCER], cwd=short_dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert producer.stdout is not None
    endpoint = producer.stdout.readline().strip()
    reads: list[Read] = []
    first = open_at(endpoint, Position())
    read_on(first, 100, reads)
    os.kill(aggregator_of(endpoint), signal.SIGKILL)
    read_on(first, 300, reads)
    first.close()
    second = open_at(endpoint, reads[-1].position, first.run.directory)
    read_on(second, 1 << 30, reads)
    second.close()
    assert producer.wait(30) == 0
    producer.communicate()
    assert steps(reads) == {step: float(step) for step in range(STEPS)}
    assert len({read.item.key for read in reads}) == len(reads)
    readings = [read.item for read in reads if isinstance(read.item, Reading)]
    assert sum(one.series[0].count for one in readings[:-1] if one.series) == STEPS
    assert (readings[-1].final, readings[-2].counters[0].value) == (True, STEPS)
    assert second.missed == 0

    directory = RunDirectory.open(short_dir / "runs" / "latest")
    from_disk = open_source("jsonl", Position(), CONFIG, directory=directory)
    again: list[Read] = []
    read_on(from_disk, 1 << 30, again)
    assert {read.item.key: read.item for read in again} == {read.item.key: read.item for read in reads}
