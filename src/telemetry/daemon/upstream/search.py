"""A leaf's answers to the searches of its root: it streams its journal past the wanted spans."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from telemetry import limits
from telemetry.aggregator import Aggregator
from telemetry.aggregator.exact.node_search import LeafAnswer, leaf_pass
from telemetry.aggregator.exact.one_pass import OnePass
from telemetry.daemon.exact_percentiles import JournalValues
from telemetry.daemon.node_search import NodeValues, SearchChannel
from telemetry.errors import RunDirectoryError
from telemetry.wire.control import Error, Noted, Request, Response
from telemetry.wire.nodes import Found, Search

_LOG = logging.getLogger("telemetry.daemon")
_IDS: Final = 1 << 32
"""First id of the requests with answers: part numbers are added to it."""
_ALIVE_S: Final = 1.0  # between two messages to the root while the search works
_AGAIN_S: Final = 2.0  # for the root's answer to a part
_BUSY_S: Final = 0.2  # before a part is sent again to a root with a full queue
_BOOKS_S: Final = limits.SEARCH_SILENT_S  # for the own books to be closed: the root may be ahead
_WAIT_S: Final = 0.1
_CLOSE_S: Final = 2.0


class _Superseded(Exception):
    """The root has begun another search, or this leaf is closing."""


class _CannotAnswer(Exception):
    """The leaf has no answer. The message is the reason."""


class _Books(NamedTuple):
    """Values of a leaf whose books are closed."""

    aggregator: Aggregator
    values: JournalValues
    hindrance: str
    channel: SearchChannel | None
    now_ns: Callable[[], int] | None


class LeafSearch:
    """A thread that answers searches one after the other. It keeps the last answer, to repeat it on request.

    A search that arrives while another is in progress replaces it, because the root has one at a time.
    """

    def __init__(self, producer: str, send: Callable[[Request], object]) -> None:
        """Prepare the thread. `send` sends a request to the root; the thread calls it."""
        self._producer = producer
        self._send = send
        self._changed = threading.Condition()
        self._arrived: deque[Search | Noted | Error] = deque(maxlen=limits.SEARCH_PARTS * 2)
        self._closed = False
        self._books: _Books | None = None
        self._parts: dict[int, Search] = {}
        self._number: int | None = None
        """Number of the newest search."""
        self._answer: LeafAnswer | None = None
        self._alive_due_s = 0.0
        self._thread: threading.Thread | None = None

    # --- other threads ---------------------------------------------------------------------------

    def take(self, response: Response) -> None:
        """Take a message of the root, of any kind. Never blocks."""
        answers = isinstance(response, Noted | Error) and response.id >= _IDS
        if not answers and not isinstance(response, Search):
            return
        with self._changed:
            if self._closed:
                return
            self._arrived.append(response)  # type: ignore[arg-type]
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="telemetry-search", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def open(
        self,
        aggregator: Aggregator,
        journal: Path,
        *,
        hindrance: str = "",
        torn_bytes: int = 0,
        valueless: int = 0,
        channel: SearchChannel | None = None,
        now_ns: Callable[[], int] | None = None,
    ) -> None:
        """Let searches begin, once the books are closed.

        Arguments as of `Refiner`, but `now_ns` returns the time on the run's clock; any thread may call it.
        """
        with self._changed:
            values = JournalValues(aggregator, journal, torn_bytes, valueless)
            self._books = _Books(aggregator, values, hindrance, channel, now_ns)
            self._changed.notify_all()

    def close(self) -> None:
        """End the thread. Blocks for at most two seconds."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)

    # --- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closed:
            try:
                self._converse()
            except _Superseded:
                continue
            except Exception as error:  # noqa: BLE001 – thread root: the root learns it, and this run goes on
                _LOG.exception("a search of the root failed")
                self._say_reason(f"the search failed: {error!r}"[: limits.TEXT_CHARS])

    def _converse(self) -> None:
        """Wait for a whole search, answer it, and repeat the answer if the root asks again."""
        while not self._is_whole:
            self._take_next(None)
        try:
            if self._answer is None:
                self._answer = self._work()
        except _CannotAnswer as error:
            self._say_reason(str(error))
            return
        for number in range(self._answer.last + 1):
            part = self._answer.part(number) if number else self._alive
            self._deliver(part)
        self._parts.clear()  # asked once more, it begins again

    @property
    def _is_whole(self) -> bool:
        last = max(self._parts, default=-1)
        return last >= 0 and self._parts[last].last and len(self._parts) == last + 1

    @property
    def _alive(self) -> Found:
        """Part 0, which says that this leaf has the search and works."""
        assert self._number is not None
        return Found(producer=self._producer, number=self._number)

    def _say_reason(self, reason: str) -> None:
        self._parts.clear()
        if self._number is not None:
            self._send(replace(self._alive, id=_IDS, last=True, reason=reason))

    def _deliver(self, part: Found) -> None:
        """Send a part until the root has it."""
        request = replace(part, id=_IDS + part.part)
        while True:
            self._send(request)
            again_s = time.monotonic() + _AGAIN_S
            while (left_s := again_s - time.monotonic()) > 0:
                answer = self._take_next(left_s)
                if answer is None or answer.id != request.id:
                    continue
                if isinstance(answer, Noted):
                    return
                again_s = time.monotonic() + _BUSY_S

    def _take_next(self, timeout_s: float | None) -> Noted | Error | None:
        """Take the next message. Return an answer to a part; None for the part of a search, or for no message.

        Raises _Superseded for the first part of a new search, and when this leaf closes.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._arrived or self._closed, timeout_s)
            if self._closed:
                raise _Superseded
            message = self._arrived.popleft() if self._arrived else None
        if not isinstance(message, Search):
            return message
        is_new = message.number != self._number
        if is_new:
            self._number, self._answer, self._parts = message.number, None, {}
        self._parts[message.part] = message
        if is_new:
            raise _Superseded
        return None

    # --- the values ------------------------------------------------------------------------------

    def _work(self) -> LeafAnswer:
        """Return the answer to the search. Raises _CannotAnswer with the reason if there is none."""
        self._alive_due_s = 0.0
        books = self._opened()
        aggregator = books.aggregator
        assert self._number is not None
        try:
            leaf = leaf_pass([self._parts[part] for part in sorted(self._parts)], aggregator.series)
        except ValueError as error:
            raise _CannotAnswer(f"the search can't be read: {error}") from None
        now_ns = books.now_ns() if books.now_ns is not None else None
        nodes = NodeValues(aggregator, books.channel, now_ns=now_ns)
        if not nodes:
            self._read(books, leaf.one_pass, self._serve)
            return LeafAnswer(self._producer, self._number, leaf)

        def serve(timeout_s: float = 0.0) -> bool:
            nodes.turn(timeout_s)
            return self._serve()

        with nodes.searching(self._serve):
            nodes.begin(leaf.one_pass)
            if aggregator.records_values:
                self._read(books, leaf.one_pass, serve)
            while nodes.waiting:
                serve(_WAIT_S)
        return LeafAnswer(self._producer, self._number, leaf, nodes.unfit)

    def _read(self, books: _Books, one_pass: OnePass, stops: Callable[[], bool]) -> None:
        """Feed the own values to a pass. Raises _CannotAnswer if some are missing."""
        try:
            reason = books.hindrance or books.values.obstacle() or books.values.feed(one_pass, stops)
        except RunDirectoryError as error:
            reason = error.message
        if reason:
            raise _CannotAnswer(reason)

    def _opened(self) -> _Books:
        """Return the values once the books are closed. The root may be ahead by a moment."""
        give_up_s = time.monotonic() + _BOOKS_S
        while self._books is None:
            if time.monotonic() > give_up_s:
                raise _CannotAnswer("its books are not closed")
            self._stay_alive()
            self._take_next(_WAIT_S)
        return self._books

    def _serve(self) -> bool:
        """Tell the root that the search works, and look for messages. Returns False."""
        self._stay_alive()
        if self._arrived or self._closed:
            self._take_next(0.0)
        return False

    def _stay_alive(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._alive_due_s:
            self._alive_due_s = now_s + _ALIVE_S
            self._send(replace(self._alive, id=_IDS))
