"""Merge of scalars of many producers by axis and step.

A step is published once all producers that report on the axis have ended it; on a reported axis, once one of them
reports this step. Time is the sum of history intervals, so that a reader of the journal gets the same result. A
producer counts as alive by its reports, because pings are not journaled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final

from msgspec import Struct
from msgspec.structs import replace

from telemetry import limits
from telemetry.aggregator.budgets import Budget
from telemetry.aggregator.checkpoint import PART, PARTS
from telemetry.aggregator.run_clock import RunClock
from telemetry.aggregator.steps.axis import AxisSteps
from telemetry.aggregator.steps.merged import RankOf, finite
from telemetry.aggregator.steps.published import AxisContext
from telemetry.aggregator.steps.reported_part import can_be, size_of
from telemetry.aggregator.steps.shown_names import ShownNames
from telemetry.aggregator.steps.step import FinishedStep
from telemetry.wire.control import StepCondition, StepDistribution, StepState
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.events import Axis, AxisName, Bins, Name, Natural, Note, Scalars, Step, StepClear, StepEnd, Text
from telemetry.wire.nodes import StepPart
from telemetry.wire.snapshot import AxisStat

_NUMBER_CHARS = 8  # space of a number, in characters
_LATEST_NS: Final = (1 << 63) - 1
_LONGEST_NS: Final = 2_000_000_000  # of an interval: no producer could report for a while in a longer one


class StepMerger:
    """Steps of all axes.

    Bounded by AXES, by STEPS_OPEN and STEPS_KEPT per axis, and by STEP_VALUES and the shown names in total. Steps
    to publish wait for `take` until the end of the call that closed them.
    """

    STATE: ClassVar[Mapping[str, Any]] = {
        "known": list[Name],
        "_showing": PART,
        "_axes": PARTS,
        "_clock_ns": Natural,
        "_attached": PART,
    }
    ADDED: ClassVar[tuple[str, ...]] = ("_attached",)
    DERIVED: ClassVar[tuple[str, ...]] = (
        *("_grace_ns", "_warn", "_budget", "_closing", "_touched", "_claiming", "_shared", "_parts"),
    )

    def __init__(
        self,
        grace_s: float,
        warn: Callable[[str], None],
        rank_of: RankOf = lambda _: None,
        *,
        clock: RunClock | None = None,
        leaf: bool = False,
    ) -> None:
        """Start without axes. `rank_of` returns the rank of a producer.

        `clock` is the run's; without one, the wall clock never steps. With `leaf`, closed steps carry parts for the
        root.
        """
        self._grace_ns = int(grace_s * 1e9)
        self._warn = warn
        self._budget = Budget(limits.STEP_VALUES)
        self._showing = ShownNames(warn)
        self._axes: dict[str, AxisSteps] = {}
        self._attached = AttachedRecords()
        self._closing: list[FinishedStep] = []
        self._shared = AxisContext(
            self._budget, self._showing, self._closing, warn, rank_of, clock or RunClock(), leaf
        )
        self._parts: list[StepPart] = []
        """Parts for the root since the last interval began, besides those of closed steps."""
        self._touched: dict[str, None] = {}
        self._claiming: dict[str, set[str]] = {}
        """Producer → axes with claims that may not count yet."""
        self._clock_ns = 0
        """Start of the current interval on the clock of steps."""

    @property
    def known(self) -> list[str]:
        """The names of axes. New steps can be assigned these once, and add each."""
        return list(self._axes)

    @known.setter
    def known(self, names: list[str]) -> None:
        for name in names:
            self._meet(name)
        if self.known != names:
            raise ValueError("axes that are too many, or the same")

    def restored(self) -> None:
        for name, axis in self._axes.items():
            for producer in axis.claimants():
                self._claiming.setdefault(producer, set()).add(name)

    def _meet(self, name: str) -> AxisSteps | None:
        """Return the axis of this name, new or known. Return None if there is no room for it."""
        axis = self._axes.get(name)
        if axis is None:
            if len(self._axes) >= limits.AXES:
                self._warn(f"more than {limits.AXES} axes: the steps of further axes are dropped")
                return None
            axis = self._axes[name] = AxisSteps(name, self._shared)
        return axis

    # --- input -----------------------------------------------------------------------------------

    def declare(self, declared: Axis) -> None:
        axis = self._meet(declared.name)
        if axis is not None and not axis.declare(declared):
            self._warn(
                f"axis {declared.name!r} was declared again with other values; the first declaration is used"
            )

    def end(self, producer: str, ended: StepEnd, since: int = 0) -> Reason | None:
        """Register that a producer ended a step. Return the reason if that is dropped. `since` as in `report`."""
        axis = self._meet(ended.axis)
        if axis is None:
            return Reason.STEPS_FULL
        self._hear(axis, producer, ended.step + 1, since)
        if axis.report(producer, ended.step, self._clock_ns, since):
            self._claiming.setdefault(producer, set()).add(axis.name)
        self._attached.close(ended.axis, ended.step)
        return None

    def attach(self, record: Note | Bins, at_ns: int) -> None:
        """Keep a text or a distribution of a step, on a reported axis. `at_ns` is its time on the wall clock."""
        axis = self._axes.get(record.axis)
        if axis is not None and axis.reported:
            self._attached.add(record, at_ns)

    def clear(self, producer: str, cleared: StepClear, seq: int = 0, until_ns: int = _LATEST_NS) -> None:
        """Forget the values of an open step, or of all open steps of an axis.

        The request is in batch `seq` of a producer. If later batches of this producer have arrived before, its
        values after `until_ns` stay, because it logged them after the request.
        """
        axis = self._axes.get(cleared.axis)
        if axis is not None:
            axis.clear(cleared.step, producer, seq, until_ns)
            self._attached.clear(cleared.axis, cleared.step, until_ns)
            self._touched[axis.name] = None

    def report(self, producer: str, scalars: Scalars, at_ns: int, since: int = 0) -> Reason | None:
        """Add values of a step. Return the reason if they are dropped.

        Unless the axis is reported, they also end the producer's lower steps.

        All of the producer's batches from `since` up to the current one have arrived. If `since` is 0, all earlier
        batches have.
        """
        axis = self._meet(scalars.axis)
        if axis is None:
            return Reason.STEPS_FULL
        number, values = scalars.step, finite(scalars.values)
        self._hear(axis, producer, number, since)
        if not values:
            return None
        if not self._make_room(axis, number, producer, len(values)):
            return Reason.STEPS_FULL
        return None if axis.add(number, producer, values, at_ns, self._clock_ns) else Reason.STEP_TOO_LATE

    def report_part(self, leaf: str, part: StepPart, shift_ns: int, since: int = 0) -> Reason | None:
        """Add a leaf's part of a step. Return the reason if it is dropped.

        `shift_ns` leads from the leaf's clock to that of the times of `report`. `since` as in `report`. Without
        values, a part only tells which steps the leaf has ended.
        """
        if not can_be(part):
            return Reason.MALFORMED_RECORD
        axis = self._meet(part.axis)
        if axis is None:
            return Reason.STEPS_FULL
        axis.expect_parts()
        if part.left:
            self._hear_leaving(axis, leaf, since, part.number)
            return None
        self._hear(axis, leaf, part.step + part.ended, since, part.number)
        if part.cleared:
            axis.clear_part(leaf, part.step, part.number)
        refused = self._add_part(axis, leaf, part, shift_ns) if part.values else None
        if part.ended and axis.report(leaf, part.step, self._clock_ns, since):
            self._claiming.setdefault(leaf, set()).add(axis.name)
        return refused

    def _add_part(self, axis: AxisSteps, leaf: str, part: StepPart, shift_ns: int) -> Reason | None:
        if not self._make_room(axis, part.step, leaf, size_of(part)):
            return Reason.STEPS_FULL
        if axis.add_part(leaf, part, shift_ns, self._clock_ns):
            return None
        self._warn(
            f"axis {axis.name!r}: values of a node arrived after {limits.STEPS_KEPT} later steps had closed; "
            "its steps lack them"
        )
        return Reason.STEP_TOO_LATE

    def _hear_leaving(self, axis: AxisSteps, leaf: str, since: int, number: int) -> None:
        self._touched[axis.name] = None
        if axis.reported:
            return
        axis.hear_leaving(leaf, self._clock_ns, since, number)
        if since:
            self._claiming.setdefault(leaf, set()).add(axis.name)

    def _hear(self, axis: AxisSteps, producer: str, at: int, since: int, number: int = 0) -> None:
        self._touched[axis.name] = None
        if axis.reported:
            return
        axis.hear(producer, at, self._clock_ns, since, number)
        if since:
            self._claiming.setdefault(producer, set()).add(axis.name)

    def settle(self, producer: str, contiguous: int) -> None:
        """Update claims at the end of a call.

        All of the producer's batches below `contiguous` are applied or given up.
        """
        claiming = self._claiming.pop(producer, None)
        if claiming is None:
            return
        for name, axis in self._axes.items():
            if name in claiming:
                self._touched[name] = None
                if axis.settle(producer, contiguous):
                    self._claiming.setdefault(producer, set()).add(name)

    def leave(self, producer: str) -> None:
        """Remove a producer that has ended: no step waits for it any more."""
        self._claiming.pop(producer, None)
        for name, axis in self._axes.items():
            if axis.leave(producer, self._clock_ns):
                self._touched[name] = None

    def pass_time(self, elapsed_ns: int) -> None:
        """End an interval. Close steps that were first ended in an interval at least a grace time earlier."""
        self._parts = self._open_parts()
        until_ns = self._clock_ns - self._grace_ns
        self._clock_ns = min(self._clock_ns + min(elapsed_ns, _LONGEST_NS), _LATEST_NS)
        for axis in self._axes.values():
            axis.pass_interval(until_ns)

    def close(self) -> None:
        """Close all steps. Values that still arrive correct them as they correct other closed steps."""
        for axis in self._axes.values():
            axis.close_all()
        self._parts += self._open_parts()

    def _open_parts(self) -> list[StepPart]:
        """Return what the root has not been told yet, before steps close that are told with their parts."""
        return [part for axis in self._axes.values() for part in axis.take_parts()] if self._shared.leaf else []

    # --- output ----------------------------------------------------------------------------------

    def take(self) -> list[FinishedStep]:
        """Return the steps to publish after a call, in order. Steps of an axis ascend, except late ones."""
        for name in self._touched:
            self._axes[name].close_complete()
            self._axes[name].correct()
        self._touched.clear()
        closed = self._closing.copy()
        self._closing.clear()
        return closed

    def take_parts(self) -> list[StepPart]:
        """Return what a leaf tells its root at the end of an interval, besides the parts of closed steps."""
        taken, self._parts = self._parts, []
        return taken

    def state(self, axis: str, step: int) -> StepState:
        """Return the state of a step and its values so far, without what the record stream and backends know."""
        steps = self._axes.get(axis)
        answer = steps.state(step) if steps is not None else StepState(state="unknown")
        attached = self._attached.of(axis, step)
        if attached is None:
            return answer
        alone: StepCondition = "closed" if attached.is_closed else "open"
        return replace(
            answer,
            state=alone if answer.state == "unknown" else answer.state,
            texts=dict(attached.texts),
            distributions=dict(attached.distributions),
        )

    def stats(self) -> list[AxisStat]:
        return [axis.stat() for axis in self._axes.values()]

    # --- bounds ----------------------------------------------------------------------------------

    def _make_room(self, axis: AxisSteps, number: int, producer: str, values: int) -> bool:
        """Make room for so many values in the budget. Warn and return False if that is impossible.

        First forgets kept steps, then closes open ones, except this step and higher steps of its axis.
        """
        while self._budget.left < axis.room_for(number, producer, values):
            keeper = _largest(self._axes.values(), lambda each: each.kept_units)
            if keeper is not None:
                keeper.forget_oldest()
                continue
            opener = _largest(self._axes.values(), lambda each: each.open_units)
            if opener is None or (opener is axis and opener.lowest is not None and opener.lowest >= number):
                self._warn(f"more than {limits.STEP_VALUES:,} values in open steps: further values are dropped")
                return False
            opener.close_lowest("timeout")
        return True


def _largest(axes: Iterable[AxisSteps], units_of: Callable[[AxisSteps], int]) -> AxisSteps | None:
    """Return the first of the largest axes, or None if all are empty."""
    largest = max(axes, key=units_of)
    return largest if units_of(largest) else None


# Only reported axes have them: their steps are held for a service that answers questions about them.


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
        numbers = sum(2 * len(distribution.edges) for distribution in self.distributions.values())
        return texts + sum(map(len, self.distributions)) + _NUMBER_CHARS * numbers


class AttachedRecords:
    """Texts and distributions by axis and step: STEPS_KEPT steps an axis, and STEP_TEXT_CHARS in total."""

    STATE: ClassVar[Mapping[str, Any]] = {"_steps": dict[AxisName, dict[Step, Attached]]}
    DERIVED: ClassVar[tuple[str, ...]] = ("_chars",)

    def __init__(self) -> None:
        self._steps: dict[str, dict[int, Attached]] = {}
        self._chars = 0

    def restored(self) -> None:
        self._chars = sum(attached.chars for steps in self._steps.values() for attached in steps.values())
        if self._chars > limits.STEP_TEXT_CHARS or any(
            len(each) > limits.STEPS_KEPT for each in self._steps.values()
        ):
            raise ValueError("more texts of steps than there is room for")

    def add(self, record: Note | Bins, at_ns: int) -> None:
        """Keep a record of a step. A later one of the same name replaces it."""
        steps = self._steps.setdefault(record.axis, {})
        attached = steps.setdefault(record.step, Attached())
        self._chars -= attached.chars
        if isinstance(record, Note):
            attached.texts[record.name] = record.text
        else:
            attached.distributions[record.name] = StepDistribution(edges=record.edges, counts=record.counts)
        attached.newest_ns = max(attached.newest_ns, at_ns)
        self._chars += attached.chars
        while len(steps) > limits.STEPS_KEPT:
            self._forget_oldest(record.axis)
        while self._chars > limits.STEP_TEXT_CHARS:
            self._forget_oldest(max(self._steps, key=lambda axis: len(self._steps[axis])))

    def close(self, axis: str, step: int) -> None:
        """Mark a step as reported."""
        attached = self.of(axis, step)
        if attached is not None:
            attached.is_closed = True

    def clear(self, axis: str, step: int | None, until_ns: int) -> None:
        """Forget a step, or all of an axis, that was not reported. A record after `until_ns` keeps its step."""
        steps = self._steps.get(axis, {})
        for number in [*steps] if step is None else [step]:
            attached = steps.get(number)
            if attached is not None and not attached.is_closed and attached.newest_ns <= until_ns:
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
