"""Wall-clock times of other programs as times of the monotonic clock, which all records carry."""

from __future__ import annotations

import time

_GREATEST_NS = (1 << 63) - 1


def monotonic_ns(unix_s: float | None) -> int | None:
    """Return the monotonic time of a Unix time in seconds.

    Return None, which stands for now, if there is no time, or if it is no number or before the machine started.
    """
    if unix_s is None:
        return None
    try:
        return monotonic_of(round(float(unix_s) * 1e9))
    except (TypeError, ValueError, OverflowError):
        return None


def monotonic_of(unix_ns: int) -> int | None:
    """Return the monotonic time of a Unix time in nanoseconds, or None if it is before the machine started."""
    at_ns = unix_ns - time.time_ns() + time.monotonic_ns()
    return at_ns if 0 <= at_ns <= _GREATEST_NS else None
