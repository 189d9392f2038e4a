"""Rows that may be later than all beginnings."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from telemetry import limits
from telemetry.aggregator.checkpoint import encode, load, save
from telemetry.aggregator.series import extents
from telemetry.aggregator.series.extents import Tail


def added(tail: Tail, *rows: tuple[int, int, float]) -> Tail:
    places, wall_times, values = zip(*rows, strict=True)
    tail.expect(len(rows))
    tail.add(np.array(places, np.int32), np.array(wall_times), np.array(values))
    return tail


def rows_of(tail: Tail) -> list[tuple[int, int, float]]:
    return list(zip(*(column.tolist() for column in tail.rows), strict=True))


ROWS = [(0, 5, 1.5), (1, 9, 2.0), (0, 7, 4.0)]


def test_rows_stay_in_order_of_arrival_until_they_are_released() -> None:
    """Whose they are, and what they are worth, is given back; the others move up."""
    tail = added(Tail(), *ROWS)
    assert (len(tail), rows_of(tail)) == (3, ROWS)
    places, values = tail.release(tail.wall_times > 6)
    assert (places.tolist(), values.tolist()) == ([1, 0], [2.0, 4.0])
    assert rows_of(added(tail, (2, 1, 0.0))) == [ROWS[0], (2, 1, 0.0)]


def test_it_is_due_when_as_many_came_as_were_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Announced rows count, whether they were added yet or not: so a row costs the same however many there are."""
    monkeypatch.setattr(extents, "_FEWEST", 2)
    tail = added(Tail(), *ROWS)
    assert tail.rows_until_due <= 0
    tail.release(np.zeros(3, np.bool_))
    assert tail.rows_until_due == 3
    tail.expect(2)
    assert tail.rows_until_due == 1
    tail.expect(1)
    assert tail.rows_until_due == 0


def test_the_oldest_are_shed_where_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest rows are shed, as many as there are too many."""
    monkeypatch.setattr(limits, "EXTENT_ROWS", 2)
    tail = added(Tail(), *ROWS)
    assert tail.is_full
    places, values = tail.shed()
    assert (places.tolist(), values.tolist()) == ([0], [1.5])
    assert not tail.is_full
    assert rows_of(tail) == ROWS[1:]


def test_it_comes_back_from_a_checkpoint() -> None:
    """The tail comes back from a checkpoint with what decides when it is looked through."""
    tail = added(Tail(), *ROWS)
    tail.release(np.array([True, False, False]))
    tail.expect(1)
    again = Tail()
    load(again, msgspec.msgpack.decode(encode(save(tail))))
    assert rows_of(again) == ROWS[1:]
    assert save(again)["_left"] == 2
    assert save(again)["_came"] == 1
