"""Steps of one axis: open until their producers end them, then published, then kept a while for late values.

On a *reported* axis, a step is open until one producer reports it. It waits for no other step and for no
producer.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Container, Iterable, Mapping
from typing import Any, ClassVar, Final

from msgspec.structs import replace

from telemetry import limits
from telemetry.aggregator.checkpoint import PART
from telemetry.aggregator.steps.members import AxisMember, WaitingReports
from telemetry.aggregator.steps.merged import Reductions, ReportedValues, Values
from telemetry.aggregator.steps.published import AxisContext, PublishedSteps
from telemetry.aggregator.steps.reported_part import ReportedPart, moved_ns
from telemetry.aggregator.steps.step import MergingStep
from telemetry.wire.control import StepState as StepAnswer
from telemetry.wire.drop_reasons import Count
from telemetry.wire.events import Axis, Name, Natural, ProducerId, Step
from telemetry.wire.nodes import StepPart

_DUE: Final = 2  # intervals: one until a leaf sends, and one for the way
_FORGOTTEN: Final = 30
"""Intervals until a report of a step without values is forgotten."""


class AxisSteps(PublishedSteps):
    """Steps of an axis. Open steps close in ascending order: a complete step waits for lower steps.

    On a reported axis, there are no members, and steps close one by one, in any order.

    A closed step that is no longer kept looks like one that never existed. So values for such steps are refused.
    """

    STATE: ClassVar[Mapping[str, Any]] = {
        "declared": Axis | None,
        "members": dict[ProducerId, AxisMember],
        "_open": dict[Step, MergingStep],
        "_kept": dict[Step, MergingStep],
        "_forgotten": Step | None,
        "_ended_below": int | None,
        "_closed": Count,
        "_timeouts": Count,
        "_corrections": Count,
        "_newest": Step | None,
        "_young": Natural,
        "_shown": Values,
        "_shown_steps": dict[Name, Step],
        "_not_finite": dict[Name, Step],
        "_times": PART,
        "_reports": PART,
        "_delayed": PART,
        "_outgoing": PART,
        "_stirred": bool,
    }
    ADDED: ClassVar[tuple[str, ...]] = ("_reports", "_delayed", "_outgoing", "_stirred", "_not_finite", "_times")
    DERIVED: ClassVar[tuple[str, ...]] = (
        *("name", "open_units", "kept_units", "_shared", "_order", "_behind", "_late", "_reduction_of", "reported"),
    )

    def __init__(self, name: str, shared: AxisContext) -> None:
        """Prepare an axis. Published steps are appended to `shared.closing`."""
        super().__init__(name, shared)
        self._reports = WaitingReports()
        self._delayed = DelayedReports()

    def restored(self) -> None:
        self._order = sorted(self._open)
        self._reduction_of = Reductions(self.declared)
        self.reported = self.declared is not None and self.declared.closing == "reported"
        self.open_units = sum(step.units for step in self._open.values())
        self.kept_units = sum(step.units for step in self._kept.values())
        states = [*self._open.values(), *self._kept.values()]
        complete = all(step.has_values for step in states)
        complete = complete and all(step.merged is not None for step in self._kept.values())
        complete = complete and all(part.can_be for step in states for part in step.parts.values())
        within = len(self._open) <= limits.STEPS_OPEN and len(self._kept) <= limits.STEPS_KEPT
        shown = (
            self._not_finite.keys() <= self._shown.keys() == self._shown_steps.keys()
            and self._shared.showing.take_again(self._shown)
        )
        if self.reported:
            of_rule = not self.members
        else:
            of_rule = self._reports.producers <= self.members.keys()
            of_rule = of_rule and (self.declared is None or not self._reports.producers)
            of_rule = of_rule and not len(self._delayed)
        if not (complete and within and shown and of_rule and self._open.keys().isdisjoint(self._kept)):
            raise ValueError("steps that no axis has")
        for member in self.members.values():
            member.restored()
        units = self.open_units + self.kept_units
        if len(self.members) > limits.PRODUCERS or not self._shared.budget.take(units):
            raise ValueError("more of steps than there is room for")

    # --- members ---------------------------------------------------------------------------------

    def declare(self, declared: Axis) -> bool:
        """Declare the reductions of the axis, how its steps close, and ranked names.

        Return False if its rules differ from an earlier declaration, which stays. Ranked names are added up,
        because several parts of a program may need them. A declaration that has nothing else sets no rules. Groups
        are for readers of the record stream.
        """
        if declared.groups and not declared.ranked and _rules(declared) == _rules(Axis(declared.name)):
            return True
        if self.declared is not None:
            ranked = list(dict.fromkeys([*self.declared.ranked, *declared.ranked]))[: limits.RANKED_NAMES]
            if not _has_only_ranked(self.declared) or _has_only_ranked(declared):
                same = _has_only_ranked(declared) or _rules(self.declared) == _rules(declared)
                self.declared = replace(self.declared, ranked=ranked)
                return same
            declared = replace(declared, ranked=ranked)
        self.declared = declared = replace(declared, groups={}, rank=None)
        if declared.closing == "reported":
            self._close_by_reports()
        else:
            self._reports.clear()
        self._reduction_of = Reductions(declared)
        if sum("*" in name for name in declared.reductions) > limits.STEP_PATTERNS:
            self._shared.warn(f"axis {self.name!r}: only the first {limits.STEP_PATTERNS} of its patterns are used")
        return True

    def settle(self, producer: str, contiguous: int) -> bool:
        """Apply a producer's claims, given that all its batches below `contiguous` arrived or were given up.

        Returns True if claims are left.
        """
        if self.reported:
            self._close_reported(self._reports.take_settled(producer, contiguous))
            return producer in self._reports.producers
        self._reports.take_settled(producer, contiguous)
        member = self.members.get(producer)
        if member is None:  # a leaf that has left the axis
            return False
        at = member.settled(contiguous)
        if at > member.at:
            self._move_on(member, at)
        return bool(member.claims) or producer in self._reports.producers

    def claimants(self) -> list[str]:
        """Return producers with claims that do not count yet."""
        claiming = (producer for producer, member in self.members.items() if member.claims)
        return [*dict.fromkeys([*claiming, *self._reports.producers])]

    def leave(self, producer: str, clock_ns: int) -> bool:
        """Remove a producer that has ended. Return False if no step waited for it or for its batches."""
        steps = self._reports.take_all(producer)
        if self.reported:
            self._close_reported(steps)
            return bool(steps)
        return self._remove(producer, clock_ns)

    # --- reports ---------------------------------------------------------------------------------

    def report(self, producer: str, number: int, clock_ns: int, since: int = 0) -> bool:
        """Close a step of a reported axis if it is open. Return True if the report waits for batches below `since`.

        Without room to wait, it counts at once. While the axis is not declared, a report that waits counts if the
        declaration is in one of these batches. Other reports have no effect then.
        """
        if self.declared is not None and not self.reported:
            return False
        if since and self._reports.add(producer, number, since, clock_ns):
            return True
        if self.reported:
            self._close_reported([number])
        return False

    def _close_by_reports(self) -> None:
        self.reported = True
        self.members.clear()
        self._behind = self._ended_below = None
        self._outgoing.close_by_reports()
        for number, step in self._open.items():
            step.ended_ns = None
            self._change(number, step.names())

    def _close_reported(self, numbers: Iterable[int]) -> None:
        """Close reported steps that are open: at once, or a moment later if leaves report on the axis."""
        for number in numbers:
            if not self._delayed.add(number):
                self._close_now(number)

    def _close_now(self, number: int) -> None:
        if number in self._open:
            self._close(number, "ended")
        elif self._shared.leaf:
            self._outgoing.report(number)

    def _change(self, number: int, names: Iterable[str]) -> None:
        """Register changes of an open step that the root must know before the step closes here."""
        if self._shared.leaf and self.reported:
            self._outgoing.change(number, names)

    def clear(self, number: int | None, producer: str, seq: int, until_ns: int) -> None:
        """Forget the values of an open step, or of all open steps if `number` is None.

        The request is in batch `seq` of a producer. Steps that are complete, or that this producer reported before,
        close first. Its values after `until_ns` stay.
        """
        self.close_complete()
        if self.reported:
            for each in [*self._delayed.take(number), *self._reports.take_before(producer, seq, number)]:
                self._close_now(each)
        lowest = self.lowest
        for each in [*self._open] if number is None else [number]:
            step = self._open.get(each)
            if step is not None:
                units = step.units
                self._cleared(each, step, units, has_values=step.clear(producer, until_ns))
        if self.lowest != lowest:
            self._behind = None

    def clear_part(self, leaf: str, number: int, part_number: int) -> None:
        """Forget the values from a leaf's parts below a number, if the step is open."""
        step = self._open.get(number)
        if step is None:
            return
        lowest, units = self.lowest, step.units
        self._cleared(number, step, units, has_values=step.clear_part(leaf, part_number))
        if self.lowest != lowest:
            self._behind = None

    def _cleared(self, number: int, step: MergingStep, units: int, *, has_values: bool) -> None:
        """Give back the room of values that were forgotten. `units` is the room that the step had before."""
        if self._shared.leaf and self.reported:
            self._outgoing.clear(number)
        if has_values:
            units -= step.units
            self._change(number, step.names())
        else:
            del self._open[number]
            del self._order[bisect_left(self._order, number)]
        self.open_units -= units
        self._shared.budget.give_back(units)

    def state(self, number: int) -> StepAnswer:
        """Return the state of a step, as of a published one. A step is open while its report does not count yet."""
        answer = super().state(number)
        if answer.state == "unknown" and self._delayed.is_fresh(number):
            return StepAnswer(state="open")
        return answer

    # --- values ----------------------------------------------------------------------------------

    def room_for(self, number: int, producer: str, values: int) -> int:
        """Return an upper bound of the budget units that `add` or `add_part` needs for so many values."""
        step = self._open.get(number) or self._kept.get(number)
        if step is None:
            return 2 * limits.STEP_UNITS + values
        has_values = producer in step.said or producer in step.parts
        return 2 * values if has_values else limits.STEP_UNITS + values

    def add(self, number: int, producer: str, values: Values, at_ns: int, clock_ns: int) -> bool:
        """Add values of a step. Return False if they are too late. The caller has made room in the budget."""
        step = self._step_for(number, clock_ns)
        if step is None:
            return False
        if number in self._kept and any(own.values is step.merged for own in step.said.values()):
            step.merged = dict(step.merged or {})
        reported = step.said.get(producer)
        before = 0
        if reported is None:
            reported = step.said[producer] = ReportedValues(values, at_ns)
        else:
            before = reported.units
            reported.add(values, at_ns)
        if self.declared is not None and self.declared.ranked:
            reported.rank = self._shared.rank_of(producer)
        self._note_times(number, step, at_ns, at_ns)
        self._added(number, reported.units - before, values)
        return True

    def add_part(self, leaf: str, part: StepPart, shift_ns: int, clock_ns: int) -> bool:
        """Add the values of a leaf's part, as `add` does those of a producer. Its times are moved by `shift_ns`."""
        step = self._step_for(part.step, clock_ns)
        if step is None:
            return False
        if part.step in self._kept and any(own.values is step.merged for own in step.said.values()):
            step.merged = dict(step.merged or {})
        reported = step.parts.get(leaf)
        before = 0
        if reported is None:
            reported = step.parts[leaf] = ReportedPart()
        else:
            before = reported.units
        reported.add(part, shift_ns)
        first_ns, newest_ns = (moved_ns(each, shift_ns) for each in (part.first_ns or part.wall_ns, part.wall_ns))
        self._note_times(part.step, step, first_ns, newest_ns)
        self._added(part.step, reported.units - before, part.values)
        return True

    def _step_for(self, number: int, clock_ns: int) -> MergingStep | None:
        """Return the step that takes values: an open one, a closed one that is kept, or a new one."""
        step = self._open.get(number) or self._kept.get(number)
        if step is None and (self._forgotten is None or number > self._forgotten):
            step = self._begin(number, clock_ns)
        return step

    def _note_times(self, number: int, step: MergingStep, first_ns: int, newest_ns: int) -> None:
        """Register when values of a step were reported, on the wall clock."""
        step.first_ns = min(step.first_ns or first_ns, first_ns)
        step.newest_ns = max(step.newest_ns, newest_ns)
        if self._closed and self._times.lowest is None:
            return  # a checkpoint without times: those of the steps before it stay unknown
        shift_ns = -self._shared.clock.shift_ns
        self._times.note(number, moved_ns(first_ns, shift_ns), moved_ns(newest_ns, shift_ns))

    def _added(self, number: int, units: int, names: Iterable[str]) -> None:
        """Take the room of values that were added to a step."""
        self._shared.budget.take(units)
        if number in self._kept:
            self.kept_units += units
            self._late.setdefault(number, {}).update(dict.fromkeys(names))
        else:
            self.open_units += units
            self._change(number, names)

    def _begin(self, number: int, clock_ns: int) -> MergingStep:
        if len(self._order) >= limits.STEPS_OPEN:
            self._young = 0
            self.close_complete()
            while len(self._order) >= limits.STEPS_OPEN:
                self.close_lowest("timeout")
        step = self._open[number] = MergingStep()
        self._shared.budget.take(limits.STEP_UNITS)
        self.open_units += limits.STEP_UNITS
        if self._ended_below is not None and number < self._ended_below:
            step.ended_ns = clock_ns
        insort(self._order, number)
        if self._order[0] == number:
            self._behind = None
        return step

    # --- time -----------------------------------------------------------------------------------

    def pass_interval(self, until_ns: int) -> None:
        """Close steps whose first end was at or before `until_ns` on the clock of steps.

        From then on, steps don't wait for producers that were silent since that time, or for batches that have been
        missing since. On a reported axis, steps wait only for missing batches.
        """
        overdue = self._reports.take_overdue(until_ns)
        if self.reported:
            for number in self._delayed.pass_interval(self._open):
                self._close_now(number)
            self._close_reported(overdue)
            return
        self._young = max(0, self._young - 1)
        self.close_complete()
        self._close_overdue(until_ns)
        for producer, member in self.members.items():
            if member.claims:
                member.waive(until_ns)
                self.settle(producer, 0)
        self.close_complete()

    def close_all(self) -> None:
        self._young = 0
        self.close_complete()
        for number in self._delayed.take(None):
            self._close_now(number)
        while self._order:
            self.close_lowest("run_end")

    # --- nodes -----------------------------------------------------------------------------------

    def expect_parts(self) -> None:
        """Register that leaves report on the axis, so that their values may arrive after a report."""
        self._delayed.active = True


