"""Spans: blocks and calls that record when they begin and end, how long they take, and their self time.

A span that ends becomes a record, a value of the series `span.NAME`, and an increment of the counter
`span_self.NAME`. The self time is the duration without the spans inside it, in the same thread or task.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final

import msgspec

from telemetry import limits
from telemetry.client import records
from telemetry.client.process import Process
from telemetry.client.timing import Timer
from telemetry.errors import InstrumentError
from telemetry.wire import spans as words
from telemetry.wire.events import Span

_NS_PER_MS: Final = 1_000_000
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_now: Final = time.monotonic_ns
_spent_ns: Final[ContextVar[int]] = ContextVar("telemetry.spent_ns", default=0)
"""Duration of all spans that ended in this thread or task. Its growth during a span is the time of inner spans."""

RowIds = tuple[float, float]
"""Row ids of the durations and of the self time of spans of one name."""


class SpanInstruments:
    """The instruments of spans by name. Thread-safe."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._row_ids: dict[str, RowIds | None] = {}

    def row_ids(self, name: str) -> RowIds | None:
        """Return the row ids for a name. Return None beyond `limits.SPAN_NAMES`, or if a name is taken."""
        try:
            return self._row_ids[name]
        except KeyError:
            found = self._make(name) if len(self._row_ids) < limits.SPAN_NAMES else None
            if len(self._row_ids) < limits.SPAN_NAMES:
                self._row_ids[name] = found
            return found

    def _make(self, name: str) -> RowIds | None:
        durations, own = f"{words.DURATION}{name}", f"{words.SELF}{name}"
        catalog = self._process.catalog
        try:
            catalog.reserve({durations: ("series", words.UNIT), own: ("counter", words.UNIT)})
        except InstrumentError:
            return None
        return (
            catalog.row_id("series", durations, words.UNIT, {}, within=""),
            catalog.row_id("counter", own, words.UNIT, {}, within=""),
        )

    def put(self, name: str, end_ns: int, duration_ns: int, self_ns: int | None = None) -> None:
        """Record a duration, and the self time if it is known."""
        for waits in self._process.step_waits:
            waits.span(name, end_ns - duration_ns, end_ns)
        ids = self.row_ids(name)
        if ids is None:
            return
        durations, own = ids
        duration_ms = duration_ns / _NS_PER_MS
        if self_ns is None:
            self._process.recorders.put((durations, end_ns, duration_ms))
        else:
            self._process.recorders.put((durations, end_ns, duration_ms, own, end_ns, self_ns / _NS_PER_MS))


class SpanTimer(Timer):
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

    def _begin(self) -> tuple[int, int]:
        spent_ns = _spent_ns.get()
        return _now(), spent_ns

    def _stop(self, begun: tuple[int, int]) -> None:
        end_ns = _now()
        start_ns, spent_ns = begun
        duration_ns = end_ns - start_ns
        inside_ns = _spent_ns.get() - spent_ns
        _spent_ns.set(spent_ns + duration_ns)
        process = self._process
        flusher = process.flusher
        encoded = _ENCODE(Span(self._name, start_ns, end_ns, self._track, self._labels))
        if flusher is not None and process.state == "live":
            flusher.outbox.records.append(encoded)
        else:
            process.put_records(lambda: (encoded,))
        self._instruments.put(self._name, end_ns, duration_ns, max(duration_ns - max(inside_ns, 0), 0))


def _no_record(value: Any, at_ns: int | None = None) -> None:
    """Do nothing: a span records itself."""
