"""The thread that reads a run, and the queue between it and the tracker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from tests.unit.backends.doubles import FACTS, reads, step

from telemetry import limits
from telemetry.backends.items import (
    Histogram,
    Item,
    Live,
    Mark,
    Params,
    Reading,
    SeriesReading,
    Step,
    Table,
    Text,
)
from telemetry.backends.sources.source import Position, Read
from telemetry.backends.writer.reader import RunReader, weight
from telemetry.errors import RunDirectoryError
from telemetry.wire.snapshot import MetricsSnapshot


class ListSource:
    """Steps up to `count`; `fail` may raise at each read."""

    run = FACTS

    def __init__(self, count: int, fail: Callable[[], object] = lambda: None) -> None:
        self.known = count
        self.position = Position()
        self.over = False
        self.closed_by: list[str] = []
        self.fail = fail
        self.left_out: dict[str, int] = {}
        self.missed = 0
        self._left = reads([step(number) for number in range(count)])

    def read(self, most: int, timeout_s: float) -> list[Read]:
        self.fail()
        found, self._left = self._left[:most], self._left[most:]
        if found:
            self.position = found[-1].position
        self.over = not self._left
        if self.over:
            self.position = Position(next_record=self.known + 5)  # records behind the last item
        return found

    def again(self, number: int) -> Item | None:
        return None

    def notes(self) -> list[str]:
        return ["a note"] if self.over else []

    def close(self) -> None:
        self.closed_by.append(threading.current_thread().name)


@pytest.fixture
def flowing() -> Iterator[Callable[..., RunReader]]:
    made: list[RunReader] = []

    def make(source: ListSource, said: list[str] | None = None, **options: float) -> RunReader:
        run_reader = RunReader(source, (said if said is not None else []).append, **options)
        run_reader.start()
        made.append(run_reader)
        return run_reader

    yield make
    for run_reader in made:
        run_reader.close()


def test_all_comes_through_in_order(flowing: Callable[..., RunReader]) -> None:
    """Items come in order with the position after each, at the end that behind the last item.

    Notes go to the user.
    """
    source, said = ListSource(1_234), []
    source.left_out, source.missed = {"renamed_alike": 1}, 2
    run_reader = flowing(source, said)
    found, position = [], Position()
    while not run_reader.over:
        taken, position = run_reader.take(100, 1.0)
        found += taken
        if taken and len(found) < 1_000:
            assert position == taken[-1].position or position.next_record == len(found)
    assert [read.item.key for read in found] == [f"r{number}" for number in range(1_234)]
    assert (position.next_record, said) == (1_239, ["a note"])
    assert run_reader.left_out == {"renamed_alike": 1, "missed": 2}


def test_the_queue_has_a_bound(flowing: Callable[..., RunReader], wait_until: Callable[..., object]) -> None:
    """The queue has a bound. Later items wait in the run and are read when there is room."""
    source = ListSource(limits.BACKEND_QUEUE_ITEMS + 3_000)
    run_reader = flowing(source)
    wait_until(lambda: len(run_reader._reads) == limits.BACKEND_QUEUE_ITEMS)
    assert not run_reader.finishing
    found = 0
    while not run_reader.over:
        found += len(run_reader.take(1_000, 1.0)[0])
    assert found == source.known


def test_the_queue_has_a_bound_of_memory_too(
    flowing: Callable[..., RunReader], wait_until: Callable[..., object]
) -> None:
    """The queue has a bound of memory, also for large items. Only as many are read as have room."""
    rows = [[0] * 10] * limits.TABLE_ROWS
    tables = [Table(key=f"r{at}", time_ns=0, name="t", columns=["c"] * 10, rows=rows) for at in range(200)]
    source = ListSource(200)
    source._left = reads(tables)
    run_reader = flowing(source)
    wait_until(run_reader._full)
    assert run_reader._bytes == sum(size for _, size in run_reader._reads)
    found = 0
    while not run_reader.over:
        assert run_reader._bytes <= limits.BACKEND_QUEUE_BYTES + weight(tables[0])
        found += len(run_reader.take(1, 1.0)[0])
    assert found == 200


def test_a_source_that_fails_for_a_while_is_asked_again(flowing: Callable[..., RunReader]) -> None:
    """A source that fails for a while, such as an aggregator in a restart, is asked again."""
    failures = iter([RunDirectoryError("not now")])

    def fail() -> None:
        for error in failures:
            raise error

    run_reader = flowing(ListSource(3, fail))
    taken, _ = run_reader.take(10, 10.0)
    assert (len(taken), run_reader.failure) == (3, "")


def test_a_source_that_fails_for_good_is_given_up(
    flowing: Callable[..., RunReader], wait_until: Callable[..., object]
) -> None:
    """A source that fails for good is given up with its words. So is one that breaks unexpectedly."""

    def damaged() -> None:
        raise RunDirectoryError("a line is damaged")

    run_reader = flowing(ListSource(3, damaged), patience_s=0.0)
    wait_until(lambda: run_reader.over)
    assert run_reader.failure == "a line is damaged"

    def broken() -> None:
        raise ZeroDivisionError("oh")

    run_reader = flowing(ListSource(3, broken))
    wait_until(lambda: run_reader.over)
    assert run_reader.failure == "ZeroDivisionError: oh"


def test_the_thread_closes_what_it_reads(flowing: Callable[..., RunReader]) -> None:
    """Sockets stay with the thread that uses them."""
    source = ListSource(5)
    run_reader = flowing(source)
    run_reader.take(10, 1.0)
    run_reader.close()
    run_reader.close()
    assert source.closed_by == ["telemetry-reader"]


def test_weights_grow_with_what_is_in_an_item() -> None:
    """Each kind that may be large."""
    shot = MetricsSnapshot(run_id="r", name="n")
    pairs: list[tuple[Item, Item]] = [
        (step(1), Step(key="k", time_ns=0, axis="a", step=0, values={str(n): 0.0 for n in range(50)})),
        (
            Reading(key="k", time_ns=0, elapsed_s=0, seconds=0),
            Reading(key="k", time_ns=0, elapsed_s=0, seconds=0, series=[SeriesReading(name="s")]),
        ),
        (Params(key="k", time_ns=0, values={}), Params(key="k", time_ns=0, values={"a": 1})),
        (
            Text(key="k", time_ns=0, name="t", text=""),
            Text(key="k", time_ns=0, name="t", text="long" * 100),
        ),
        (
            Table(key="k", time_ns=0, name="t", columns=["a"], rows=[]),
            Table(key="k", time_ns=0, name="t", columns=["a"], rows=[[1]]),
        ),
        (
            Histogram(key="k", time_ns=0, name="t", edges=[0, 1], counts=[1]),
            Histogram(key="k", time_ns=0, name="t", edges=[0, 1, 2], counts=[1, 1]),
        ),
        (Mark(key="k", time_ns=0, text="m"), Live(key="k", time_ns=0, snapshot=shot)),
    ]
    assert all(weight(small) < weight(large) for small, large in pairs)


def test_what_is_missing_is_told_with_what_is_taken(
    flowing: Callable[..., RunReader], wait_until: Callable[..., object]
) -> None:
    """However far the thread has read ahead."""
    source = ListSource(100)
    source._left = [read._replace(left_out={"missed": at}) for at, read in enumerate(source._left)]
    source.missed = 120
    run_reader = flowing(source)
    wait_until(lambda: run_reader.finishing)
    assert run_reader.left_out == {}
    run_reader.take(10, 1.0)
    assert run_reader.left_out == {"missed": 9}
    run_reader.take(100, 1.0)
    assert run_reader.left_out == {"missed": 120}
