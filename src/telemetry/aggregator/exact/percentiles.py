"""Exact percentiles in constant memory, by replays of the journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from telemetry import limits
from telemetry.aggregator.exact.one_pass import (
    OnePass,
    Resolved,
    SlotColumns,
    ValueRange,
    WantedPercentile,
    ordinal,
    plan_pass,
)
from telemetry.aggregator.producers.book import RememberedProducer
from telemetry.aggregator.producers.producer import Producer
from telemetry.aggregator.registry import Registry
from telemetry.aggregator.rows import INDEX_BITS, Routes, read_rows
from telemetry.aggregator.series.ticks import Indices, TickColumns
from telemetry.statistics.hdr.layout import Floats
from telemetry.statistics.hdr.percentiles import RankSlots
from telemetry.wire.codec import Malformed, decode_record
from telemetry.wire.events import EventBatch, Sample


@dataclass(frozen=True, slots=True)
class GroupTargets:
    """Wanted slots of the series of one layout."""

    ticks: TickColumns
    members: Indices
    """Series index of each row."""
    rows: Indices
    """Rows that have values, one per line of `found`."""
    found: RankSlots


@dataclass(frozen=True, slots=True)
class ExactTargets:
    """Targets of the exact pass, and the mapping from values to slots."""

    percentiles: tuple[str, ...]
    groups: tuple[GroupTargets, ...]
    columns: SlotColumns
    integral: NDArray[np.bool_]
    """True for series whose values are all integers below 2**53."""


class ExactPass:
    """A search for exact values. Feed it all recorded values, call `end_pass`, and repeat until that returns True.

    For one thread.
    """

    def __init__(
        self,
        targets: ExactTargets,
        memory_bytes: int = limits.EXACT_MEMORY_BYTES,
        left_out: Mapping[int, str] | None = None,
    ) -> None:
        """Prepare the first pass. Series in `left_out` get no values; it has the reason for each."""
        self._targets = targets
        self._memory_bytes = memory_bytes
        self._values: dict[int, dict[str, float]] = {}
        self.problems: dict[int, str] = dict(left_out or {})
        """Series that get no values, and the reason: their values disagree with the histogram, for example."""
        resolved, spans = _first_spans(targets)
        self._note(resolved)
        self._begin(spans)

    @property
    def done(self) -> bool:
        """True if all wanted values were found, so that no further pass is needed."""
        return not self.current.spans

    def feed(self, index: Indices, value: Floats) -> None:
        """Process values that `SeriesTable.record` got, in any order and portions.

        Small portions wait for others, so the arrays must not be changed afterwards.
        """
        if self.current.spans:
            self.current.feed(index, value)

    def end_pass(self) -> bool:
        """End a pass. Return True if all wanted values were found, False if all values must be fed once more."""
        resolved, spans, problems = self.current.end()
        self.leave_out(dict(reversed(problems)))  # of several problems of a series, the first counts
        self._note(resolved)
        self._begin(spans)
        return self.done

    def values(self) -> dict[int, dict[str, float]]:
        """Return series index → percentile → value, for series whose percentiles are all known."""
        size = len(self._targets.percentiles)
        return {
            index: values
            for index, values in self._values.items()
            if len(values) == size and index not in self.problems
        }

    def leave_out(self, problems: Mapping[int, str]) -> None:
        """Give series no values, for the reason of each. Call it before `end_pass`, or at the very end."""
        for index, problem in problems.items():
            self.problems.setdefault(index, problem)

    def open_series(self) -> set[int]:
        """Return the series that need another pass."""
        return {span.series for span in self._spans}

    def _note(self, resolved: Resolved) -> None:
        for want, value in resolved:
            self._values.setdefault(want.series, {})[self._targets.percentiles[want.key]] = value

    def _begin(self, spans: list[ValueRange]) -> None:
        self._spans = [span for span in spans if span.series not in self.problems]
        self.current = OnePass(plan_pass(self._spans, self._memory_bytes), self._targets.columns)
        """The pass that the next values belong to."""


def _first_spans(targets: ExactTargets) -> tuple[Resolved, list[ValueRange]]:
    """Return values that are already known, and one span for each other wanted slot."""
    resolved: Resolved = []
    spans = []
    for number, group in enumerate(targets.groups):
        for span in _group_spans(number, group):
            integral = targets.integral[span.series]
            integer = group.ticks.only_integer(span.row, span.slot) if integral else None
            if integer is None:
                spans.append(span)
            else:
                resolved += [(want, integer) for want in span.wants]
    return resolved, spans


def _group_spans(number: int, group: GroupTargets) -> Iterable[ValueRange]:
    """Yield a span for each wanted slot."""
    rank_slots = group.found
    columns = (group.rows, rank_slots.slots, rank_slots.within, rank_slots.counts)
    lines = zip(*(column.tolist() for column in columns), strict=True)
    for row, slots, ranks, counts in lines:
        series = int(group.members[row])
        by_slot: dict[int, list[WantedPercentile]] = {}
        for key, (slot, rank) in enumerate(zip(slots, ranks, strict=True)):
            by_slot.setdefault(slot, []).append(WantedPercentile(series, key, rank))
        slot_counts = dict(zip(slots, counts, strict=True))
        for slot, wants in by_slot.items():
            first, last = group.ticks.range_of(row, slot)
            count = slot_counts[slot]
            yield ValueRange(series, number, row, slot, ordinal(first), ordinal(last), count, tuple(wants), True)


SeriesValues = tuple[NDArray[np.intp], NDArray[np.float64]]
_NOTHING: Final[SeriesValues] = np.zeros(0, np.intp), np.zeros(0)


def replay_series(
    batch: EventBatch, producer: Producer | RememberedProducer | None, registry: Registry
) -> SeriesValues:
    """Return indices and values in the order in which they were applied."""
    pieces: list[SeriesValues] = []
    if producer is not None and (producer.node is not None or not producer.belongs(batch.seq)):
        return _NOTHING  # the values of a node are in the journal of its leaf
    if batch.records:
        pieces.append(_samples(batch, registry))
    if producer is not None:
        pieces.append(_rows(batch, producer))
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        return _NOTHING
    return np.concatenate([index for index, _ in pieces]), np.concatenate([value for _, value in pieces])


def _rows(batch: EventBatch, producer: Producer | RememberedProducer) -> SeriesValues:
    if batch.rows.count is None:
        return _NOTHING
    rows = read_rows(batch.rows)
    return _of_series(producer.ids.look_up(rows.ids), rows.values)


def _samples(batch: EventBatch, registry: Registry) -> SeriesValues:
    routes, values = [], []
    for raw in batch.records:
        try:
            record = decode_record(raw)
        except Malformed:
            continue
        if isinstance(record, Sample):
            routes.append(registry.find("series", record.name, record.labels, record.unit))
            values.append(record.value)
    return _of_series(np.array(routes, np.intp), np.array(values, np.float64))


def _of_series(routes: Routes, values: NDArray[np.float64]) -> SeriesValues:
    """Filter values by the same conditions as when they were applied."""
    if not len(routes):
        return _NOTHING
    clean = routes.min() >= 0 and routes.max() < 1 << INDEX_BITS and values.min() >= 0 and values.max() < np.inf
    if not clean:
        good = (routes >= 0) & (routes < 1 << INDEX_BITS) & (values >= 0) & (values < np.inf)
        routes, values = routes[good], values[good]
    return routes.astype(np.intp), values
