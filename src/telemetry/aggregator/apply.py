"""Application of admitted batches: records one by one, rows of many batches as columns.

The route of a row names its kind. `handlers` maps each kind to the function that takes its rows. A new kind of
instrument needs one more handler, and one more entry in `telemetry.aggregator.rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from telemetry import limits
from telemetry.aggregator.batch_rows import RUN_TIMES, BatchGroup, KindRows, RowRange
from telemetry.aggregator.fast_rows import UsualRows
from telemetry.aggregator.producers.book import ProducerBook
from telemetry.aggregator.producers.ids import Waiting
from telemetry.aggregator.producers.producer import Producer
from telemetry.aggregator.records import RecordReader, StreamedRecord
from telemetry.aggregator.rows import (
    CONFLICT,
    INDEX_BITS,
    INVALID,
    KIND_CODES,
    MALFORMED,
    UNKNOWN,
    Routes,
    Rows,
    loosen,
    unpack,
)
from telemetry.aggregator.run_clock import RunClock
from telemetry.statistics.hdr.layout import constant
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.events import EventBatch

Index = NDArray[np.intp]
Handler = Callable[[KindRows], None]
Witness = Callable[[int, KindRows], None]
"""Callback that sees all applied rows, kind by kind."""

_FIRST_ROUTES: Final = [constant(kind << INDEX_BITS) for kind in range(len(KIND_CODES) + 1)]
_INFINITE: Final = int(np.array(np.inf).view(np.uint64))
"""Bits of infinity. Bits of negative, infinite and NaN numbers are at least this large."""
_SIGNED: Final = KIND_CODES["gauge"]
"""Kind that accepts negative values."""

# outcomes of a row: applied, waiting, or dropped for a reason
_APPLIED: Final = 0
_WAITING: Final = 1
_REASONS: Final = {
    2: Reason.MALFORMED_ROWS,
    3: Reason.DEFINITION_CONFLICT,
    4: Reason.DEFINITION_INVALID,
    5: Reason.NOT_FINITE,
    6: Reason.NEGATIVE,
}
_OUTCOMES: Final = 7
_OF_ROUTE: Final = {UNKNOWN: _WAITING, MALFORMED: 2, CONFLICT: 3, INVALID: 4}
_OF_NOT_FINITE: Final = 5
_OF_NEGATIVE: Final = 6


class Applier:
    """Applier of admitted batches.

    Each event ends in exactly one place: a column, the record stream, a drop reason, or the waiting rows of its
    producer.
    """

    def __init__(
        self,
        book: ProducerBook,
        clock: RunClock,
        records: RecordReader,
        handlers: Mapping[int, Handler],
        witness: Witness,
        *,
        usual: UsualRows,
    ) -> None:
        self._book = book
        self._clock = clock
        self._records = records
        self._handlers = handlers
        self._witness = witness
        self._usual = usual
        self._is_observed = False

    def observe(self, observer: Witness) -> None:
        """Call another function with all rows that are applied from now on."""
        before = self._witness

        def both(kind: int, part: KindRows) -> None:
            before(kind, part)
            observer(kind, part)

        self._witness = both
        self._is_observed = True

    def apply(self, batches: Sequence[EventBatch]) -> list[StreamedRecord]:
        """Apply admitted batches and return the records for the stream, in order.

        The records of all batches are read before their rows, so that the definitions of the rows exist. Batches
        of producers whose account is closed are refused. Events arrive at the last reading of the run's clock.
        """
        now_ns = self._clock.now_ns
        owners = [self._book[batch.producer] for batch in batches]
        is_late = has_records = False
        for producer, batch in zip(owners, batches, strict=True):
            is_late |= producer.closed_at is not None
            has_records |= bool(batch.records)
        if is_late:
            owners, batches = _refuse_late(owners, batches)
        streamed: list[StreamedRecord] = []
        if has_records:
            streamed = self._read_records(owners, batches, now_ns)
        self._apply_rows(owners, batches, now_ns)
        for producer, batch in zip(owners, batches, strict=True):
            producer.applied(batch.seq)
        for producer in dict.fromkeys(owners):
            self._release(producer, now_ns)
            producer.reconcile()
        return streamed

    def _read_records(
        self, owners: Sequence[Producer], batches: Sequence[EventBatch], now_ns: int
    ) -> list[StreamedRecord]:
        """Return the records for the stream, and apply self-describing events."""
        streamed: list[StreamedRecord] = []
        overtaking = _overtaking(batches)
        for at, (producer, batch) in enumerate(zip(owners, batches, strict=True)):
            if batch.records:
                since = batch.seq if at in overtaking else producer.sequence.unbroken_from(batch.seq)
                streamed += self._records.read(producer, batch, now_ns, since)
        self._records.add_intervals()
        described = self._records.take_values()
        if described is not None:
            self._deliver(described, now_ns)
        return streamed

    # --- rows ------------------------------------------------------------------------------------

    def _apply_rows(self, owners: Sequence[Producer], batches: Sequence[EventBatch], now_ns: int) -> None:
        """Apply rows in order.

        Canonical rows are joined up to a chunk, which fits in the cache. Larger batches are applied alone.
        """
        joined: list[tuple[RowRange, memoryview]] = []
        events = 0
        for producer, batch in zip(owners, batches, strict=True):
            rows = batch.rows
            if rows.count is None or producer.node is not None:  # a leaf sends sums, which are records
                producer.account.ledger.drop(Reason.MALFORMED_ROWS, rows.events)
                continue
            row_range = RowRange(producer, producer.steady(batch.anchor, self._clock), rows.count)
            if rows.body is None:
                self._arrive_joined(joined, now_ns)
                self._arrive([row_range], loosen(rows), now_ns)
                events = 0
            elif rows.count:
                joined.append((row_range, rows.body))
                events += rows.count
            if events >= limits.CHUNK_EVENTS:
                self._arrive_joined(joined, now_ns)
                events = 0
        self._arrive_joined(joined, now_ns)

    def _arrive_joined(self, joined: list[tuple[RowRange, memoryview]], now_ns: int) -> None:
        """Apply the joined rows and clear the list."""
        if joined and (self._is_observed or not self._usual.take(joined, now_ns)):
            body = joined[0][1] if len(joined) == 1 else b"".join(body for _, body in joined)
            self._arrive([row_range for row_range, _ in joined], unpack(body), now_ns)
        joined.clear()

    def _arrive(self, row_ranges: list[RowRange], rows: Rows, now_ns: int) -> None:
        group = BatchGroup(row_ranges, rows)
        if len(group):
            group.note_lag(now_ns)
            self._deliver(group, now_ns)

    def _release(self, producer: Producer, now_ns: int) -> None:
        """Apply waiting rows whose definition has arrived."""
        if producer.newly_bound and producer.waiting.count:
            routes, waited = producer.waiting.release(producer.ids)
            if len(routes):
                rows = Rows(waited.ids, waited.wall_times.astype(np.uint64), waited.values)
                self._deliver(BatchGroup([RowRange(producer, RUN_TIMES, len(routes))], rows, routes), now_ns)
        producer.newly_bound = False

    # --- routing ---------------------------------------------------------------------------------

    def _deliver(self, group: BatchGroup, now_ns: int) -> None:
        """Count every row in its producer's ledger, and pass the valid ones to the handlers."""
        bits, routes = group.rows.values.view(np.uint64), group.routes
        if bits.item(bits.argmax()) < _INFINITE and routes.item(routes.argmin()) >= 0:
            for row_range in group.row_ranges:
                row_range.producer.account.ledger.apply(row_range.rows)
            self._dispatch(group, None, now_ns)
            return
        outcome = _outcomes(group)
        self._settle(group, outcome, now_ns)
        good = (outcome == _APPLIED).nonzero()[0]
        if good.size:
            self._dispatch(group, good, now_ns)

    def _dispatch(self, group: BatchGroup, good: Index | None, now_ns: int) -> None:
        """Pass valid rows (all, if `good` is None) to the handlers of their kinds."""
        routes, values = group.routes, group.rows.values
        if good is not None:
            routes, values = routes.take(good), values.take(good)
        first, last = routes.item(routes.argmin()) >> INDEX_BITS, routes.item(routes.argmax()) >> INDEX_BITS
        if first == last:
            self._hand(first, KindRows(routes - (first << INDEX_BITS), values, group, good, now_ns))
            return
        for kind in range(first, last + 1):
            at = _rows_of(kind, routes, first, last)
            if at.size:
                index = routes.take(at)
                if kind:
                    index -= _FIRST_ROUTES[kind]
                self._hand(
                    kind, KindRows(index, values.take(at), group, at if good is None else good.take(at), now_ns)
                )

    def _hand(self, kind: int, part: KindRows) -> None:
        self._witness(kind, part)
        self._handlers[kind](part)

    def _settle(self, group: BatchGroup, outcome: NDArray[np.int8], now_ns: int) -> None:
        """Count the outcome of the rows of each range, and keep the rows that wait."""
        owners = group.owners()
        tallies = np.bincount(owners * _OUTCOMES + outcome, minlength=len(group.row_ranges) * _OUTCOMES)
        for row_range, tally in zip(group.row_ranges, tallies.reshape(-1, _OUTCOMES).tolist(), strict=True):
            ledger = row_range.producer.account.ledger
            ledger.apply(tally[_APPLIED])
            for number, reason in _REASONS.items():
                ledger.drop(reason, tally[number])
        wait = np.flatnonzero(outcome == _WAITING)
        if not len(wait):
            return
        rows = Waiting(group.rows.ids[wait], group.rows.values[wait], group.wall_times(wait, now_ns))
        bounds = np.searchsorted(owners[wait], np.arange(len(group.row_ranges) + 1)).tolist()
        for row_range, start, end in zip(group.row_ranges, bounds, bounds[1:], strict=False):
            if end > start:
                kept = row_range.producer.waiting.add(rows.part(slice(start, end)))
                row_range.producer.account.ledger.drop(Reason.UNKNOWN_ID, end - start - kept)


