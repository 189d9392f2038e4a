"""Leaves and a root to try things on."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.unit.aggregator.stepping import SECOND, Bench

from telemetry.aggregator.checkpoint import encode, load, save
from telemetry.aggregator.steps.merger import StepMerger
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.events import Axis, ClosingRule
from telemetry.wire.nodes import PartialValue, StepPart


def value(producer: str, number: float, at_ns: int = 1) -> PartialValue:
    """Return the partial value of one producer."""
    return PartialValue(1, number, 0.0, number, number, producer, producer, number, at_ns, producer)


class LeafBench(Bench):
    """Steps of a leaf with one axis, `train`."""

    def __init__(self, grace_s: float = 30.0, closing: ClosingRule = "ended") -> None:
        super().__init__(grace_s, young=True)
        self.closing = closing
        self.steps = StepMerger(grace_s, self.warnings.append, leaf=True)
        self.steps.declare(Axis("train", closing=closing))
        self.seconds(2)

    def second(self) -> list[StepPart]:
        """End an interval. Return what the root gets of it."""
        before = len(self.said)
        self.steps.pass_time(SECOND)
        self.take()
        return [*self.parts(before), *self.steps.take_parts()]

    def parts(self, begin: int = 0) -> list[StepPart]:
        """Return the parts of closed steps."""
        parts = [closed.part for closed in self.said[begin:]]
        assert None not in parts
        return parts  # type: ignore[return-value]

    def told(self) -> list[tuple[Any, ...]]:
        """End an interval. Return (step, names, ended, left) of each part besides those of closed steps."""
        self.take()
        self.steps.pass_time(SECOND)
        told = [(part.step, [*part.values], part.ended, part.left) for part in self.steps.take_parts()]
        self.take()
        return told

    def restored(self) -> StepMerger:
        again = StepMerger(30.0, self.warnings.append, leaf=True)
        load(again, msgspec.msgpack.decode(encode(save(self.steps))))
        return again


class RootBench(Bench):
    """Steps of a root with one axis, `train`."""

    def part(self, leaf: str, step: int, number: int = 0, since: int = 0, **values: float | None) -> Reason | None:
        """Report a part that ends the step, in which each name has the value of one producer."""
        partials = {name: None if each is None else value(f"{leaf}1", each) for name, each in values.items()}
        return self.send(leaf, StepPart("train", step, partials, 1, number=number), since)

    def send(self, leaf: str, part: StepPart, since: int = 0, shift_ns: int = 0) -> Reason | None:
        return self.steps.report_part(leaf, part, shift_ns, since)
