"""Declarations, reports and clears whose batches overtake each other."""

from __future__ import annotations

import pytest

from telemetry.aggregator import Aggregator, AggregatorConfig
from telemetry.testing import batch
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.wire.events import Axis, ClosedStep, EventRecord, Scalars, StepClear, StepEnd

SECOND = 1_000_000_000
DECLARED = Axis("train", closing="reported")


class Link:
    """Batches of one producer, each with one list of records, that come in any order."""

    def __init__(self, *contents: list[EventRecord]) -> None:
        self.aggregator = Aggregator(AggregatorConfig())
        self.contents = contents

    def come(self, *numbers: int, together: bool = False) -> list[tuple[int, dict[str, float | None], str]]:
        """Apply batches in this order. Return what closed, as (step, values, how)."""
        firsts = [sum(map(len, self.contents[:number])) for number in numbers]
        made = [
            batch("p1", number, first, records=self.contents[number])
            for number, first in zip(numbers, firsts, strict=True)
        ]
        closed: list[tuple[int, dict[str, float | None], str]] = []
        for turn in [made] if together else [[one] for one in made]:
            assert [one for one in turn if self.aggregator.admit(one, MONO_NS)] == turn
            said = self.aggregator.apply(turn, MONO_NS, WALL_NS)
            records = [one.record for one in said if isinstance(one.record, ClosedStep)]
            closed += [(record.step, record.values, record.closed) for record in records]
        return closed

    def restart(self) -> None:
        """Go on in another process."""
        self.aggregator = Aggregator.restore(bytes(self.aggregator.checkpoint()))


def value(step: int, at: int, **values: float | None) -> Scalars:
    return Scalars("train", step, values, MONO_NS + at)


def clear(step: int | None, at: int) -> StepClear:
    return StepClear("train", step, MONO_NS + at)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_report_that_overtakes_the_declaration_counts(restarted: bool) -> None:
    """The report closes its step once the declaration is there, also after a restart of the aggregator."""
    link = Link([DECLARED], [value(6, 1, x=1.0), value(7, 2, x=2.0), StepEnd("train", 7)], [value(9, 3, x=3.0)])
    assert link.come(2, 1) == []
    if restarted:
        link.restart()
    assert link.come(0) == [(7, {"x": 2.0}, "ended")]


def test_a_report_before_an_ordinary_declaration_is_an_end() -> None:
    """A report before an ordinary declaration ends all steps up to its own, as without a gap.

    The report leaves nothing that waits any longer.
    """
    link = Link([Axis("train")], [value(6, 1, x=1.0), value(7, 2, x=2.0), StepEnd("train", 7)])
    assert link.come(1, 0) == []
    link.restart()
    for _ in range(2):
        said = link.aggregator.pass_time(SECOND)
    assert [one.record.step for one in said if isinstance(one.record, ClosedStep)] == [6, 7]


def test_ends_of_an_undeclared_axis_do_not_pile_up() -> None:
    """A possible report is forgotten once no declaration can come before it."""
    link = Link([], [value(1, 1, x=1.0), StepEnd("train", 1)], [], [value(2, 2, x=1.0), StepEnd("train", 2)])
    steps = link.aggregator._steps
    link.come(1, 3)
    axis = steps._axes["train"]
    assert len(axis._reports) == 2
    link.come(0)
    assert len(axis._reports) == 1
    for _ in range(40):
        link.aggregator.pass_time(SECOND)
    assert len(axis._reports) == 0


@pytest.mark.parametrize("step", [7, None])
@pytest.mark.parametrize("together", [False, True])
def test_a_clear_that_comes_late_spares_what_was_logged_after_it(step: int | None, together: bool) -> None:
    """The values before it are gone, and the report that follows it has the ones after it."""
    link = Link(
        [DECLARED, value(7, 1, x=1.0, old=1.0), value(8, 1, x=1.0)],
        [clear(step, 2)],
        [value(7, 3, x=2.0)],
        [StepEnd("train", 7)],
    )
    assert link.come(0) == []
    assert link.come(2, 3, 1, together=together) == [(7, {"x": 2.0}, "ended")]
    left = link.aggregator.steps.state("train", 8)
    assert left.state == ("open" if step == 7 else "unknown")


@pytest.mark.parametrize("step", [7, None])
def test_a_clear_after_a_report_takes_nothing_from_it(step: int | None) -> None:
    """The report waits for a missing batch. The clear that follows finds its step closed, as without the gap."""
    link = Link(
        [DECLARED, value(7, 1, x=1.0), value(8, 1, x=1.0)],
        [value(7, 2, y=1.0)],
        [value(7, 3, x=2.0), StepEnd("train", 7), StepEnd("train", 99)],
        [clear(step, 4)],
    )
    assert link.come(0, 2) == []
    assert link.come(3) == [(7, {"x": 2.0}, "ended")]
    assert link.come(1) == [(7, {"y": 1.0}, "late")]


def test_a_clear_gives_back_the_room_of_what_it_forgets() -> None:
    """A clear gives back the room of what it forgets, even if newer values stay.

    The rest comes back with the step.
    """
    link = Link([DECLARED], [value(7, 1, x=1.0, y=1.0)], [clear(7, 2)], [value(7, 3, x=2.0)], [clear(7, 4)])
    budget = link.aggregator.steps._budget
    whole = budget.left
    link.come(0, 1, 3, 2)
    axis = link.aggregator.steps._axes["train"]
    assert axis.open_units == whole - budget.left == axis._open[7].units
    link.come(4)
    assert (budget.left, axis.open_units, axis.lowest) == (whole, 0, None)
