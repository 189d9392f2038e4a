"""The way of values to a metrics service: Relax's own, or a gateway.

Requests wait in a bounded queue, and a thread sends them in order. All modules that it needs are imported here. A
fork in the middle of an import by another thread would leave the child with half a module.
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from http.client import BadStatusLine, HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from telemetry.client import user_warnings
from telemetry.client.signal_safe import Locked
from telemetry.client.steps import number
from telemetry.client.user_warnings import warn_once
from telemetry.common.clock import backoff_s
from telemetry.common.formatting import number_of
from telemetry.compat.relax.values import STEP, Entry, Events, Place, ToDistribution, listed, refuse
from telemetry.errors import UsageError
from telemetry.redaction import mask_secrets

_LOG: Final = logging.getLogger("telemetry.compat.relax")
TOKEN_VARIABLE: Final = "TELEMETRY_GATEWAY_TOKEN"
REQUESTS: Final = 10_000
"""Number of requests that may wait."""
BYTES: Final = 64 << 20
"""Bytes of the bodies that may wait."""
REQUEST_S: Final = 5.0
"""Time that the service has for one request."""
HEALTH_S: Final = 5.0
"""Time that a service has to say how it is."""
EXIT_S: Final = 2.0
"""Time that the queue has to empty when the program ends."""
_RETRY_S: Final = 0.1
_RETRY_MOST_S: Final = 5.0
_RETRY_AFTER_MOST_S: Final = 60.0
_BUSY: Final = frozenset({408, 425, 429, 502, 503, 504})
"""Statuses of a service that may take the request later."""
_OVER: Final = 410
_BACKEND_FAILED: Final = 502
_SERVER_ERROR: Final = 500
_ATTEMPTS: Final = 5  # for a request that makes the service fail, which would hold up all others
_ANSWER_BYTES: Final = 1 << 20
_BATCH: Final = 5_000  # values of one request, so that a body stays far below the limit of a service

_ByTags = dict[tuple[tuple[str, str], ...], dict[str, Any]]
"""Values by tags and name."""


# --- one connection ----------------------------------------------------------------------------------


class Answer(NamedTuple):
    """An answer of the service."""

    status: int
    body: dict[str, Any]
    """The JSON object of the answer, or one with `status` and `message` that says what came instead."""
    retry_after_s: float | None = None

    @property
    def message(self) -> str:
        return str(self.body.get("message") or self.body.get("detail") or f"HTTP {self.status}")

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300


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


def health_of(url: ServiceUrl) -> Answer:
    """Ask a service for its health, over a connection of its own. Wait at most HEALTH_S. Raise LinkError."""
    link = _Link(url, HEALTH_S)
    try:
        return link.request("GET", "health")
    finally:
        link.close()


class _Link:
    """A connection that is opened at the first request and kept. For one thread."""

    def __init__(self, url: ServiceUrl, timeout_s: float) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._connection: HTTPConnection | None = None

    def request(self, method: str, path: str, body: bytes | None = None) -> Answer:
        """Send a request and return its answer. Raise LinkError if there is none.

        A service may close a connection that was idle. Then a new one shows whether it is there.
        """
        was_open = self._connection is not None
        try:
            return self._request(method, path, body)
        except (OSError, HTTPException, ValueError) as error:
            self.close()
            if was_open and isinstance(error, (ConnectionError, BadStatusLine)):
                return self.request(method, path, body)
            silent = "it does not answer" if isinstance(error, TimeoutError) else ""
            raise LinkError(
                silent or getattr(error, "strerror", None) or str(error) or type(error).__name__
            ) from error

    def _request(self, method: str, path: str, body: bytes | None) -> Answer:
        url, connection = self._url, self._connection
        if connection is None:
            kind = HTTPSConnection if url.is_secure else HTTPConnection
            connection = self._connection = kind(url.host, url.port, timeout=self._timeout_s)
            connection.connect()
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # headers and body are two writes
        headers = {} if body is None else {"Content-Type": "application/json"}
        if token := os.environ.get(TOKEN_VARIABLE, ""):
            headers["Authorization"] = f"Bearer {token}"
        connection.request(method, f"{url.path}/{path}", body, headers)
        response = connection.getresponse()
        data = response.read(_ANSWER_BYTES)
        if response.read(1) or response.will_close:
            self.close()
        try:
            retry_after_s = min(_RETRY_AFTER_MOST_S, max(0.0, float(response.getheader("Retry-After") or "")))
        except ValueError:  # a date, or no such header
            retry_after_s = None
        return Answer(response.status, _object(response.status, data), retry_after_s)

    def close(self) -> None:
        """Close the connection. The next request opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _object(status: int, data: bytes) -> dict[str, Any]:
    try:
        answer = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        answer = None
    if isinstance(answer, dict):
        return answer
    text = data[:200].decode(errors="replace").strip()
    return {"status": "error", "message": f"HTTP {status}: {text}" if text else f"HTTP {status}"}


