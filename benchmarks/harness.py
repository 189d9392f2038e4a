"""Alternatives side by side: each in a process of its own, one at a time, round-robin with a rotating start.

A shared machine drifts. So a ratio is the median of the ratios of paired rounds, never a ratio of medians, and the
number to trust is process CPU.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any, Final, Literal

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGES: Final = (
    "telemetry",
    "pyzmq",
    "numpy",
    "msgspec",
    "hdrhistogram",
    "prometheus_client",
    "opentelemetry-sdk",
    "statsd",
    "datadog",
    "tensorboard",
    "wandb",
    "clearml",
    "mlflow",
    "aim",
    "trackio",
)

Size = Literal["full", "quick", "tiny"]
Round = dict[str, Any]


class WorkerError(Exception):
    """An alternative failed; the text is its traceback."""


class Worker:
    """One alternative in its own process."""

    def __init__(self, module: str, name: str, environment: Mapping[str, str] | None = None) -> None:
        self.label = f"{module}:{name}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", module, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **(environment or {})},
        )
        self.pid = self._process.pid
        try:
            self._answer()
        except WorkerError:
            self.close()
            raise

    def measure(self, **arguments: Any) -> Round:
        """One measurement; blocks until it is done."""
        requests = _pipe(self._process.stdin)
        requests.write(json.dumps(arguments) + "\n")
        requests.flush()
        return self._answer()

    def close(self, timeout_s: float = 30.0) -> None:
        _pipe(self._process.stdin).close()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _pipe(self._process.stdout).close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answer(self) -> Round:
        line = _pipe(self._process.stdout).readline()
        if not line:
            raise WorkerError(f"{self.label} died with code {self._process.wait()}")
        answer: Round = json.loads(line)
        if "error" in answer:
            raise WorkerError(f"{self.label}: {answer['error']}")
        return answer


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


# --- rounds --------------------------------------------------------------------------------------


def rotated(names: Sequence[str], turn: int) -> list[str]:
    """Every alternative goes first equally often."""
    start = turn % len(names)
    return [*names[start:], *names[:start]]


def calibrate(worker: Worker, round_ms: float, *, most: int = 2_000_000, **arguments: Any) -> int:
    """Operations that take about `round_ms`. Also warms the worker up."""
    worker.measure(n=20, **arguments)
    probe = worker.measure(n=500, **arguments)
    n = _fitting(probe, 5.0, most)
    return _fitting(worker.measure(n=n, **arguments), round_ms, most)


def _fitting(probe: Round, round_ms: float, most: int) -> int:
    return int(max(50, min(most, round_ms * 1e6 / max(1.0, probe["wall_ns"]))))


def interleave(
    workers: Mapping[str, Worker], arguments: Mapping[str, Mapping[str, Any]], rounds: int
) -> dict[str, list[Round]]:
    """`rounds` measurements of each alternative, taken in turns."""
    results: dict[str, list[Round]] = {name: [] for name in workers}
    for turn in range(rounds):
        for name in rotated(list(workers), turn):
            results[name].append(workers[name].measure(**arguments[name]))
    return results


def median(rounds: Sequence[Round], key: str) -> float:
    return statistics.median(float(one[key]) for one in rounds)


def paired_ratio(ours: Sequence[Round], peers: Sequence[Round], key: str) -> float:
    """Ours to theirs, from rounds that ran next to each other."""
    return statistics.median(float(a[key]) / max(1e-12, float(b[key])) for a, b in zip(ours, peers, strict=True))


def summary(rounds: Sequence[Round], keys: Sequence[str] = ("wall_ns", "cpu_ns")) -> dict[str, Any]:
    """For the results file: median and range of each key."""
    table: dict[str, Any] = {"rounds": len(rounds)}
    for key in keys:
        values = [float(one[key]) for one in rounds]
        table[key] = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return table


# --- results -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figure:
    """One figure and the bound it has to hold."""

    what: str
    value: float
    unit: str
    limit: float | None = None
    """None: the figure is for information."""
    better: Literal["lower", "higher"] = "lower"
    peer: str = ""
    """The best peer measured in the same run."""
    peer_value: float | None = None
    """In the same unit."""
    ratio: float | None = None
    """Ours to the peer's."""

    @property
    def met(self) -> bool | None:
        if self.limit is None:
            return None
        return self.value <= self.limit if self.better == "lower" else self.value >= self.limit


@dataclass(frozen=True)
class Outcome:
    """What one group of benchmarks found."""

    figures: list[Figure]
    measurements: dict[str, dict[str, Any]]
    """Alternative → its summary, for the results file."""


def best(candidates: Mapping[str, Sequence[Round]], key: str) -> str:
    """The alternative with the lowest median."""
    return min(candidates, key=lambda name: median(candidates[name], key))


# --- the machine ---------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "cpu": _cpu_model(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_average": list(os.getloadavg()),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"
