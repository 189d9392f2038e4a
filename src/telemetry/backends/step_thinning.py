"""Every so many steps of an axis, and its newest at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from telemetry.backends.items import Item, Step
from telemetry.backends.sources.convert import record_number

Held = dict[str, list[int]]
"""Axis → records of its newest step and of that step's corrections, if it was not let through."""


class Thinning:
    """One owner, but for `held`."""

    def __init__(self, every: int, held: Held) -> None:
        """`every`: steps that are multiples of it are let through. `held`: by the process before this one."""
        self.held: Mapping[str, list[int]] = dict(held)
        """Never changed, but replaced."""
        self._every = every
        self._items: dict[int, Item] = {}
        """What is held, as far as this process has seen it."""
        self._newest: dict[str, int] = {}
        """Axis → the highest step that was let through or is held."""

    def recall(self, again: Callable[[int], Item | None]) -> None:
        """Finds out what steps are held since before this process; before the first `admits`. Raises as `again`."""
        for axis, numbers in self.held.items():
            item = again(numbers[0]) if numbers and axis not in self._newest else None
            if isinstance(item, Step):
                self._newest[axis] = item.step

    def admits(self, step: Step) -> bool:
        """Whether it is let through; the newest of an axis that is not is held."""
        newest = self._newest.get(step.axis)
        if step.step % self._every == 0:
            if newest is None or step.step > newest:
                self._hold(step.axis, [])
                self._newest[step.axis] = step.step
            return True
        number = record_number(step.key)
        if number is None:
            return True
        numbers = self.held.get(step.axis, [])
        if numbers and step.step == newest:
            self._hold(step.axis, [*numbers, number], step)
        elif not step.revision and (newest is None or step.step > newest):
            self._hold(step.axis, [number], step)
            self._newest[step.axis] = step.step
        return False

    def first(self) -> tuple[int, Item | None] | None:
        """The first record that is held, and its item if this process has seen it; None if none is."""
        number = min((numbers[0] for numbers in self.held.values()), default=None)
        return None if number is None else (number, self._items.get(number))

    def release(self, number: int) -> None:
        """One that was `first`."""
        for axis, numbers in self.held.items():
            if numbers[0] == number:
                self._hold(axis, numbers[1:])
                return

    def _hold(self, axis: str, numbers: list[int], step: Step | None = None) -> None:
        for number in set(self.held.get(axis, ())).difference(numbers):
            self._items.pop(number, None)
        if step is not None:
            self._items[numbers[-1]] = step
        others = {name: held for name, held in self.held.items() if name != axis}
        self.held = {**others, axis: numbers} if numbers else others
