"""Thinning of steps: every n-th step of an axis, and its newest step at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from telemetry.backends.items import Item, Step
from telemetry.backends.sources.convert import record_number

Held = dict[str, list[int]]
"""Axis → record numbers of its newest step and its corrections, if that step was held back."""


class Thinning:
    """A filter for steps. Not thread-safe, except for `held`."""

    def __init__(self, every: int, held: Held) -> None:
        """Start a filter that admits multiples of `every`. `held`: steps held by the previous process."""
        self.held: Mapping[str, list[int]] = dict(held)
        """Steps that are held back. The mapping is replaced, never changed in place."""
        self._every = every
        self._items: dict[int, Item] = {}
        """Record number → held item, if this process has read it."""
        self._newest: dict[str, int] = {}
        """Axis → highest step that was admitted or is held."""

    def recall(self, again: Callable[[int], Item | None]) -> None:
        """Read the steps that a previous process held. Call it before the first `admits`. Raises like `again`."""
        for axis, numbers in self.held.items():
            item = again(numbers[0]) if numbers and axis not in self._newest else None
            if isinstance(item, Step):
                self._newest[axis] = item.step

    def admits(self, step: Step) -> bool:
        """Check whether a step passes now. Otherwise hold it if it is the newest of its axis."""
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
        """Return the first held record and its item, or None without one.

        The item is None if not read by this process.
        """
        number = min((numbers[0] for numbers in self.held.values()), default=None)
        return None if number is None else (number, self._items.get(number))

    def release(self, number: int) -> None:
        """Drop the record that `first` returned."""
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
