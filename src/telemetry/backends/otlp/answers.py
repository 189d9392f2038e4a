"""Answers of a receiver, for HTTP and gRPC."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from telemetry.backends.otlp.settings import Signal


class Taken(NamedTuple):
    """An accepted request, perhaps in part."""

    rejected: int = 0
    """Points or spans that the receiver has rejected for good."""
    words: str = ""
    """Reason for the rejection, or a warning if all was accepted."""


class NotTaken(Exception):
    """An error for a request that the receiver will never accept."""

    def __init__(self, reason: str, message: str, *, too_large: bool = False, unknown: bool = False) -> None:
        """Create the error.

        `reason`: a word. `too_large`: smaller requests may work. `unknown`: no such receiver.
        """
        super().__init__(message)
        self.reason = reason
        self.too_large = too_large
        self.unknown = unknown


class KeyRefused(Exception):
    """An error for rejected credentials, or for a receiver with an untrusted certificate."""

    def __init__(self, message: str, hint: str = "set OTEL_EXPORTER_OTLP_HEADERS") -> None:
        super().__init__(message)
        self.hint = hint


class Sender(Protocol):
    """A connection to a receiver. For one thread only."""

    def send(self, signal: Signal, request: Any) -> Taken:
        """Send a request and wait for the answer. Raises Unavailable, NotTaken, KeyRefused."""

    def close(self) -> None:
        """Close the connection. May be called twice."""


def taken(signal: Signal, answer: Any) -> Taken:
    """Read an `Export…ServiceResponse`."""
    partial = answer.partial_success
    rejected = partial.rejected_data_points if signal == "metrics" else partial.rejected_spans
    return Taken(max(0, rejected), partial.error_message)


def answer_type(signal: Signal) -> Any:
    """Return the class of the response message."""
    if signal == "metrics":
        from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2

        return metrics_service_pb2.ExportMetricsServiceResponse
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

    return trace_service_pb2.ExportTraceServiceResponse
