"""Producers of an axis whose steps close once all of them have ended them.

A leaf is such a producer of its root.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from telemetry.aggregator.steps.member import EVERYTHING_ENDED, NOTHING_ENDED, AxisMember
from telemetry.aggregator.steps.step import MergingStep

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
