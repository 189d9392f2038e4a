"""Producers of an axis whose steps close once all have ended them, and reports that wait for missing batches."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, KeysView, Mapping
from operator import attrgetter
from typing import Any, ClassVar, Final

from msgspec import Struct

from telemetry import limits
from telemetry.aggregator.steps.step import MergingStep
from telemetry.wire.events import Natural, ProducerId, Step

YOUNG: Final = 2  # intervals, together at least one second


class AxisMembers:
    """Members of an axis and its open steps.

    For each member, the steps that it has ended; for the lowest open step, the members that it waits for.
    """

    def __init__(self) -> None:
        self.reported = False
        """True if steps close by reports."""
        self.members: dict[str, AxisMember] = {}
        self._open: dict[int, MergingStep] = {}
        self._order: list[int] = []
        """Numbers of open steps, ascending."""
        self._behind: int | None = None
        """Number of members that the lowest open step waits for. None: not counted yet."""
        self._ended_below: int | None = None
        """Number below which every step was ended by at least one producer."""
        self._young = YOUNG
        """Number of intervals until steps may close.

        The first producer to report does not know which others will report.
        """
        self._stirred = False
        """True if a member reported, moved or left since the root was last told. Only on a leaf."""

    # --- input -----------------------------------------------------------------------------------

    def hear(self, producer: str, at: int, clock_ns: int, since: int = 0, number: int = 0) -> None:
        """Register that a producer lives and claims to have ended all steps below `at`.

        If some of its batches below `since` are missing, the claim counts once they arrive, or after the grace
        time. `number` is that of a leaf's part: batches may come out of order, but a leave counts only until the
        leaf returns.
        """
        self._stirred = True
        member = self.members.get(producer)
        if member is None or (member.at == EVERYTHING_ENDED and number >= member.newest):
            member = self.members[producer] = AxisMember(NOTHING_ENDED if since else at, clock_ns, newest=number)
            self._behind = None
        else:
            member.heard_ns = clock_ns
            member.hear(number)
            if member.away:
                member.away = False
                self._behind = None
        if since > member.waived:
            member.claim(since, at, clock_ns)
        elif at > member.at:
            self._move_on(member, at)
        if self._ended_below is None or at > self._ended_below:
            self._begin_graces(at, clock_ns)

    def hear_leaving(self, leaf: str, clock_ns: int, since: int = 0, number: int = 0) -> None:
        """Register that a leaf has no producers on the axis any more.

        If some of its batches below `since` are missing, steps wait for the leaf until they arrive. A leave has no
        effect if a part with a higher number came before: the leaf has returned.
        """
        member = self.members.get(leaf)
        if member is None or number < member.newest:
            return
        member.newest = number
        if since > member.waived:
            member.claim(since, EVERYTHING_ENDED, clock_ns)
        else:
            self.leave(leaf, clock_ns)

    def leave(self, producer: str, clock_ns: int) -> bool:
        """Remove a producer that has ended. Return False if no step waited for it or for its batches."""
        return self._remove(producer, clock_ns)

    def _move_on(self, member: AxisMember, at: int) -> None:
        if self._behind and not member.away and member.at <= self._order[0] < at:
            self._behind -= 1
        member.at = at
        self._stirred = True

    def _remove(self, producer: str, clock_ns: int) -> bool:
        """Remove a member. Return False if it is none."""
        if self.members.pop(producer, None) is None:
            return False
        self._behind = None
        self._stirred = True
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

    # --- state -----------------------------------------------------------------------------------

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
            self._behind = sum(1 for _ in self._waited_for(self._order[0]))
        return not self._behind

    def _waited_for(self, number: int) -> Iterator[str]:
        """Yield the members that have not ended a step, except those that are away."""
        return (key for key, member in self.members.items() if member.at <= number and not member.away)

    def _ended(self) -> tuple[bool, int | None]:
        """Return whether there are members, and the number below which each of them has ended all steps.

        The number is None while all of them are away.
        """
        present = [member for member in self.members.values() if member.at != EVERYTHING_ENDED]
        below = min((member.at for member in present if not member.away), default=None)
        if below is not None and self._order:
            below = min(below, self._order[0])
        return bool(present or self._order), below


NOTHING_ENDED: Final = -(1 << 63)
"""Lower bound of step numbers on the wire."""
EVERYTHING_ENDED: Final = (1 << 63) + 1
"""Above all numbers that follow a step: a leaf without producers on the axis has ended all steps."""
_SINCE: Final = attrgetter("since")


class EndClaim(Struct, array_like=True):
    """Claim to have ended all steps below `at`, unless a batch below `since` holds values of them."""

    since: Natural
    at: int
    made_ns: Natural
    """Time of the first such claim on the clock of steps."""


class AxisMember(Struct, array_like=True):
    """A producer that has reported on the axis and has not ended."""

    at: int
    """Lowest step that it has not ended, by claims that count."""
    heard_ns: Natural
    """Time of its last report on the clock of steps."""
    away: bool = False
    """True if it was silent for the whole grace time of a step: steps do not wait for it until its next report."""
    claims: list[EndClaim] = []
    """Claims in ascending order, at most STEP_CLAIMS."""
    waived: Natural = 0
    """Number below which missing batches are not awaited, because they were missing for a whole grace time."""

    newest: Natural = 0
    """Highest number of a part. Only of a leaf."""

    def hear(self, number: int) -> None:
        """Register a part of a leaf. A leave that was claimed before the part was made counts no more."""
        if number > self.newest:
            self.newest = number
            for claim in self.claims:
                if claim.at == EVERYTHING_ENDED:
                    claim.at = NOTHING_ENDED

    def restored(self) -> None:
        """Check the restored state. Raise ValueError if it is invalid."""
        numbers = [claim.since for claim in self.claims]
        if len(numbers) > limits.STEP_CLAIMS or numbers != sorted(set(numbers)):
            raise ValueError("invalid claims on steps")

    def claim(self, since: int, at: int, now_ns: int) -> None:
        """Add a claim that depends on missing batches. Beyond the limit, the newest claims are merged."""
        index = bisect_left(self.claims, since, key=_SINCE)
        if index < len(self.claims) and self.claims[index].since == since:
            self.claims[index].at = max(self.claims[index].at, at)
            return
        self.claims.insert(index, EndClaim(since, at, now_ns))
        if len(self.claims) > limits.STEP_CLAIMS:
            last = self.claims.pop(-2)
            self.claims[-1].at = max(self.claims[-1].at, last.at)

    def waive(self, until_ns: int) -> None:
        """Stop waiting for batches that were missing when a claim was made at or before `until_ns`."""
        for claim in self.claims:
            if claim.made_ns <= until_ns:
                self.waived = claim.since

    def settled(self, contiguous: int) -> int:
        """Return the lowest step that the producer has not ended.

        All batches below `contiguous` arrived or were given up. The result may be too low while claims are left.
        """
        at = self.at
        while self.claims and self.claims[0].since <= max(contiguous, self.waived):
            at = max(at, self.claims.pop(0).at)
        return at


class WaitingReport(Struct, array_like=True):
    """A report of a step that counts once all batches of its producer below `since` have arrived."""

    since: Natural
    made_ns: Natural
    """Time of the report on the clock of steps."""


class WaitingReports:
    """Waiting reports of all producers on one axis, at most STEPS_OPEN."""

    STATE: ClassVar[Mapping[str, Any]] = {"_waiting": dict[ProducerId, dict[Step, WaitingReport]]}
    DERIVED: ClassVar[tuple[str, ...]] = ("_count",)

    def __init__(self) -> None:
        self._waiting: dict[str, dict[int, WaitingReport]] = {}
        self._count = 0

    def restored(self) -> None:
        self._count = sum(len(reports) for reports in self._waiting.values())
        if self._count > limits.STEPS_OPEN or not all(self._waiting.values()):
            raise ValueError("invalid reports of steps")

    def __len__(self) -> int:
        return self._count

    @property
    def producers(self) -> KeysView[str]:
        return self._waiting.keys()

    def add(self, producer: str, step: int, since: int, clock_ns: int) -> bool:
        """Add a report. Return False if there is no room for it.

        A repeated report of a step waits for the batches before the last one.
        """
        report = self._waiting.get(producer, {}).get(step)
        if report is not None:
            report.since = max(report.since, since)
            return True
        if self._count >= limits.STEPS_OPEN:
            return False
        self._waiting.setdefault(producer, {})[step] = WaitingReport(since, clock_ns)
        self._count += 1
        return True

    def take_settled(self, producer: str, contiguous: int) -> list[int]:
        """Remove and return the steps whose reports count, given that all batches below `contiguous` arrived."""
        reports = self._waiting.get(producer, {})
        return self._take(producer, [step for step, report in reports.items() if report.since <= contiguous])

    def take_before(self, producer: str, seq: int, step: int | None) -> list[int]:
        """Remove and return what a producer reported before its batch `seq`: a step, or all if `step` is None."""
        reports = self._waiting.get(producer, {})
        steps = [*reports] if step is None else [step] if step in reports else []
        return self._take(producer, [each for each in steps if reports[each].since <= seq])

    def take_overdue(self, until_ns: int) -> list[int]:
        """Remove and return the steps that were reported at or before `until_ns` on the clock of steps."""
        taken: list[int] = []
        for producer, reports in [*self._waiting.items()]:
            taken += self._take(producer, [step for step, report in reports.items() if report.made_ns <= until_ns])
        return taken

    def take_all(self, producer: str) -> list[int]:
        """Remove and return all steps that wait for batches of a producer."""
        return self._take(producer, [*self._waiting.get(producer, {})])

    def clear(self) -> None:
        self._waiting.clear()
        self._count = 0

    def _take(self, producer: str, steps: list[int]) -> list[int]:
        if steps:
            reports = self._waiting[producer]
            for step in steps:
                del reports[step]
            if not reports:
                del self._waiting[producer]
            self._count -= len(steps)
        return steps
