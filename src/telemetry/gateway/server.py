"""The server process of a gateway: it listens, says where, and ends with the run or with a signal."""

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

import uvicorn

from telemetry.client import user_warnings
from telemetry.errors import UsageError
from telemetry.gateway.app import create_app
from telemetry.gateway.connections import Connection
from telemetry.gateway.gateway import Gateway
from telemetry.gateway.options import GatewayOptions
from telemetry.gateway.run_link import RunLink
from telemetry.supervise.run_files import RunFiles
from telemetry.transport.admission import raise_limit_of_descriptors
from telemetry.transport.endpoints import refuses
from telemetry.transport.keeper_lock import keeper_of

_ENDING: Final = (signal.SIGTERM, signal.SIGINT)
_BACKLOG: Final = 512
_ACCEPTED: Final = 16  # connections that the loop accepts before it looks whether there is room for them
UNREAD_S: Final = 60.0
"""Longest time that a client may read nothing of an answer that waits for it."""
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
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNREAD_S * 1e3))
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
