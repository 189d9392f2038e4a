"""The way of values to a metrics service: Relax's own, or a gateway.

Requests wait in a bounded queue, and a thread sends them in order. All modules that it needs are imported here. A
fork in the middle of an import by another thread would leave the child with half a module.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.client import BadStatusLine, HTTPConnection, HTTPException, HTTPSConnection
from itertools import islice
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from telemetry.client import user_warnings
from telemetry.client.bins import CountedBins
from telemetry.client.signal_safe import LivingObjects, Locked
from telemetry.client.steps import number
from telemetry.client.user_warnings import warn_once
from telemetry.common.clock import backoff_s
from telemetry.common.formatting import number_of
from telemetry.compat.relax.values import STEP, Entry, Events, Place, ToDistribution, listed, refuse
from telemetry.errors import EndpointError, UsageError
from telemetry.redaction import mask_secrets

_LOG: Final = logging.getLogger("telemetry.compat.relax")
TOKEN_VARIABLE: Final = "TELEMETRY_GATEWAY_TOKEN"
REQUESTS: Final = 10_000
"""Number of requests that may wait."""
BYTES: Final = 64 << 20
"""Bytes of the bodies that may wait."""
REQUEST_S: Final = 5.0
"""Time that the service has for one request."""
EXIT_S: Final = 2.0
"""Time that the queue has to empty when the program ends."""
_RETRY_S: Final = 0.1
_RETRY_MOST_S: Final = 5.0
_RETRY_AFTER_MOST_S: Final = 60.0
_NO_ANSWER: Final = 0
_BUSY: Final = frozenset({_NO_ANSWER, 408, 425, 429, 502, 503, 504})
"""Statuses of a service that may take the request later."""
_ATTEMPTS: Final = 5  # for a request that makes the service fail, which would hold up all others
_ANSWER_BYTES: Final = 1 << 20
_BATCH: Final = 5_000  # values of one request, so that a body stays far below the limit of a service
_CONNECTIONS: Final = {"http": HTTPConnection, "https": HTTPSConnection}


class _Request(msgspec.Struct, eq=False):
    """A request in the queue. `count` is the number of its values."""

    path: str
    body: bytes
    count: int = 0
    attempts: int = 0
    answer: dict[str, Any] | None = None


class HttpTransport(Locked):
    """The metrics service at a URL. Thread-safe. `put` never waits; `report` waits at most `report_timeout_s`.

    A request that fails stays first in the queue and is sent again, so requests arrive in order. A forked child has
    a queue and a thread of its own. Raises UsageError for a URL that is none of HTTP.
    """

    to_distribution: Final[ToDistribution] = staticmethod(listed)

    def __init__(self, url: str, report_timeout_s: float) -> None:
        super().__init__()
        self.url = str(url).rstrip("/")
        [self._shown_url] = mask_secrets([self.url])
        try:
            parts = urlsplit(self.url)
            if not parts.hostname:
                raise ValueError("it has no host")
            parts.hostname.encode("idna")  # raises for an impossible name, and imports what connecting needs
            self._connection = partial(_CONNECTIONS[parts.scheme], parts.hostname, parts.port)
        except (KeyError, ValueError):
            raise UsageError(
                f"{self._shown_url!r} is not an address of a metrics service",
                hint="write one such as http://localhost:8000/metrics",
            ) from None
        self._path = parts.path
        self._report_timeout_s = report_timeout_s
        self.renew_lock()
        _TRANSPORTS.add(self)

    def renew_lock(self) -> None:
        """Replace the lock, and begin an empty queue: the requests of the parent are sent by the parent."""
        super().renew_lock()
        self._changed = threading.Condition(self._lock)
        self._queue: deque[_Request] = deque()
        self._bytes = 0
        self._dropped = 0
        """Values that found the queue full, until their number is reported at the end."""
        self._thread: threading.Thread | None = None
        self._closing = False
        self._is_silent = False
        """True if the service did not answer, or had no room, when it was last asked."""
        self._failures = 0

    def put(self, axis_step: Place, entries: Sequence[Entry]) -> bool:
        """Queue values of a step. Return False if the queue is full, or if no value can be encoded."""
        requests = _requests(axis_step, entries)
        return bool(requests) and self._put(requests)

    def report(
        self, axis_step: Place, entries: Sequence[Entry], count: int, *, waits: bool = True
    ) -> dict[str, Any]:
        """Queue the last values of a step and its report. Return the answer, or that it is pending."""
        step, text = axis_step[1], self._shown_url
        report = _Request("report_step", _body(axis_step, wait_s=0))
        if not self._put([*_requests(axis_step, entries), report]):
            return {"status": "error", "message": f"the queue for {text} is full: step {step} is dropped"}
        if waits:
            with self._changed:
                is_over = self._changed.wait_for(
                    lambda: report.answer is not None or self._is_silent, self._report_timeout_s
                )
                self._is_silent = self._is_silent or not is_over
            if report.answer is not None:
                return report.answer
        why = "which does not answer" if self._is_silent else "which has not answered yet"
        message = f"Step {step} with {count} metrics waits for {text}, {why}"
        return {"status": "pending", "message": message, "results": {}}

    def clear(self, axis_step: tuple[str, int | None]) -> bool:
        """Ask the service to forget values that are not reported."""
        return self._put([_Request("clear_metrics", _body(axis_step))])

    def health(self) -> dict[str, Any]:
        """Ask the service for its health, over a connection of its own. Wait at most REQUEST_S."""
        link = self._connection(timeout=REQUEST_S)
        try:
            return self._ask(link, "GET", "health")[1]
        except EndpointError as error:
            return {"status": "error", "message": f"{self._shown_url} can't be reached: {error}"}
        finally:
            link.close()

    def close(self, timeout_s: float) -> None:
        """Wait until the queue is empty, at most this time. Report the values that are left, and forget them."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._queue, timeout_s)
            left, dropped = list(self._queue), self._dropped
            self._queue.clear()
            self._dropped = 0
            self._bytes = 0
            self._closing = False
        if dropped:
            user_warnings.warn(f"{number_of(dropped, 'value')} for {self._shown_url} were dropped in all")
        if left:
            values, reports = sum(request.count for request in left), sum(not request.count for request in left)
            texts = [number_of(values, "value")] if values else []
            texts += [number_of(reports, "report of a step", "reports of steps")] if reports else []
            user_warnings.warn(f"{' and '.join(texts)} did not reach {self._shown_url} before the program ended")

    # --- the queue and its thread --------------------------------------------------------------------

    def _put(self, requests: Sequence[_Request]) -> bool:
        """Queue requests, all or none of them. Return False if there is no room."""
        size = sum(len(request.body) for request in requests)
        with self._lock:
            has_room = len(self._queue) + len(requests) <= REQUESTS and self._bytes + size <= BYTES
            if has_room and self._has_thread():
                self._queue.extend(requests)
                self._bytes += size
                self._changed.notify_all()
                return True
            self._dropped += sum(request.count for request in requests)
        full = f"the queue for {self._shown_url} is full, so new values are dropped"
        stuck = f"no thread can be started, so no values are sent to {self._shown_url}"
        warn_once(f"full {self._shown_url}", stuck if has_room else full)
        return False

    def _has_thread(self) -> bool:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="telemetry-relax-http", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:
                self._thread = None
                return False
            if util := sys.modules.get("multiprocessing.util"):  # its children skip `atexit`, not their finalizers
                util.Finalize(None, _close_all, exitpriority=-100)
        return True

    def _run(self) -> None:
        link = self._connection(timeout=REQUEST_S)
        changed, queue = self._changed, self._queue
        while True:
            with changed:
                changed.wait_for(lambda: bool(queue))
                request = queue[0]
            if pause_s := self._send(link, request):
                with changed:
                    changed.wait_for(lambda: self._closing, pause_s)
                if self._closing:
                    time.sleep(_RETRY_S)

    def _send(self, link: HTTPConnection, request: _Request) -> float:
        """Send a request, and remove it from the queue if that was final. Return the seconds to wait."""
        text, retry_after_s = self._shown_url, None
        try:
            status, answer, retry_after_s = self._ask(link, "POST", request.path, request.body)
            _LOG.debug("POST %s/%s: HTTP %d", text, request.path, status)
        except EndpointError as error:
            status, answer = _NO_ANSWER, {}
            _LOG.debug("POST %s/%s: %s", text, request.path, error)
            warn_once(
                f"silent {text}", f"{text} can't be reached: {error}. Values wait, and are sent when it is back"
            )
        request.attempts += status not in _BUSY
        # an answer about backends is final, while a 502 of a proxy means that the service is away
        is_final = status == HTTPStatus.BAD_GATEWAY and isinstance(answer.get("results"), dict)
        if not is_final and (status in _BUSY or (status >= 500 and request.attempts < _ATTEMPTS)):
            with self._changed:
                self._is_silent = True
                self._changed.notify_all()
            self._failures += 1
            return retry_after_s or backoff_s(self._failures, _RETRY_S, _RETRY_MOST_S)
        self._warn_of_refusals(request.path, status, answer)
        with self._changed:
            self._is_silent, self._failures = False, 0
            request.answer = answer
            if self._queue and self._queue[0] is request:  # else `close` has given it up
                self._queue.popleft()
                self._bytes -= len(request.body)
            self._changed.notify_all()
        return 0.0

    def _warn_of_refusals(self, path: str, status: int, answer: dict[str, Any]) -> None:
        """Say once what the service refused."""
        text = self._shown_url
        if status == HTTPStatus.GONE:
            warn_once(f"over {text}", f"{text}: the run is over, so values are not recorded")
        elif answer.get("status") == "error":
            message = str(answer.get("message") or f"HTTP {status}")[:500]
            warn_once(f"{status} {path} {text}", f"{text} refused {path} (HTTP {status}): {message}")
        elif isinstance(outcomes := answer.get("outcomes"), dict):
            for name, outcome in outcomes.items():
                if not str(outcome).startswith("recorded") or "but for" in str(outcome):
                    warn_once(f"outcome {name}", f"{text}: {name!r}: {outcome}")

    def _ask(
        self, link: HTTPConnection, method: str, path: str, body: bytes | None = None
    ) -> tuple[int, dict[str, Any], float | None]:
        """Send a request. Return status, body and Retry-After of its answer. Raise EndpointError if there is none.

        A service may close a connection that was idle. Then a new one shows whether it is there.
        """
        was_open = link.sock is not None
        headers = {} if body is None else {"Content-Type": "application/json"}
        if token := os.environ.get(TOKEN_VARIABLE):
            headers["Authorization"] = f"Bearer {token}"
        try:
            link.request(method, f"{self._path}/{path}", body, headers)
            response = link.getresponse()
            data = response.read(_ANSWER_BYTES)
            if not response.isclosed():
                link.close()
        except (OSError, HTTPException, ValueError) as error:
            link.close()
            if was_open and isinstance(error, (ConnectionError, BadStatusLine)):
                return self._ask(link, method, path, body)
            silent = "it does not answer" if isinstance(error, TimeoutError) else getattr(error, "strerror", "")
            raise EndpointError(silent or str(error) or type(error).__name__) from error
        retry_after_s = None
        with suppress(ValueError):  # a date, or no such header
            retry_after_s = min(_RETRY_AFTER_MOST_S, max(_RETRY_S, float(response.getheader("Retry-After") or "")))
        return response.status, _object(response.status, data), retry_after_s


