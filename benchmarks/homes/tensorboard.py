"""The cost of the `tensorboard` capture: of a call, of the start of Python, and of the import of other modules."""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from telemetry.integrations.capture.boot_module import BOOT, BOOT_FOLDER

_CALLS: Final = 10_000
_ROUNDS: Final = 15
_STARTS: Final = 40
_PAUSE_S: Final = 0.06  # longer than the interval of the flusher, which empties the buffer


def measure(calls: int = _CALLS, rounds: int = _ROUNDS, starts: int = _STARTS) -> dict[str, float]:
    """Return nanoseconds of a call, and milliseconds of a start of Python, by name.

    Calls are CPU time of the calling thread: the best of several rounds, which alternate between the original and
    the captured method. Starts are medians of CPU time. A run with an aggregator of its own is open all the time.
    """
    import telemetry

    os.environ.pop("TELEMETRY_ENDPOINT", None)
    folder = tempfile.mkdtemp(prefix="tm")
    try:
        with telemetry.start("tensorboard", dir=folder):
            found = _calls(folder, calls, rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return found | _starts(starts) | {"import of another module, finder ns": _finder(calls * 10, rounds)}


# --- calls ---------------------------------------------------------------------------------------


def _calls(folder: str, calls: int, rounds: int) -> dict[str, float]:
    capture = import_module("telemetry.integrations.tensorboard")
    empty = _with_empty_writer("tensorboardX.writer")
    tasks = {"empty add_scalar": _task(empty.SummaryWriter(folder))}
    real = import_module("torch.utils.tensorboard.writer").SummaryWriter(folder)
    tasks["torch add_scalar"] = _task(real)
    best = {f"{name}, {how} ns": float("inf") for name in tasks for how in ("original", "captured")}
    for _ in range(rounds):
        for how in ("original", "captured"):
            if how == "captured":
                capture.install()
            for name, task in tasks.items():
                key = f"{name}, {how} ns"
                share = calls if name.startswith("empty") else calls // 10
                best[key] = min(best[key], task(share) / share)
                time.sleep(_PAUSE_S)
        capture.uninstall()
    real.close()
    for name in tasks:
        best[f"{name}, added ns"] = best[f"{name}, captured ns"] - best[f"{name}, original ns"]
    return best


def _with_empty_writer(name: str) -> ModuleType:
    """Return a module in place of a real one, whose writer does nothing: what remains is the capture."""

    class SummaryWriter:
        def __init__(self, log_dir: str) -> None:
            self.log_dir = log_dir

        def add_scalar(
            self, tag: str, scalar_value: Any, global_step: Any = None, walltime: float | None = None
        ) -> None:
            pass

    module = sys.modules[name] = ModuleType(name)
    module.SummaryWriter = SummaryWriter  # type: ignore[attr-defined]
    return module


def _task(writer: Any) -> Callable[[int], int]:
    step = 0

    def run(calls: int) -> int:
        nonlocal step
        began = time.thread_time_ns()
        for number in range(step, step + calls):
            writer.add_scalar("train/loss", 0.25, number)
        step += calls
        return time.thread_time_ns() - began

    return run


# --- starts and imports --------------------------------------------------------------------------


def _starts(count: int) -> dict[str, float]:
    without = (BOOT.VARIABLE, BOOT.SIGNS_VARIABLE, "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    bare = {key: value for key, value in os.environ.items() if key not in without}
    environments = {"bare": bare, "with the boot": bare | {BOOT.VARIABLE: "tensorboard", "PYTHONPATH": BOOT_FOLDER}}
    taken: dict[str, list[float]] = {name: [] for name in environments}
    for _ in range(count):
        for name, environment in environments.items():
            pid = os.posix_spawn(sys.executable, [sys.executable, "-c", "pass"], environment)
            usage = os.wait4(pid, 0)[2]
            taken[name].append((usage.ru_utime + usage.ru_stime) * 1e3)
    return {f"start of Python, {name} ms": statistics.median(values) for name, values in taken.items()}


def _finder(calls: int, rounds: int) -> float:
    finder = BOOT.Finder()
    finder.hooks = dict.fromkeys(trigger for triggers in BOOT.TRIGGERS.values() for trigger in triggers)
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter_ns()
        for _ in range(calls):
            finder.find_spec("numpy.linalg", None, None)
        best = min(best, (time.perf_counter_ns() - began) / calls)
    return best


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{value:10.2f}  {name}")
