"""Rows that wait for their definition."""

from __future__ import annotations

import numpy as np
import pytest

from telemetry.aggregator.budgets import Budget
from telemetry.aggregator.producers.ids import IdTable, Waiting, WaitingRows


def _rows(*ids: int) -> Waiting:
    column = np.array(ids, np.intp)
    return Waiting(column + 1, column * 1.5, column.astype(np.int64) * 10)


def test_rows_come_out_once_their_id_is_bound() -> None:
    """Rows come out in order of arrival with values and times once their id is bound. Other rows stay."""
    budget = Budget(100)
    waiting, table = WaitingRows(budget), IdTable(Budget(1_000))
    assert waiting.add(_rows(1, 2)) == 2
    assert waiting.add(_rows(2, 3, 1)) == 3
    table.bind(1, 70)
    table.bind(3, 71)
    routes, rows = waiting.release(table)
    assert routes.tolist() == [70, 71, 70]
    assert rows.values.tolist() == [1.5, 4.5, 1.5]
    assert rows.wall_times.tolist() == [10, 30, 10]
    assert (waiting.count, budget.left) == (2, 98)
    assert len(waiting.release(table)[0]) == 0
    assert waiting.count == 2


def test_all_producers_share_the_room() -> None:
    """All producers share the room: `add` returns how many rows fit, and the first ones are kept.

    Given-up rows make room again.
    """
    budget = Budget(4)
    one, other = WaitingRows(budget), WaitingRows(budget)
    assert one.add(_rows(1, 2, 3)) == 3
    assert other.add(_rows(1, 2, 3)) == 1
    assert other.add(_rows(1)) == 0
    assert one.discard() == 3
    assert (one.count, budget.left) == (0, 3)
    assert other.add(_rows(5)) == 1


def test_many_small_pieces_are_joined() -> None:
    """Hundreds of single rows keep their order."""
    waiting, table = WaitingRows(Budget(1_000)), IdTable(Budget(1_000))
    for number in range(300):
        waiting.add(_rows(number))
    for number in range(300):
        table.bind(number, number)
    routes, _ = waiting.release(table)
    assert routes.tolist() == list(range(300))


def test_rows_can_be_given_to_a_new_owner() -> None:
    """A new owner gets the rows in their order, however they came, and they take room there."""
    waiting, other = WaitingRows(Budget(100)), WaitingRows(Budget(5))
    for number in (4, 2, 9):
        waiting.add(_rows(number))
    other.rows = waiting.rows
    assert other.rows.values.tolist() == [6.0, 3.0, 13.5]
    assert (other.count, waiting.count) == (3, 3)
    empty = WaitingRows(Budget(0))
    empty.rows = WaitingRows(Budget(0)).rows
    assert empty.count == 0


def test_rows_without_room_or_of_unequal_columns_are_refused() -> None:
    """Rows without room or of unequal columns are refused.

    Otherwise the rows would be lost, or belong to no producer.
    """
    rows = _rows(1, 2, 3)
    with pytest.raises(ValueError, match="no room"):
        WaitingRows(Budget(2)).rows = rows
    with pytest.raises(ValueError, match="no room"):
        WaitingRows(Budget(9)).rows = rows._replace(values=rows.values[:2])
