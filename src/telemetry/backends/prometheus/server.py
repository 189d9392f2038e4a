"""The HTTP server that Prometheus scrapes, with its own threads."""

from __future__ import annotations

import errno
import gzip
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

from telemetry.backends.backend import NotConfigured
from telemetry.store.append_file import describe

PATH: Final = "/metrics"
_SCRAPES: Final = 8  # at a time; further scrapes are closed and retry later
_PATIENCE_S: Final = 10.0  # with a slow client
_LEAVES_S: Final = 1.0
_COMPRESSION: Final = 1
_OWN_NAMES: Final = ("localhost",)
_OTHER_HOST: Final = (
    b"the Host header names another host: ask by address, or allow the name with the option names=...\n"
)
_HINT: Final = "choose another with port=…, or port=0 for any free port"


class Page(NamedTuple):
    content_type: str
    body: bytes
    served: Callable[[], object]
    """Function to call once the page was sent."""


class Server:
    """A server that listens from its creation until `close`. Its threads call `page` with an `Accept` header."""

    def __init__(self, host: str, port: int, page: Callable[[str], Page | None], names: Sequence[str] = ()) -> None:
        """Answer requests whose Host is this machine or in `names`. Raises NotConfigured without an address."""
        asked_for = frozenset(name.lower() for name in (*_OWN_NAMES, host, socket.gethostname(), *names))
        handler = type("_Handler", (_Handler,), {"page": staticmethod(page), "names": asked_for})
        try:
            self._server = _Listener(host, port, handler)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            words = "is in use" if taken else f"is not available: {describe(error)}"
            raise NotConfigured(
                f"prometheus: port {port} of {host} {words}", hint=_HINT if taken else ""
            ) from error
        self.port: int = self._server.server_address[1]
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{self.port}{PATH}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="telemetry-prometheus", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening. Blocks for 0.1 s, and up to a second for open requests."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._server.leave(_LEAVES_S)


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(self, host: str, port: int, handler: Any) -> None:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family = found[0][0]
        self._room = threading.BoundedSemaphore(_SCRAPES)
        super().__init__((host, port), handler)

    def server_bind(self) -> None:
        """Bind without a lookup of this host's name, which may be slow."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def leave(self, timeout_s: float) -> None:
        """Wait until all open requests have ended, or until the timeout."""
        until_s = time.monotonic() + timeout_s
        for _ in range(_SCRAPES):
            self._room.acquire(timeout=max(0.0, until_s - time.monotonic()))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that disconnects during an answer."""


class _Handler(BaseHTTPRequestHandler):
    timeout = _PATIENCE_S
    server_version = "telemetry"
    sys_version = ""
    page: Callable[[str], Page | None]
    names: frozenset[str] = frozenset(_OWN_NAMES)

    def do_GET(self) -> None:
        if not self._is_asked_for():
            self._send(421, "text/plain; charset=utf-8", _OTHER_HOST)
            return
        path = self.path.partition("?")[0]
        if path == "/":
            self._send(200, "text/plain; charset=utf-8", f"a run of telemetry: {PATH}\n".encode())
            return
        if path != PATH:
            self.send_error(404)
            return
        page = self.page(self.headers.get("Accept", ""))
        if page is None:
            self.send_error(503, "no snapshot yet")
            return
        if self._send(200, page.content_type, page.body):
            page.served()

    def _is_asked_for(self) -> bool:
        """Check whether the Host header is one of our names or an IP address.

        This keeps other web sites out: their pages send their own name, even if that name resolves to this machine.
        """
        asked = self.headers.get("Host", "").strip().lower()
        host = asked[1:].partition("]")[0] if asked.startswith("[") else asked.partition(":")[0]
        if not asked or "*" in self.names or host in self.names:
            return True
        try:
            ip_address(host)
        except ValueError:
            return False
        return True

    def log_message(self, format: str, *args: object) -> None:
        """Suppress the log line of a request."""

    def _send(self, status: int, content_type: str, body: bytes) -> bool:
        """Send an answer. Returns True if it was sent."""
        zipped = "gzip" in self.headers.get("Accept-Encoding", "")
        data = gzip.compress(body, _COMPRESSION) if zipped else body
        with suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(data)))
            if zipped:
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            self.wfile.write(data)
            return True
        return False