# --- the queue and its thread ------------------------------------------------------------------------


class _Waiting:
    """A request in the queue. `count` is the number of its values."""

    __slots__ = ("answer", "attempts", "body", "count", "done", "path")

    def __init__(self, path: str, body: bytes, count: int, *, is_awaited: bool = False) -> None:
        self.path = path
        self.body = body
        self.count = count
        self.attempts = 0
        self.answer: Answer | None = None
        self.done = threading.Event() if is_awaited else None
        """Set when there is an answer, or when the service turns out not to answer."""


class HttpTransport(Locked):
    """The metrics service at a URL. Thread-safe. `put` never waits; `report` waits at most `report_timeout_s`.

    A request that fails stays first in the queue and is sent again, so requests arrive in order. A forked child has
    a queue and a thread of its own.
    """

    to_distribution: Final[ToDistribution] = staticmethod(listed)

    def __init__(self, url: str, report_timeout_s: float) -> None:
        super().__init__()
        self.url = str(url).rstrip("/")
        self._url = parsed(url)
        self._report_timeout_s = report_timeout_s
        self.refused = 0
        """Number of values that were not taken: the queue was full, or the service refused them for good."""
        self._begin()
        _TRANSPORTS.append(self)

    def _begin(self) -> None:
        self._changed = threading.Condition(self._lock)
        self._queue: deque[_Waiting] = deque()
        self._bytes = 0
        self._thread: threading.Thread | None = None
        self._closing = False
        self._is_silent = False
        """True if the service did not answer, or had no room, when it was last asked."""
        self._failures = 0

    def renew_lock(self) -> None:
        """Replace the lock, and begin an empty queue: the requests of the parent are sent by the parent."""
        super().renew_lock()
        self._begin()

    def put(self, axis_step: Place, entries: Sequence[Entry]) -> bool:
        """Queue values of a step. Return False if the queue is full, or if no value can be encoded."""
        requests = _requests(axis_step, entries)
        return bool(requests) and self._put(requests)

    def report(
        self, axis_step: Place, entries: Sequence[Entry], count: int, *, waits: bool = True
    ) -> dict[str, Any]:
        """Queue the last values of a step and its report. Return the answer, or that it is pending."""
        step, text = axis_step[1], self._url.text
        report = _Waiting("report_step", _encoded(axis_step, wait_s=0), 0, is_awaited=waits)
        if not self._put([*_requests(axis_step, entries), report]):
            return {"status": "error", "message": f"the queue for {text} is full: step {step} is dropped"}
        if report.done is not None and not self._is_silent and not report.done.wait(self._report_timeout_s):
            self._is_silent = True
        answer = report.answer if waits else None
        if answer is None:
            why = "which does not answer" if self._is_silent else "which has not answered yet"
            message = f"Step {step} with {count} metrics waits for {text}, {why}"
            return {"status": "pending", "message": message, "results": {}}
        return answer.body if answer.is_good else {**answer.body, "status": "error", "message": answer.message}

    def clear(self, axis_step: tuple[str, int | None]) -> bool:
        """Ask the service to forget values that are not reported."""
        return self._put([_Waiting("clear_metrics", _encoded(axis_step), 0)])

    def health(self) -> dict[str, Any]:
        """Ask the service for its health. Wait at most HEALTH_S."""
        try:
            answer = health_of(self._url)
        except LinkError as error:
            return {"status": "error", "message": f"{self._url.text} can't be reached: {error}"}
        return answer.body if answer.status == 200 else {"status": "error", "message": answer.message}

    def close(self, timeout_s: float) -> None:
        """Wait until the queue is empty, at most this time. Report the values that are left, and forget them."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._queue, max(0.0, deadline - time.monotonic()))
            left = list(self._queue)
            self._queue.clear()
            self._bytes = 0
            self._closing = False
        values, reports = sum(request.count for request in left), sum(not request.count for request in left)
        texts = [number_of(values, "value")] if values else []
        texts += [number_of(reports, "report of a step", "reports of steps")] if reports else []
        if texts:
            user_warnings.warn(f"{' and '.join(texts)} did not reach {self._url.text} before the program ended")

    def _put(self, requests: Sequence[_Waiting]) -> bool:
        """Queue requests, all or none of them. Return False if there is no room."""
        size = sum(len(request.body) for request in requests)
        with self._lock:
            has_room = len(self._queue) + len(requests) <= REQUESTS and self._bytes + size <= BYTES
            if has_room and self._has_thread():
                self._queue.extend(requests)
                self._bytes += size
                self._changed.notify_all()
                return True
        full = f"the queue for {self._url.text} is full, so new values are dropped and counted"
        stuck = f"no thread can be started, so no values are sent to {self._url.text}"
        self._count_refused(requests, "full", stuck if has_room else full)
        return False

    def _has_thread(self) -> bool:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="telemetry-relax-http", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:
                self._thread = None
                return False
            _hook_exits()
        return True

    def _run(self) -> None:
        link = _Link(self._url, REQUEST_S)
        changed, queue = self._changed, self._queue
        while True:
            with changed:
                changed.wait_for(lambda: bool(queue))
                request = queue[0]
            pause_s = self._send(link, request)
            if pause_s:
                with changed:
                    changed.wait_for(lambda: self._closing, pause_s)
                if self._closing:
                    time.sleep(_RETRY_S)

    def _send(self, link: _Link, request: _Waiting) -> float:
        """Send a request, and remove it from the queue if that was final. Return the seconds to wait."""
        text = self._url.text
        try:
            answer = link.request("POST", request.path, request.body)
            _LOG.debug("POST %s/%s: HTTP %d", text, request.path, answer.status)
        except LinkError as error:
            _LOG.debug("POST %s/%s: %s", text, request.path, error)
            warn_once(
                f"silent {text}", f"{text} can't be reached: {error}. Values wait, and are sent when it is back"
            )
            return self._again(None)
        # an answer about backends is final, while a 502 of a proxy means that the service is away
        if not (answer.status == _BACKEND_FAILED and isinstance(answer.body.get("results"), dict)):
            if answer.status in _BUSY:
                return self._again(answer.retry_after_s)
            request.attempts += 1
            if answer.status >= _SERVER_ERROR and request.attempts < _ATTEMPTS:
                return self._again(answer.retry_after_s)
        self._is_silent = False
        self._take_answer(request, answer)
        with self._changed:
            if self._queue and self._queue[0] is request:  # else `close` has given it up
                self._queue.popleft()
                self._bytes -= len(request.body)
            self._changed.notify_all()
        request.answer = answer
        if request.done is not None:
            request.done.set()
        self._failures = 0
        return 0.0

    def _again(self, retry_after_s: float | None) -> float:
        """Release all callers that wait for an answer. Return the seconds until the next attempt."""
        with self._lock:
            self._is_silent = True
            for each in self._queue:
                if each.done is not None:
                    each.done.set()
        self._failures += 1
        pause_s = backoff_s(self._failures, _RETRY_S, _RETRY_MOST_S)
        return pause_s if retry_after_s is None else max(_RETRY_S, retry_after_s)

    def _take_answer(self, request: _Waiting, answer: Answer) -> None:
        """Count and report what the service refused."""
        text, path, status = self._url.text, request.path, answer.status
        if status == _OVER:
            self._count_refused([request], "over", f"{text}: the run is over, so values are not recorded")
        elif not answer.is_good or answer.body.get("status") == "error":
            refusal = f"{text} refused {path} (HTTP {status}): {answer.message[:500]}"
            self._count_refused([request], f"{status} {path}", refusal)
        elif isinstance(outcomes := answer.body.get("outcomes"), dict):
            for name, outcome in outcomes.items():
                if not str(outcome).startswith("recorded") or "but for" in str(outcome):
                    warn_once(f"outcome {name}", f"{text}: {name!r}: {outcome}")

    def _count_refused(self, requests: Sequence[_Waiting], key: str, line: str) -> None:
        with self._lock:
            self.refused += sum(request.count for request in requests)
        warn_once(f"{key} {self._url.text}", line)


_TRANSPORTS: Final[list[HttpTransport]] = []
_HOOKED: Final[set[str]] = set()


def _close_all() -> None:
    deadline = time.monotonic() + EXIT_S
    for transport in _TRANSPORTS:
        transport.close(max(0.0, deadline - time.monotonic()))


def _hook_exits() -> None:
    """Empty the queues when the process ends. multiprocessing's children skip `atexit` but run their finalizers."""
    if "atexit" not in _HOOKED:
        _HOOKED.add("atexit")
        atexit.register(_close_all)
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(None, _close_all, exitpriority=-100)


