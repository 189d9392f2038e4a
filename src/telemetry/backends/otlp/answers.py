"""What a receiver may answer, whichever way it was asked."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from telemetry.backends.otlp.settings import Signal


class Taken(NamedTuple):
    """It has the request, but for what it says."""

    rejected: int = 0
    """Points or spans that it will never take."""
    words: str = ""
    """Why; or a warning, if it took all."""


class NotTaken(Exception):
    """It will never take this request."""

    def __init__(self, reason: str, words: str, *, too_large: bool = False, unknown: bool = False) -> None:
        """`reason` is one word. `too_large`: it may take it in pieces. `unknown`: there is no such receiver."""
        super().__init__(words)
        self.reason = reason
        self.too_large = too_large
        self.unknown = unknown


class KeyRefused(Exception):
    """It does not know who this is or does not let them, or it can't be trusted."""

    def __init__(self, words: str, hint: str = "set OTEL_EXPORTER_OTLP_HEADERS") -> None:
        super().__init__(words)
        self.hint = hint


class Sender(Protocol):
    """One thread's."""

    def send(self, signal: Signal, request: Any) -> Taken:
        """Blocks for the answer. Raises Unavailable, NotTaken, KeyRefused."""

    def close(self) -> None:
        """May be called twice."""


def taken(signal: Signal, answer: Any) -> Taken:
    """What an `Export…ServiceResponse` says."""
    partial = answer.partial_success
    rejected = partial.rejected_data_points if signal == "metrics" else partial.rejected_spans
    return Taken(max(0, rejected), partial.error_message)


def answer_type(signal: Signal) -> Any:
    """The class of such a message."""
    if signal == "metrics":
        from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2

        return metrics_service_pb2.ExportMetricsServiceResponse
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

    return trace_service_pb2.ExportTraceServiceResponse
