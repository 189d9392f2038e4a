"""The process an alternative lives in: `python -m benchmarks.worker MODULE NAME`.

Builds `MODULE.ALTERNATIVES[NAME]()`, then answers JSON lines on stdin with what the built function returns.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, TextIO

Measure = Callable[..., dict[str, Any]]
Operation = Callable[[int], None]
"""Does the measured thing so many times."""


def timed(
    operation: Operation, n: int, threads: int = 1, settle: Callable[[], None] | None = None
) -> dict[str, Any]:
    """Nanoseconds per operation. `wall_ns` is what the caller waits; `cpu_ns` is the whole process: all threads,
    and what is left to do after the last call (`settle`)."""
    per_thread = max(1, n // threads)
    cpu = time.process_time_ns()
    wall = _alone(operation, per_thread) if threads == 1 else _together(operation, per_thread, threads)
    if settle is not None:
        settle()
    cpu = time.process_time_ns() - cpu
    done = per_thread * threads
    return {"n": done, "threads": threads, "wall_ns": wall / done, "cpu_ns": cpu / done}


def _alone(operation: Operation, n: int) -> int:
    begin = time.perf_counter_ns()
    operation(n)
    return time.perf_counter_ns() - begin


def _together(operation: Operation, n: int, threads: int) -> int:
    barrier = threading.Barrier(threads + 1)

    def work() -> None:
        barrier.wait()
        operation(n)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    barrier.wait()
    begin = time.perf_counter_ns()
    for worker in workers:
        worker.join()
    return time.perf_counter_ns() - begin


def serve(module: str, name: str, answers: TextIO) -> None:
    """Until stdin ends. An exception is an answer too."""

    def answer(value: dict[str, Any]) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    try:
        measure: Measure = importlib.import_module(module).ALTERNATIVES[name]()
    except Exception:  # noqa: BLE001 – process root: the parent reports it
        answer({"error": traceback.format_exc()})
        return
    answer({"ready": True})
    for line in sys.stdin:
        try:
            answer(measure(**json.loads(line)))
        except Exception:  # noqa: BLE001 – process root: the parent reports it
            answer({"error": traceback.format_exc()})


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not mix with the answers
    serve(sys.argv[1], sys.argv[2], answers)


if __name__ == "__main__":
    main()
