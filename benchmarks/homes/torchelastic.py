"""The cost of calls of torchelastic's metrics interface, torch's and ours, in one process."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

_CALLS: Final = 20_000
_ROUNDS: Final = 15
_PAUSE_S: Final = 0.06  # longer than the interval of the flusher, which empties the buffer


def measure(calls: int = _CALLS, rounds: int = _ROUNDS) -> dict[str, float]:
    """Return nanoseconds per call, by name: the best of several rounds, which alternate between both modules.

    A run with an aggregator of its own is open all the time.
    """
    import telemetry

    os.environ.pop("TELEMETRY_ENDPOINT", None)
    folder = tempfile.mkdtemp(prefix="tm")
    try:
        with telemetry.start("torchelastic", dir=folder):
            return _measured(calls, rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measured(calls: int, rounds: int) -> dict[str, float]:
    modules = {
        "torch": import_module("torch.distributed.elastic.metrics"),
        "telemetry": import_module("telemetry.compat.torchelastic.metrics"),
    }
    tasks = {
        f"{module} {task}": run
        for module, metrics in modules.items()
        for task, run in _tasks(metrics, metrics.MetricHandler).items()
    }
    capture = import_module("telemetry.integrations.torchrun")
    captured = "torch put_metric, null handler"
    best = dict.fromkeys([*tasks, f"{captured}, captured"], float("inf"))

    def time_task(name: str, task: Callable[[int], None]) -> None:
        started = time.perf_counter_ns()
        task(calls)
        best[name] = min(best[name], (time.perf_counter_ns() - started) / calls)
        time.sleep(_PAUSE_S)

    for _ in range(rounds):
        for name, task in tasks.items():
            time_task(name, task)
        capture.install()
        time_task(f"{captured}, captured", tasks[captured])
        capture.uninstall()
    return {f"{name} ns": value for name, value in best.items()}


def _tasks(metrics: Any, base: type) -> dict[str, Callable[[int], None]]:
    class Counting(base):  # type: ignore[misc]  # the base is of another library
        """A handler that does the least."""

        count = 0

        def emit(self, metric_data: Any) -> None:
            self.count += 1

    metrics.configure(metrics.NullMetricHandler())
    metrics.configure(Counting(), "counting")
    stream = metrics.getStream("train")

    nothing = metrics.prof(lambda: None, group="train")

    def put(calls: int) -> None:
        put_metric = metrics.put_metric
        for _ in range(calls):
            put_metric("examples", 512, "train")

    def put_to_handler(calls: int) -> None:
        put_metric = metrics.put_metric
        for _ in range(calls):
            put_metric("examples", 512, "counting")

    def add(calls: int) -> None:
        for _ in range(calls):
            stream.add_value("examples", 512)

    def call(calls: int) -> None:
        for _ in range(calls):
            nothing()

    return {
        "put_metric, null handler": put,
        "put_metric, counting handler": put_to_handler,
        "add_value, null handler": add,
        "prof, null handler": call,
    }


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{value:8.0f}  {name}")
