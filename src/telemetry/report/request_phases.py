"""Phases of a request: waiting to be issued, waiting for the first output, receiving the rest."""

from __future__ import annotations

from typing import NamedTuple

from telemetry.history.request_model import RequestCounts
from telemetry.wire import requests as words
from telemetry.wire.snapshot import SeriesStat
from telemetry.wire.units import TIME_NS


class Phase(NamedTuple):
    """A phase of a request and its mean duration. Means of phases add up, which percentiles do not."""

    name: str
    mean_ns: float


def phases(of: RequestCounts) -> list[Phase]:
    """Return the phases of completed requests. Empty unless each of them reported its first output.

    The queue is a phase if each of them was planned.
    """
    latency, first = _mean_ns(of, words.LATENCY), _mean_ns(of, words.TTFT)
    if latency is None or first is None or first > latency:
        return []
    queue = _mean_ns(of, words.QUEUE_DELAY)
    waiting = "first token" if of.has_tokens else "first byte"
    return [
        *([Phase("queue", queue)] if queue is not None else []),
        Phase(waiting, first),
        Phase("receiving", latency - first),
    ]


def _mean_ns(of: RequestCounts, word: str) -> float | None:
    """Return the mean of a duration that all completed requests have; None for any other."""
    stat, latency = of.series.get(word), of.series.get(words.LATENCY)
    if stat is None or stat.mean is None or not stat.count or stat.count != _count(latency):
        return None
    return float(stat.mean) * TIME_NS[stat.unit] if stat.unit in TIME_NS else None


def _count(stat: SeriesStat | None) -> int:
    return 0 if stat is None else stat.count
