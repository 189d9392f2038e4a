"""A server with as much of W&B as a run needs.

It puts rows where they belong, and tells a writer that resumes a run what it has.
"""

from __future__ import annotations

import gzip
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote, unquote


class Run:
    """The server's content of the one run that it knows."""

    def __init__(self) -> None:
        self.url = ""
        self.failing = 0
        """The status it answers with, if any."""
        self.failed = 0
        """Requests it answered so."""
        self.begun = 0
        self.rows: list[dict[str, Any]] = []
        self.summary: dict[str, Any] = {}
        self.config: dict[str, Any] = {}
        self.files: dict[str, bytes] = {}
        self.artifacts: list[dict[str, Any]] = []
        self.exit_code: int | None = None
        self.lock = threading.Lock()


@contextmanager
def server() -> Iterator[Run]:
    run = Run()
    made = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Handler,), {"run": run}))
    made.daemon_threads = True
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    run.url = f"http://127.0.0.1:{made.server_address[1]}"
    try:
        yield run
    finally:
        made.shutdown()
        thread.join()
        made.server_close()


class _Handler(BaseHTTPRequestHandler):
    run: Run

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            data = gzip.decompress(data)
        with self.run.lock:
            status = self.run.failing or 200
            self.run.failed += status != 200
            answer = self._answer(json.loads(data)) if status == 200 else None
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(BrokenPipeError, ConnectionResetError):  # who asked was killed
            self.wfile.write(body)

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.run.files[unquote(self.path.removeprefix("/put/"))] = data
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet."""

    def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        if self.path.endswith("/file_stream"):
            self._stream(asked)
            return {}
        answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "upsertBucket": lambda variables: {"bucket": self._begin(variables), "inserted": True},
            "model": lambda _: self._project() | {"bucket": self._bucket() if self.run.begun else None},
            "viewer": lambda _: {"id": "1", "username": "me", "entity": "me", "flags": "{}"},
            "createRunFiles": self._files,
            "createArtifact": self._artifact,
            "project": lambda _: {"artifact": None},
        }
        for name, answer in answers.items():
            if re.search(rf"\b{name}\s*[({{]", asked["query"]):
                return {"data": {name: answer(asked.get("variables", {}))}}
        return {"data": {}}

    def _files(self, variables: dict[str, Any]) -> dict[str, Any]:
        files = [{"name": name, "uploadUrl": f"{self.run.url}/put/{quote(name)}"} for name in variables["files"]]
        return {"runID": "1", "uploadHeaders": [], "files": files}

    def _artifact(self, variables: dict[str, Any]) -> dict[str, Any]:
        self.run.artifacts.append(variables)
        sequence = {"id": "1", "latestArtifact": None}
        return {"artifact": {"id": "1", "state": "COMMITTED", "artifactSequence": sequence}}

    def _begin(self, variables: dict[str, Any]) -> dict[str, Any]:
        self.run.begun += 1
        self.run.config |= json.loads(variables.get("config") or "{}")
        return self._bucket() | {"project": self._project(), "sweepName": None, "description": ""}

    def _bucket(self) -> dict[str, Any]:
        return {
            "id": "1",
            "name": "run-1",
            "displayName": "bench-1",
            "summaryMetrics": json.dumps(self.run.summary),
            "config": json.dumps(self.run.config),
            "logLineCount": 0,
            "eventsLineCount": 0,
            "historyLineCount": len(self.run.rows),
            "historyTail": json.dumps(list(map(json.dumps, self.run.rows[-1:]))),
            "eventsTail": "[]",
            "tags": [],
            "notes": "",
            "wandbConfig": json.dumps({"t": 1}),
        }

    def _project(self) -> dict[str, Any]:
        return {"id": "1", "name": "bench", "entity": {"id": "1", "name": "me"}}

    def _stream(self, asked: dict[str, Any]) -> None:
        files = asked.get("files", {})
        if "wandb-history.jsonl" in files:
            part = files["wandb-history.jsonl"]
            lines = list(map(json.loads, part["content"]))
            self.run.rows[part["offset"] : part["offset"] + len(lines)] = lines
        if "wandb-summary.json" in files:
            self.run.summary |= json.loads(files["wandb-summary.json"]["content"][-1])
        if asked.get("complete"):
            self.run.exit_code = asked.get("exitcode")
