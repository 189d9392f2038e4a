"""From admitted batches to columns: records one by one, rows of many batches at once.

A row's route names its kind; `handlers` maps kinds to what takes their rows. A new kind of instrument is one more
entry there, and one more in `telemetry.aggregator.routes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from telemetry import limits
from telemetry.aggregator.group import WALL_TIMES, Group, Lot
from telemetry.aggregator.producers import Producer, ProducerBook
from telemetry.aggregator.records import RecordReader, StreamedRecord
from telemetry.aggregator.routes import CONFLICT, INDEX_BITS, INVALID, KIND_CODES, MALFORMED, UNKNOWN, Routes
from telemetry.aggregator.rows import Rows, canonical_body, count_rows, loosen, unpack
from telemetry.aggregator.waiting import Waiting
from telemetry.ledger import Reason
from telemetry.wire.events import EventBatch

Index = NDArray[np.intp]
Values = NDArray[np.float64]
Walls = Callable[[Index | slice], NDArray[np.int64]]
"""Computes the wall clock of some of the rows: most kinds need it of none."""
Handler = Callable[[Index, Values, Walls], None]
Witness = Callable[[Group, Index | None, int], None]
"""Sees all rows that are applied, of all kinds at once: a group, which of its rows (None: all), the wall clock."""

_SIGNED: Final = KIND_CODES["gauge"]
"""The kind that takes negative values."""

# What becomes of a row: it is applied, it waits, or it is dropped for a reason.
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
    """Each admitted event ends in exactly one place: a column, the record stream, a drop reason, or among the
    waiting rows of its producer."""

    def __init__(
        self, book: ProducerBook, records: RecordReader, handlers: Mapping[int, Handler], witness: Witness
    ) -> None:
        self._book = book
        self._records = records
        self._handlers = handlers
        self._witness = witness

    def apply(self, batches: Sequence[EventBatch], now_ns: int) -> list[StreamedRecord]:
        """Applies admitted batches, records first, so that a definition is known before any row of the call is
        routed; those of producers that are reconciled are refused. `now_ns` is wall clock. Returns the records for
        the stream, in order."""
        owners = [self._book[batch.producer] for batch in batches]
        if any(producer.closed_at is not None for producer in owners):
            owners, batches = _refuse_late(owners, batches)
        streamed: list[StreamedRecord] = []
        if any(batch.records for batch in batches):
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
        """Those for the stream; what they describe themselves is applied."""
        streamed: list[StreamedRecord] = []
        overtaking = _overtaking(batches)
        for at, (producer, batch) in enumerate(zip(owners, batches, strict=True)):
            if batch.records:
                since = batch.seq if at in overtaking else producer.sequence.unbroken_from(batch.seq)
                streamed += self._records.read(producer, batch, now_ns, since)
        described = self._records.take_values()
        if described is not None:
            self._deliver(described, now_ns)
        return streamed

    # --- rows ------------------------------------------------------------------------------------

    def _apply_rows(self, owners: Sequence[Producer], batches: Sequence[EventBatch], now_ns: int) -> None:
        """Joins canonical rows up to a chunk, which stays in the cache; larger batches go by themselves."""
        packed: list[tuple[Lot, EventBatch, memoryview]] = []
        joined = 0
        for producer, batch in zip(owners, batches, strict=True):
            count = count_rows(batch.rows)
            if not count.readable:
                producer.account.ledger.drop(Reason.MALFORMED_ROWS, count.events)
                continue
            lot = Lot(producer, producer.steady(batch.anchor), count.events)
            body = canonical_body(batch.rows)
            if body is None:
                self._arrive(Group([lot], loosen(batch.rows)), now_ns)
            elif count.events:
                packed.append((lot, batch, body))
                joined += count.events
            if joined >= limits.CHUNK_EVENTS:
                self._apply_packed(packed, now_ns)
                packed, joined = [], 0
        if packed:
            self._apply_packed(packed, now_ns)

    def _apply_packed(self, packed: Sequence[tuple[Lot, EventBatch, memoryview]], now_ns: int) -> None:
        rows = unpack(packed[0][2] if len(packed) == 1 else b"".join(body for _, _, body in packed))
        if rows is not None:
            self._arrive(Group([lot for lot, _, _ in packed], rows), now_ns)
            return
        for lot, batch, body in packed:  # one of them only looked canonical; its neighbours go on
            self._arrive(Group([lot], unpack(body) or loosen(batch.rows)), now_ns)

    def _arrive(self, group: Group, now_ns: int) -> None:
        if not len(group):
            return
        group.note_lag(now_ns)
        self._deliver(group, now_ns)

    def _release(self, producer: Producer, now_ns: int) -> None:
        """Rows that waited for a definition which has come."""
        if producer.newly_bound and producer.waiting.count:
            routes, waited = producer.waiting.release(producer.ids)
            if len(routes):
                rows = Rows(waited.ids, waited.walls.astype(np.uint64), waited.values)
                self._deliver(Group([Lot(producer, WALL_TIMES, len(routes))], rows, routes), now_ns)
        producer.newly_bound = False

    # --- routing ---------------------------------------------------------------------------------

    def _deliver(self, group: Group, now_ns: int) -> None:
        """Credits every row to its producer's ledger and hands the good ones to their kinds."""
        routes, values = group.routes, group.rows.values
        least, most = values.item(values.argmin()), values.item(values.argmax())
        if least >= 0 and most < np.inf and routes.item(routes.argmin()) >= 0:  # false for a NaN anywhere
            for lot in group.lots:
                lot.producer.account.ledger.apply(lot.rows)
            self._dispatch(group, None, now_ns)
            return
        outcome = _outcomes(group)
        self._settle(group, outcome, now_ns)
        good = np.flatnonzero(outcome == _APPLIED)
        if len(good):
            self._dispatch(group, good, now_ns)

    def _dispatch(self, group: Group, good: Index | None, now_ns: int) -> None:
        """Good rows (all, if `good` is None) to the handlers of their kinds."""
        self._witness(group, good, now_ns)
        routes = group.routes if good is None else group.routes[good]
        first, last = routes.item(routes.argmin()) >> INDEX_BITS, routes.item(routes.argmax()) >> INDEX_BITS
        if first == last and good is None:
            index = (routes - (first << INDEX_BITS)).astype(np.intp)
            self._handlers[first](index, group.rows.values, partial(group.walls, now_ns=now_ns))
            return
        for kind in range(first, last + 1):
            of_kind = _rows_of(kind, routes, first, last)
            if of_kind.size:
                at = of_kind if good is None else good[of_kind]
                index = routes.take(of_kind).astype(np.intp)
                if kind:
                    index -= kind << INDEX_BITS
                self._handlers[kind](index, group.rows.values.take(at), partial(_walls_of, group, at, now_ns))

    def _settle(self, group: Group, outcome: NDArray[np.int8], now_ns: int) -> None:
        """Books what became of each lot's rows, and keeps those that wait."""
        owners = group.owners()
        tallies = np.bincount(owners * _OUTCOMES + outcome, minlength=len(group.lots) * _OUTCOMES)
        for lot, tally in zip(group.lots, tallies.reshape(-1, _OUTCOMES).tolist(), strict=True):
            ledger = lot.producer.account.ledger
            ledger.apply(tally[_APPLIED])
            for number, reason in _REASONS.items():
                ledger.drop(reason, tally[number])
        wait = np.flatnonzero(outcome == _WAITING)
        if not len(wait):
            return
        rows = Waiting(group.rows.ids[wait], group.rows.values[wait], group.walls(wait, now_ns))
        bounds = np.searchsorted(owners[wait], np.arange(len(group.lots) + 1)).tolist()
        for lot, start, end in zip(group.lots, bounds, bounds[1:], strict=False):
            if end > start:
                kept = lot.producer.waiting.add(rows.part(slice(start, end)))
                lot.producer.account.ledger.drop(Reason.UNKNOWN_ID, end - start - kept)


