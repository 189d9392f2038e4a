"""Journaled batches once more."""

from __future__ import annotations

import math

import numpy as np
from msgspec import Raw
from msgspec.structs import replace

from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.testing import batch, loose_rows, with_raw_rows
from telemetry.testing.builders import MONO_NS
from telemetry.wire.events import Count, Define, EventBatch, Mark, Sample

T = MONO_NS
DEFINES = [Define(1, "a", "series"), Define(2, "b", "counter"), Define(3, "c", "series")]


def _values(aggregator: Aggregator, sent: EventBatch) -> list[tuple[int, float]]:
    index, value = aggregator.series_values(sent)
    assert index.dtype == np.intp
    return list(zip(index.tolist(), value.tolist(), strict=True))


def test_gives_what_went_into_series_and_changes_nothing() -> None:
    """Rows and samples with good values; counters, bad values and unknown ids are left out."""
    aggregator = Aggregator(AggregatorConfig())
    rows = [(1, T, 5), (2, T, 1), (3, T, math.nan), (3, T, 6), (9, T, 1), (1, T, -1), (1, T, math.inf)]
    sent = batch(records=[*DEFINES, Sample("d", 2.0), Count("b"), Mark("m")], rows=rows)
    assert aggregator.admit(sent, 0)
    aggregator.apply([sent], 0, 0)
    before = aggregator.snapshot(SnapshotFacts(run_id="r", name="n"), 0, 0)
    assert _values(aggregator, sent) == [(2, 2.0), (0, 5.0), (1, 6.0)]
    assert aggregator.snapshot(SnapshotFacts(run_id="r", name="n"), 0, 0) == before


def test_a_definition_that_came_later_holds_for_earlier_rows() -> None:
    """Rows that waited are in the series, so they are in the replay."""
    aggregator = Aggregator(AggregatorConfig())
    early, late = batch(seq=0, rows=[(1, T, 5)]), batch(seq=1, first=1, records=DEFINES)
    for sent in (early, late):
        assert aggregator.admit(sent, 0)
        aggregator.apply([sent], 0, 0)
    assert _values(aggregator, early) == [(0, 5.0)]


def test_what_cant_be_read_gives_nothing() -> None:
    """Unreadable rows and records, unknown producers, unknown names."""
    aggregator = Aggregator(AggregatorConfig())
    sent = batch(records=DEFINES, rows=[(1, T, 5)])
    assert aggregator.admit(sent, 0)
    aggregator.apply([sent], 0, 0)
    assert _values(aggregator, with_raw_rows(sent, Raw(b"\xc0"))) == []
    assert _values(aggregator, with_raw_rows(sent, loose_rows([1, 2]))) == []
    assert _values(aggregator, replace(sent, records=[Raw(b"\xc0")])) == [(0, 5.0)]
    assert _values(aggregator, batch("stranger", rows=[(1, T, 5)])) == []
    assert _values(aggregator, batch("stranger", records=[Sample("nobody's", 1.0)])) == []
