"""Steps to try things on."""

from __future__ import annotations

from typing import Any

from telemetry.aggregator.steps.merger import StepMerger
from telemetry.aggregator.steps.step import FinishedStep
from telemetry.wire.events import Axis, ClosingRule, Scalars, StepClear, StepEnd

SECOND = 1_000_000_000


class Bench:
    """Steps with one axis, `train`, that has been there for a while."""

    def __init__(self, grace_s: float = 30.0, *, young: bool = False, closing: ClosingRule = "ended") -> None:
        self.warnings: list[str] = []
        self.steps = StepMerger(grace_s, self.warnings.append)
        self.said: list[FinishedStep] = []
        if not young:
            self.steps.declare(Axis("train", closing=closing))
            self.seconds(2)

    def log(
        self, producer: str, step: int, at_ns: int = 1, axis: str = "train", since: int = 0, **values: float | None
    ) -> Any:
        """Why it was dropped."""
        return self.steps.report(producer, Scalars(axis, step, values), at_ns, since)

    def end(self, producer: str, step: int, since: int = 0) -> Any:
        return self.steps.end(producer, StepEnd("train", step), since)

    def clear(self, step: int | None = None) -> None:
        self.steps.clear("a", StepClear("train", step))

    def seconds(self, count: int) -> list[tuple[Any, ...]]:
        for _ in range(count):
            self.steps.pass_time(SECOND)
        return self.take()

    def take(self) -> list[tuple[Any, ...]]:
        """(step, values, how it closed), of what was said since the last call."""
        taken = self.steps.take()
        self.said += taken
        return [(said.step.step, said.step.values, said.step.closed) for said in taken]

    @property
    def stat(self) -> Any:
        return self.steps.stats()[0]
