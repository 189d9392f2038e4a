"""A program for tests of salvage: some threads record 0, 1, 2, … until somebody kills it.

    python recorder_threads.py COUNTS WHO THREADS [--rate N]

COUNTS is a file of native uint64: four for each thread, and its pid. The four are the calls that
have begun and those that returned, for values, which also count up a counter, and for marks.
"""

from __future__ import annotations

import argparse
import mmap
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import telemetry

BURST_S = 0.001
CELLS = 4
"""Of each thread: calls begun, calls that returned, marks begun, marks that returned."""
MARK_EVERY = 500


def record_until_killed(
    record: Callable[[int], object],
    mark: Callable[[int], object],
    cells: memoryview,
    *,
    rate: float,
    mark_every: int = MARK_EVERY,
) -> None:
    """Record 0, 1, 2, … at a rate, and mark some of them. Count each call in the cells, before and after it."""
    burst = max(1, int(rate * BURST_S))
    done, begun_s = 0, time.monotonic()
    while True:
        for value in range(done, done + burst):
            cells[0] = value + 1
            record(value)
            cells[1] = value + 1
            if value % mark_every == 0:
                cells[2] += 1
                mark(value)
                cells[3] += 1
        done += burst
        ahead_s = done / rate - (time.monotonic() - begun_s)
        if ahead_s > 0:
            time.sleep(ahead_s)


def record_all(run: Any, who: str, number: int, cells: memoryview, rate: float) -> None:
    labels = {"who": who, "thread": str(number)}
    record, add = run.series("value", unit="1", labels=labels).record, run.counter("calls", labels=labels).add

    def record_and_count(value: int) -> None:
        record(value)
        add(1)

    record_until_killed(record_and_count, lambda value: run.mark(f"{who} {number} {value}"), cells, rate=rate)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("counts")
    parser.add_argument("who")
    parser.add_argument("threads", type=int)
    parser.add_argument("--rate", type=float, default=30_000.0)
    args = parser.parse_args()
    with open(args.counts, "r+b") as file:
        cells = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")
    run = telemetry.start(args.who)
    cells[-1] = os.getpid()
    for number in range(args.threads):
        own = cells[CELLS * number : CELLS * (number + 1)]
        threading.Thread(target=record_all, args=(run, args.who, number, own, args.rate), daemon=True).start()
    signal.pause()


if __name__ == "__main__":
    main()