def _overtaking(batches: Sequence[EventBatch]) -> set[int]:
    """Return the positions of batches that precede a lower batch of the same producer."""
    lowest: dict[str, int] = {}
    positions = set()
    for at in range(len(batches) - 1, -1, -1):
        producer, seq = batches[at].producer, batches[at].seq
        if lowest.setdefault(producer, seq) < seq:
            positions.add(at)
        else:
            lowest[producer] = seq
    return positions


def _rows_of(kind: int, routes: Routes, first: int, last: int) -> Index:
    """Return the positions of the rows of one kind, among routes of the kinds `first` to `last`."""
    if kind == first:
        chosen = routes < _FIRST_ROUTES[kind + 1]
    elif kind == last:
        chosen = routes >= _FIRST_ROUTES[kind]
    else:
        chosen = (routes >= _FIRST_ROUTES[kind]) & (routes < _FIRST_ROUTES[kind + 1])
    return chosen.nonzero()[0]


def _refuse_late(
    owners: Sequence[Producer], batches: Sequence[EventBatch]
) -> tuple[list[Producer], list[EventBatch]]:
    """Refuse the batches of reconciled producers, and return the others."""
    kept = []
    for producer, batch in zip(owners, batches, strict=True):
        if producer.reconciled:
            producer.refuse(batch.seq)
        else:
            kept.append((producer, batch))
    return [producer for producer, _ in kept], [batch for _, batch in kept]


def _outcomes(group: BatchGroup) -> NDArray[np.int8]:
    """Return the outcome of each row. A row with an unknown id waits; its value is checked once the id is known."""
    routes, values = group.routes, group.rows.values
    outcome = np.zeros(len(routes), np.int8)
    outcome[(values < 0) & (routes >> INDEX_BITS != _SIGNED)] = _OF_NEGATIVE
    outcome[~np.isfinite(values)] = _OF_NOT_FINITE
    for route, number in _OF_ROUTE.items():
        outcome[routes == route] = number
    return outcome
