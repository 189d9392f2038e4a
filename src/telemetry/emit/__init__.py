"""The producer's side: instruments, the run, and the thread that sends. Light to import."""

from __future__ import annotations

from telemetry.emit.instruments import Counter, Gauge, Series
from telemetry.emit.module_level import counter, gauge, series
from telemetry.emit.run import Run, start

__all__ = ["Counter", "Gauge", "Run", "Series", "counter", "gauge", "series", "start"]
