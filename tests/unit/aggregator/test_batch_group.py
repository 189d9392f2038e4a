"""Rows of several batches side by side."""

from __future__ import annotations

import numpy as np
import pytest

from telemetry.aggregator.batch_rows import RUN_TIMES, BatchGroup, RowRange, wall_ns
from telemetry.aggregator.config import AggregatorConfig
from telemetry.aggregator.producers.book import ProducerBook
from telemetry.aggregator.producers.producer import Producer
from telemetry.aggregator.rows import UNKNOWN, Rows, shift_ids

LATE = (1 << 63) - 1
NOW = 1_000_000


def _producers(*keys: str) -> list[Producer]:
    book = ProducerBook(AggregatorConfig())
    producers = [book.meet(key, 0) for key in keys]
    return [producer for producer in producers if producer is not None]


def _rows(ids: list[float], times: list[int]) -> Rows:
    return Rows(shift_ids(np.array(ids)), np.array(times, np.uint64), np.zeros(len(ids)))


def test_each_lot_is_routed_by_its_own_producer() -> None:
    """The same id means another instrument in another producer."""
    one, other = _producers("one", "other")
    one.ids.bind(1, 11)
    other.ids.bind(1, 22)
    row_ranges = [RowRange(one, (0, 0), 2), RowRange(other, (0, 0), 2), RowRange(one, (0, 0), 1)]
    group = BatchGroup(row_ranges, _rows([1, 2, 1, 2, 1], [0] * 5))
    assert group.routes.tolist() == [11, UNKNOWN, 22, UNKNOWN, 11]
    assert group.owners().tolist() == [0, 0, 1, 1, 2]


def test_times_become_wall_clock_by_the_anchor_of_their_batch() -> None:
    """Time 0 is when the batch was made, or now; nothing is later than now or before 1970."""
    (producer,) = _producers("p")
    row_ranges = [
        RowRange(producer, (100, 5_000), 4),
        RowRange(producer, (0, 0), 1),
        RowRange(producer, (9_000, 10), 1),
    ]
    group = BatchGroup(row_ranges, _rows([0.0] * 6, [90, 100, 0, LATE, 0, 5]))
    assert group.wall_times(slice(None), NOW).tolist() == [4_990, 5_000, 5_000, NOW, NOW, 0]
    assert group.wall_times(np.array([0, 2]), NOW).tolist() == [4_990, 5_000]


@pytest.mark.parametrize("anchor", [(0, LATE), (LATE, 0), (LATE, LATE), (0, 0)])
@pytest.mark.parametrize("time_ns", [1, LATE, (1 << 64) - 1])
def test_lying_clocks_stay_within_bounds(anchor: tuple[int, int], time_ns: int) -> None:
    """No anchor and no time overflows: rows end between 1970 and now, records within int64."""
    (producer,) = _producers("p")
    group = BatchGroup([RowRange(producer, anchor, 1)], _rows([0.0], [time_ns]))
    assert 0 <= int(group.wall_times(slice(None), NOW)[0]) <= NOW
    assert 0 <= wall_ns(min(time_ns, LATE), anchor, NOW) <= LATE


def test_a_record_may_lie_ahead() -> None:
    """A mark's time is taken as it is; 0 means when the batch was made, or now."""
    assert wall_ns(150, (100, 5_000), NOW) == 5_050
    assert wall_ns(NOW * 2, RUN_TIMES, NOW) == NOW * 2
    assert wall_ns(0, (100, 5_000), NOW) == 5_000
    assert wall_ns(0, (0, 0), NOW) == NOW


def test_lag_is_the_age_of_the_last_event() -> None:
    """Each producer has its own; a clock that runs ahead has none."""
    one, other = _producers("one", "other")
    row_ranges = [RowRange(one, (0, NOW - 500), 2), RowRange(other, (0, NOW), 1)]
    BatchGroup(row_ranges, _rows([0.0] * 3, [1, 100, 50])).note_lag(NOW)
    assert one.lag_s == pytest.approx(400e-9)
    assert other.lag_s == 0.0
