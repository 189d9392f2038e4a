"""Every so many steps of an axis, and always the newest."""

from __future__ import annotations

from telemetry.backends.items import Item, Step
from telemetry.backends.sources.open import Thinning


def step(number: int, record: int | None = None, axis: str = "train", revision: int = 0) -> Step:
    key = f"r{number if record is None else record}"
    return Step(key=key, time_ns=1, axis=axis, step=number, values={"a": 1.0}, revision=revision)


def left(thinning: Thinning) -> list[tuple[int, Item | None]]:
    found = []
    while (first := thinning.first()) is not None:
        found.append(first)
        thinning.release(first[0])
    return found


def test_multiples_are_let_through_and_the_newest_is_held() -> None:
    """The held step is the newest after the last multiple of the interval."""
    thinning = Thinning(10, {})
    assert [number for number in range(-10, 26) if thinning.admits(step(number))] == [-10, 0, 10, 20]
    assert left(thinning) == [(25, step(25))]
    assert thinning.held == {}


def test_each_axis_has_its_own() -> None:
    """Each axis has a held step of its own, and none if its newest step was let through."""
    thinning = Thinning(10, {})
    for one in (step(3), step(4, axis="eval"), step(10, axis="eval"), step(5)):
        thinning.admits(one)
    assert thinning.held == {"train": [5]}


def test_corrections_belong_to_their_step() -> None:
    """Corrections of the newest step are held behind it.

    Corrections of steps that were passed over are held back too.
    """
    thinning = Thinning(10, {})
    for one in (step(3, 0), step(4, 1), step(4, 2, revision=1), step(3, 3, revision=1)):
        assert not thinning.admits(one)
    assert left(thinning) == [(1, step(4, 1)), (2, step(4, 2, revision=1))]
    assert thinning.admits(step(10, 5, revision=1))


def test_steps_that_come_late_are_not_the_newest() -> None:
    """Order of arrival is not order of steps."""
    thinning = Thinning(10, {})
    for number in (20, 17, 23, 22):
        thinning.admits(step(number))
    assert thinning.held == {"train": [23]}


def test_what_a_process_held_the_next_one_has() -> None:
    """The next process reads the held step again. A newer step takes its place, and its corrections join it."""
    thinning = Thinning(10, {"train": [7], "gone": [2]})
    thinning.recall(lambda number: step(23, number) if number == 7 else None)
    assert not thinning.admits(step(22, 8))
    assert not thinning.admits(step(23, 9, revision=1))
    assert thinning.held == {"train": [7, 9], "gone": [2]}
    assert thinning.first() == (2, None)
    assert not thinning.admits(step(24, 10))
    assert left(thinning) == [(2, None), (10, step(24, 10))]


def test_what_was_held_is_not_changed_by_what_comes() -> None:
    """A copy of what is held stays as it was when newer steps come."""
    thinning = Thinning(10, {})
    thinning.admits(step(3))
    before = thinning.held
    thinning.admits(step(4))
    assert before == {"train": [3]}
