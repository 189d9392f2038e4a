"""Steps of one axis: open until their producers end them, then published, then kept a while for late values.

On a *reported* axis, a step is open until one producer reports it. It waits for no other step and for no
producer.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, ClassVar, Final

from telemetry import limits
from telemetry.aggregator.producers.budget import Budget
from telemetry.aggregator.state import PART
from telemetry.aggregator.steps.member import NOTHING_ENDED, Member
from telemetry.aggregator.steps.merged import Reductions, ReportedValues, Values, merged
from telemetry.aggregator.steps.reports import WaitingReports
from telemetry.aggregator.steps.shown_names import ShownNames
from telemetry.aggregator.steps.step import Closed, StepState
from telemetry.drop_reasons import Count
from telemetry.wire.control import StepState as StepAnswer
from telemetry.wire.events import Axis, ClosedStep, Closing, Name, Natural, ProducerId, Spread, Step
from telemetry.wire.snapshot import AxisStat

_YOUNG: Final = 2  # intervals, together at least one second


class AxisSteps:
    """Steps of an axis. Open steps close in ascending order: a complete step waits for lower steps.

    On a reported axis, there are no members, and steps close one by one, in any order.

    A closed step that is no longer kept looks like one that never existed. So values for such steps are refused.
    """

    STATE: ClassVar[Mapping[str, Any]] = {
        "declared": Axis | None,
        "members": dict[ProducerId, Member],
        "_open": dict[Step, StepState],
        "_kept": dict[Step, StepState],
        "_forgotten": Step | None,
        "_ended_below": int | None,
        "_closed": Count,
        "_timeouts": Count,
        "_corrections": Count,
        "_newest": Step | None,
        "_young": Natural,
        "_shown": Values,
        "_shown_steps": dict[Name, Step],
        "_reports": PART,
    }
    ADDED: ClassVar[tuple[str, ...]] = ("_reports",)
    DERIVED: ClassVar[tuple[str, ...]] = (
        *("name", "open_units", "kept_units", "_budget", "_closing", "_showing", "_warn"),
        *("_order", "_behind", "_late", "_reduction_of", "reported"),
    )

    def __init__(
        self, name: str, budget: Budget, showing: ShownNames, closing: list[Closed], warn: Callable[[str], None]
    ) -> None:
        """Prepare an axis. Published steps are appended to `closing`."""
        self.name = name
        self._budget = budget
        self._showing = showing
        self._closing = closing
        self._warn = warn
        self.declared: Axis | None = None
        self.reported = False
        """True if steps close by reports."""
        self._reports = WaitingReports()
        self.members: dict[str, Member] = {}
        self._open: dict[int, StepState] = {}
        self._kept: dict[int, StepState] = {}
        """Closed steps that are kept, in the order they were closed."""
        self._forgotten: int | None = None
        """Highest step up to which missing steps may have been published and forgotten."""
        self._ended_below: int | None = None
        """Number below which every step was ended by at least one producer."""
        self._closed = self._timeouts = self._corrections = 0
        self._newest: int | None = None
        self._young = _YOUNG
        """Number of intervals until steps may close.

        The first producer to report does not know which others will report.
        """
        self._shown: Values = {}
        self._shown_steps: dict[str, int] = {}
        self._order: list[int] = []
        """Numbers of open steps, ascending."""
        self._behind: int | None = None
        """Number of members that the lowest open step waits for. None: not counted yet."""
        self._late: dict[int, dict[str, None]] = {}
        """Names in kept steps that were reported after the step was published."""
        self.open_units = self.kept_units = 0
        self._reduction_of = Reductions(None)

    def restored(self) -> None:
        self._order = sorted(self._open)
        self._reduction_of = Reductions(self.declared)
        self.reported = self.declared is not None and self.declared.closing == "reported"
        self.open_units = sum(step.units for step in self._open.values())
        self.kept_units = sum(step.units for step in self._kept.values())
        states = [*self._open.values(), *self._kept.values()]
        complete = all(step.said for step in states)
        complete = complete and all(step.merged is not None for step in self._kept.values())
        within = len(self._open) <= limits.STEPS_OPEN and len(self._kept) <= limits.STEPS_KEPT
        shown = self._shown.keys() == self._shown_steps.keys() and self._showing.take_again(self._shown)
        if self.reported:
            of_rule = not self.members
        else:
            of_rule = self._reports.producers <= self.members.keys()
            of_rule = of_rule and (self.declared is None or not self._reports.producers)
        if not (complete and within and shown and of_rule and self._open.keys().isdisjoint(self._kept)):
            raise ValueError("steps that no axis has")
        for member in self.members.values():
            member.restored()
        if len(self.members) > limits.PRODUCERS or not self._budget.take(self.open_units + self.kept_units):
            raise ValueError("more of steps than there is room for")

    # --- members ---------------------------------------------------------------------------------

    def declare(self, declared: Axis) -> bool:
        """Declare the reductions of the axis, and how its steps close.

        Return False if that differs from an earlier declaration, which stays.
        """
        if self.declared is not None:
            return _rules(self.declared) == _rules(declared)
        self.declared = declared
        if declared.closing == "reported":
            self._close_by_reports()
        else:
            self._reports.clear()
        self._reduction_of = Reductions(declared)
        if sum("*" in name for name in declared.reductions) > limits.STEP_PATTERNS:
            self._warn(f"axis {self.name!r}: only the first {limits.STEP_PATTERNS} of its patterns are used")
        return True

    def hear(self, producer: str, at: int, clock_ns: int, since: int = 0) -> None:
        """Register that a producer lives and claims to have ended all steps below `at`.

        If some of its batches below `since` are missing, the claim counts once they arrive, or after the grace
        time.
        """
        member = self.members.get(producer)
        if member is None:
            member = self.members[producer] = Member(NOTHING_ENDED if since else at, clock_ns)
            self._behind = None
        else:
            member.heard_ns = clock_ns
            if member.away:
                member.away = False
                self._behind = None
        if since > member.waived:
            member.claim(since, at, clock_ns)
        elif at > member.at:
            self._move_on(member, at)
        if self._ended_below is None or at > self._ended_below:
            self._begin_graces(at, clock_ns)

    def settle(self, producer: str, contiguous: int) -> bool:
        """Apply a producer's claims, given that all its batches below `contiguous` arrived or were given up.

        Returns True if claims are left.
        """
        if self.reported:
            self._close_reported(self._reports.take_settled(producer, contiguous))
            return producer in self._reports.producers
        self._reports.take_settled(producer, contiguous)
        member = self.members[producer]
        at = member.settled(contiguous)
        if at > member.at:
            self._move_on(member, at)
        return bool(member.claims) or producer in self._reports.producers

    def claimants(self) -> list[str]:
        """Return producers with claims that do not count yet."""
        claiming = (producer for producer, member in self.members.items() if member.claims)
        return [*dict.fromkeys([*claiming, *self._reports.producers])]

    def _move_on(self, member: Member, at: int) -> None:
        if self._behind and not member.away and member.at <= self._order[0] < at:
            self._behind -= 1
        member.at = at

    def leave(self, producer: str, clock_ns: int) -> bool:
        """Remove a producer that has ended. Return False if no step waited for it or for its batches."""
        steps = self._reports.take_all(producer)
        if self.reported:
            self._close_reported(steps)
            return bool(steps)
        if self.members.pop(producer, None) is None:
            return False
        self._behind = None
        for step in self._open.values():
            if step.ended_ns is None:
                step.ended_ns = clock_ns
        return True

    def _begin_graces(self, below: int, clock_ns: int) -> None:
        first = 0 if self._ended_below is None else bisect_left(self._order, self._ended_below)
        for number in self._order[first : bisect_left(self._order, below)]:
            step = self._open[number]
            step.ended_ns = clock_ns if step.ended_ns is None else step.ended_ns
        self._ended_below = below

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
        for step in self._open.values():
            step.ended_ns = None

    def _close_reported(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if number in self._open:
                self._close(number, "ended")

    def clear(self, number: int | None, producer: str, seq: int, until_ns: int) -> None:
        """Forget the values of an open step, or of all open steps if `number` is None.

        The request is in batch `seq` of a producer. Steps that are complete, or that this producer reported before,
        close first. Its values after `until_ns` stay.
        """
        self.close_complete()
        if self.reported:
            self._close_reported(self._reports.take_before(producer, seq, number))
        lowest = self.lowest
        for each in [*self._open] if number is None else [number]:
            step = self._open.get(each)
            if step is None:
                continue
            units = step.units
            if step.clear(producer, until_ns):
                units -= step.units
            else:
                del self._open[each]
                del self._order[bisect_left(self._order, each)]
            self.open_units -= units
            self._budget.give_back(units)
        if self.lowest != lowest:
            self._behind = None

    # --- values ----------------------------------------------------------------------------------

    def room_for(self, number: int, producer: str, values: Values) -> int:
        """Return an upper bound of the budget units that `add` needs."""
        step = self._open.get(number) or self._kept.get(number)
        if step is None:
            return 2 * limits.STEP_UNITS + len(values)
        return 2 * len(values) if producer in step.said else limits.STEP_UNITS + len(values)

    def add(self, number: int, producer: str, values: Values, at_ns: int, clock_ns: int) -> bool:
        """Add values of a step. Return False if they are too late. The caller has made room in the budget."""
        step = self._open.get(number)
        if step is None:
            step = self._kept.get(number)
            if step is not None:
                self._add_late(number, step, producer, values, at_ns)
                return True
            if self._forgotten is not None and number <= self._forgotten:
                return False
            step = self._begin(number, clock_ns)
        self.open_units += self._report(step, producer, values, at_ns)
        return True

    def _add_late(self, number: int, step: StepState, producer: str, values: Values, at_ns: int) -> None:
        if any(said.values is step.merged for said in step.said.values()):
            step.merged = dict(step.merged or {})
        self.kept_units += self._report(step, producer, values, at_ns)
        self._late.setdefault(number, {}).update(dict.fromkeys(values))

    def _report(self, step: StepState, producer: str, values: Values, at_ns: int) -> int:
        """Add values to a step and return the units used."""
        said = step.said.get(producer)
        if said is None:
            said = step.said[producer] = ReportedValues(values, at_ns)
            taken = said.units
        else:
            before = said.units
            said.add(values, at_ns)
            taken = said.units - before
        step.newest_ns = max(step.newest_ns, at_ns)
        self._budget.take(taken)
        return taken

    def _begin(self, number: int, clock_ns: int) -> StepState:
        if len(self._order) >= limits.STEPS_OPEN:
            self._young = 0
            self.close_complete()
            while len(self._order) >= limits.STEPS_OPEN:
                self.close_lowest("timeout")
        step = self._open[number] = StepState()
        self._budget.take(limits.STEP_UNITS)
        self.open_units += limits.STEP_UNITS
        if self._ended_below is not None and number < self._ended_below:
            step.ended_ns = clock_ns
        insort(self._order, number)
        if self._order[0] == number:
            self._behind = None
        return step

    # --- closing ---------------------------------------------------------------------------------

    @property
    def lowest(self) -> int | None:
        """Lowest open step, or None."""
        return self._order[0] if self._order else None

    @property
    def _complete(self) -> bool:
        """True if the lowest open step waits for no producer."""
        if not self._order or self._young or self.reported:
            return False
        if self._behind is None:
            self._behind = sum(1 for _ in self._waited_for())
        return not self._behind

    def _waited_for(self) -> Iterator[str]:
        lowest = self._order[0]
        return (key for key, member in self.members.items() if member.at <= lowest and not member.away)

    def close_complete(self) -> None:
        while self._complete:
            self.close_lowest("ended")

    def pass_interval(self, until_ns: int) -> None:
        """Close steps whose first end was at or before `until_ns` on the clock of steps.

        From then on, steps don't wait for producers that were silent since that time, or for batches that have been
        missing since. On a reported axis, steps wait only for missing batches.
        """
        if self.reported:
            self._close_reported(self._reports.take_overdue(until_ns))
            return
        self._reports.take_overdue(until_ns)
        self._young = max(0, self._young - 1)
        self.close_complete()
        self._close_overdue(until_ns)
        for producer, member in self.members.items():
            if member.claims:
                member.waive(until_ns)
                self.settle(producer, 0)
        self.close_complete()

    def _close_overdue(self, until_ns: int) -> None:
        while self._order and not self._young:
            ended_ns = self._open[self._order[0]].ended_ns
            if ended_ns is None or ended_ns > until_ns:
                return
            for key in [*self._waited_for()]:
                self.members[key].away = self.members[key].heard_ns <= until_ns
            self.close_lowest("timeout")
            self.close_complete()

    def close_lowest(self, closing: Closing) -> None:
        self._close(self._order[0], closing)

    def _close(self, number: int, closing: Closing) -> None:
        del self._order[bisect_left(self._order, number)]
        step = self._open.pop(number)
        self._behind = None
        step.merged, spread = merged(step.said, self._reduction_of)
        self._closed += 1
        self._timeouts += closing == "timeout"
        self._say(number, step, step.merged, spread, closing)
        units = step.units
        self.open_units -= units
        self.kept_units += units
        self._kept[number] = step
        if len(self._kept) > limits.STEPS_KEPT:
            self.forget_oldest()

    def close_all(self) -> None:
        self._young = 0
        self.close_complete()
        while self._order:
            self.close_lowest("run_end")

    def correct(self) -> None:
        """Publish the changes of steps that were published before."""
        while self._late:
            self._correct(next(iter(self._late)))

    def _correct(self, number: int) -> None:
        names, step = self._late.pop(number), self._kept[number]
        assert step.merged is not None
        before, (values, spread) = step.merged, merged(step.said, self._reduction_of, names)
        news = {name: value for name, value in values.items() if name not in before or before[name] != value}
        if news:
            before.update(news)
            self._corrections += 1
            self._say(number, step, news, {name: spread[name] for name in news if name in spread}, "late")

    def forget_oldest(self) -> None:
        """Forget the kept step that was closed first."""
        number = next(iter(self._kept))
        if number in self._late:
            self._correct(number)
        units = self._kept.pop(number).units
        self.kept_units -= units
        self._budget.give_back(units)
        self._forgotten = number if self._forgotten is None else max(self._forgotten, number)

    def _say(
        self, number: int, step: StepState, values: Values, spread: dict[str, Spread], closing: Closing
    ) -> None:
        """Publish a step as one record, or as several of at most PARAMS_PER_RECORD names."""
        self._show(number, values)
        names = list(values)
        for begin in range(0, len(names), limits.PARAMS_PER_RECORD):
            part, parts_spread = values, spread
            if len(names) > limits.PARAMS_PER_RECORD:
                piece = names[begin : begin + limits.PARAMS_PER_RECORD]
                part = {name: values[name] for name in piece}
                parts_spread = {name: spread[name] for name in piece if name in spread}
            said = ClosedStep(self.name, number, dict(part), parts_spread, len(step.said), closing, step.revision)
            self._closing.append(Closed(step.newest_ns, said))
            step.revision += 1

    def state(self, number: int) -> StepAnswer:
        """Return the state of a step and its values so far, the first STEP_STATE_NAMES."""
        if number in self._open:
            return self._open[number].answer("open", self._reduction_of)
        if number in self._kept:
            return self._kept[number].answer("closed", self._reduction_of)
        forgotten = self._forgotten is not None and number <= self._forgotten
        return StepAnswer(state="forgotten" if forgotten else "unknown")

    # --- shown values ----------------------------------------------------------------------------

    def _show(self, number: int, values: Values) -> None:
        if self._newest is None or number >= self._newest:
            self._newest = number
        else:
            steps = self._shown_steps
            values = {name: value for name, value in values.items() if steps.get(name, number) <= number}
        if not values.keys() <= self._shown.keys():
            values = {
                name: value for name, value in values.items() if name in self._shown or self._showing.take(name)
            }
        self._shown.update(values)
        self._shown_steps.update(dict.fromkeys(values, number))

    def stat(self) -> AxisStat:
        return AxisStat(
            name=self.name,
            closed=self._closed,
            open=len(self._order),
            newest=self._newest,
            oldest_open=self.lowest,
            waiting_for=[*islice(self._waited_for(), limits.STEP_PRODUCERS_SHOWN)] if self._order else [],
            producers=len(self.members),
            timeouts=self._timeouts,
            corrections=self._corrections,
            values=dict(self._shown),
        )


def _rules(declared: Axis) -> tuple[object, ...]:
    """Return what a declaration says: the reductions in order, because the first match counts, and the closing."""
    return declared.reduce, list(declared.reductions.items()), declared.closing
