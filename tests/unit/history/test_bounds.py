"""Bounds contain the percentile that is shown, wherever they come from."""

from __future__ import annotations

import numpy as np
import pytest

from telemetry.history.bounds import bound_ranks, is_percentile, series_bounds
from telemetry.statistics.confidence import rank_bounds
from telemetry.wire.cells import cell, edge
from telemetry.wire.report import Bounds
from telemetry.wire.snapshot import SeriesStat


def stat(values: list[int], **facts: object) -> SeriesStat:
    """Return the exact figures of a series of whole ticks."""
    ordered = sorted(values)
    cells = np.unique([cell(value) for value in values], return_counts=True)
    told: dict[str, object] = {
        "name": "s",
        "count": len(values),
        "min": ordered[0],
        "max": ordered[-1],
        "percentiles": {"50": ordered[-(-len(values) // 2) - 1]},
        "histogram": list(zip(cells[0].tolist(), cells[1].tolist(), strict=True)),
        "cell_unit": 1.0,
    }
    return SeriesStat(**(told | facts))  # type: ignore[arg-type]


def median_bounds(of: SeriesStat) -> Bounds:
    (found,) = series_bounds([of])
    return found.percentiles["50"]


def test_cells_are_bounds_too() -> None:
    """The edges of the cells that hold the ranks; where those are the outermost, the extremes."""
    values = list(range(100, 1_100))
    found = median_bounds(stat(values))
    low, high = rank_bounds((1, 2), 1_000)
    assert low is not None
    assert high is not None
    assert found.low == edge(cell(values[low - 1]))
    assert found.high == edge(cell(values[high - 1]) + 1)
    assert found.beyond == 500
    narrow = median_bounds(stat([1_000] * 50))
    assert (narrow.low, narrow.high) == (1_000, 1_000)


@pytest.mark.parametrize(
    "facts",
    [
        {"histogram": []},
        {"histogram": [(3, 7)]},
        {"histogram": [(1 << 62, 50)]},
        {"histogram": [(-5, 50)]},
        {"histogram": [(3, -7), (4, 57)]},
    ],
    ids=["none", "of others", "beyond all cells", "before all cells", "negative"],
)
def test_cells_that_can_not_be(facts: dict[str, object]) -> None:
    """Anybody may have written a result: bounds are unknown then, and what is beyond is not."""
    assert median_bounds(stat([1_000] * 50, **facts)) == Bounds(beyond=25)


def test_values_outside_the_range_are_in_the_outermost_cells() -> None:
    """There the extremes are the only bounds: the cell's own edge would cut them off."""
    beyond = stat([100] * 40 + [1_000] * 60, max=1e6, percentiles={"50": 1_000})
    assert median_bounds(beyond).high == 1e6
    before = stat([100] * 60 + [1_000] * 40, min=1e-3, percentiles={"50": 100})
    assert median_bounds(before).low == 1e-3


def test_few_values_have_no_bounds() -> None:
    """Five values say nothing of their median at 95 %, six do."""
    assert median_bounds(stat([1, 2, 3, 4, 5])) == Bounds(beyond=2)
    assert None not in (median_bounds(stat([1, 2, 3, 4, 5, 6])).low, median_bounds(stat([1, 2, 3, 4, 5, 6])).high)


def test_rounding_puts_no_value_outside() -> None:
    """A value between two ticks is still within its own bounds."""
    found = median_bounds(stat([4] * 50, percentiles={"50": 3.9}, min=3.9))
    assert found.low is not None
    assert found.low <= 3.9


def test_what_is_no_percentile_is_passed_over() -> None:
    """A key that says nothing has no bounds; a series without values has none at all."""
    (found,) = series_bounds([stat([5] * 50, percentiles={"50": 5, "most": 5, "101": 5}), SeriesStat(name="empty")])
    assert list(found.percentiles) == ["50"]
    assert [key for key in ("50", "99.99", "100", "0", "x", "") if is_percentile(key)] == ["50", "99.99", "100"]


def test_ranks_of_all_series_at_once() -> None:
    """A line for each, two ranks for each percentile; a rank stands in where there is no bound."""
    assert bound_ranks(np.array([0, 5, 1_000]), ["50", "99.9"]).tolist() == [
        [1, 1, 1, 1],
        [1, 1, 5, 1],
        [*(rank or 1 for rank in rank_bounds((1, 2), 1_000)), rank_bounds((999, 1_000), 1_000)[0], 1],
    ]
