"""A step with the values of its producers, open or closed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple

from msgspec import Struct

from telemetry import limits
from telemetry.aggregator.steps.merged import (
    MergedStep,
    RankOf,
    Ranks,
    ReportedValues,
    Values,
    merged_step,
    names_of,
    values_by_rank,
)
from telemetry.aggregator.steps.reported_part import ReportedPart
from telemetry.wire.control import StepCondition
from telemetry.wire.control import StepState as StepAnswer
from telemetry.wire.events import ClosedStep, Closing, Name, Natural, ProducerId, Reduction
from telemetry.wire.nodes import StepPart


class FinishedStep(NamedTuple):
    """A step to publish, with the wall clock of its newest value."""

    wall_ns: int
    step: ClosedStep
    part: StepPart | None = None
    """The same for the root, if this aggregator is a leaf."""


class MergingStep(Struct, array_like=True):
    """State of a step.

    `said` holds values by producer. `ended_ns` is the time of the first end on the clock of steps. `merged` is set
    once the step is closed. `parts` holds the parts of leaves.
    """

    said: dict[ProducerId, ReportedValues] = {}
    newest_ns: Natural = 0
    ended_ns: Natural | None = None
    revision: Natural = 0
    merged: Values | None = None
    parts: dict[ProducerId, ReportedPart] = {}
    first_ns: Natural = 0

    @property
    def units(self) -> int:
        """Number of budget units used."""
        of_producers = sum(reported.units for reported in self.said.values())
        return limits.STEP_UNITS + of_producers + sum(part.units for part in self.parts.values())

    @property
    def producers(self) -> int:
        """Number of producers that reported a value, over all leaves."""
        return len(self.said) + sum(part.producers for part in self.parts.values())

    @property
    def has_values(self) -> bool:
        return bool(self.said or self.parts)

    @property
    def not_finite(self) -> set[Name]:
        """Names that a producer, here or of a leaf, reported without a finite number, whatever others reported."""
        names = {name for part in self.parts.values() for name in part.not_finite}
        for reported in self.said.values():
            if None in reported.values.values():
                names.update(name for name, value in reported.values.items() if value is None)
        return names

    def closing(self, closing: Closing) -> Closing:
        """Return the reason why the step closes. If nothing is missing here, a leaf may have missed a producer."""
        if closing == "ended":
            reasons = [part.closed for part in self.parts.values()]
            return "timeout" if "timeout" in reasons else "run_end" if "run_end" in reasons else "ended"
        return closing

    def result(
        self, reduction_of: Callable[[str], Reduction], names: Iterable[str] | None = None, *, with_partials: bool
    ) -> MergedStep:
        """Return the merged result of all names, or of some."""
        return merged_step(self.said, self.parts, reduction_of, names, with_partials=with_partials)

    def ranks(self, names: Iterable[str], rank_of: RankOf) -> Ranks:
        """Return the values of these names by rank."""
        return values_by_rank(self.said, self.parts, names, rank_of)

    def names(self) -> dict[Name, None]:
        return names_of(self.said, self.parts)

    def clear(self, producer: str, until_ns: int) -> bool:
        """Keep only the values of a producer after a time. Return False, without an effect, if there are none."""
        reported = self.said.get(producer)
        newer = reported.newer_than(until_ns) if reported is not None else None
        if newer is None:
            return False
        self.said = {producer: newer}
        self.parts = {}
        self.newest_ns = max(map(newer.time_of, newer.values))
        self.first_ns = min(map(newer.time_of, newer.values))
        return True

    def clear_part(self, leaf: str, number: int) -> bool:
        """Forget the values from a leaf's parts below a number. Return False if the step has no values then."""
        part = self.parts.get(leaf)
        if part is not None:
            part.forget_before(number)
            if not part.values:
                del self.parts[leaf]
        return self.has_values

    def answer(self, state: StepCondition, reduction_of: Callable[[str], Reduction]) -> StepAnswer:
        """Return the step for a control request, with the first STEP_STATE_NAMES values merged so far."""
        values = self.merged
        if values is None:
            names = islice(self.names(), limits.STEP_STATE_NAMES)
            values = self.result(reduction_of, names, with_partials=False).values
        return StepAnswer(
            state=state,
            values=dict(islice(values.items(), limits.STEP_STATE_NAMES)),
            producers=self.producers,
            revision=max(0, self.revision - 1),
        )
