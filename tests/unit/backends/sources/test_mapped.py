"""Tests of what one backend gets of a source, and what it still gets at the end."""

from __future__ import annotations

import pytest
from tests.unit.backends.doubles import FACTS, mark, reads, step
from tests.unit.backends.going import ListSource, drained, keys

from telemetry.backends.items import CounterReading, Params, Reading, Step
from telemetry.backends.mapping import ALIKE, ItemMapping
from telemetry.backends.sources.open import MappedSource
from telemetry.backends.sources.source import Position, Read
from telemetry.config import BackendValues
from telemetry.errors import RunDirectoryError

EVERY_TEN = BackendValues(every_steps=10)


def mapped(
    given: list[Read],
    values: BackendValues,
    position: Position | None = None,
    whole: list[Read] | None = None,
    *,
    goes_on: bool = False,
) -> MappedSource:
    """`whole`: what the run has; `given`: what of it is left to come."""
    source = ListSource(whole or given, FACTS, position or Position())
    source._reads = list(given)
    source.goes_on = goes_on
    return MappedSource(source, ItemMapping(values), values.every_steps, position or Position())


def test_what_does_not_go_there_moves_the_position_all_the_same() -> None:
    """An item that does not go to the backend moves the position, so that it is not read again."""
    source = mapped(reads([step(0), mark(1), step(2)]), BackendValues(exclude=("loss",)))
    assert source.read(10, 0.1) == [Read(mark(1), Position(next_record=2))]
    assert source.over
    assert source.position == Position(next_record=3)


def test_every_tenth_step_and_the_newest() -> None:
    """The newest comes at the very end, once, and is in no position afterwards."""
    source = mapped(reads([step(number) for number in range(25)]), EVERY_TEN)
    found = drained(source, most=3)
    assert keys(found) == ["r0", "r10", "r20", "r24"]
    assert found[-1].position == source.position == Position(next_record=25)


@pytest.mark.parametrize("stop", range(26))
def test_it_is_the_same_after_a_restart(stop: int) -> None:
    """A restart at any place changes nothing. The held step is in the position, and its record is read again."""
    whole = reads([step(number) for number in range(25)])
    first = mapped(whole[:stop], EVERY_TEN, whole=whole, goes_on=True)
    before: list[Read] = []
    while first.position.next_record < stop:
        before += first.read(4, 0.0)
    second = mapped(whole[stop:], EVERY_TEN, first.position, whole)
    assert keys(before + drained(second)) == ["r0", "r10", "r20", "r24"]


def test_an_error_at_the_end_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error at the end costs nothing: the held item comes when it can be read."""
    whole = reads([step(number) for number in range(8)])
    source = mapped([], EVERY_TEN, Position(next_record=8, held={"train": [7]}), whole)

    def failing(number: int) -> None:
        raise RunDirectoryError("the disk is gone")

    with monkeypatch.context() as patched:
        patched.setattr(source._source, "again", failing)
        with pytest.raises(RunDirectoryError):
            source.read(10, 0.1)
        assert not source.over
    assert keys(drained(source)) == ["r7"]


def test_values_that_are_left_out_are_counted_and_said() -> None:
    """Values that are left out are counted and reported as the mapping does it."""
    item = step(1)
    source = mapped(reads([item]), BackendValues(rename={"l*": "x*", "a": "b"}))
    assert source.known == 1
    (read,) = source.read(10, 0.1)
    assert read.item.values == {"xoss": 1.0}  # type: ignore[union-attr]
    assert source.again(1) == read.item
    assert (source.left_out, source.missed) == ({}, 0)
    assert source.notes() == [
        "patterns that matched no name of the run: rename 'a'; the name of `latency/p99` is `latency`"
    ]
    assert source._mapping.apply(Step(key="r2", time_ns=1, axis="train", step=1, values={"xoss": 1.0})) is None
    assert source.left_out == {ALIKE: 1}
    assert len(source.notes()) == 1


def test_patterns_that_never_fitted_are_said_at_the_end() -> None:
    """Unmatched patterns are reported once, unless an earlier process may have seen matching names.

    Figures of instruments have no names.
    """
    values = BackendValues(include=("loss", "latency/p99"), exclude=("seed",), rename={"los": "l", "loss": "x"})
    given = [*reads([step(0)]), *reads([Params(key="r1", time_ns=0, values={"seed": 1})], 1)]
    source = mapped(given, values)
    assert source.notes() == []
    drained(source)
    (said,) = source.notes()
    assert said.startswith("patterns that matched no name of the run: include 'latency/p99', rename 'los'; ")
    assert source.notes() == []
    later = mapped(given, values, Position(next_record=1))
    drained(later)
    assert later.notes() == []


def test_a_pattern_may_fit_a_name_with_its_labels() -> None:
    """A pattern of `include` may fit a name with its labels, but one of `rename` does not."""
    reading = Reading(
        key="t1",
        time_ns=0,
        elapsed_s=1,
        seconds=1,
        counters=[CounterReading(name="c", labels={"route": "/a"}, value=1)],
    )
    source = mapped(reads([reading]), BackendValues(include=("c{route=/a}",), rename={"c{*}": "d{*}"}))
    drained(source)
    assert "include" not in source.notes()[0]


def test_what_is_left_out_is_told_with_the_item_that_comes_next() -> None:
    """Left out values are counted with the next item, with those that the source behind misses.

    An item that is read again counts no more.
    """
    values = {"loss": 1.0, "xoss": 2.0}
    items = [step(0), Step(key="r1", time_ns=1, axis="train", step=1, values=values), step(2)]
    given = [read._replace(left_out={"missed": 5}) for read in reads(items)]
    source = mapped(given, BackendValues(rename={"l*": "x*"}))
    found = source.read(10, 0.1)
    assert [read.left_out for read in found] == [{"missed": 5}, *[{"missed": 5, ALIKE: 1}] * 2]
    source.again(2)
    assert source.left_out == {ALIKE: 1}
