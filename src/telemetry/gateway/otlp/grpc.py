"""OTLP over gRPC: the same bodies, checks and answers as over HTTP, without generated stubs."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from telemetry import limits
from telemetry.client import user_warnings
from telemetry.common.distribution import install_hint
from telemetry.errors import UsageError, error_text
from telemetry.gateway.access import Access
from telemetry.gateway.endpoint import Problem
from telemetry.gateway.otlp.messages import PROTOBUF, Signal
from telemetry.transport.admission import limit_of_descriptors

if TYPE_CHECKING:
    from telemetry.gateway.gateway import Gateway

SERVICES: Final[dict[str, Signal]] = {
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export": "traces",
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export": "metrics",
}
"""Method → what its requests have."""
Take = Callable[["Gateway", Signal, bytes, str], Awaitable[tuple[bytes, bool]]]
_READING: Final = limits.GATEWAY_BODIES_BYTES // limits.GATEWAY_BODY_BYTES  # requests received at the same time
_CLOSING_S: Final = 2.0  # for open requests
_UNAVAILABLE: Final = 503
_RETRY_AFTER_S: Final = 1
_CODES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    408: "DEADLINE_EXCEEDED",
    410: "FAILED_PRECONDITION",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    507: "RESOURCE_EXHAUSTED",
}
"""HTTP status of a problem → code of gRPC. Clients of OTLP send again after UNAVAILABLE and DEADLINE_EXCEEDED."""


def check_grpc() -> None:
    """Raise UsageError unless the package that speaks gRPC is installed."""
    if find_spec("grpc") is None:
        raise UsageError(
            "OTLP over gRPC needs grpcio, which is not installed", hint=install_hint("gateway,otlp")
        ) from None


def reserve(host: str, port: int) -> socket.socket:
    """Return a socket that keeps an address for a server of gRPC, also while that server is restarted.

    The server can't take over a socket, so it listens beside this one, which does not. Raises UsageError if the
    address is not available.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        if port:
            with socket.socket(family, kind, protocol) as probe:  # another process may share its port, too
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
        keeper = socket.socket(family, kind, protocol)
        try:
            keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            keeper.bind(address)
        except OSError:
            keeper.close()
            raise
    except OSError as error:
        raise UsageError(
            f"the gateway can't listen for gRPC on {host}:{port}: {error.strerror or error}",
            hint="choose another port; with port 0 the system chooses a free one",
        ) from error
    return keeper


def place_of(host: str, port: int) -> str:
    """Return HOST:PORT, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class GrpcReceiver:
    """A server of gRPC that takes OTLP. For one event loop."""

    def __init__(self, gateway: Gateway, address: str, take: Take) -> None:
        """Bind `address`. `take` records a body. Raises UsageError if the address is not available."""
        import grpc
        from grpc import aio

        self._gateway = gateway
        self._take = take
        self._access = Access(gateway.options.token, gateway.options.names)
        self._reading = asyncio.Semaphore(_READING)
        self._codes = grpc.StatusCode
        self._server = aio.server(
            options=[
                ("grpc.max_receive_message_length", limits.GATEWAY_BODY_BYTES),
                ("grpc.so_reuseport", 1),
                (
                    "grpc.max_allowed_incoming_connections",
                    max(1, min(limits.GATEWAY_GRPC_CONNECTIONS, limit_of_descriptors() // 4)),
                ),
                ("grpc.server_handshake_timeout_ms", int(limits.GATEWAY_HEAD_S * 1e3)),
                ("grpc.max_connection_idle_ms", int(limits.GATEWAY_GRPC_IDLE_S * 1e3)),
            ],
        )
        # A handler of one message would get it before it could check the token.
        for path, signal in SERVICES.items():
            _, service, method = path.split("/")
            handler = grpc.stream_unary_rpc_method_handler(self._handler(signal))
            self._server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(service, {method: handler}),)
            )
        try:
            self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise UsageError(f"the gateway can't listen for gRPC on {address}: {error}") from error

    async def start(self) -> None:
        """Answer requests from now on."""
        await self._server.start()

    async def close(self) -> None:
        """Refuse new requests, answer open ones, and end."""
        await self._server.stop(_CLOSING_S)

    def _handler(self, signal: Signal) -> Callable[[AsyncIterator[bytes], Any], Awaitable[bytes]]:
        async def handle(bodies: AsyncIterator[bytes], context: Any) -> bytes:
            try:
                return await self._answer(signal, bodies, dict(context.invocation_metadata() or ()))
            except Problem as error:
                status, message = error.status, str(error)
            except Exception as error:  # noqa: BLE001 – a defect of this package
                user_warnings.warn(f"OTLP over gRPC failed for {signal}: {error_text(error)}")
                status, message = 500, "the gateway failed; it is unknown whether this was recorded"
            details = _retry_details(message) if status == _UNAVAILABLE else ()
            await context.abort(self._codes[_CODES.get(status, "INTERNAL")], message, details)
            raise AssertionError("abort raises")

        return handle

    async def _answer(self, signal: Signal, bodies: AsyncIterator[bytes], headers: dict[str, Any]) -> bytes:
        self._access.authorize(str(headers.get("authorization", "")))
        self._gateway.run.check_room()
        with self._gateway.body_room.share() as take_room:
            try:
                async with self._reading, asyncio.timeout(limits.GATEWAY_BODY_S):
                    body = b"".join([part async for part in bodies])
                    take_room(len(body))
            except TimeoutError:
                raise Problem(408, f"the request did not arrive within {limits.GATEWAY_BODY_S:g} s") from None
            answer, _ = await self._take(self._gateway, signal, body, PROTOBUF)
            return answer


def _retry_details(message: str) -> tuple[tuple[str, bytes], ...]:
    """Return the metadata that asks a client to wait, or nothing without the package that encodes it."""
    try:
        from google.protobuf.any_pb2 import Any as AnyMessage
        from google.rpc import error_details_pb2, status_pb2
    except ImportError:
        return ()
    delay = error_details_pb2.RetryInfo()
    delay.retry_delay.seconds = _RETRY_AFTER_S
    packed = AnyMessage()
    packed.Pack(delay)
    status = status_pb2.Status(code=14, message=message, details=[packed])
    return (("grpc-status-details-bin", status.SerializeToString()),)
