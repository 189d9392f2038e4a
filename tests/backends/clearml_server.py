"""A server with as much of ClearML as a task needs.

Like ClearML's own, it keeps one value for each name and iteration.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJleHAiOjQxMDI0NDQ4MDAsImVudiI6IiJ9.AAAA"


class Tasks:
    """The state of the server: its task, and all that was sent to it."""

    def __init__(self) -> None:
        self.url = ""
        self.failing = 0
        """The status it answers with, if any."""
        self.failed = 0
        self.calls: list[str] = []
        self.task: dict[str, Any] = {}
        self.status = ""
        self.events: dict[tuple[str, str, str, int], dict[str, Any]] = {}
        self.logs: list[dict[str, Any]] = []
        self.files: list[bytes] = []
        self.lock = threading.Lock()


@contextmanager
def server() -> Iterator[Tasks]:
    tasks = Tasks()
    made = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Handler,), {"tasks": tasks}))
    made.daemon_threads = True
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    tasks.url = f"http://127.0.0.1:{made.server_address[1]}"
    try:
        yield tasks
    finally:
        made.shutdown()
        thread.join()
        made.server_close()


class _Handler(BaseHTTPRequestHandler):
    tasks: Tasks

    def do_GET(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Type", "").startswith("multipart/"):
            self.tasks.files.append(data)
            data = b""
        action = self.path.rpartition("/")[2].partition("?")[0]
        with self.tasks.lock:
            status = self.tasks.failing or 200
            self.tasks.failed += status != 200
            said = self._answer(action, data) if status == 200 else {}
        meta = {
            "result_code": status,
            "result_subcode": 0,
            "result_msg": "",
            "endpoint": {"actual_version": "2.30"},
        }
        body = json.dumps({"meta": meta, "data": said}).encode()
        with suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        """Quiet."""

    def _answer(self, action: str, data: bytes) -> dict[str, Any]:
        self.tasks.calls.append(action)
        lines = [json.loads(line) for line in data.splitlines() if line.strip()]
        asked = lines[0] if lines else {}
        said: dict[str, Any] = {}
        match action:
            case "auth.login":
                said = {"token": TOKEN}
            case "projects.get_all":
                said = {"projects": []}
            case "projects.create":
                said = {"id": "p1"}
            case "tasks.create":
                self.tasks.task |= asked
                said = {"id": "t1"}
            case "tasks.get_by_id":
                said = {"task": self._kept()}
            case "tasks.edit":
                self.tasks.task |= asked
            case "tasks.started" | "tasks.completed":
                self.tasks.status = action.rpartition(".")[2]
            case "tasks.edit_hyper_params":
                self.tasks.task["params"] = {one["name"]: one["value"] for one in asked["hyperparams"]}
            case "tasks.add_or_update_artifacts":
                self.tasks.task["artifacts"] = asked["artifacts"]
            case "events.add_batch":
                said = self._add(lines)
        return said

    def _kept(self) -> dict[str, Any]:
        named = {name: self.tasks.task[name] for name in ("hyperparams", "execution") if name in self.tasks.task}
        return {"id": "t1", "name": "n", "type": "training", "status": "created", "project": "p1", **named}

    def _add(self, events: list[dict[str, Any]]) -> dict[str, Any]:
        for event in events:
            assert event["task"] == "t1", event
            if event["type"] == "log":
                self.tasks.logs.append(event)
            else:
                key = (event["type"], event["metric"], event["variant"], event["iter"])
                self.tasks.events[key] = event
        return {"added": len(events), "errors": 0}