# --- bodies ------------------------------------------------------------------------------------------


def _requests(axis_step: Place, entries: Sequence[Entry]) -> list[_Waiting]:
    """Return the requests for values of a step: one for each set of tags."""
    by_tags: _ByTags = {}
    for name, value, tags in entries:
        batch = by_tags.setdefault(tuple(sorted(tags.items())) if tags else (), {})
        if isinstance(value, Events):
            held = batch.get(name)
            batch[name] = [*(held if isinstance(held, list) else ()), *value.events]
        elif isinstance(value, float | str):
            batch[name] = value
        elif isinstance(value.values, list):
            batch[name] = value.values
        else:
            refuse(name, "it was counted into bins, because the service was not there yet")
    try:
        return _in_bodies(axis_step, by_tags)
    except Exception:  # noqa: BLE001 – a value may hold anything, which must not reach the program
        return _in_bodies(axis_step, _encodable(by_tags))


def _in_bodies(axis_step: Place, by_tags: _ByTags) -> list[_Waiting]:
    requests = []
    is_single = sum(map(len, by_tags.values())) == 1
    for tags_key, values in by_tags.items():
        tags = dict(tags_key) or None
        if is_single:
            [(name, value)] = values.items()
            body = _encoded(axis_step, metric_name=name, metric_value=value, tags=tags)
            requests.append(_Waiting("log_metric", body, 1))
            continue
        names = list(values)
        for start in range(0, len(names), _BATCH):
            part = {name: values[name] for name in names[start : start + _BATCH]}
            requests.append(_Waiting("log_metrics_batch", _encoded(axis_step, metrics=part, tags=tags), len(part)))
    return requests


