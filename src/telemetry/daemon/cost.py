"""Cost of the aggregator itself: CPU, memory and punctuality."""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from telemetry.wire.snapshot import SelfCost

_STATM = Path("/proc/self/statm")
_PAGE = resource.getpagesize()


def rss_bytes() -> int:
    """Return the resident memory now. Without /proc, return its peak."""
    try:
        return int(_STATM.read_bytes().split()[1]) * _PAGE
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


@dataclass(frozen=True)
class EarlierCost:
    """Work of earlier aggregators of the run, which died."""

    events: int = 0
    """Number of applied events."""
    frames: int = 0
    frame_bytes: int = 0
    journal_bytes: int = 0
    history_bytes: int = 0


class CostMeter:
    """Collector of the figures of `SelfCost`. Durations are monotonic.

    Totals of frames and bytes are of the whole run. All other figures are of this process.
    """

    def __init__(self, now_ns: int, before: EarlierCost = EarlierCost()) -> None:
        self.frames = before.frames
        self.frame_bytes = before.frame_bytes
        self._before = before
        self.ticks = 0
        self.ticks_late = 0
        self._tick_ms = 0.0
        self._tick_ms_max = 0.0
        self._mark = (now_ns, time.process_time_ns(), before.events)
        self._cpu_percent = 0.0
        self._events_per_s = 0.0
        self._rss = rss_bytes()

    def took(self, frames: int, byte_count: int) -> None:
        self.frames += frames
        self.frame_bytes += byte_count

    def ticked(self, duration_ns: int, late: bool) -> None:
        self.ticks += 1
        self.ticks_late += late
        self._tick_ms = duration_ns / 1e6
        self._tick_ms_max = max(self._tick_ms_max, self._tick_ms)

    def each_second(self, now_ns: int, applied: int) -> None:
        then_ns, cpu_then, applied_then = self._mark
        cpu = time.process_time_ns()
        span_ns = max(1, now_ns - then_ns)
        self._cpu_percent = 100.0 * (cpu - cpu_then) / span_ns
        self._events_per_s = 1e9 * (applied - applied_then) / span_ns
        self._rss = rss_bytes()
        self._mark = (now_ns, cpu, applied)

    def facts(self, *, journal_bytes: int, history_bytes: int, series: int, pages: int) -> SelfCost:
        """Return the figures. The byte arguments count bytes written by this process."""
        return SelfCost(
            cpu_s=time.process_time_ns() / 1e9,
            cpu_percent=round(self._cpu_percent, 2),
            rss_bytes=self._rss,
            events_per_s=round(self._events_per_s, 1),
            frames=self.frames,
            frame_bytes=self.frame_bytes,
            ticks=self.ticks,
            ticks_late=self.ticks_late,
            tick_ms=round(self._tick_ms, 3),
            tick_ms_max=round(self._tick_ms_max, 3),
            journal_bytes=self._before.journal_bytes + journal_bytes,
            history_bytes=self._before.history_bytes + history_bytes,
            series=series,
            pages=pages,
        )