_TRANSPORTS: Final[LivingObjects[HttpTransport]] = LivingObjects()
"""The transports that exist. The thread of a transport keeps it alive."""


@atexit.register
def _close_all() -> None:
    """Empty the queues when the process ends."""
    deadline = time.monotonic() + EXIT_S
    for transport in _TRANSPORTS.living():
        transport.close(max(0.0, deadline - time.monotonic()))


# --- bodies ------------------------------------------------------------------------------------------


def _object(status: int, data: bytes) -> dict[str, Any]:
    try:
        answer = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        text = data[:200].decode(errors="replace").strip()
        return {"status": "error", "message": f"HTTP {status}: {text}" if text else f"HTTP {status}"}
    if 200 <= status < 300:
        return answer
    message = answer.get("message") or answer.get("detail") or f"HTTP {status}"
    return {**answer, "status": "error", "message": str(message)}


def _requests(axis_step: Place, entries: Sequence[Entry]) -> list[_Request]:
    """Return the requests for values of a step: one for each set of tags."""
    by_tags: dict[tuple[tuple[str, str], ...], dict[str, object]] = {}
    for name, value, tags in entries:
        if isinstance(value, CountedBins):
            refuse(name, "it was counted into bins, because the service was not there yet")
            continue
        items = value if isinstance(value, Events) else [value]
        parts = items if type(value) is float and not tags else _encodable(name, items, tags)
        if items and not parts:
            continue
        batch = by_tags.setdefault(tuple(sorted(tags.items())) if tags else (), {})
        held = batch.get(name)
        batch[name] = [*(held if isinstance(held, list) else ()), *parts] if isinstance(value, Events) else parts[0]
    requests = []
    is_single = sum(map(len, by_tags.values())) == 1
    for tags_key, values in by_tags.items():
        tags = dict(tags_key) or None
        if is_single:
            [(name, part)] = values.items()
            return [_Request("log_metric", _body(axis_step, metric_name=name, metric_value=part, tags=tags), 1)]
        for start in range(0, len(values), _BATCH):
            batch = dict(islice(values.items(), start, start + _BATCH))
            requests.append(_Request("log_metrics_batch", _body(axis_step, metrics=batch, tags=tags), len(batch)))
    return requests


def _encodable(name: str, items: Sequence[object], tags: Mapping[str, str] | None) -> list[msgspec.Raw]:
    """Return the parts of a value as JSON, and refuse those that JSON can't hold."""
    parts = []
    for item in items:
        try:
            msgspec.json.encode(tags)
            parts.append(msgspec.Raw(msgspec.json.encode(item, enc_hook=_plain)))
        except Exception as error:  # noqa: BLE001 – a value may hold anything, which must not reach the program
            refuse(name, f"{type(error).__name__}: {error}")
    return parts


def _body(axis_step: tuple[str, int | None], **fields: object) -> bytes:
    """Return a body. Numbers that are not finite become null."""
    axis, step = axis_step
    return msgspec.json.encode({"step": step, **fields} | ({} if axis == STEP else {"axis": axis}))


def _plain(value: Any) -> object:
    """Return a part of a timeline event as a number, or as a text."""
    try:
        return number(value)
    except Exception:  # noqa: BLE001 – an event may hold anything; it is sent as a text
        return str(value)
