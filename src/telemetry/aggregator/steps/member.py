"""A producer on an axis, and the steps it has ended.

A claim to have ended steps counts once no earlier batch can still arrive, because a missing batch may hold values
of these steps. Claims are kept until the batches arrive or are given up, at most for a grace time.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from typing import Final

from msgspec import Struct

from telemetry import limits
from telemetry.wire.events import Natural

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
