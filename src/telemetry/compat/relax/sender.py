"""A bounded queue of requests to a metrics service, and the thread that sends them in order."""

from __future__ import annotations

import atexit
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Final

from telemetry.client import notice
from telemetry.client.locked import Locked
from telemetry.compat.relax.http_link import Answer, HttpLink, LinkError, ServiceUrl
from telemetry.compat.relax.told import say_once
from telemetry.formatting import number_of

_LOG: Final = logging.getLogger("telemetry.compat.relax")
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
_BUSY: Final = frozenset({408, 425, 429, 502, 503, 504})
"""Statuses of a service that may take the request later."""
_OVER: Final = 410
_BACKEND_FAILED: Final = 502
_SERVER_ERROR: Final = 500
_ATTEMPTS: Final = 5  # for a request that makes the service fail, which would hold up all others


class Waiting:
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


class Sender(Locked):
    """Requests to one service. Thread-safe. `put` never waits.

    A request that fails stays first in the queue and is sent again, so requests arrive in order. A forked child has
    a queue and a thread of its own.
    """

    def __init__(self, url: ServiceUrl) -> None:
        super().__init__()
        self.url = url
        self.refused = 0
        """Number of values that were not taken: the queue was full, or the service refused them for good."""
        self._begin()
        _SENDERS.append(self)

    def _begin(self) -> None:
        self._changed = threading.Condition(self._lock)
        self._queue: deque[Waiting] = deque()
        self._bytes = 0
        self._thread: threading.Thread | None = None
        self._closing = False
        self._is_silent = False
        self._pause_s = _RETRY_S

    def renew_lock(self) -> None:
        """Replace the lock, and begin an empty queue: the requests of the parent are sent by the parent."""
        super().renew_lock()
        self._begin()

    @property
    def is_silent(self) -> bool:
        """True if the service did not answer, or had no room, when it was last asked."""
        return self._is_silent

    def put(self, requests: Sequence[Waiting]) -> bool:
        """Queue requests, all or none of them. Return False if there is no room."""
        size = sum(len(request.body) for request in requests)
        with self._lock:
            has_room = len(self._queue) + len(requests) <= REQUESTS and self._bytes + size <= BYTES
            if has_room and self._has_thread():
                self._queue.extend(requests)
                self._bytes += size
                self._changed.notify_all()
                return True
        self._count_refused(
            requests,
            "full",
            f"the queue for {self.url.text} is full, so new values are dropped and counted"
            if not has_room
            else f"no thread can be started, so no values are sent to {self.url.text}",
        )
        return False

    def wait(self, request: Waiting, timeout_s: float) -> Answer | None:
        """Return the answer to a request of the queue; None if the service is silent or slow."""
        if request.done is not None and not self._is_silent and not request.done.wait(timeout_s):
            self._is_silent = True
        return request.answer

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
        values, others = sum(request.count for request in left), sum(not request.count for request in left)
        if left:
            words = " and ".join(
                text
                for number, text in (
                    (values, number_of(values, "value")),
                    (others, number_of(others, "report of a step", "reports of steps")),
                )
                if number
            )
            notice.warn(f"{words} did not reach {self.url.text} before the program ended")

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

    # --- thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        link = HttpLink(self.url, REQUEST_S)
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

    def _send(self, link: HttpLink, request: Waiting) -> float:
        """Send a request, and remove it from the queue if that was final. Return the seconds to wait."""
        try:
            answer = link.request("POST", request.path, request.body)
            _LOG.debug("POST %s/%s: HTTP %d", self.url.text, request.path, answer.status)
        except LinkError as error:
            _LOG.debug("POST %s/%s: %s", self.url.text, request.path, error)
            say_once(
                f"silent {self.url.text}",
                f"{self.url.text} can't be reached: {error}. Values wait, and are sent when it is back",
            )
            return self._again(request, None)
        if not _is_verdict(answer):
            if answer.status in _BUSY:
                return self._again(request, answer.retry_after_s)
            request.attempts += 1
            if answer.status >= _SERVER_ERROR and request.attempts < _ATTEMPTS:
                return self._again(request, answer.retry_after_s)
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
        self._pause_s = _RETRY_S
        return 0.0

    def _again(self, request: Waiting, retry_after_s: float | None) -> float:
        """Release all callers that wait for an answer. Return the seconds until the next attempt."""
        with self._lock:
            self._is_silent = True
            for each in self._queue:
                if each.done is not None:
                    each.done.set()
        pause_s, self._pause_s = self._pause_s, min(_RETRY_MOST_S, 2 * self._pause_s)
        return pause_s if retry_after_s is None else max(_RETRY_S, retry_after_s)

    def _take_answer(self, request: Waiting, answer: Answer) -> None:
        """Count and report what the service refused."""
        if answer.status == _OVER:
            self._count_refused([request], "over", f"{self.url.text}: the run is over, so values are not recorded")
        elif not 200 <= answer.status < 300 or answer.body.get("status") == "error":
            self._count_refused([request], f"{answer.status} {request.path}", f"{self._refusal(request, answer)}")
        elif isinstance(outcomes := answer.body.get("outcomes"), dict):
            for name, outcome in outcomes.items():
                if str(outcome).startswith("recorded") and "but for" not in str(outcome):
                    continue
                say_once(f"outcome {name}", f"{self.url.text}: {name!r}: {outcome}")

    def _refusal(self, request: Waiting, answer: Answer) -> str:
        return f"{self.url.text} refused {request.path} (HTTP {answer.status}): {answer.message[:500]}"

    def _count_refused(self, requests: Sequence[Waiting], key: str, line: str) -> None:
        with self._lock:
            self.refused += sum(request.count for request in requests)
        say_once(f"{key} {self.url.text}", line)


def _is_verdict(answer: Answer) -> bool:
    """Check for an answer about backends. It is final, while a 502 of a proxy means that the service is away."""
    return answer.status == _BACKEND_FAILED and isinstance(answer.body.get("results"), dict)


_SENDERS: Final[list[Sender]] = []
_HOOKED: Final[set[str]] = set()


def _close_all() -> None:
    deadline = time.monotonic() + EXIT_S
    for sender in _SENDERS:
        sender.close(max(0.0, deadline - time.monotonic()))


def _hook_exits() -> None:
    """Empty the queues when the process ends. multiprocessing's children skip `atexit` but run their finalizers."""
    if "atexit" not in _HOOKED:
        _HOOKED.add("atexit")
        atexit.register(_close_all)
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(None, _close_all, exitpriority=-100)
