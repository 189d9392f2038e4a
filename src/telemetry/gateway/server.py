"""The server process of a gateway: it listens, bounds its connections, and ends with the run or with a signal."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from telemetry import limits
from telemetry.client import user_warnings
from telemetry.errors import UsageError
from telemetry.gateway.app import create_app
from telemetry.gateway.endpoint import JSON, Failure
from telemetry.gateway.gateway import Gateway
from telemetry.gateway.options import GatewayOptions
from telemetry.gateway.run_link import RunLink
from telemetry.supervise.run_files import RunFiles
from telemetry.transport.admission import limit_of_descriptors, raise_limit_of_descriptors
from telemetry.transport.endpoints import refuses
from telemetry.transport.keeper_lock import keeper_of

_ENDING: Final = (signal.SIGTERM, signal.SIGINT)
_BACKLOG: Final = 512
_ACCEPTED: Final = 16  # connections that the loop accepts before it looks whether there is room for them
_LAST_READERS_S: Final = 1.0  # after the run's end, for clients that follow it
_CLOSING_S: Final = 2  # for open requests
LOOK_S: Final = 0.2


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises UsageError if the address is not available."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if sys.platform == "linux":  # connections inherit it
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(limits.GATEWAY_UNREAD_S * 1e3))
            listener.bind(address)
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise UsageError(
            f"the gateway can't listen on {host}:{port}: {error.strerror or error}",
            hint="choose another port; with port 0 the system chooses a free one",
        ) from error
    return listener


def url_of(host: str, port: int) -> str:
    """Return the base URL of a server that listens on `host`."""
    name = "127.0.0.1" if host in ("0.0.0.0", "::", "[::]", "*") else host
    return f"http://[{name}]:{port}" if ":" in name and not name.startswith("[") else f"http://{name}:{port}"


def serve(options: GatewayOptions, listener: socket.socket, on_ready: Callable[[], object]) -> None:
    """Serve until SIGTERM, SIGINT or the end of the run. `on_ready` is called once requests are answered.

    Raises EndpointError, KeysError or ProtocolError if the run can't be joined.
    """
    raise_limit_of_descriptors()
    gateway = Gateway(options)
    asyncio.run(_serve(quiet_server(create_app(gateway)), gateway, listener, on_ready))


def quiet_server(app: Any) -> uvicorn.Server:
    """Return a server of an application that logs no requests and leaves signals alone."""
    settings = uvicorn.Config(
        app,
        access_log=False,
        server_header=False,
        lifespan="on",
        log_config=None,
        timeout_graceful_shutdown=_CLOSING_S,
        http=Connection,
        ws="none",
        backlog=_ACCEPTED,
    )
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # a failed start is reported by its exception
    return _Server(settings)


class _Server(uvicorn.Server):
    """A server that leaves signals alone. The original raises a signal again after its own clean end."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve(
    server: uvicorn.Server, gateway: Gateway, listener: socket.socket, on_ready: Callable[[], object]
) -> None:
    loop = asyncio.get_running_loop()

    def end() -> None:
        server.should_exit = True

    for number in _ENDING:
        loop.add_signal_handler(number, end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)  # `telemetry run` blocks them until there are handlers
    loop.set_exception_handler(_ExceptionHandler())
    watcher = loop.create_task(_watch(server, gateway, listener, on_ready))
    try:
        await server.serve([listener])
    finally:
        watcher.cancel()
    if gateway.failure is not None:
        raise gateway.failure


class _ExceptionHandler:
    """A handler of errors outside of requests that says once if there are no descriptors for more connections.

    The loop itself would write hundreds of tracebacks a second, and wait for a slow reader of stderr.
    """

    def __init__(self) -> None:
        self._is_told = False

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in (errno.EMFILE, errno.ENFILE):
            loop.default_exception_handler(context)
        elif not self._is_told:
            self._is_told = True
            user_warnings.warn("the gateway has too many open connections, so new clients wait; raise `ulimit -n`")


