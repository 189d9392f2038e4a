"""One kept-alive HTTP connection to a metrics service.

All modules that it needs are imported here. A fork in the middle of an import by another thread would leave the
child with half a module.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from http.client import BadStatusLine, HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from telemetry.errors import UsageError
from telemetry.redaction import mask_secrets

TOKEN_VARIABLE: Final = "TELEMETRY_GATEWAY_TOKEN"
_ANSWER_BYTES: Final = 1 << 20
_RETRY_MOST_S: Final = 60.0


class Answer(NamedTuple):
    """An answer of the service."""

    status: int
    body: dict[str, Any]
    """The JSON object of the answer, or one with `status` and `message` that says what came instead."""
    retry_after_s: float | None = None

    @property
    def message(self) -> str:
        return str(self.body.get("message") or self.body.get("detail") or f"HTTP {self.status}")


class LinkError(Exception):
    """The service did not answer. The text says why."""


class ServiceUrl(NamedTuple):
    """An address of a metrics service."""

    text: str
    """The address without a slash at its end, and without a password."""
    is_secure: bool
    host: str
    port: int | None
    path: str


def parsed(url: str) -> ServiceUrl:
    """Return an address by its parts. Raise UsageError if it is not one of HTTP."""
    plain = str(url).rstrip("/")
    try:
        parts = urlsplit(plain)
        host, port = parts.hostname, parts.port
        (host or "").encode("idna")  # raises for an impossible name, and imports what connecting needs
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https"):
        raise UsageError(
            f"{mask_secrets([plain])[0]!r} is not an address of a metrics service",
            hint="write one such as http://localhost:8000/metrics",
        )
    return ServiceUrl(mask_secrets([plain])[0], parts.scheme == "https", host, port, parts.path)


class HttpLink:
    """A connection that is opened at the first request and kept. For one thread."""

    def __init__(self, url: ServiceUrl, timeout_s: float) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._connection: HTTPConnection | None = None

    def request(self, method: str, path: str, body: bytes | None = None) -> Answer:
        """Send a request and return its answer. Raise LinkError if there is none."""
        was_open = self._connection is not None
        try:
            return self._request(method, path, body)
        except (ConnectionError, BadStatusLine) as error:
            self.close()
            if not was_open:
                raise LinkError(_reason(error)) from error
        except (OSError, HTTPException, ValueError) as error:
            self.close()
            raise LinkError(_reason(error)) from error
        try:  # a service may close a connection that was idle; a new one shows whether it is there
            return self._request(method, path, body)
        except (OSError, HTTPException, ValueError) as error:
            self.close()
            raise LinkError(_reason(error)) from error

    def _request(self, method: str, path: str, body: bytes | None) -> Answer:
        connection = self._connection
        if connection is None:
            connection = self._connection = _opened(self._url, self._timeout_s)
        connection.request(method, f"{self._url.path}/{path}", body, _headers(body))
        response = connection.getresponse()
        data = response.read(_ANSWER_BYTES)
        if response.read(1) or response.will_close:
            self.close()
        return Answer(response.status, _object(response.status, data), _seconds(response.getheader("Retry-After")))

    def close(self) -> None:
        """Close the connection. The next request opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _opened(url: ServiceUrl, timeout_s: float) -> HTTPConnection:
    made = (HTTPSConnection if url.is_secure else HTTPConnection)(url.host, url.port, timeout=timeout_s)
    made.connect()
    made.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # headers and body are two writes
    return made


def _headers(body: bytes | None) -> Mapping[str, str]:
    headers = {} if body is None else {"Content-Type": "application/json"}
    token = os.environ.get(TOKEN_VARIABLE, "")
    return headers | {"Authorization": f"Bearer {token}"} if token else headers


def _object(status: int, data: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = None
    if isinstance(found, dict):
        return found
    text = data[:200].decode(errors="replace").strip()
    return {"status": "error", "message": f"HTTP {status}: {text}" if text else f"HTTP {status}"}


def _seconds(text: str | None) -> float | None:
    """Return the seconds of a Retry-After header; None for a date, or without one."""
    try:
        return None if text is None else min(_RETRY_MOST_S, max(0.0, float(text)))
    except ValueError:
        return None


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it does not answer"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
