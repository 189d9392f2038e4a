"""The cost of `wandb.log`: of W&B itself, of our interface for it, and what the capture adds."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from benchmarks.trackers import environment

_CALLS: Final = 1_000
_ROUNDS: Final = 10
_VALUES: Final = 5
_PAUSE_S: Final = 0.06  # longer than the interval of the flusher, which empties the buffer


class _EmptyRun:
    """A run of W&B whose methods do nothing, so that only the capture costs."""

    config: Final[dict[str, Any]] = {}
    step = 0

    def _log(self, data: dict[str, Any], step: int | None = None, commit: bool | None = None) -> None:
        pass

    _define_metric = _finish = _log_artifact = alert = _on_start = _log


def measure(calls: int = _CALLS, rounds: int = _ROUNDS) -> dict[str, float]:
    """Return nanoseconds per call with five values, by name: the best of several rounds, which alternate.

    W&B runs offline. `step metric` logs a sixth value, which all names have as their step. `capture adds` is a
    captured call of a run of W&B that does nothing. A run with an aggregator of its own is open all the time.
    """
    import telemetry

    folder = tempfile.mkdtemp(prefix="tm")
    before = dict(os.environ)
    os.environ.pop("TELEMETRY_ENDPOINT", None)
    try:
        os.environ.update(environment(Path(folder)))
        with telemetry.start("wandb", dir=folder):
            return _measured(calls, rounds)
    finally:
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(folder, ignore_errors=True)


def _measured(calls: int, rounds: int) -> dict[str, float]:
    real = import_module("wandb")
    ours = import_module("telemetry.compat.wandb")
    capture = import_module("telemetry.integrations.wandb")
    settings = real.Settings(x_disable_stats=True, disable_git=True, x_disable_meta=True)
    run = real.init(project="bench", settings=settings)
    plain, stepped = ours.init(project="bench"), ours.init(project="bench", reinit="create_new")
    stepped.define_metric("*", step_metric="global_step")
    for patch in capture._patches_for_runs(SimpleNamespace(Run=_EmptyRun)):
        patch.install()
    values = {f"train/metric_{number}": 0.37 * number for number in range(_VALUES)}
    tasks = {
        "wandb.log, W&B offline ns": _logging(run.log, values),
        "wandb.log, ours ns": _logging(plain.log, values),
        "wandb.log, ours, step metric ns": _stepping(stepped.log, values),
        "capture adds ns": _logging(_EmptyRun()._log, values),
    }
    best = dict.fromkeys(tasks, float("inf"))
    for _ in range(rounds):
        for name, task in tasks.items():
            best[name] = min(best[name], task(calls) / calls)
            time.sleep(_PAUSE_S)
    run.finish()
    return best


def _logging(log: Callable[[dict[str, float]], object], values: dict[str, float]) -> Callable[[int], int]:
    def task(calls: int) -> int:
        started = time.perf_counter_ns()
        for _ in range(calls):
            log(values)
        return time.perf_counter_ns() - started

    return task


def _stepping(log: Callable[[dict[str, float]], object], values: dict[str, float]) -> Callable[[int], int]:
    def task(calls: int) -> int:
        first = task.step
        task.step += calls
        started = time.perf_counter_ns()
        for step in range(first, first + calls):
            log({**values, "global_step": step})
        return time.perf_counter_ns() - started

    task.step = 0
    return task


if __name__ == "__main__":
    for name, figure in measure().items():
        print(f"{name:40} {figure:10,.0f}")
