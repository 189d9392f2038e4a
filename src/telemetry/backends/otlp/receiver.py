"""A receiver of OTLP: its address and headers, and its answers over HTTP and gRPC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from msgspec import Meta, Struct

from telemetry.backends.backend import NotConfigured, RunFacts
from telemetry.common.formatting import printable

Signal = Literal["metrics", "traces"]
_ENV: Final = "OTEL_EXPORTER_OTLP_"
_PORTS: Final = {"http": 4318, "grpc": 4317}
_PROTOCOLS: Final[dict[str, Literal["http", "grpc"]]] = {
    "": "http",
    "http/protobuf": "http",
    "grpc": "grpc",
}


class OtlpOptions(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    endpoint: str = ""
    """Address such as http://127.0.0.1:4318, to which `/v1/metrics` is appended.

    Empty: OTEL_EXPORTER_OTLP_ENDPOINT, or the default port of this host. Headers, such as keys, come from
    OTEL_EXPORTER_OTLP_HEADERS.
    """
    protocol: Literal["", "http", "grpc"] = ""
    """Protocol. Empty: OTEL_EXPORTER_OTLP_PROTOCOL, or http."""
    service: str = ""
    """Resource attribute `service.name`. Empty: OTEL_SERVICE_NAME, or the run's name."""
    timeout: Annotated[float, Meta(gt=0.0, le=25.0)] = 10.0
    """Timeout of a request in seconds."""
    metrics: bool = True
    traces: bool = True
    """True to send traces. Spans become traces, all other items metrics."""
    roots: bool = False
    """True to send each span as a trace of its own. Otherwise all spans are one trace, whose root is the run."""
    integers: str = ""
    """Labels of spans to send as integers, separated by `+`. All others are text."""
    spread: bool = False
    """True to write `name/min` and `name/max` of values that several producers reported in a step."""


@dataclass(frozen=True)
class OtlpTarget:
    """The address and connection settings of a receiver."""

    protocol: Literal["http", "grpc"]
    urls: dict[Signal, str]
    """Signal → URL; for gRPC host and port."""
    secure: bool
    timeout_s: float
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    certificate: str = ""
    """Path of a file with trusted certificate authorities; empty for those of the system."""


def target_of(options: OtlpOptions, environment: Mapping[str, str]) -> OtlpTarget:
    """Return the target. Raises NotConfigured."""
    protocol = options.protocol or _protocol(environment.get(f"{_ENV}PROTOCOL", ""))
    base = options.endpoint or environment.get(f"{_ENV}ENDPOINT", "") or f"http://127.0.0.1:{_PORTS[protocol]}"
    urls: dict[Signal, str] = {}
    schemes = set()
    signals: tuple[Signal, ...] = ("metrics", "traces")
    for signal in signals:
        own = "" if options.endpoint else environment.get(f"{_ENV}{signal.upper()}_ENDPOINT", "")
        scheme, address = _checked(own or base)
        schemes.add(scheme)
        if protocol == "grpc":
            urls[signal] = address.partition("/")[0]
        else:
            urls[signal] = f"{scheme}://{address}" if own else f"{scheme}://{address.rstrip('/')}/v1/{signal}"
    if len(schemes) > 1:
        raise NotConfigured("otlp: metrics and traces must use the same receiver, but their addresses differ")
    return OtlpTarget(
        protocol=protocol,
        urls=urls,
        secure="https" in schemes,
        timeout_s=options.timeout,
        headers=_pairs(f"{_ENV}HEADERS", environment),
        certificate=environment.get(f"{_ENV}CERTIFICATE", ""),
    )


def resource_of(options: OtlpOptions, run: RunFacts, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes of everything that is sent. Raises NotConfigured."""
    attributes = {"service.name": run.name} | _pairs("OTEL_RESOURCE_ATTRIBUTES", environment)
    service = options.service or environment.get("OTEL_SERVICE_NAME", "")
    attributes |= {
        "service.instance.id": run.run_id,
        "telemetry.run.id": run.run_id,
        "telemetry.run.name": run.name,
    }
    if service:
        attributes["service.name"] = service
    if run.host:
        attributes.setdefault("host.name", run.host)
    return attributes


def _protocol(name: str) -> Literal["http", "grpc"]:
    if name not in _PROTOCOLS:
        raise NotConfigured(f"otlp: {_ENV}PROTOCOL is {printable(name)!r}", hint="use http/protobuf or grpc")
    return _PROTOCOLS[name]


def _checked(address: str) -> tuple[str, str]:
    """Return (scheme, the rest of the address)."""
    hint = "write http://HOST:PORT or https://HOST:PORT"
    try:
        parts = urlsplit(address)
        wrong = parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
    except ValueError:
        wrong = True
    if wrong:
        raise NotConfigured(f"otlp: {printable(address)!r} is not the address of a receiver", hint=hint)
    if "@" in parts.netloc:
        raise NotConfigured("otlp: don't put a password in an address", hint=f"set {_ENV}HEADERS")
    return parts.scheme, f"{parts.netloc}{parts.path}" + (f"?{parts.query}" if parts.query else "")


def _pairs(name: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Parse `key=value,key=value` with percent-encoding. Error messages omit the values, which may be secret."""
    pairs = {}
    for number, part in enumerate(environment.get(name, "").split(","), start=1):
        key, equals, value = part.partition("=")
        if not part.strip():
            continue
        if not equals or not key.strip():
            raise NotConfigured(f"otlp: part {number} of {name} is not key=value")
        pairs[unquote(key.strip())] = unquote(value.strip())
    return pairs


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
