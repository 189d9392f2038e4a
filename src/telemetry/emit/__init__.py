"""The producer's side: instruments, requests, the run, and the thread that sends. Light to import."""

from __future__ import annotations

from telemetry.emit.instruments import Counter, Gauge, Series
from telemetry.emit.known import Known
from telemetry.emit.request import Request
from telemetry.emit.requests import Requests
from telemetry.emit.run import Run, start

__all__ = [
    "Counter",
    "Gauge",
    "Known",
    "Request",
    "Requests",
    "Run",
    "Series",
    "start",
]
