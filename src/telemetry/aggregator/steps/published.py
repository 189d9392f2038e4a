"""Steps of an axis once they close: published, shown in snapshots, and kept a while for late values."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, ClassVar, NamedTuple

from telemetry import limits
from telemetry.aggregator.budgets import Budget
from telemetry.aggregator.event_times import UNKNOWN
from telemetry.aggregator.run_clock import RunClock
from telemetry.aggregator.steps.members import NOTHING_ENDED, AxisMembers
from telemetry.aggregator.steps.merged import MergedStep, RankOf, Ranks, Reductions, Values
from telemetry.aggregator.steps.shown_names import ShownNames
from telemetry.aggregator.steps.step import FinishedStep, MergingStep
from telemetry.wire.control import StepState as StepAnswer
from telemetry.wire.events import Axis, ClosedStep, Closing, Name, Natural, Step
from telemetry.wire.nodes import StepPart
from telemetry.wire.snapshot import AxisStat


class AxisContext(NamedTuple):
    """Things that all axes share."""

    budget: Budget
    showing: ShownNames
    closing: list[FinishedStep]
    """Published steps, in order."""
    warn: Callable[[str], None]
    rank_of: RankOf
    clock: RunClock
    leaf: bool
    """True if closed steps carry a part for the root."""


class PublishedSteps(AxisMembers):
    """Steps of an axis that close, with their corrections. On a leaf, each publication has a part for the root."""

    def __init__(self, name: str, shared: AxisContext) -> None:
        super().__init__()
        self.name = name
        self._shared = shared
        self.declared: Axis | None = None
        self._outgoing = OutgoingParts()
        self._kept: dict[int, MergingStep] = {}
        """Closed steps that are kept, in the order they were closed."""
        self._forgotten: int | None = None
        """Highest step up to which missing steps may have been published and forgotten."""
        self._closed = self._timeouts = self._corrections = 0
        self._newest: int | None = None
        self._shown: Values = {}
        self._shown_steps: dict[str, int] = {}
        self._not_finite: dict[str, int] = {}
        """Shown names that were null in a step → the lowest such step."""
        self._times = AxisTimes()
        self._late: dict[int, dict[str, None]] = {}
        """Names in kept steps that were reported after the step was published."""
        self.open_units = self.kept_units = 0
        self._reduction_of = Reductions(None)

    # --- closing ---------------------------------------------------------------------------------

    def close_complete(self) -> None:
        while self._complete:
            self.close_lowest("ended")

    def close_lowest(self, closing: Closing) -> None:
        self._close(self._order[0], closing)

    def _close_overdue(self, until_ns: int) -> None:
        """Close steps whose first end was at or before `until_ns`, without the members that they wait for."""
        while self._order and not self._young:
            ended_ns = self._open[self._order[0]].ended_ns
            if ended_ns is None or ended_ns > until_ns:
                return
            for key in [*self._waited_for(self._order[0])]:
                self.members[key].away = self.members[key].heard_ns <= until_ns
            self.close_lowest("timeout")
            self.close_complete()

    def _close(self, number: int, closing: Closing) -> None:
        del self._order[bisect_left(self._order, number)]
        step = self._open.pop(number)
        self._behind = None
        self._stirred = True
        if not self.reported:
            closing = step.closing(closing)
        result = step.result(self._reduction_of, with_partials=self._shared.leaf)
        step.merged = result.values
        self._closed += 1
        self._timeouts += closing == "timeout"
        self._show(number, result.values, step.not_finite)
        self._publish(number, step, result, closing)
        units = step.units
        self.open_units -= units
        self.kept_units += units
        self._kept[number] = step
        if len(self._kept) > limits.STEPS_KEPT:
            self.forget_oldest()

    def forget_oldest(self) -> None:
        """Forget the kept step that was closed first."""
        number = next(iter(self._kept))
        if number in self._late:
            self._correct(number)
        units = self._kept.pop(number).units
        self.kept_units -= units
        self._shared.budget.give_back(units)
        self._forgotten = number if self._forgotten is None else max(self._forgotten, number)

    # --- corrections -----------------------------------------------------------------------------

    def correct(self) -> None:
        """Publish the changes of steps that were published before."""
        while self._late:
            self._correct(next(iter(self._late)))

    def _correct(self, number: int) -> None:
        """Publish the names whose values have changed.

        On a leaf, all names that were reported late: a mean that stays the same counts more producers now. The same
        holds for ranked names.
        """
        names, step = self._late.pop(number), self._kept[number]
        assert step.merged is not None
        result = step.result(self._reduction_of, names, with_partials=self._shared.leaf)
        before, ranked = step.merged, self._ranked(step)
        self._show(number, result.values, step.not_finite)
        news = [
            name
            for name, value in result.values.items()
            if self._shared.leaf or name in ranked or name not in before or before[name] != value
        ]
        if news:
            result = result.of(news)
            before.update(result.values)
            self._corrections += 1
            self._publish(number, step, result, "late")

    # --- publication -----------------------------------------------------------------------------

    def _publish(self, number: int, step: MergingStep, result: MergedStep, closing: Closing) -> None:
        """Publish a step as one record, or as several of at most PARAMS_PER_RECORD names."""
        names, most = list(result.values), limits.PARAMS_PER_RECORD
        cleared = self._outgoing.close(number)
        for begin in range(0, len(names), most):
            piece = result if len(names) <= most else result.of(names[begin : begin + most])
            ranks = self._ranks(step, piece.values)
            published = ClosedStep(
                self.name,
                number,
                dict(piece.values),
                piece.spread,
                step.producers,
                closing,
                step.revision,
                ranks,
            )
            part = None
            if self._shared.leaf:  # the root may close the step only once it has all pieces
                is_last, not_finite = begin + most >= len(names), step.not_finite
                part = StepPart(
                    self.name,
                    number,
                    piece.partials,
                    step.newest_ns,
                    step.producers,
                    is_last and self._has_ended(number, closing),
                    ranks,
                    self._outgoing.number(),
                    closing,
                    cleared and begin == 0,
                    first_ns=step.first_ns,
                    not_finite=[name for name in piece.partials if name in not_finite],
                )
                if part.ended and not self.reported:
                    self._outgoing.tell_ended(number + 1)
            self._shared.closing.append(FinishedStep(step.newest_ns, published, part))
            step.revision += 1

    def _has_ended(self, number: int, closing: Closing) -> bool:
        """Return whether a part tells the root that this leaf has ended the step."""
        if self.reported:
            return closing == "ended"
        return closing != "late" or next(iter(self._waited_for(number)), None) is None

    def _ranked(self, step: MergingStep) -> list[str]:
        """Return the ranked names. A part may arrive before the declaration of its axis."""
        if self.declared is not None:
            return self.declared.ranked
        names = {name for part in step.parts.values() for name in part.ranks}
        return sorted(names)[: limits.RANKED_NAMES]

    def _ranks(self, step: MergingStep, names: Iterable[str]) -> Ranks:
        ranked = self._ranked(step)
        return step.ranks([name for name in ranked if name in names], self._shared.rank_of) if ranked else {}

    # --- parts of a leaf -------------------------------------------------------------------------

    def take_parts(self) -> Iterator[StepPart]:
        """Yield what the root has not been told at the end of an interval, besides the parts of closed steps."""
        if self.reported:
            for number, (names, cleared) in self._outgoing.take_changed().items():
                yield from self._open_parts(number, names, cleared=cleared)
            for number in self._outgoing.take_reports():
                yield StepPart(self.name, number, {}, producers=0, number=self._outgoing.number())
        elif self._stirred:
            self._stirred = False
            part = self._outgoing.progress(self.name, *self._ended())
            if part is not None:
                yield part

    def _open_parts(self, number: int, names: list[str], *, cleared: bool) -> Iterator[StepPart]:
        """Yield the changed values of an open step, in parts of at most PARAMS_PER_RECORD names."""
        step, most = self._open.get(number, MergingStep()), limits.PARAMS_PER_RECORD
        not_finite = step.not_finite
        for begin in range(0, max(1, len(names)), most):
            piece = names[begin : begin + most]
            yield StepPart(
                self.name,
                number,
                step.result(self._reduction_of, piece, with_partials=True).partials,
                step.newest_ns,
                step.producers,
                ended=False,
                ranks=self._ranks(step, piece),
                number=self._outgoing.number(),
                cleared=cleared and begin == 0,
                first_ns=step.first_ns,
                not_finite=[name for name in piece if name in not_finite],
            )

    # --- state -----------------------------------------------------------------------------------

    def _show(self, number: int, values: Values, not_finite: set[str]) -> None:
        """Show the values of a step. `not_finite` are null for some producers, though others may have a number."""
        null = [name for name, value in values.items() if value is None or name in not_finite]
        if self._newest is None or number >= self._newest:
            self._newest = number
        else:
            steps = self._shown_steps
            values = {name: value for name, value in values.items() if steps.get(name, number) <= number}
        if not values.keys() <= self._shown.keys():
            showing = self._shared.showing
            values = {name: value for name, value in values.items() if name in self._shown or showing.take(name)}
        self._shown.update(values)
        self._shown_steps.update(dict.fromkeys(values, number))
        for name in null:
            if name in self._shown:
                self._not_finite[name] = min(number, self._not_finite.get(name, number))

    def state(self, number: int) -> StepAnswer:
        """Return the state of a step and its values so far, the first STEP_STATE_NAMES."""
        if number in self._open:
            return self._open[number].answer("open", self._reduction_of)
        if number in self._kept:
            return self._kept[number].answer("closed", self._reduction_of)
        forgotten = self._forgotten is not None and number <= self._forgotten
        return StepAnswer(state="forgotten" if forgotten else "unknown")

    def stat(self) -> AxisStat:
        waiting = self._waited_for(self._order[0]) if self._order else ()
        return AxisStat(
            name=self.name,
            closed=self._closed,
            open=len(self._order),
            newest=self._newest,
            oldest_open=self.lowest,
            waiting_for=[*islice(waiting, limits.STEP_PRODUCERS_SHOWN)],
            producers=len(self.members),
            timeouts=self._timeouts,
            corrections=self._corrections,
            values=dict(self._shown),
            not_finite=dict(self._not_finite),
            lowest=self._times.lowest,
            highest=self._times.highest,
            began_ns=self._times.began_ns(self._closed + len(self._order)),
            ended_ns=self._times.last_ns,
        )


class AxisTimes:
    """Range of the steps of one axis, and of the times of their values. Times are on the run's clock."""

    STATE: ClassVar[Mapping[str, Any]] = {
        "lowest": Step | None,
        "highest": Step | None,
        "first_ns": Natural,
        "last_ns": Natural,
    }
    DERIVED: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self.lowest: int | None = None
        self.highest: int | None = None
        self.first_ns = UNKNOWN
        self.last_ns = UNKNOWN

    def restored(self) -> None:
        if (self.lowest is None) is not (self.highest is None) or (self.lowest or 0) > (self.highest or 0):
            raise ValueError("a range of steps that no axis has")

    def note(self, step: int, first_ns: int, last_ns: int) -> None:
        """Register values of a step from the first to the last of these times."""
        if self.lowest is None or self.highest is None:
            self.lowest, self.highest, self.first_ns, self.last_ns = step, step, first_ns, last_ns
            return
        self.lowest, self.highest = min(self.lowest, step), max(self.highest, step)
        self.first_ns, self.last_ns = min(self.first_ns, first_ns), max(self.last_ns, last_ns)

    def began_ns(self, steps: int) -> int:
        """Return the time of the first value less the mean time between two of so many steps, as of a counter."""
        gap_ns = (self.last_ns - self.first_ns) // max(steps - 1, 1)
        return self.first_ns - min(gap_ns, self.first_ns)


# A step that the leaf closes or corrects has its part at once. The rest is told at the end of an interval: values
# of open steps on a reported axis, because a process of another node may report them; reports of steps without
# values here; and which steps the leaf has ended, so that the root waits for it as for a producer.


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
        is_current, self._told_now = self._told_now, False
        if not has_producers:
            if not self._joined:
                return None
            self._joined, self._told = False, None
            return StepPart(axis, 0, {}, producers=0, ended=False, number=self.number(), left=True)
        if below is None or (is_current and self._told is not None and below <= self._told):
            return None
        self._told = below if self._told is None else max(self._told, below)
        self._joined = True
        step, ended = (below - 1, True) if below > NOTHING_ENDED else (NOTHING_ENDED, False)
        return StepPart(axis, step, {}, producers=0, ended=ended, number=self.number())

    def close_by_reports(self) -> None:
        """Forget which steps were ended, because steps of this axis close by reports."""
        self._told, self._joined, self._told_now = None, False, False
