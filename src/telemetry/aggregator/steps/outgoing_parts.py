"""The leaf's side of an axis: what its root has not been told yet.

A step that the leaf closes or corrects has its part at once. The rest is told at the end of an interval: values of
open steps on a reported axis, because a process of another node may report them; reports of steps without values
here; and which steps the leaf has ended, so that the root waits for it as for a producer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from telemetry import limits
from telemetry.aggregator.steps.member import NOTHING_ENDED
from telemetry.wire.events import Name, Natural, Step
from telemetry.wire.nodes import StepPart


class OutgoingParts:
    """Numbers of a leaf's parts on one axis, and what the next ones have to tell. Bounded by STEPS_OPEN."""

    STATE: ClassVar[Mapping[str, Any]] = {
        "_made": Natural,
        "_changed": dict[Step, dict[Name, None]],
        "_cleared": dict[Step, None],
        "_reports": dict[Step, None],
        "_told": int | None,
        "_joined": bool,
        "_told_now": bool,
    }
    DERIVED: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self._made = 0
        self._changed: dict[int, dict[str, None]] = {}
        """Open steps of a reported axis → names whose values have changed since they were told."""
        self._cleared: dict[int, None] = {}
        self._reports: dict[int, None] = {}
        """Steps that were reported without values here."""
        self._told: int | None = None
        """Highest step below which the root knows that all steps are ended."""
        self._joined = False
        """True if the root counts the leaf as a member of the axis."""
        self._told_now = False
        """True if the root is told in this interval that the leaf is alive on the axis."""

    def restored(self) -> None:
        if max(len(self._changed), len(self._cleared), len(self._reports)) > limits.STEPS_OPEN:
            raise ValueError("more to tell of steps than there is room for")

    def number(self) -> int:
        """Return the number of a new part."""
        self._made += 1
        return self._made - 1

    def change(self, step: int, names: Iterable[str]) -> None:
        """Register new values of an open step."""
        self._changed.setdefault(step, {}).update(dict.fromkeys(names))

    def clear(self, step: int) -> None:
        """Register that the values of an open step are forgotten."""
        self._changed.pop(step, None)
        if len(self._cleared) < limits.STEPS_OPEN:
            self._cleared[step] = None

    def report(self, step: int) -> None:
        """Register the report of a step that is not open."""
        if len(self._reports) < limits.STEPS_OPEN:
            self._reports[step] = None

    def close(self, step: int) -> bool:
        """Drop what waits to be told of an open step. Return whether it was cleared."""
        self._changed.pop(step, None)
        cleared = step in self._cleared
        self._cleared.pop(step, None)
        return cleared

    def tell_ended(self, below: int) -> None:
        """Register that a part tells the root that all steps below are ended."""
        self._told = below if self._told is None else max(self._told, below)
        self._joined = self._told_now = True

    def take_changed(self) -> dict[int, tuple[list[str], bool]]:
        """Remove and return the steps to tell: their changed names, and True if they were cleared."""
        steps = sorted({**self._cleared, **self._changed})
        taken = {step: ([*self._changed.get(step, ())], step in self._cleared) for step in steps}
        self._changed.clear()
        self._cleared.clear()
        return taken

    def take_reports(self) -> list[int]:
        taken = [*self._reports]
        self._reports.clear()
        return taken

    def progress(self, axis: str, has_producers: bool, below: int | None) -> StepPart | None:
        """Return a part that tells the root which steps are ended: those `below`. Return None if the root knows.

        `below` is None while all producers are away. A leaf whose producers report but close no step sends a part
        once an interval. Without it, the root would stop waiting for the leaf.
        """
        told, self._told_now = self._told_now, False
        if not has_producers:
            if not self._joined:
                return None
            self._joined, self._told = False, None
            return StepPart(axis, 0, {}, producers=0, ended=False, number=self.number(), left=True)
        if below is None or (told and self._told is not None and below <= self._told):
            return None
        self._told = below if self._told is None else max(self._told, below)
        self._joined = True
        step, ended = (below - 1, True) if below > NOTHING_ENDED else (NOTHING_ENDED, False)
        return StepPart(axis, step, {}, producers=0, ended=ended, number=self.number())

    def close_by_reports(self) -> None:
        """Forget which steps were ended, because steps of this axis close by reports."""
        self._told, self._joined, self._told_now = None, False, False
