"""Scalars of many producers, merged by axis and step; said once all that report on the axis have ended the step.

Time is the sum of the intervals of the history, so that whoever reads the journal comes to the same: whether a
producer lives is told by what it reports, for its signs of life are written nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final

from telemetry import limits
from telemetry.aggregator.producers.budget import Budget
from telemetry.aggregator.state import PART, PARTS
from telemetry.aggregator.steps.axis import AxisSteps, Closed
from telemetry.aggregator.steps.merged import Values, finite
from telemetry.aggregator.steps.shown_names import ShownNames
from telemetry.drop_reasons import Reason
from telemetry.wire.events import Axis, Name, Natural, Scalars, StepEnd
from telemetry.wire.snapshot import AxisStat

_LATEST_NS: Final = (1 << 63) - 1
_LONGEST_NS: Final = 2_000_000_000  # of an interval: in a longer one nobody could be heard for a while


class Steps:
    """Bounded: AXES, and on each STEPS_OPEN and STEPS_KEPT, and STEP_VALUES and what is shown of all together.

    What is said waits for `take`, until the end of the call that led to it.
    """

    STATE: ClassVar[Mapping[str, Any]] = {
        "known": list[Name],
        "_showing": PART,
        "_axes": PARTS,
        "_clock_ns": Natural,
    }
    DERIVED: ClassVar[tuple[str, ...]] = ("_grace_ns", "_warn", "_budget", "_closing", "_touched", "_claiming")

    def __init__(self, grace_s: float, warn: Callable[[str], None]) -> None:
        self._grace_ns = int(grace_s * 1e9)
        self._warn = warn
        self._budget = Budget(limits.STEP_VALUES)
        self._showing = ShownNames(warn)
        self._axes: dict[str, AxisSteps] = {}
        self._closing: list[Closed] = []
        self._touched: dict[str, None] = {}
        self._claiming: dict[str, set[str]] = {}
        """Producers whose claims may not count yet, and on which axes."""
        self._clock_ns = 0
        """Where the interval that goes on now began."""

    @property
    def known(self) -> list[str]:
        """Axes. Once, new steps can be given them, and meet each."""
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
        """The axis of this name, new or known; None if there is no room for it."""
        axis = self._axes.get(name)
        if axis is None:
            if len(self._axes) >= limits.AXES:
                self._warn(f"more than {limits.AXES} axes: the steps of the others are dropped")
                return None
            axis = self._axes[name] = AxisSteps(name, self._budget, self._showing, self._closing, self._warn)
        return axis

    # --- in --------------------------------------------------------------------------------------

    def declare(self, declared: Axis) -> None:
        axis = self._meet(declared.name)
        if axis is not None and not axis.declare(declared):
            self._warn(f"axis {declared.name!r} was declared again, otherwise: what was said first stands")

    def end(self, producer: str, ended: StepEnd, since: int = 0) -> Reason | None:
        """Why it is dropped, if it is. `since` as in `report`."""
        axis = self._meet(ended.axis)
        if axis is None:
            return Reason.STEPS_FULL
        self._hear(axis, producer, ended.step + 1, since)
        return None

    def report(self, producer: str, scalars: Scalars, at_ns: int, since: int = 0) -> Reason | None:
        """Values of a step, which also end the producer's lower ones. Why they are dropped, if they are.

        `since`: the producer's batches from this number up to the one that says it are all in; 0: all before it.
        """
        axis = self._meet(scalars.axis)
        if axis is None:
            return Reason.STEPS_FULL
        number, values = scalars.step, finite(scalars.values)
        self._hear(axis, producer, number, since)
        if not values:
            return None
        if not self._make_room(axis, number, producer, values):
            self._warn(
                f"more than {limits.STEP_VALUES:,} values in open steps: those there is no room for are dropped"
            )
            return Reason.STEPS_FULL
        return None if axis.add(number, producer, values, at_ns, self._clock_ns) else Reason.STEP_TOO_LATE

    def _hear(self, axis: AxisSteps, producer: str, at: int, since: int) -> None:
        axis.hear(producer, at, self._clock_ns, since)
        self._touched[axis.name] = None
        if since:
            self._claiming.setdefault(producer, set()).add(axis.name)

    def settle(self, producer: str, contiguous: int) -> None:
        """At the end of a call: all of a producer's batches below this number are in the numbers, or given up."""
        claiming = self._claiming.pop(producer, None)
        if claiming is None:
            return
        for name, axis in self._axes.items():
            if name in claiming:
                self._touched[name] = None
                if axis.settle(producer, contiguous):
                    self._claiming.setdefault(producer, set()).add(name)

    def leave(self, producer: str) -> None:
        """It has ended, and no step waits for it any more."""
        self._claiming.pop(producer, None)
        for name, axis in self._axes.items():
            if axis.leave(producer, self._clock_ns):
                self._touched[name] = None

    def pass_time(self, elapsed_ns: int) -> None:
        """An interval ended. Steps that were first ended in an interval at least a grace before it are closed."""
        until_ns = self._clock_ns - self._grace_ns
        self._clock_ns = min(self._clock_ns + min(elapsed_ns, _LONGEST_NS), _LATEST_NS)
        for axis in self._axes.values():
            axis.pass_interval(until_ns)

    def close(self) -> None:
        """Nothing more will come. If it does, the steps that were closed can be corrected as others are."""
        for axis in self._axes.values():
            axis.close_all()

    # --- out -------------------------------------------------------------------------------------

    def take(self) -> list[Closed]:
        """What is to be said after a call, in order. Steps of an axis ascend, but for late ones."""
        for name in self._touched:
            self._axes[name].close_complete()
            self._axes[name].correct()
        self._touched.clear()
        closed = self._closing.copy()
        self._closing.clear()
        return closed

    def stats(self) -> list[AxisStat]:
        return [axis.stat() for axis in self._axes.values()]

    # --- bounds ----------------------------------------------------------------------------------

    def _make_room(self, axis: AxisSteps, number: int, producer: str, values: Values) -> bool:
        """Forgets steps that are kept, then closes open ones, but for this one and what is above it on its axis."""
        while self._budget.left < axis.room_for(number, producer, values):
            keeper = _largest(self._axes.values(), lambda each: each.kept_units)
            if keeper is not None:
                keeper.forget_oldest()
                continue
            opener = _largest(self._axes.values(), lambda each: each.open_units)
            if opener is None or (opener is axis and opener.lowest is not None and opener.lowest >= number):
                return False
            opener.close_lowest("timeout")
        return True


def _largest(axes: Iterable[AxisSteps], units_of: Callable[[AxisSteps], int]) -> AxisSteps | None:
    """The first of those that hold most; None if none holds anything."""
    largest = max(axes, key=units_of)
    return largest if units_of(largest) else None
