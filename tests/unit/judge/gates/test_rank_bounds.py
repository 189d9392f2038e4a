"""Tests of the bounds of a rank's value, and of percentiles from these."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs
from tests.unit.judge.gates.fakes import Sorted

from telemetry.history.intervals.histograms import Histograms
from telemetry.judge.gates.evidence import Loss
from telemetry.judge.gates.rank_bounds import CellOrder, SlotOrder, StatOrder, quantile
from telemetry.statistics.hdr.layout import Layout
from telemetry.statistics.hdr.percentiles import parse_percentile, rank
from telemetry.wire.cells import cell
from telemetry.wire.snapshot import SeriesStat

VALUES = [float(value) for value in range(1, 5001)]


def slots_of(values: list[float], ticks: float = 1e6, digits: int = 3) -> Histograms:
    """Return the slots of the values as a history has them."""
    slots = Layout.of(digits).slot_of(np.rint(np.array(values) * ticks).astype(np.int64))
    places, counts = np.unique(slots, return_counts=True)
    return Histograms(
        digits=np.array([digits]),
        ticks_per_unit=np.array([ticks]),
        seconds=np.ones(1),
        count=np.array([len(values)]),
        total=np.array([sum(values)]),
        min=np.array([min(values)]),
        max=np.array([max(values)]),
        ends=np.array([places.size]),
        slots=places,
        counts=counts,
    )


def stat(
    values: list[float], *, exact: bool = True, keys: tuple[str, ...] = ("50", "99"), **more: object
) -> SeriesStat:
    ordered = sorted(values)
    cells: dict[int, int] = {}
    for value in values:
        cells[cell(round(value * 1e6))] = cells.get(cell(round(value * 1e6)), 0) + 1
    facts: dict[str, object] = {
        "name": "x",
        "unit": "ms",
        "count": len(values),
        "min": min(values),
        "max": max(values),
        "percentiles": {key: ordered[rank(parse_percentile(key), len(values)) - 1] for key in keys},
        "exact": exact,
        "error_bound": 0.0 if exact else 0.001,
        "histogram": sorted(cells.items()),
        "cell_unit": 1e-6,
    }
    return SeriesStat(**{**facts, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize("which", ["slots", "cells", "stat", "rounded"])
def test_every_rank_lies_where_it_is_said_to(which: str) -> None:
    """Every rank's value lies within its bounds, whatever the source of the bounds."""
    made = {
        "slots": SlotOrder(slots_of(VALUES), "ms"),
        "cells": CellOrder(stat(VALUES)),
        "stat": StatOrder(stat(VALUES), CellOrder(stat(VALUES))),
        "rounded": StatOrder(stat(VALUES, exact=False), SlotOrder(slots_of(VALUES), "ms")),
    }[which]
    assert made.count == len(VALUES)
    for number in (1, 2, 17, 500, 2499, 2500, 2501, 4950, 4951, 4999, 5000):
        low, high = made.at(number)
        assert low <= VALUES[number - 1] <= high, number


def test_how_wide_that_is_depends_on_what_is_known() -> None:
    """A slot is a thousandth, a cell a quarter, an exact percentile a point."""
    slots, cells = SlotOrder(slots_of(VALUES), "ms"), CellOrder(stat(VALUES))
    both = StatOrder(stat(VALUES), cells)
    assert slots.at(4000).high / slots.at(4000).low < 1.0011
    assert 1.1 < cells.at(4000).high / cells.at(4000).low < 1.26
    assert both.at(2500) == (2500, 2500)
    assert both.at(4000).high <= 4950
    assert both.at(2501).low >= 2500


def test_what_is_shown_is_what_reports_show() -> None:
    """A named percentile as the result has it, others as the history has them: the highest value of the slot."""
    order = StatOrder(stat(VALUES), SlotOrder(slots_of(VALUES), "ms"))
    assert order.shown("50", 2500) == 2500
    assert order.shown("60", 3000) == SlotOrder(slots_of(VALUES), "ms").shown("60", 3000) >= 3000


def test_whole_units_are_not_rounded() -> None:
    """Tokens are whole, so each lies in its own slot exactly."""
    assert SlotOrder(slots_of([3, 5, 5, 9], ticks=1.0), "tokens").at(2) == (5, 5)
    assert SlotOrder(slots_of([3, 5, 5, 9], ticks=1.0), "ms").at(2) == (4.5, 5.5)


def test_the_last_slot_holds_all_that_is_above_the_range() -> None:
    """The last slot and the last cell hold all values above the range, so they end at the maximum."""
    slots, cells = slots_of([1.0, 10.0, 10.0]), stat([1.0, 10.0, 10.0])
    beyond = SlotOrder(replace(slots, max=np.array([900.0])), "ms")
    assert (beyond.at(2).high, beyond.at(1).high < 1.01) == (900.0, True)
    assert CellOrder(structs.replace(cells, max=900.0)).at(3).high == 900.0
    below = SlotOrder(replace(slots, min=np.array([0.25])), "ms")
    assert below.at(1).low == 0.25


def test_cells_that_don_t_hold_all_values_say_only_what_the_ends_are() -> None:
    """Cells that lack values give only the two extremes as bounds.

    The values may be outside the series' range, or the file may have been edited.
    """
    assert CellOrder(stat([1.0, 2.0, 3.0], histogram=[(0, 1)])).at(2) == (1, 3)
    assert CellOrder(stat([1.0, 2.0], histogram=[(10**9, 2)])).at(1) == (1, 2)
    assert CellOrder(SeriesStat(name="x", count=2)).at(1) == (0, math.inf)


def test_keys_that_are_no_percentiles_are_passed_over() -> None:
    """A result that anybody may have written; so is an error that nobody knows."""
    odd = stat([1.0, 2.0], percentiles={"fifty": 1.0, "50": 1.0})
    assert StatOrder(odd, CellOrder(odd)).at(1) == (1, 1)
    unknown = stat([1.0, 2.0], exact=False, error_bound=None, histogram=[])
    assert StatOrder(unknown, CellOrder(unknown)).at(1) == (1, 2)


def test_a_percentile_of_no_values_is_none() -> None:
    """A percentile of no values is `None`. A percentile of one value is that value, without confidence bounds."""
    assert quantile(Sorted([]), "50", Loss()) is None
    found = quantile(Sorted([7]), "50", Loss())
    assert found is not None
    assert (found.value, found.possible, found.likely) == (7, (7, 7), (-math.inf, math.inf))


def test_losses_move_the_rank_both_ways() -> None:
    """All lost above, or all lost below; never knowing is anything."""
    thousand = Sorted([float(value) for value in range(1, 1001)])
    found = quantile(thousand, "99", Loss(certain=5, most=5))
    assert found is not None
    assert found.possible == (990, 995)
    beyond = quantile(thousand, "99", Loss(most=500))
    assert beyond is not None
    assert beyond.possible == (985, math.inf)
    never = quantile(thousand, "99", Loss(most=math.inf))
    assert never is not None
    assert never.possible == (0, math.inf)
    below = quantile(thousand, "1", Loss(most=500))
    assert below is not None
    assert below.possible == (0, 15)
