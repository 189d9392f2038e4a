"""A small metrics service in a thread that keeps what it receives, and misbehaves when it is told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self

ANSWER_S = 60.0


class Received(NamedTuple):
    """One request."""

    path: str
    body: Any
    token: str | None
    connection: tuple[str, int]


class Reply(NamedTuple):
    """An answer of the service."""

    status: int = 200
    body: Any = {"status": "success", "message": "done", "results": {"tensorboard": "success"}}  # noqa: RUF012
    headers: dict[str, str] = {}  # noqa: RUF012


class RelaxService:
    """A service at `url`, used as a context manager.

    `answer` makes the reply to a request. While `open` is not set, requests are read and get no answer.
    """

    def __init__(self, port: int = 0) -> None:
        self.requests: list[Received] = []
        self.answer: Callable[[Received], Reply] = lambda request: Reply()
        self.open = threading.Event()
        self.open.set()
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/metrics"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="relax-service")
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the service and all its connections."""
        self._closing.set()
        self.open.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(ANSWER_S)

    def of(self, path: str) -> list[Any]:
        """Return the bodies of the requests of a path."""
        return [each.body for each in list(self.requests) if each.path == f"/metrics/{path}"]

    def _handler(service) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = ANSWER_S
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                self._serve(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def do_GET(self) -> None:
                self._serve(None)

            def _serve(self, body: Any) -> None:
                request = Received(self.path, body, self.headers["Authorization"], self.client_address)
                service.requests.append(request)
                service.open.wait(ANSWER_S)
                if service._closing.is_set():
                    self.close_connection = True
                    return
                reply = service.answer(request)
                data = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                self.send_response(reply.status)
                for name, value in {**reply.headers, "Content-Length": str(len(data))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler
