"""Rows of whole batches in one call into C, if none of them is a special case; see `_compiled.c`.

The result is the state that `Applier` and the tables leave, to the last bit."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any, Final

import numpy as np

from telemetry import limits
from telemetry.aggregator.batch_rows import RowRange, wall_ns
from telemetry.aggregator.compiled import Columns
from telemetry.aggregator.counters import EXACT_ADDEND, CounterTable
from telemetry.aggregator.gauges import GaugeTable
from telemetry.aggregator.series.extents import Extents
from telemetry.aggregator.series.table import SeriesTable
from telemetry.wire.rows import ROW_BYTES

JoinedRows = Sequence[tuple[RowRange, memoryview]]
"""Canonical rows that are applied together, with their ranges."""

_TIME: Final = Struct(">Q")
_TIME_AT: Final = 10 - ROW_BYTES
"""Position of the last row's time, from the end of the rows."""


class UsualRows:
    """The compiled path of canonical rows. It takes all rows of a call, or none."""

    def __init__(self, series: SeriesTable, counters: CounterTable, gauges: GaugeTable, extents: Extents) -> None:
        self._series = series
        self._counters = counters
        self._gauges = gauges
        self._extents = extents
        self._columns: Any = None
        self._state: tuple[object, ...] = ()

    def take(self, joined: JoinedRows, now_ns: int) -> bool:
        """Apply rows. Return False if one has a special case; then no number has changed."""
        answer = self._ingest(joined, now_ns)
        if type(answer) is list:  # all rows are usual, but some pages are missing
            self._series.allocate(answer)
            answer = self._ingest(joined, now_ns)
        if answer is None:
            return False
        values, reach, watched = answer
        if values:
            self._series.collected(values, reach)
        if watched is not None:
            for kind, columns in enumerate(watched):
                if columns is not None:
                    self._witness(kind, columns, joined, now_ns)
        for (producer, anchor, rows), body in joined:
            producer.heard_row(wall_ns(_TIME.unpack_from(body, _TIME_AT)[0], anchor, now_ns), now_ns)
            producer.account.ledger.apply(rows)
        return True

    def _ingest(self, joined: JoinedRows, now_ns: int) -> Any:
        """Return what `Columns.ingest` returns; None if it can't be called."""
        parts = []
        events = 0
        for (producer, (clock_ns, made_ns), rows), body in joined:
            parts.append((body, producer.ids.entries, made_ns - clock_ns, made_ns or now_ns))
            events += rows
        room = self._series.usual_state(events)
        if Columns is None or room is None:
            return None
        state = (room, len(self._counters), len(self._gauges), self._extents.concerned_count)
        if state != self._state:
            columns = (self._series.usual_columns, self._counters.usual_columns, self._gauges.usual_columns)
            times = (self._series.times.columns, self._counters.times.columns)
            self._columns, self._state = Columns(*columns, self._extents.watched, *times), state
        return self._columns.ingest(parts, now_ns, self._series.moments.reach, limits.CHUNK_EVENTS, EXACT_ADDEND)

    def _witness(
        self, kind: int, columns: tuple[bytes, bytes, bytes, bytes], joined: JoinedRows, now_ns: int
    ) -> None:
        index, values, times, counts = columns
        numbers = np.frombuffer(counts, np.int64).tolist()
        self._extents.witness_columns(
            kind,
            (np.frombuffer(index, np.intp), np.frombuffer(values, np.float64), np.frombuffer(times, np.uint64)),
            [(count, row_range.anchor) for count, (row_range, _) in zip(numbers, joined, strict=True)],
            now_ns,
        )
