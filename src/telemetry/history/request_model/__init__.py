"""Requests, gathered from the counters and series of a snapshot."""

from telemetry.history.request_model.counts import (
    RequestInstrument,
    issued_kind,
    rates_of,
    request_counts,
    request_instruments,
    without_requests,
)
from telemetry.history.request_model.figures import RequestCounts, late_at
from telemetry.history.request_model.merging import (
    Number,
    joined,
    number_of_events,
    shifted,
    time_range_of,
    together,
)

__all__ = [
    "Number",
    "RequestCounts",
    "RequestInstrument",
    "issued_kind",
    "joined",
    "late_at",
    "number_of_events",
    "rates_of",
    "request_counts",
    "request_instruments",
    "shifted",
    "time_range_of",
    "together",
    "without_requests",
]
