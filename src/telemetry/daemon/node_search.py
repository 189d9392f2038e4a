"""Search over nodes for the exact pass: messages to the loop that owns the sockets, and answers of leaves."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import astuple

from telemetry import limits
from telemetry.aggregator import Aggregator
from telemetry.aggregator.exact.node_search import (
    LeafSeries,
    LeafSpans,
    add_part,
    leaf_series,
    search_messages,
    spans_of_leaf,
)
from telemetry.aggregator.exact.one_pass import OnePass
from telemetry.common.clock import SYSTEM_CLOCK, Clock
from telemetry.wire.nodes import DISAGREES, OTHER_LAYOUT, Found, Search

_WAIT_S: Final = 0.1


@dataclass(frozen=True)
class Returned:
    """A leaf that has connected, for the first time or again."""

    producer: str


Arrival = Found | Returned


class SearchChannel:
    """Two bounded queues. A search runs on a thread of its own, one at a time; the loop never waits for it."""

    def __init__(self, wake: Callable[[], object], clock: Clock = SYSTEM_CLOCK) -> None:
        """Prepare the queues. `wake` makes the loop call `outgoing`; any thread may call it."""
        self._wake = wake
        self._clock = clock
        self._turn = threading.Lock()
        self._changed = threading.Condition()
        self._number: int | None = None
        self._last_number = 0
        self._arrived: deque[tuple[Arrival, int]] = deque()
        self._arrived_bytes = 0
        self._outgoing: deque[tuple[str, Search]] = deque()

    # --- the thread of a search ------------------------------------------------------------------

    @contextmanager
    def searching(self, meanwhile: Callable[[], object] = lambda: None) -> Iterator[None]:
        """Hold the channel. Blocks until another search of this process has ended, and calls `meanwhile` then."""
        while not self._turn.acquire(timeout=_WAIT_S):
            meanwhile()
        try:
            yield
        finally:
            self._forget(None)
            self._turn.release()

    def new_number(self) -> int:
        """Begin the next search and return its number. No other search has it, also after a restart."""
        self._last_number = max(self._last_number + 1, self._clock.wall_ns())
        self._forget(self._last_number)
        return self._last_number

    def send(self, leaf: str, messages: Iterable[Search]) -> None:
        """Queue messages to a leaf."""
        with self._changed:
            self._outgoing.extend((leaf, message) for message in messages)
        self._wake()

    def receive(self, timeout_s: float) -> list[Arrival]:
        """Return what has arrived. Wait for at most `timeout_s` if that is nothing."""
        with self._changed:
            if not self._arrived and timeout_s > 0:
                self._changed.wait_for(lambda: bool(self._arrived), timeout_s)
            arrived = [arrival for arrival, _ in self._arrived]
            self._arrived.clear()
            self._arrived_bytes = 0
        return arrived

    def _forget(self, number: int | None) -> None:
        with self._changed:
            self._number = number
            self._arrived.clear()
            self._arrived_bytes = 0
            self._outgoing.clear()

    # --- the loop --------------------------------------------------------------------------------

    def outgoing(self) -> list[tuple[str, Search]]:
        """Return messages to send, each with its leaf."""
        if not self._outgoing:
            return []
        with self._changed:
            waiting = list(self._outgoing)
            self._outgoing.clear()
        return waiting

    def deliver(self, leaf_answer: Found) -> bool:
        """Hand over an answer of a leaf. Return False if there is no room, so that the leaf must send it again.

        Answers to earlier searches are dropped.
        """
        size = _size(leaf_answer)
        with self._changed:
            if leaf_answer.number != self._number:
                return True
            if self._arrived_bytes + size > limits.SEARCH_QUEUE_BYTES:
                return False
            self._arrived.append((leaf_answer, size))
            self._arrived_bytes += size
            self._changed.notify()
        return True

    def returned(self, producer: str) -> None:
        """Report that a leaf has connected."""
        with self._changed:
            if self._number is not None:
                self._arrived.append((Returned(producer), 0))
                self._changed.notify()


def _size(leaf_answer: Found) -> int:
    columns = (*astuple(leaf_answer.values), *astuple(leaf_answer.bins), *astuple(leaf_answer.unfit))
    return sum(map(len, columns))


_ASK_AGAIN_S: Final = 2.0  # a push may be lost with the connection
_QUIET_S: Final = 2.0  # for a leaf that was silent before the search: it gives a sign of life four times a second
_REASONS_SHOWN: Final = 3
_WHY: Final = {
    DISAGREES: "its journal and its histogram have different numbers of values",
    OTHER_LAYOUT: "it counts this series with another precision or range",
}


@dataclass
class _Leaf:
    producer: str
    name: str
    series: LeafSeries
    spans: LeafSpans | None = None
    """Spans that it is asked for. None once the pass needs no more of it."""
    next_part: int = 0
    answers: bool = False
    """True if it has answered this search."""
    was_silent: bool = False
    """True if it gave no sign of life shortly before the search."""
    heard_s: float = 0.0
    asked_s: float = 0.0
    defined: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        self.defined = frozenset(self.series.series.tolist())


class NodeValues:
    """The nodes of a root in one search after the other. For one thread, which may stream a journal meanwhile."""

    def __init__(
        self,
        aggregator: Aggregator,
        channel: SearchChannel | None,
        now_ns: int | None = None,
    ) -> None:
        """Prepare the search. Without a channel, the values of all leaves are missing.

        `now_ns` is the time of the run's clock. With it, leaves that have not ended are left out, and those that
        were silent get little time.
        """
        self._table = aggregator.series
        self._channel = channel or SearchChannel(lambda: None)
        self._leaves = {
            leaf: _Leaf(leaf, name, leaf_series(aggregator.book[leaf].ids.bound))
            for leaf, name in aggregator.root.leaves().items()
        }
        self._incomplete = frozenset(
            series
            for leaf in self._leaves.values()
            if (node := aggregator.book[leaf.producer].node) is not None and node.missing_values
            for series in leaf.defined
        )
        self._lacking: dict[str, str] = {}
        """Leaf → reason why its values are not in the pass."""
        if channel is None:
            for leaf in self._leaves.values():
                self._lose(leaf, ": its journal is on another machine")
        elif now_ns is not None:
            self._leave_out_absent(aggregator, now_ns)
        self._unfit: dict[int, str] = {
            series: f"node {name}: {_WHY[OTHER_LAYOUT]}"
            for series, name in aggregator.incoming.other_layouts.items()
        }
        self._pass: OnePass | None = None
        self._number = 0

    def __bool__(self) -> bool:
        """Return True if there are leaves."""
        return bool(self._leaves)

    def searching(self, meanwhile: Callable[[], object] = lambda: None) -> AbstractContextManager[None]:
        """Hold the channel to the leaves for all passes of a search, as `SearchChannel.searching`."""
        return self._channel.searching(meanwhile)

    @property
    def unfit(self) -> dict[int, str]:
        """Series that a leaf can't give the right values of, and the reason."""
        return self._unfit

    def reason(self, series: int) -> str:
        """Return why nodes that have defined a series have not given its values; empty if all have."""
        lacking = [why for leaf, why in self._lacking.items() if series in self._leaves[leaf].defined]
        return self._unfit.get(series) or first_reasons(lacking)

    def may_exceed(self, series: int) -> bool:
        """Return whether a leaf may give values of a series that are not in the numbers of this root.

        They could take the place of missing ones, so that the counts agree although the values differ.
        """
        return series in self._incomplete

    def _leave_out_absent(self, aggregator: Aggregator, now_ns: int) -> None:
        for leaf in self._leaves.values():
            producer = aggregator.book[leaf.producer]
            if producer.end is None:
                self._lose(leaf, " has not ended")
            leaf.was_silent = now_ns - producer.last_seen_ns > limits.LATE_AFTER_S * 1e9

    # --- one pass --------------------------------------------------------------------------------

    def begin(self, one_pass: OnePass) -> None:
        """Ask all leaves for their values. Leaves that failed before are left out."""
        self._pass = one_pass
        self._number = self._channel.new_number()
        for leaf in self._leaves.values():
            leaf.spans, leaf.next_part, leaf.answers = None, 0, False
            if leaf.producer in self._lacking:
                continue
            spans = spans_of_leaf(one_pass, leaf.series)
            if spans.places.size:
                leaf.spans = spans
                leaf.heard_s = time.monotonic()
                self._ask(leaf)

    @property
    def waiting(self) -> bool:
        """True if a leaf has not given all its values yet."""
        return any(leaf.spans is not None for leaf in self._leaves.values())

    def turn(self, timeout_s: float = 0.0) -> None:
        """Add the answers that have arrived. Wait for them for at most `timeout_s`."""
        for arrival in self._channel.receive(timeout_s):
            leaf = self._leaves.get(arrival.producer)
            if leaf is None or leaf.spans is None:
                continue
            leaf.heard_s = time.monotonic()
            if isinstance(arrival, Returned):
                self._ask(leaf)
            elif arrival.number == self._number:
                self._take(leaf, leaf.spans, arrival)
        self._look_after()

    def give_up(self, reason: str) -> None:
        """Go on without the leaves that have not answered."""
        for leaf in self._leaves.values():
            if leaf.spans is not None:
                self._lose(leaf, reason)

    def _take(self, leaf: _Leaf, spans: LeafSpans, leaf_answer: Found) -> None:
        assert self._pass is not None
        leaf.answers = True
        if leaf_answer.reason:
            self._lose(leaf, f": {leaf_answer.reason}")
            return
        if leaf_answer.part < leaf.next_part:  # the leaf has begun again, or has missed our answer
            return
        if leaf_answer.part > leaf.next_part:
            self._lose(leaf, ": a part of its answer is missing")
            return
        leaf.next_part = leaf_answer.part + 1
        try:
            unfit = add_part(self._pass, spans, leaf_answer)
        except ValueError as error:
            self._lose(leaf, f": its answer can't be read, {error}")
            return
        for series, why in unfit:
            text = _WHY.get(why, "it can't give the values of this series")
            self._unfit.setdefault(series, f"node {leaf.name}: {text}")
        if leaf_answer.last:
            leaf.spans = None

    def _look_after(self) -> None:
        """Ask leaves again that have not answered, and go on without those that are silent for long."""
        now_s = time.monotonic()
        for leaf in self._leaves.values():
            if leaf.spans is None:
                continue
            is_gone = leaf.was_silent and not leaf.answers
            if now_s - leaf.heard_s > (_QUIET_S if is_gone else limits.SEARCH_SILENT_S):
                self._lose(leaf, " stopped answering" if leaf.answers else " ended before the run")
            elif now_s - max(leaf.asked_s, leaf.heard_s) > _ASK_AGAIN_S:
                self._ask(leaf)

    def _ask(self, leaf: _Leaf) -> None:
        assert self._pass is not None
        assert leaf.spans is not None
        leaf.asked_s = time.monotonic()
        messages = search_messages(self._number, self._pass, self._table, leaf.spans)
        self._channel.send(leaf.producer, messages)

    def _lose(self, leaf: _Leaf, reason: str) -> None:
        leaf.spans = None
        self._lacking[leaf.producer] = f"node {leaf.name}{reason}"


def first_reasons(reasons: Sequence[str]) -> str:
    """Return the distinct reasons as one text, at most three of them."""
    distinct = list(dict.fromkeys(reasons))
    shown = distinct[:_REASONS_SHOWN]
    more = len(distinct) - len(shown)
    return "; ".join([*shown, *([f"and {more:,} more"] if more else [])])
