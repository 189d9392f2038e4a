"""A client of the metrics service that repeats what was not acknowledged, as a program would."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

DEADLINE_S = 120.0


class Caller:
    """A client with one kept connection. It repeats what is not acknowledged, which is safe for values of steps."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._prefix = parts.netloc, parts.path
        self._connection: HTTPConnection | None = None

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def call(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Send a request once. Raises OSError or HTTPException if there is no answer."""
        if self._connection is None:
            self._connection = HTTPConnection(self._host, timeout=30)
        try:
            self._connection.request(
                "POST", self._prefix + path, json.dumps(body), {"Content-Type": "application/json"}
            )
            with self._connection.getresponse() as answer:
                status, content = answer.status, answer.read()
        except (OSError, HTTPException):
            self._close()
            raise
        return status, json.loads(content) if content[:1] == b"{" else {"message": content.decode()}

    def until(self, is_taken: Callable[[int, dict[str, Any]], bool], path: str, body: dict[str, Any]) -> None:
        """Send a request until its answer is accepted."""
        deadline_s = time.monotonic() + DEADLINE_S
        while True:
            try:
                status, answer = self.call(path, body)
            except (OSError, HTTPException) as error:
                status, answer = 0, {"message": str(error)}
            if is_taken(status, answer):
                return
            assert time.monotonic() < deadline_s, (path, body, status, answer)
            time.sleep(0.05)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def is_recorded(status: int, answer: dict[str, Any]) -> bool:
    return status == 200


def is_reported(status: int, answer: dict[str, Any]) -> bool:
    """Accept a report that the run has confirmed. Backends may have it later."""
    return status == 200 or (status == 202 and "not confirmed" not in answer["message"])
