"""Spans: blocks and calls that record when they begin and end, how long they take, and their self time.

A span that ends becomes a record, a value of the series `span.NAME`, and an increment of the counter
`span_self.NAME`. The self time is the duration without the spans inside it, in the same thread or task. A span that
is recorded by its times has none.

Records of nested spans have ids as labels, so that trackers know which span is inside which.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from itertools import count
from typing import Any, Final

import msgspec

from telemetry import limits
from telemetry.client import records
from telemetry.client.instruments import BlockTimer
from telemetry.client.process import Process
from telemetry.errors import InstrumentError
from telemetry.wire import spans as words
from telemetry.wire.events import Kind, Span

_NS_PER_MS: Final = 1_000_000
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_now: Final = time.monotonic_ns
_spent_ns: Final[ContextVar[int]] = ContextVar("telemetry.spent_ns", default=0)
"""Duration of all spans that ended in this thread or task. Its growth during a span is the time of inner spans."""


class _OpenSpan:
    """A span that has begun, in this thread or task or in the one that started it."""

    __slots__ = ("_id", "_number", "begun_ns", "has_inner", "is_over", "outer")

    def __init__(self, outer: _OpenSpan | None) -> None:
        self.outer = outer
        self.has_inner = self.is_over = False
        self.begun_ns = 0
        self._number = next(_numbers)
        self._id = ("", "")  # the prefix, and the id that was made of it
        if outer is not None:
            outer.has_inner = True

    @property
    def id(self) -> str:
        """The id. It is the same in all threads, and another one in a forked process."""
        prefix = _PREFIX[0]
        if self._id[0] != prefix:
            self._id = prefix, f"{prefix}{self._number & _NUMBERS:08x}"
        return self._id[1]

    def with_ids(self, labels: dict[str, str]) -> dict[str, str]:
        """Return the labels of its record. Other spans name it only if they are inside it."""
        if self.has_inner:
            labels = {**labels, words.SPAN_ID: self.id}
        if self.outer is not None:
            labels = {**labels, words.PARENT_ID: self.outer.id}
        return labels


_open: Final[ContextVar[_OpenSpan | None]] = ContextVar("telemetry.open_span", default=None)
_numbers: Final = count(1)
_NUMBERS: Final = (1 << 32) - 1
_ROOM: Final = limits.LABEL_COUNT - 2  # labels beside those of the ids
_PREFIX: Final = [os.urandom(4).hex()]
"""First half of the ids of this process, in a list."""


def _renew_prefix() -> None:
    """Choose another prefix after a fork: both processes go on with the same numbers."""
    _PREFIX[0] = os.urandom(4).hex()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_prefix)


def _innermost() -> _OpenSpan | None:
    """Return the innermost span that goes on. A generator may end later than the span in which it began."""
    span = _open.get()
    while span is not None and span.is_over:
        span = span.outer
    return span


def parent_labels(start_ns: int, labels: Mapping[str, object]) -> dict[str, str]:
    """Return the label of the open span in which a span with these labels began, or nothing."""
    outer = _innermost()
    has_ids = words.PARENT_ID in labels or words.TRACE_ID in labels
    if outer is None or has_ids or start_ns < outer.begun_ns or len(labels) > _ROOM:
        return {}
    outer.has_inner = True
    return {words.PARENT_ID: outer.id}


class SpanInstruments:
    """The instruments of spans by name. Thread-safe."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._durations: dict[str, float | None] = {}
        """Name → row id of the durations. None if a name is taken."""
        self._own: dict[str, float] = {}
        """Name → row id of the self time. A counter that is defined and never gets a value would say 0."""

    def put(self, name: str, end_ns: int, duration_ns: int, self_ns: int | None = None) -> None:
        """Record a duration, and the self time if it is known. Record nothing beyond `limits.SPAN_NAMES` names."""
        for waits in self._process.step_waits:
            waits.span(name, end_ns - duration_ns, end_ns)
        try:
            durations = self._durations[name]
        except KeyError:
            durations = self._make(name)
        if durations is None:
            return
        duration_ms = duration_ns / _NS_PER_MS
        if self_ns is None:
            self._process.recorders.put((durations, end_ns, duration_ms))
            return
        own = self._own.get(name)
        if own is None:
            own = self._own[name] = self._row_id("counter", f"{words.SELF}{name}")
        self._process.recorders.put((durations, end_ns, duration_ms, own, end_ns, self_ns / _NS_PER_MS))

    def _make(self, name: str) -> float | None:
        if len(self._durations) >= limits.SPAN_NAMES:
            return None
        durations, own = f"{words.DURATION}{name}", f"{words.SELF}{name}"
        row_id: float | None = None
        with suppress(InstrumentError):
            self._process.catalog.reserve({durations: ("series", words.UNIT), own: ("counter", words.UNIT)})
            row_id = self._row_id("series", durations)
        self._durations[name] = row_id
        return row_id

    def _row_id(self, kind: Kind, name: str) -> float:
        return self._process.catalog.row_id(kind, name, words.UNIT, {}, within="")


class SpanTimer(BlockTimer):
    """A `with` block or decorator that records a span. As a block, one object times one block at a time."""

    __slots__ = ("_instruments", "_labels", "_name", "_process", "_track")

    def __init__(
        self, process: Process, instruments: SpanInstruments, name: object, track: object, labels: Mapping[str, Any]
    ) -> None:
        super().__init__(_no_record, 1)
        self._process = process
        self._instruments = instruments
        self._name = records.name_of(name)
        self._track = records.clean(track, limits.NAME_CHARS) if track else ""
        self._labels = records.labels_of(labels) if labels else {}

    def _begin(self) -> tuple[int, int, _OpenSpan | None]:
        own = None
        if len(self._labels) <= _ROOM:
            own = _OpenSpan(_innermost())
            _open.set(own)
        spent_ns = _spent_ns.get()
        start_ns = _now()
        if own is not None:
            own.begun_ns = start_ns
        return start_ns, spent_ns, own

    def _stop(self, begun: tuple[int, int, _OpenSpan | None]) -> None:
        end_ns = _now()
        start_ns, spent_ns, own = begun
        labels = self._labels
        if own is not None:
            own.is_over = True
            _open.set(own.outer)
            if own.has_inner or own.outer is not None:
                labels = own.with_ids(labels)
        duration_ns = end_ns - start_ns
        inside_ns = _spent_ns.get() - spent_ns
        _spent_ns.set(spent_ns + duration_ns)
        process = self._process
        flusher = process.flusher
        encoded = _ENCODE(Span(self._name, start_ns, end_ns, self._track, labels))
        if flusher is not None and process.state == "live":
            flusher.outbox.records.append(encoded)
        else:
            process.put_records(lambda: (encoded,))
        self._instruments.put(self._name, end_ns, duration_ns, max(duration_ns - max(inside_ns, 0), 0))


def _no_record(value: Any, at_ns: int | None = None) -> None:
    """Do nothing: a span records itself."""
