"""Texts and distributions of the newest steps, for clients that ask for a step. The record stream has all of them.

Only reported axes have them: their steps are held for a service that answers questions about them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import Struct

from telemetry import limits
from telemetry.wire.control import StepDistribution
from telemetry.wire.events import AxisName, Bins, Name, Natural, Note, Step, Text

_NUMBER_CHARS = 8  # space of a number, in characters


class Attached(Struct, array_like=True):
    """The newest text and distribution of each name of a step."""

    texts: dict[Name, Text] = {}
    distributions: dict[Name, StepDistribution] = {}
    newest_ns: Natural = 0
    is_closed: bool = False
    """True once the step was reported."""

    @property
    def chars(self) -> int:
        """Space that they take, in characters."""
        texts = sum(len(name) + len(text) for name, text in self.texts.items())
        numbers = sum(2 * len(one.edges) for one in self.distributions.values())
        return texts + sum(map(len, self.distributions)) + _NUMBER_CHARS * numbers


class AttachedRecords:
    """Texts and distributions by axis and step: STEPS_KEPT steps an axis, and STEP_TEXT_CHARS in total."""

    STATE: ClassVar[Mapping[str, Any]] = {"_steps": dict[AxisName, dict[Step, Attached]]}
    DERIVED: ClassVar[tuple[str, ...]] = ("_chars",)

    def __init__(self) -> None:
        self._steps: dict[str, dict[int, Attached]] = {}
        self._chars = 0

    def restored(self) -> None:
        self._chars = sum(one.chars for steps in self._steps.values() for one in steps.values())
        if self._chars > limits.STEP_TEXT_CHARS or any(
            len(each) > limits.STEPS_KEPT for each in self._steps.values()
        ):
            raise ValueError("more texts of steps than there is room for")

    def add(self, record: Note | Bins, at_ns: int) -> None:
        """Keep a record of a step. A later one of the same name replaces it."""
        steps = self._steps.setdefault(record.axis, {})
        found = steps.setdefault(record.step, Attached())
        self._chars -= found.chars
        if isinstance(record, Note):
            found.texts[record.name] = record.text
        else:
            found.distributions[record.name] = StepDistribution(edges=record.edges, counts=record.counts)
        found.newest_ns = max(found.newest_ns, at_ns)
        self._chars += found.chars
        while len(steps) > limits.STEPS_KEPT:
            self._forget_oldest(record.axis)
        while self._chars > limits.STEP_TEXT_CHARS:
            self._forget_oldest(max(self._steps, key=lambda axis: len(self._steps[axis])))

    def close(self, axis: str, step: int) -> None:
        """Mark a step as reported."""
        found = self.of(axis, step)
        if found is not None:
            found.is_closed = True

    def clear(self, axis: str, step: int | None, until_ns: int) -> None:
        """Forget a step, or all of an axis, that was not reported. A record after `until_ns` keeps its step."""
        steps = self._steps.get(axis, {})
        for number in [*steps] if step is None else [step]:
            found = steps.get(number)
            if found is not None and not found.is_closed and found.newest_ns <= until_ns:
                self._forget(axis, number)

    def of(self, axis: str, step: int) -> Attached | None:
        """Return what a step has, or None."""
        return self._steps.get(axis, {}).get(step)

    def _forget_oldest(self, axis: str) -> None:
        self._forget(axis, next(iter(self._steps[axis])))

    def _forget(self, axis: str, step: int) -> None:
        self._chars -= self._steps[axis].pop(step).chars
        if not self._steps[axis]:
            del self._steps[axis]
