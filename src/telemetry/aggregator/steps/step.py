"""A step with the values of its producers, open or closed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, islice
from typing import NamedTuple

from msgspec import Struct

from telemetry import limits
from telemetry.aggregator.steps.merged import ReportedValues, Values, merged
from telemetry.wire.control import StepCondition
from telemetry.wire.control import StepState as StepAnswer
from telemetry.wire.events import ClosedStep, Natural, ProducerId, Reduction


class Closed(NamedTuple):
    """A step to publish, with the wall clock of its newest value."""

    wall_ns: int
    step: ClosedStep


class StepState(Struct, array_like=True):
    """State of a step.

    `said` holds values by producer. `ended_ns` is the time of the first end on the clock of steps. `merged` is set
    once the step is closed.
    """

    said: dict[ProducerId, ReportedValues] = {}
    newest_ns: Natural = 0
    ended_ns: Natural | None = None
    revision: Natural = 0
    merged: Values | None = None

    @property
    def units(self) -> int:
        return limits.STEP_UNITS + sum(said.units for said in self.said.values())

    def clear(self, producer: str, until_ns: int) -> bool:
        """Keep only the values of a producer after a time. Return False, without an effect, if there are none."""
        said = self.said.get(producer)
        newer = said.newer_than(until_ns) if said is not None else None
        if newer is None:
            return False
        self.said = {producer: newer}
        self.newest_ns = max(map(newer.time_of, newer.values))
        return True

    def answer(self, state: StepCondition, reduction_of: Callable[[str], Reduction]) -> StepAnswer:
        """Return the step for a control request, with the first STEP_STATE_NAMES values merged so far."""
        values = self.merged
        if values is None:
            names = dict.fromkeys(chain.from_iterable(said.values for said in self.said.values()))
            values, _ = merged(self.said, reduction_of, islice(names, limits.STEP_STATE_NAMES))
        return StepAnswer(
            state=state,
            values=dict(islice(values.items(), limits.STEP_STATE_NAMES)),
            producers=len(self.said),
            revision=max(0, self.revision - 1),
        )
