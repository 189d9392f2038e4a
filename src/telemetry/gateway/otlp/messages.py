"""Bodies of OTLP requests and of their answers, as protobuf or JSON."""

from __future__ import annotations

import base64
from typing import Any, Final, Literal, NamedTuple

import msgspec

from telemetry.common.distribution import install_hint
from telemetry.errors import UsageError

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
Signal = Literal["traces", "metrics"]

_IDS: Final = frozenset({"traceId", "trace_id", "spanId", "span_id", "parentSpanId", "parent_span_id"})
_REASON_CHARS: Final = 300  # a line of a log


class BadBody(ValueError):
    """The body of a request can't be read. The request has recorded nothing."""


class Accepted(NamedTuple):
    """Numbers of spans or data points that a request had."""

    taken: int
    refused: int
    reason: str
    """Why the first one was refused. Empty if all were taken."""


class OtlpRefusal(Exception):
    """One span or data point can't be recorded. Its message is the reason."""


class OtlpTally:
    """A count of what is taken and refused while a request is translated."""

    def __init__(self) -> None:
        self.taken = 0
        self.refused = 0
        self.reason = ""

    def take(self) -> None:
        """Count a span or point as taken."""
        self.taken += 1

    def refuse(self, reason: str) -> None:
        """Count a span or point as refused."""
        self.refused += 1
        self.reason = self.reason or reason[:_REASON_CHARS]

    def accepted(self) -> Accepted:
        """Return the numbers."""
        return Accepted(self.taken, self.refused, self.reason)


def check_library() -> None:
    """Raise UsageError unless the packages that decode OTLP are installed."""
    try:
        from google.protobuf import json_format
        from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
    except ImportError as error:
        raise UsageError(f"OTLP can't be decoded: {error}", hint=install_hint("gateway")) from error
    del json_format, metrics_service_pb2, trace_service_pb2


def media_type(content_type: str) -> str:
    """Return the media type of a header without its parameters. Raise BadBody if OTLP does not know it."""
    media = content_type.partition(";")[0].strip().lower()
    if media not in (PROTOBUF, JSON):
        raise BadBody(f"the content type is {content_type[:_REASON_CHARS]!r}; send {PROTOBUF} or {JSON}")
    return media


def read(signal: Signal, body: bytes, content_type: str) -> Any:
    """Return the message of a body. Raise BadBody if it can't be read, and UsageError without the packages."""
    check_library()
    media = media_type(content_type)
    message = _message(signal, "Request")
    return _read_json(message, body) if media == JSON else _read_protobuf(message, body)


def answer(signal: Signal, accepted: Accepted, content_type: str) -> bytes:
    """Return the body of an answer. It has a partial success if something was refused."""
    response = _message(signal, "Response")
    if accepted.refused:
        partial = response.partial_success
        setattr(partial, "rejected_spans" if signal == "traces" else "rejected_data_points", accepted.refused)
        partial.error_message = accepted.reason
    if media_type(content_type) == PROTOBUF:
        return bytes(response.SerializeToString())
    from google.protobuf import json_format

    return msgspec.json.encode(json_format.MessageToDict(response))


def _message(signal: Signal, kind: Literal["Request", "Response"]) -> Any:
    if signal == "traces":
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

        return getattr(trace_service_pb2, f"ExportTraceService{kind}")()
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2

    return getattr(metrics_service_pb2, f"ExportMetricsService{kind}")()


def _read_protobuf(message: Any, body: bytes) -> Any:
    from google.protobuf.message import DecodeError

    try:
        message.ParseFromString(body)
    except (DecodeError, UnicodeDecodeError) as error:
        raise BadBody(f"the body is not an OTLP message: {error}"[:_REASON_CHARS]) from error
    return message


def _read_json(message: Any, body: bytes) -> Any:
    from google.protobuf import json_format

    try:
        document = msgspec.json.decode(body)
        if not isinstance(document, dict):
            raise BadBody("the body is not a JSON object")
        _decode_ids(document)
        json_format.ParseDict(document, message, ignore_unknown_fields=True)
    except BadBody:
        raise
    # json_format checks little itself: a value of a wrong type raises whatever the message's field raises
    except (json_format.Error, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise BadBody(f"the body is not an OTLP message: {reason}"[:_REASON_CHARS]) from error
    return message


def _decode_ids(document: object) -> None:
    """Rewrite ids from hexadecimal, as OTLP has them, to base64, as protobuf's JSON has all bytes.

    Keys of objects in OTLP/JSON are names of fields, so a key of this name is always an id.
    """
    waiting: list[Any] = [document]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
            continue
        if not isinstance(part, dict):
            continue
        for key, value in part.items():
            if key in _IDS and isinstance(value, str):
                try:
                    part[key] = base64.b64encode(bytes.fromhex(value)).decode()
                except ValueError:
                    raise BadBody(f"{key} is {value[:64]!r}, must be hexadecimal digits") from None
            else:
                waiting.append(value)
