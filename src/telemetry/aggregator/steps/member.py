"""A producer on an axis, and which of its steps it has ended.

What it says it ended counts once nothing of what it sent before can still come: a batch that is missing may hold
values of just these steps. Such claims are kept until the batches are in or given up, at most for a grace.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from typing import Final

from msgspec import Struct

from telemetry import limits
from telemetry.wire.events import Natural

NOTHING_ENDED: Final = -(1 << 63)
"""The wire has no lower step."""
_SINCE: Final = attrgetter("since")


class EndClaim(Struct, array_like=True):
    """It has ended all steps below `at`, if no batch below `since` says otherwise."""

    since: Natural
    at: int
    made_ns: Natural
    """First, on the clock of steps."""


class Member(Struct, array_like=True):
    """A producer that has reported on the axis and has not ended."""

    at: int
    """The lowest step that it has not ended, as far as that counts."""
    heard_ns: Natural
    """On the clock of steps."""
    away: bool = False
    """It said nothing for the whole grace of a step: no step waits for it until it says something."""
    claims: list[EndClaim] = []
    """Ascending, at most STEP_CLAIMS."""
    waived: Natural = 0
    """Batches below this one that were missing for a whole grace are not waited for."""

    def restored(self) -> None:
        """Raises ValueError for what can't be."""
        numbers = [claim.since for claim in self.claims]
        if len(numbers) > limits.STEP_CLAIMS or numbers != sorted(set(numbers)):
            raise ValueError("claims on steps that can't be")

    def claim(self, since: int, at: int, now_ns: int) -> None:
        """Keeps what it says it ended above batches that are missing. Beyond the bound the newest are one."""
        place = bisect_left(self.claims, since, key=_SINCE)
        if place < len(self.claims) and self.claims[place].since == since:
            self.claims[place].at = max(self.claims[place].at, at)
            return
        self.claims.insert(place, EndClaim(since, at, now_ns))
        if len(self.claims) > limits.STEP_CLAIMS:
            last = self.claims.pop(-2)
            self.claims[-1].at = max(self.claims[-1].at, last.at)

    def waive(self, until_ns: int) -> None:
        """What was missing already when a claim was made by then is not waited for any more."""
        for claim in self.claims:
            if claim.made_ns <= until_ns:
                self.waived = claim.since

    def settled(self, contiguous: int) -> int:
        """All batches below this number are in or given up: the lowest step it has not ended now, or lower."""
        at = self.at
        while self.claims and self.claims[0].since <= max(contiguous, self.waived):
            at = max(at, self.claims.pop(0).at)
        return at
