"""Clocks that are passed in. Durations come from the monotonic clock, timestamps for people from the wall clock."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Protocol


class Clock(Protocol):
    """The interface of a clock, for components that need the time."""

    def monotonic_ns(self) -> int: ...

    def wall_ns(self) -> int: ...


class SystemClock:
    """The machine's clocks. On Linux `monotonic_ns` is shared by all processes of a host."""

    monotonic_ns = staticmethod(time.monotonic_ns)
    wall_ns = staticmethod(time.time_ns)


def backoff_s(failures: int, first_s: float, most_s: float = 1e9, factor: float = 2.0) -> float:
    """Return the wait after so many failures in a row: it grows by `factor` with each after the first."""
    return min(first_s * factor ** min(failures - 1, 30), most_s) if failures else 0.0


def boot_id() -> str:
    """Return the id of this start of the machine, or an empty text if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


SYSTEM_CLOCK: Clock = SystemClock()