def _overtaking(batches: Sequence[EventBatch]) -> set[int]:
    """Places of those that come before a lower one of the same producer."""
    lowest: dict[str, int] = {}
    found = set()
    for at in range(len(batches) - 1, -1, -1):
        producer, seq = batches[at].producer, batches[at].seq
        if lowest.setdefault(producer, seq) < seq:
            found.add(at)
        else:
            lowest[producer] = seq
    return found


def _rows_of(kind: int, routes: Routes, first: int, last: int) -> Index:
    """Those of a kind, among routes of the kinds `first` to `last`."""
    below, above = (kind + 1) << INDEX_BITS, kind << INDEX_BITS
    if kind == first:
        return (routes < below).nonzero()[0]
    if kind == last:
        return (routes >= above).nonzero()[0]
    return ((routes >= above) & (routes < below)).nonzero()[0]


def _walls_of(group: Group, at: Index, now_ns: int, rows: Index | slice) -> NDArray[np.int64]:
    return group.walls(at[rows], now_ns)


def _refuse_late(
    owners: Sequence[Producer], batches: Sequence[EventBatch]
) -> tuple[list[Producer], list[EventBatch]]:
    """The others, after those of reconciled producers are refused."""
    kept = []
    for producer, batch in zip(owners, batches, strict=True):
        if producer.reconciled:
            producer.refuse(batch.seq)
        else:
            kept.append((producer, batch))
    return [producer for producer, _ in kept], [batch for _, batch in kept]


def _outcomes(group: Group) -> NDArray[np.int8]:
    """What becomes of each row. An unknown id is looked into only when it is known."""
    routes, values = group.routes, group.rows.values
    outcome = np.zeros(len(routes), np.int8)
    outcome[(values < 0) & (routes >> INDEX_BITS != _SIGNED)] = _OF_NEGATIVE
    outcome[~np.isfinite(values)] = _OF_NOT_FINITE
    for route, number in _OF_ROUTE.items():
        outcome[routes == route] = number
    return outcome
