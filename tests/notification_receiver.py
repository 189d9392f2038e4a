"""A receiver of notifications: the JSON that Apprise posts to `json://`, by a real server on this machine."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

SECRET: Final = "5up3rs3cr3t"
"""Part of the address that must be nowhere else."""
DEADLINE_S: Final = 90.0
_PAUSE_S: Final = 0.05


@dataclass(frozen=True)
class Got:
    """A notification as it arrived."""

    title: str
    body: str
    look: str


class NotificationReceiver:
    """A context manager. It may be down, by an answer of 503, or hang, before it takes notifications."""

    def __init__(self, port: int = 0) -> None:
        self.got: list[Got] = []
        self.tries = 0
        """Number of posts, with those that were not taken."""
        self.is_down = False
        self.hangs = threading.Event()
        self.hangs.set()  # set: it answers at once
        handler = type("_Handler", (_Handler,), {"receiver": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"json://127.0.0.1:{self.port}/{SECRET}"

    @property
    def titles(self) -> list[str]:
        return [one.title for one in self.got]

    def one(self, words: str) -> Got:
        """Return the only notification with these words in its title."""
        found = [one for one in self.got if words in one.title]
        assert len(found) == 1, (words, self.titles)
        return found[0]

    def await_title(self, words: str, count: int = 1) -> None:
        self.until(lambda: sum(words in title for title in self.titles) >= count)

    def until(self, condition: Callable[[], object]) -> None:
        deadline_s = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline_s, self.titles
            time.sleep(_PAUSE_S)

    def __enter__(self) -> NotificationReceiver:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.hangs.set()
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    receiver: NotificationReceiver

    def do_POST(self) -> None:
        receiver = self.receiver
        data = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        receiver.tries += 1
        if not receiver.hangs.wait(DEADLINE_S) or receiver.is_down:
            self.send_error(503)
            return
        if self.path.strip("/") != SECRET:
            self.send_error(404)
            return
        receiver.got.append(Got(data["title"], data["message"], data["type"]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        pass