def _encodable(by_tags: _ByTags) -> _ByTags:
    """Return the values that can be encoded, and refuse the others, each by its name."""
    good: _ByTags = {}
    for tags, values in by_tags.items():
        for name, value in values.items():
            parts = value if isinstance(value, list) else [value]
            problems = [_problem(tags, name, part) for part in parts]
            kept = [part for part, problem in zip(parts, problems, strict=True) if not problem]
            if len(kept) < len(parts):
                refuse(name, next(filter(None, problems)))
            if kept:
                good.setdefault(tags, {})[name] = kept if isinstance(value, list) else value
    return good


def _problem(tags: tuple[tuple[str, str], ...], name: str, value: object) -> str:
    """Return why a value can't be encoded, or an empty text."""
    try:
        msgspec.json.encode((dict(tags), name, value), enc_hook=_plain)
    except Exception as error:  # noqa: BLE001 – as above
        return f"{type(error).__name__}: {error}"
    return ""


def _encoded(axis_step: tuple[str, int | None], **fields: object) -> bytes:
    """Return a body. Numbers that are not finite become null."""
    axis, step = axis_step
    body: Mapping[str, object] = {"step": step, **fields}
    return msgspec.json.encode(body if axis == STEP else {**body, "axis": axis}, enc_hook=_plain)


def _plain(value: Any) -> object:
    """Return a part of a timeline event as a number, or as a text."""
    try:
        return number(value)
    except Exception:  # noqa: BLE001 – an event may hold anything; it is sent as a text
        return str(value)
