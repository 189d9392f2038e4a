"""Rows of many groups come out as they went in, with the clocks of the producers they are of."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from telemetry.aggregator.config import AggregatorConfig
from telemetry.aggregator.group import Group, Lot
from telemetry.aggregator.producers import Producer, ProducerBook
from telemetry.aggregator.routes import UNKNOWN, Routes, route
from telemetry.aggregator.rows import Rows
from telemetry.aggregator.witnessed import Slots, Witnessed, slots_of

NOW_NS = 10**18


@pytest.fixture
def producer() -> Producer:
    found = ProducerBook(AggregatorConfig()).meet("p", 0)
    assert found is not None
    return found


def group(lots: list[Lot], routes: list[int]) -> Group:
    """Each row has its place as value, and the hundredfold of it as time; the first one has none."""
    places = np.arange(len(routes))
    rows = Rows(places, (100 * places).astype(np.uint64), places.astype(np.float64))
    return Group(lots, rows, np.array(routes, np.int32))


def everything(slots: Slots) -> NDArray[np.intp]:
    return np.arange(len(slots))


def test_slots_tell_routes_apart() -> None:
    """They are small where routes of a second kind are beyond 16 million."""
    routes = [route(kind, index) for kind in ("series", "counter", "gauge") for index in (0, 1, (1 << 24) - 1)]
    slots = slots_of(np.array(routes, np.int32)).tolist()
    assert len(set(slots)) == len(routes)
    assert slots[:2] == [0, 4]
    assert slots[3] == 1
    assert min(slots) >= 0


def test_rows_of_several_groups_and_lots(producer: Producer) -> None:
    """Clocks are those of the lot that a row is of; a row without a time was made with its batch, or just now."""
    witnessed = Witnessed()
    first = [Lot(producer, (0, 1_000), 2), Lot(producer, (100, 5_000), 3)]
    witnessed.add(group(first, [7, 8, 9, 7, 8]), None, NOW_NS)
    witnessed.add(group([Lot(producer, (0, 0), 2)], [8, 9]), None, NOW_NS + 1)
    assert witnessed.rows == 7
    rows = witnessed.take(everything)
    assert rows.slots.tolist() == (4 * np.array([7, 8, 9, 7, 8, 8, 9])).tolist()
    assert rows.values.tolist() == [0, 1, 2, 3, 4, 0, 1]
    assert rows.walls.tolist() == [1_000, 1_100, 5_100, 5_200, 5_300, NOW_NS + 1, 100]
    assert rows.group_ends == [5, 7]
    assert witnessed.rows == 0


def test_only_good_and_chosen_rows_come_out(producer: Producer) -> None:
    """Rows that were not applied, and those nobody asked for, are forgotten."""

    def nines(slots: Slots) -> NDArray[np.intp]:
        return (slots == 4 * 9).nonzero()[0]

    witnessed = Witnessed()
    lots = [Lot(producer, (0, 1), 4)]
    witnessed.add(group(lots, [9, 9, UNKNOWN, 9]), np.array([0, 3]), NOW_NS)
    witnessed.add(group(lots, [8, 8, 8, 8]), None, NOW_NS)
    witnessed.add(group(lots, [9, 8, 9, 8]), None, NOW_NS)
    rows = witnessed.take(nines)
    assert rows.values.tolist() == [0, 3, 0, 2]
    assert rows.group_ends == [2, 2, 4]
    witnessed.add(group(lots, [8, 8, 8, 8]), None, NOW_NS)
    none = witnessed.take(nines)
    assert [len(none.slots), len(none.values), len(none.walls)] == [0, 0, 0]
    assert none.group_ends == [0]


@pytest.mark.parametrize("cut", range(1, 6))
def test_where_groups_end_changes_no_row(producer: Producer, cut: int) -> None:
    """The same rows in one group or in two."""
    routes: Routes = np.array([1, 2, 3, 1, 2, 3], np.int32)
    lots = [Lot(producer, (0, 50), cut), Lot(producer, (0, 70), 6 - cut)]
    whole, halves = Witnessed(), Witnessed()
    whole.add(group(lots, routes.tolist()), None, NOW_NS)
    rows = group(lots, routes.tolist()).rows
    for lot, part in zip(lots, (slice(0, cut), slice(cut, 6)), strict=True):
        halves.add(Group([lot], Rows(*(column[part] for column in rows)), routes[part]), None, NOW_NS)
    expected, found = whole.take(everything), halves.take(everything)
    assert found.values.tolist() == expected.values.tolist()
    assert found.walls.tolist() == expected.walls.tolist()
    assert found.slots.tolist() == expected.slots.tolist()
