"""Reports of steps on an axis that leaves report on: they count a moment later.

A leaf sends the values of its producers once a second. So when a process of one node reports a step, values that
processes of other nodes logged before are still on their way.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, ClassVar, Final

from telemetry import limits
from telemetry.wire.events import Natural, Step

_DUE: Final = 2  # intervals: one until a leaf sends, and one for the way
_FORGOTTEN: Final = 30
"""Intervals until a report of a step without values is forgotten."""


class DelayedReports:
    """Steps that were reported and close in an interval or two, at most STEPS_OPEN."""

    STATE: ClassVar[Mapping[str, Any]] = {"active": bool, "_ages": dict[Step, Natural]}
    DERIVED: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self.active = False
        """True once a leaf has reported on the axis."""
        self._ages: dict[int, int] = {}
        """Step → number of intervals since it was reported."""

    def restored(self) -> None:
        if len(self._ages) > limits.STEPS_OPEN or (self._ages and not self.active):
            raise ValueError("invalid reports of steps")

    def __len__(self) -> int:
        return len(self._ages)

    def add(self, step: int) -> bool:
        """Delay a report. Return False if reports count at once, or if there is no room for it."""
        if not self.active or (len(self._ages) >= limits.STEPS_OPEN and step not in self._ages):
            return False
        self._ages.setdefault(step, 0)
        return True

    def is_fresh(self, step: int) -> bool:
        """Return whether a report of a step does not count yet, because values may be on their way."""
        return self._ages.get(step, _DUE) < _DUE

    def pass_interval(self, is_open: Container[int]) -> list[int]:
        """End an interval. Return the steps whose reports count now, also those without values.

        A step that opens later closes at the end of the next interval, unless its report is forgotten by then.
        """
        due = []
        for step in [*self._ages]:
            age = self._ages[step] = self._ages[step] + 1
            if age == _DUE or (age > _DUE and step in is_open):
                due.append(step)
            if age >= _FORGOTTEN or (age >= _DUE and step in is_open):
                del self._ages[step]
        return due

    def take(self, step: int | None) -> list[int]:
        """Remove and return a step, or all if `step` is None."""
        taken = [*self._ages] if step is None else [step] if step in self._ages else []
        for each in taken:
            del self._ages[each]
        return taken
