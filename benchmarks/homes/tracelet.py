"""The cost of calls of the Tracelet interface, on the caller's thread."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

_CALLS: Final = 20_000
_ROUNDS: Final = 5
_PAUSE_EVERY: Final = 50  # calls, so that the flusher gets its turns
_PAUSE_S: Final = 0.002


def measure(calls: int = _CALLS, rounds: int = _ROUNDS) -> dict[str, float]:
    """Return the median in nanoseconds per call, by form of the call: the best of several rounds.

    The time of an empty call is subtracted. A run with an aggregator of its own is open all the time. `with a sink`
    is with a backend of the user.
    """
    from telemetry.compat import tracelet

    class Sink:
        def log_metric(self, name: str, value: float, step: int) -> None:
            pass

        log_params = log_artifact = log_metric

    before = dict(os.environ)
    folder = tempfile.mkdtemp(prefix="tm")
    try:
        os.environ.pop("TELEMETRY_ENDPOINT", None)
        os.environ["TELEMETRY_RUN__DIR"] = folder
        settings = tracelet.TraceletSettings(track_system=False, track_git=False)
        with tracelet.Experiment("bench", settings=settings) as experiment:
            best = _measured(experiment, calls, rounds)
            experiment.add_backend(Sink())
            return best | _best({"log_metric, with a sink ns": _logging(experiment, 0.5)}, calls, rounds)
    finally:
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(folder, ignore_errors=True)


def _measured(experiment: Any, calls: int, rounds: int) -> dict[str, float]:
    params = {"lr": 0.1}
    tasks: dict[str, Callable[[int], object]] = {
        "log_metric, float ns": _logging(experiment, 0.5),
        "log_metric, int ns": _logging(experiment, 3),
        "log_metric, numpy ns": _logging(experiment, np.float32(0.5)),
        "log_params ns": lambda step: experiment.log_params(params),
    }
    return _best(tasks, calls, rounds)


def _logging(experiment: Any, value: Any) -> Callable[[int], object]:
    name = f"loss of {type(value).__name__}"
    return lambda step: experiment.log_metric(name, value, step)


def _best(tasks: dict[str, Callable[[int], object]], calls: int, rounds: int) -> dict[str, float]:
    empty = _median(lambda step: None, calls, 0)
    found = dict.fromkeys(tasks, float("inf"))
    for number in range(rounds):
        for name, task in tasks.items():
            found[name] = min(found[name], _median(task, calls, number * calls) - empty)
    return found


def _median(task: Callable[[int], object], calls: int, first: int) -> float:
    times = []
    for step in range(first, first + calls):
        started = time.perf_counter_ns()
        task(step)
        times.append(time.perf_counter_ns() - started)
        if step % _PAUSE_EVERY == 0:
            time.sleep(_PAUSE_S)
    return statistics.median(times)


if __name__ == "__main__":
    for what, value in measure().items():
        print(f"{what[:-3]:32} {value:8.0f} ns")
