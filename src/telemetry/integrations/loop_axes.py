"""Step axes and settings of training loops, of which a process may run several, one after the other.

Every Trainer counts its steps from 0. On one axis, the values of a second Trainer would replace those of the first
one. So each loop has axes of its own: `step` for the first loop, `step_2` for the second one.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Final

from telemetry.client import module_level as telemetry
from telemetry.client.step_axes import SHARED, StepAxes
from telemetry.client.steps import DEFAULT_AXIS

_SOURCE: Final = "trainer"
_RESTARTS: Final = 8  # of one count in one loop; a run has 64 axes
_NUMBERS: Final = itertools.count(1)


class _Count:
    """One count of steps: its axis, and its highest step."""

    __slots__ = ("axis", "highest", "name", "restarts")

    def __init__(self, name: str, step: int) -> None:
        self.name = name
        """The name that the axis should have."""
        self.axis = name
        self.highest = step
        self.restarts = 0


class LoopAxes:
    """The step axes of one training loop. Used by the thread that trains.

    All ranks of a job have to call it in the same order, so that they use the same names.
    """

    def __init__(self, own: str = "own_step") -> None:
        """`own` is the name of the axis for values whose step the program chooses itself."""
        self._counts: dict[str, _Count] = {}
        self._own_name = own
        self._own = StepAxes(own)
        self._number = 0

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the number, so that a process that continues the loop uses the same axes."""
        return _unpickled, (self._own_name, self.number)

    @property
    def number(self) -> int:
        """The number of the loop in this process, from 1."""
        if not self._number:
            self._number = next(_NUMBERS)
        return self._number

    def axis(self, kind: str, step: int) -> str:
        """Return the axis for a step of a count. A count that goes back gets a new axis.

        A count that has gone back often keeps its axis, so that newer values replace older ones.
        """
        count = self._counts.get(kind)
        if count is None:
            count = self._counts[kind] = _Count(_numbered(kind, self.number), step)
        elif step > count.highest:
            count.highest = step
        elif step < count.highest and count.restarts < _RESTARTS:
            count.name = _numbered(kind, next(_NUMBERS))
            count.highest = step
            count.restarts += 1
        count.axis = SHARED.place(_SOURCE, count.name, step)
        return count.axis

    def current(self, kind: str = DEFAULT_AXIS) -> str:
        """Return the present axis of a count."""
        count = self._counts.get(kind)
        return _numbered(kind, self.number) if count is None else count.axis

    def split(self, names: list[str], step: int) -> dict[str, list[str]]:
        """Return names by axis, for values whose step the program chooses itself."""
        number = self.number
        split = self._own.split(names, step)
        return {SHARED.place(_SOURCE, _numbered(axis, number), step): part for axis, part in split.items()}


def _unpickled(own: str, number: int) -> LoopAxes:
    axes = LoopAxes(own)
    axes._number = number
    return axes


def record_params(values: Mapping[str, Any], number: int) -> None:
    """Record the settings of the first training loop as they are, those of later ones below their number."""
    if values:
        telemetry.params(values if number == 1 else {f"trainer_{number}": values})


def record_total(total: object, axis: str) -> None:
    """Record the number of steps that a loop will take, so that progress is shown. Ignore other values."""
    if type(total) is int and total > 0:
        telemetry.expect(axis, total)


def record_own(values: Mapping[str, Any], step: int, axes: LoopAxes) -> None:
    """Record values whose step the program has chosen."""
    for axis, names in axes.split(list(values), step).items():
        telemetry.log({name: values[name] for name in names}, step=step, axis=axis)


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}_{number}"
