"""OTLP over gRPC: a unary call for each request, without generated stubs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from telemetry.backends.backend import NotConfigured, Unavailable, missing
from telemetry.backends.otlp.receiver import KeyRefused, NotTaken, OtlpTarget, Signal, Taken, answer_type, taken
from telemetry.common.formatting import printable
from telemetry.store.append_file import describe

METHODS: Final[dict[Signal, str]] = {
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
}
_WORDS_CHARS: Final = 300
_PASSING: Final = frozenset(
    {"CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS", "INTERNAL", "UNKNOWN"}
)
_KEYS: Final = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED"})
_DETAILS: Final = "grpc-status-details-bin"


class GrpcSender:
    def __init__(self, target: OtlpTarget) -> None:
        """Prepare channels; the first request connects. Raises NotConfigured."""
        try:
            import grpc
        except ImportError as error:
            package = "grpcio" if error.name in (None, "grpc") else error.name
            raise missing(package or "grpcio", "otlp", error) from error
        self._target = target
        self._error: type[Exception] = grpc.RpcError
        self._compression: Any = grpc.Compression.Gzip
        self._metadata = [(key.lower(), value) for key, value in target.headers.items()]
        self._channels: dict[str, Any] = {}
        for address in set(target.urls.values()):
            if target.secure:
                keys = grpc.ssl_channel_credentials(_certificate(target.certificate))
                self._channels[address] = grpc.secure_channel(address, keys)
            else:
                self._channels[address] = grpc.insecure_channel(address)

    def send(self, signal: Signal, request: Any) -> Taken:
        call = self._channels[self._target.urls[signal]].unary_unary(
            METHODS[signal],
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer_type(signal).FromString,
        )
        try:
            answer = call(
                request,
                timeout=self._target.timeout_s,
                metadata=self._metadata,
                compression=self._compression,
                wait_for_ready=False,
            )
        except self._error as error:
            raise _meant(error) from error
        return taken(signal, answer)

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()


def _meant(error: Any) -> Exception:
    code: str = error.code().name
    message = printable(" ".join(f"gRPC {code}: {error.details()}".split())[:_WORDS_CHARS])
    if code in _PASSING:
        return Unavailable(message, _retry_after_s(error) or 0.0)
    if code in _KEYS:
        return KeyRefused(message)
    if code == "RESOURCE_EXHAUSTED":
        after_s = _retry_after_s(error)
        if after_s is not None:
            return Unavailable(message, after_s)
        return NotTaken("grpc_resource_exhausted", message, too_large=True)
    return NotTaken(f"grpc_{code.lower()}", message, unknown=code == "UNIMPLEMENTED")


def _retry_after_s(error: Any) -> float | None:
    """Return the delay of a `google.rpc.RetryInfo` in the error details, or None.

    Reading it needs googleapis-common-protos. Without that package, the result is None.
    """
    details = next((value for key, value in error.trailing_metadata() or () if key == _DETAILS), None)
    if details is None:
        return None
    try:
        from google.protobuf.message import DecodeError
        from google.rpc import error_details_pb2, status_pb2
    except ModuleNotFoundError:
        return None
    try:
        for any_message in status_pb2.Status.FromString(details).details:
            info = error_details_pb2.RetryInfo()
            if any_message.Unpack(info):
                delay = info.retry_delay
                return max(0.0, float(delay.seconds + delay.nanos / 1e9))
    except DecodeError:
        return None
    return None


def _certificate(path: str) -> bytes | None:
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise NotConfigured(f"otlp: can't read {path}: {describe(error)}") from error
