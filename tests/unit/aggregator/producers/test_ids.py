"""Row ids → routes."""

from __future__ import annotations

import numpy as np
import pytest

from telemetry import limits
from telemetry.aggregator.budgets import Budget
from telemetry.aggregator.producers.ids import IdTable
from telemetry.aggregator.rows import MALFORMED, UNKNOWN, shift_ids


def _look_up(table: IdTable, ids: list[float]) -> list[int]:
    return table.look_up(shift_ids(np.array(ids, np.float64))).tolist()


def test_an_empty_table_knows_no_id() -> None:
    """Ids are unknown and non-ids malformed from the start."""
    table = IdTable(Budget(1_000))
    assert _look_up(table, [0, 5, 65_535, -1, 0.5]) == [UNKNOWN, UNKNOWN, UNKNOWN, MALFORMED, MALFORMED]
    assert table[3] == UNKNOWN


def test_bound_ids_are_found_and_their_neighbours_stay_unknown() -> None:
    """Growing keeps what was bound; ids between and beyond stay unknown."""
    table = IdTable(Budget(limits.ID_SLOTS))
    for row_id in (0, 15, 16, 17, 300, limits.PRODUCER_IDS - 1):
        assert table.bind(row_id, row_id + 7)
        assert table[row_id] == row_id + 7
    assert _look_up(table, [0, 15, 16, 17, 300, 65_535]) == [7, 22, 23, 24, 307, 65_542]
    assert _look_up(table, [1, 14, 18, 301, 65_534]) == [UNKNOWN] * 5


def test_ids_outside_the_bounds_are_not_bound() -> None:
    """Negative ids and ids at the limit have no place."""
    table = IdTable(Budget(limits.ID_SLOTS))
    assert not table.bind(-1, 3)
    assert not table.bind(limits.PRODUCER_IDS, 3)


def test_all_tables_share_one_budget() -> None:
    """A producer that asks for a large table leaves less for the next, which is told so."""
    budget = Budget(2_000)
    first, second = IdTable(budget), IdTable(budget)
    assert first.bind(1_000, 1)
    assert not second.bind(1_000, 1)
    assert second.bind(100, 1)
    assert second[1_000] == UNKNOWN


def test_a_table_that_is_given_the_routes_of_another_is_the_same() -> None:
    """A table with another's routes takes as much of the shared room, and has room for the same ids."""
    budget, other_budget = Budget(100), Budget(100)
    table, other = IdTable(budget), IdTable(other_budget)
    for row_id in (0, 3, 17):
        assert table.bind(row_id, 40 + row_id)
    other.bound = table.bound
    ids = [0.0, 1.0, 3.0, 17.0, 18.0, 99.0, -1.0]
    assert _look_up(other, ids) == _look_up(table, ids)
    assert other_budget.left == budget.left
    assert [other.bind(31, 5), other.bind(99, 5)] == [table.bind(31, 5), table.bind(99, 5)]
    empty = IdTable(Budget(0))
    empty.bound = IdTable(Budget(0)).bound
    assert _look_up(empty, [0.0]) == [UNKNOWN]


def test_more_routes_than_there_is_room_for_are_refused() -> None:
    """Routes beyond the room of the table, or of all tables, are refused."""
    for room, routes in ((10, 11), (1 << 20, limits.PRODUCER_IDS + 1)):
        with pytest.raises(ValueError, match="no room"):
            IdTable(Budget(room)).bound = np.zeros(routes, np.int32)
