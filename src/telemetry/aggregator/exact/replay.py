"""Replay of a journaled batch for the exact pass: it reads only values of series and counts nothing."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from telemetry.aggregator.producers.folded import RememberedProducer
from telemetry.aggregator.producers.producer import Producer
from telemetry.aggregator.registry import Registry
from telemetry.aggregator.routes import INDEX_BITS, Routes
from telemetry.aggregator.rows import read_rows
from telemetry.wire.codec import Malformed, decode_record
from telemetry.wire.events import EventBatch, Sample

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