async def _watch(
    server: uvicorn.Server, gateway: Gateway, listener: socket.socket, on_ready: Callable[[], object]
) -> None:
    """Call `on_ready` once the server answers, and end the server after the end of the run."""
    while not server.started:
        await asyncio.sleep(LOOK_S / 10)
    listener.listen(_BACKLOG)  # the loop has set it to `_ACCEPTED`
    on_ready()
    await until_over(gateway.run, gateway.options.parent)
    await asyncio.sleep(_LAST_READERS_S)
    server.should_exit = True


async def until_over(run: RunLink, parent: int) -> None:
    """Wait for the last snapshot of the run. A dead aggregator sends none.

    It may be resumed, unless the run has a result meanwhile. If this gateway is beside a run, its process `parent`
    is to do that.
    """
    files = RunFiles(run.welcome.directory, run.welcome.run_id, run.welcome.name)
    while not run.snapshots.over:
        if run.silent and refuses(run.endpoint) and not keeper_of(run.welcome.run_id):
            is_orphan = parent != 0 and os.getppid() != parent
            if is_orphan or await asyncio.to_thread(files.has_result):
                return
        await asyncio.sleep(LOOK_S)


_INVALID: Final = (400, "this is not a valid request of HTTP/1.1")
_TOO_LARGE: Final = (
    431,
    f"the head is larger than {limits.GATEWAY_HEAD_BYTES // limits.KIB} KiB; send shorter headers",
)
_TOO_MANY: Final = (503, "the gateway has too many connections; use fewer, or try again")
_ENCODE: Final = msgspec.json.Encoder().encode


class Connection(HttpToolsProtocol):
    """A connection that refuses heads that are too large or too slow, and makes room for new connections."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._peer = self.client[0] if self.client else ""
        self._head_bytes = 0  # received since the last head, part of a body or end of a request
        self._refusal: tuple[int, str] | None = None
        self._waits_since_s = self.loop.time()
        self._timer = self.loop.call_later(limits.GATEWAY_HEAD_S, self._end_wait)
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > limits.GATEWAY_HEAD_BYTES and not self.transport.is_closing():
            self._refuse(*_TOO_LARGE)

    def on_headers_complete(self) -> None:
        self._head_bytes = 0
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > limits.GATEWAY_HEAD_BYTES:
            self._refusal = _TOO_LARGE
        if self._refusal is not None:
            raise ValueError  # the parser stops, and calls `send_400_response`
        super().on_headers_complete()
        if len(self.pipeline) > limits.GATEWAY_PIPELINED:
            raise ValueError

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._head_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._waits_since_s = self.loop.time()
        self._timer.cancel()
        self._timer = self.loop.call_later(limits.GATEWAY_HEAD_S, self._end_wait)

    def send_400_response(self, msg: str) -> None:
        self._refuse(*(self._refusal or _INVALID))

    @property
    def _is_idle(self) -> bool:
        """True if no request is answered."""
        return self.cycle is None or self.cycle.response_complete

    def _end_wait(self) -> None:
        if self._head_bytes and self._is_idle:
            self._refuse(408, f"the request did not arrive within {limits.GATEWAY_HEAD_S:g} s; send it again")
        elif self._is_idle:
            self.transport.abort()

    def _make_room(self) -> None:
        """If there are too many connections, end the one that has waited longest, else refuse this one."""
        most = min(limits.GATEWAY_CONNECTIONS, limit_of_descriptors() // 2)
        every: list[Any] = [each for each in self.connections if not each.transport.is_closing()]
        of_peer = [each for each in every if each._peer == self._peer]
        rivals = of_peer if len(of_peer) > most // 2 else every if len(every) > most else []
        waiting = [each for each in rivals if each is not self and (each._is_idle or each.flow.write_paused)]
        if waiting:
            min(waiting, key=lambda each: each._waits_since_s).transport.abort()
        elif rivals:
            self._refusal = _TOO_MANY

    def _refuse(self, status: int, message: str) -> None:
        """Send an error and close the connection. Only close it if another answer is under way."""
        if not self._is_idle:
            self.transport.abort()
            return
        body = _ENCODE(Failure(message=message))
        head = b"content-type: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (JSON.encode(), len(body))
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()
