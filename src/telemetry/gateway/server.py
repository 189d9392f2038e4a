"""The server process of a gateway: it listens, says where, and ends with the run or with a signal."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn

from telemetry.client import notice
from telemetry.errors import UsageError
from telemetry.gateway.app import create_app
from telemetry.gateway.gateway import Gateway
from telemetry.gateway.options import GatewayOptions

_ENDING: Final = (signal.SIGTERM, signal.SIGINT)
_BACKLOG: Final = 512
_LAST_READERS_S: Final = 1.0  # after the run's end, for clients that follow it
_CLOSING_S: Final = 2  # for open requests
_LOOK_S: Final = 0.2


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises UsageError if the address is not available."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
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


def url_of(host: str, listener: socket.socket) -> str:
    """Return the base URL of a listening socket."""
    port = listener.getsockname()[1]
    name = "127.0.0.1" if host in ("0.0.0.0", "::", "[::]", "*") else host
    return f"http://[{name}]:{port}" if ":" in name and not name.startswith("[") else f"http://{name}:{port}"


def serve(options: GatewayOptions, listener: socket.socket, on_ready: Callable[[], object]) -> None:
    """Serve until SIGTERM, SIGINT or the end of the run. `on_ready` is called once requests are answered.

    Raises EndpointError, KeysError or ProtocolError if the run can't be joined.
    """
    gateway = Gateway(options)
    settings = uvicorn.Config(
        create_app(gateway),
        access_log=False,
        server_header=False,
        lifespan="on",
        log_config=None,
        timeout_graceful_shutdown=_CLOSING_S,
    )
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # a failed start is reported by its exception
    asyncio.run(_serve(_Server(settings), gateway, listener, on_ready))


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
    watcher = loop.create_task(_watch(server, gateway, on_ready))
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
            notice.warn("the gateway has too many open connections, so new clients wait; raise `ulimit -n`")


async def _watch(server: uvicorn.Server, gateway: Gateway, on_ready: Callable[[], object]) -> None:
    """Call `on_ready` once the server answers, and end the server after the end of the run."""
    while not server.started:
        await asyncio.sleep(_LOOK_S / 10)
    on_ready()
    while not gateway.run.snapshots.over:
        await asyncio.sleep(_LOOK_S)
    await asyncio.sleep(_LAST_READERS_S)
    server.should_exit = True
