"""A server of metrics pages on a free port, whose behaviour a test chooses."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TEXT = "text/plain; version=0.0.4; charset=utf-8"


class PageServer:
    """Serves `page` at every path. `behave` answers a request instead, if it is set."""

    def __init__(self, page: str = "") -> None:
        self.page = page
        self.content_type = TEXT
        self.behave: Callable[[BaseHTTPRequestHandler], None] | None = None
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.connections: list[socket.socket] = []
        self._server: ThreadingHTTPServer | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/metrics"

    @property
    def is_running(self) -> bool:
        return self._server is not None

    def start(self) -> None:
        """Listen; on the port of before, if there was one."""
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                owner.connections.append(self.connection)

            def do_GET(self) -> None:
                owner.requests.append((self.path, dict(self.headers)))
                if owner.behave is not None:
                    with suppress(OSError):
                        owner.behave(self)
                    return
                answer(self, 200, owner.page.encode(), {"Content-Type": owner.content_type})

            def log_message(self, *words: object) -> None:
                """Print nothing."""

        self._server = _Server(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """End as a process does: with all its connections."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
            for connection in self.connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


class _Server(ThreadingHTTPServer):
    allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing about a client that has left."""


@contextmanager
def page_server(page: str = "") -> Iterator[PageServer]:
    """Provide a running server."""
    server = PageServer(page)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def answer(handler: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str]) -> None:
    """Send a whole answer."""
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def trickle(handler: BaseHTTPRequestHandler) -> None:
    """Send one byte of a page every 20 ms, without an end."""
    handler.send_response(200)
    handler.send_header("Content-Type", TEXT)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    while True:
        handler.wfile.write(b"a")
        time.sleep(0.02)