def _rules(declared: Axis) -> tuple[object, ...]:
    """Return what a declaration says: the reductions in order, because the first match counts, and the closing."""
    return declared.reduce, list(declared.reductions.items()), declared.closing


def _has_only_ranked(declared: Axis) -> bool:
    return bool(declared.ranked) and _rules(declared) == _rules(Axis(declared.name))


# A leaf sends the values of its producers once a second. So when a process of one node reports a step, values that
# processes of other nodes logged before are still on their way.


class DelayedReports:
    """Steps that were reported and close in an interval or two, at most STEPS_OPEN."""

    STATE: ClassVar[Mapping[str, Any]] = {"active": bool, "_ages": dict[Step, Natural]}
    DERIVED: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self.active = False
        """True once a leaf has reported on the axis."""
        self._ages: dict[int, int] = {}
        """Step → number of intervals since it was reported."""

    def restored(self) -> None:
        if len(self._ages) > limits.STEPS_OPEN or (self._ages and not self.active):
            raise ValueError("invalid reports of steps")

    def __len__(self) -> int:
        return len(self._ages)

    def add(self, step: int) -> bool:
        """Delay a report. Return False if reports count at once, or if there is no room for it."""
        if not self.active or (len(self._ages) >= limits.STEPS_OPEN and step not in self._ages):
            return False
        self._ages.setdefault(step, 0)
        return True

    def is_fresh(self, step: int) -> bool:
        """Return whether a report of a step does not count yet, because values may be on their way."""
        return self._ages.get(step, _DUE) < _DUE

    def pass_interval(self, is_open: Container[int]) -> list[int]:
        """End an interval. Return the steps whose reports count now, also those without values.

        A step that opens later closes at the end of the next interval, unless its report is forgotten by then.
        """
        due = []
        for step in [*self._ages]:
            age = self._ages[step] = self._ages[step] + 1
            if age == _DUE or (age > _DUE and step in is_open):
                due.append(step)
            if age >= _FORGOTTEN or (age >= _DUE and step in is_open):
                del self._ages[step]
        return due

    def take(self, step: int | None) -> list[int]:
        """Remove and return a step, or all if `step` is None."""
        taken = [*self._ages] if step is None else [step] if step in self._ages else []
        for each in taken:
            del self._ages[each]
        return taken
