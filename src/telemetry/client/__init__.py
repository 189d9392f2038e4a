"""Producer side: instruments, requests, the run, and the thread that sends events. Cheap to import."""

from __future__ import annotations

from telemetry.client.instruments import Counter, Gauge, Series
from telemetry.client.requests.kind import Requests
from telemetry.client.requests.request import Request
from telemetry.client.requests.stopping import PercentileStatus
from telemetry.client.run import Run, start

__all__ = [
    "Counter",
    "Gauge",
    "PercentileStatus",
    "Request",
    "Requests",
    "Run",
    "Series",
    "start",
]
