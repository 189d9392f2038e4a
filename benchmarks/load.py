"""A program under load: starts a run of its own and records into it, at a pace or as fast as it can."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, Final, Literal

from benchmarks.frames import SERIES
from benchmarks.peers import nanoseconds
from benchmarks.worker import Measure

if TYPE_CHECKING:
    from telemetry import Run

_VALUES: Final = 10_007
"""A prime: in time every series sees every value."""
_FLOOD_PIECE: Final = 10_000
BURST_S: Final = 0.001
"""A paced load records in bursts this far apart: a sleep is not much more exact."""


def pace(work: Callable[[int], object], seconds: float, rate: int) -> int:
    """Calls `work(n)` for so long: `rate` units a second, or without a pause if that is 0. Returns the units."""
    burst = max(1, int(rate * BURST_S)) if rate else _FLOOD_PIECE
    begin = time.perf_counter_ns()
    end = begin + int(seconds * 1e9)
    done = 0
    while time.perf_counter_ns() < end:
        work(burst)
        done += burst
        if rate:
            ahead_s = done / rate - (time.perf_counter_ns() - begin) / 1e9
            if ahead_s > 0:
                time.sleep(ahead_s)
    return done


class Program:
    """One run at a time. Each value goes to the next of the series."""

    def __init__(self) -> None:
        self._run: Any = None
        self._series = SERIES
        self._pairs: Iterator[tuple[Callable[[float], object], float]] = iter(())

    def open(
        self, name: str, directory: str, policy: Literal["drop", "block"], series: int = SERIES
    ) -> dict[str, Any]:
        """Starts an aggregator."""
        from telemetry.client import start

        os.environ.pop("TELEMETRY_ENDPOINT", None)
        self._run = start(name, dir=directory, policy=policy)
        self._series = series
        self._pairs = zip(cycle(self.calls(self._run)), cycle(nanoseconds(_VALUES)), strict=False)
        return {"endpoint": self._run.endpoint}

    def calls(self, run: Run) -> list[Callable[[float], object]]:
        """What gets a value each, in turn."""
        return [run.series("latency", unit="ns", route=str(index)).record for index in range(self._series)]

    def record(self, seconds: float = 0.0, rate: int = 0, events: int = 0) -> dict[str, Any]:
        """So many events, or for so long."""
        cpu, begin = time.process_time_ns(), time.monotonic_ns()
        if events:
            self._record(events)
        done = events or pace(self._record, seconds, rate)
        span_s = (time.monotonic_ns() - begin) / 1e9
        return {"events": done, "seconds": span_s, "cpu_ns": (time.process_time_ns() - cpu) / done}

    def finish(self, timeout_s: float) -> dict[str, Any]:
        """Ends the run and waits for its result."""
        begin_wall_ns, begin = time.time_ns(), time.monotonic_ns()
        report = self._run.finish(timeout=timeout_s)
        waited_s = (time.monotonic_ns() - begin) / 1e9
        snapshot = report.snapshot
        return {
            "seconds": waited_s,
            "begin_wall_ns": begin_wall_ns,
            "directory": report.directory,
            "state": report.state,
            "source": report.source,
            "completeness": report.completeness,
            "exact": snapshot.exact,
            "exact_reason": snapshot.exact_reason,
            "received": snapshot.accounting.received,
            "applied": snapshot.accounting.applied,
            "lost": snapshot.accounting.lost,
        }

    def _record(self, count: int) -> None:
        for record, value in islice(self._pairs, count):
            record(value)


def program() -> Measure:
    one = Program()

    def measure(action: str, **arguments: Any) -> dict[str, Any]:
        answer: dict[str, Any] = getattr(one, action)(**arguments)
        return answer

    return measure


ALTERNATIVES: Final[dict[str, Callable[[], Measure]]] = {"program": program}
