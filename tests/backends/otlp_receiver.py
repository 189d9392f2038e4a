"""A receiver of OTLP that keeps every request as a file, and answers as it is told.

    python -m tests.backends.otlp_receiver FOLDER        over gRPC, in a process of its own; prints its port

It decodes nothing: `tests.backends.reading_otlp` does.
"""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.processes import end_group

ROOT = Path(__file__).parents[2]
_SERVICES = {"MetricsService": "metrics", "TraceService": "traces"}


@dataclass
class Answer:
    """An answer to one request. The receiver keeps only requests that it answers with 200."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class HttpReceiver:
    """A context manager; requests come in threads of their own."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        """Bind a port; 0 is any free one."""
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.answers: list[Answer] = []
        """To the next requests, one each; then all is taken."""
        self.headers: list[dict[str, str]] = []
        self.largest = 1 << 30
        """Bytes of a request; above, it is told that it is too large."""
        handler = type("_Handler", (_Handler,), {"receiver": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._lock = threading.Lock()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> HttpReceiver:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        if path not in ("/v1/metrics", "/v1/traces"):
            return Answer(404)
        with self._lock:
            self.headers.append(headers)
            if len(body) > self.largest:
                return Answer(413)
            said = self.answers.pop(0) if self.answers else Answer()
            if said.status == 200:
                keep(self.folder, path.rpartition("/")[2], body)
        return said


class _Handler(BaseHTTPRequestHandler):
    receiver: HttpReceiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        said = self.receiver.answer(self.path, dict(self.headers), body)
        self.send_response(said.status)
        for name, value in ({"Content-Type": "application/x-protobuf"} | said.headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(said.body)))
        self.end_headers()
        self.wfile.write(said.body)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def grpc_receiver(folder: Path) -> Iterator[str]:
    """Start a receiver over gRPC and yield its endpoint.

    `FOLDER/answers.json` is a list with one `{"code": …, "details": …, "status": base64 of a google.rpc.Status,
    "metadata": {…}}` for each of the next calls.
    """
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "tests.backends.otlp_receiver", str(folder)]
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        end_group(process)


def keep(folder: Path, signal: str, body: bytes) -> None:
    number = len(list(folder.glob("*.pb")))
    (folder / f"{number:06d}.{signal}.pb").write_bytes(body)


def serve(folder: Path) -> None:
    """Serve OTLP over gRPC until stdin ends."""
    import grpc

    answers = folder / "answers.json"
    lock = threading.Lock()

    def export(signal: str, body: bytes, context: Any) -> bytes:
        with lock:
            told = json.loads(answers.read_text()) if answers.exists() else []
            if told:
                answers.write_text(json.dumps(told[1:]))
                one = told[0]
                if one.get("status"):
                    details = base64.b64decode(one["status"])
                    context.set_trailing_metadata((("grpc-status-details-bin", details),))
                if one.get("code"):
                    context.abort(getattr(grpc.StatusCode, one["code"]), one.get("details", ""))
                    raise AssertionError
            (folder / "metadata.json").write_text(
                json.dumps({key: str(value) for key, value in context.invocation_metadata()})
            )
            keep(folder, signal, body)
        return b""

    class Handler(grpc.GenericRpcHandler):  # type: ignore[misc, name-defined]
        def service(self, details: Any) -> Any:
            service = details.method.split("/")[1].rpartition(".")[2]
            if service not in _SERVICES:
                return None
            return grpc.unary_unary_rpc_method_handler(
                lambda body, context: export(_SERVICES[service], body, context)
            )

    server = grpc.server(ThreadPoolExecutor(2), handlers=[Handler()])
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    sys.stdin.read()
    server.stop(None)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
