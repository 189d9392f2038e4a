"""What a gate came to: an expression, its outcome and the evidence for it."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

Outcome = Literal["pass", "fail", "inconclusive"]
_WORST: Final[tuple[Outcome, ...]] = ("fail", "inconclusive", "pass")


class GateResult(Struct, frozen=True, kw_only=True):
    """Numbers are in `unit`, as far as they have one."""

    expression: str
    outcome: Outcome
    reason: str
    """In one line: the value beside its limit, or why nothing can be said."""
    value: float | None = None
    limit: float | None = None
    unit: str = ""
    low: float | None = None
    high: float | None = None
    """Confidence bounds of the value; null where there are none."""
    samples: int | None = None
    """Values that it rests on."""
    start_s: float | None = None
    end_s: float | None = None
    """The window that decided, in seconds since the run's start; null: the whole run."""
    windows: int = 0
    """Windows that were looked at; 0 for a gate on the whole run."""
    windows_failed: int = 0


def worst(results: list[GateResult]) -> Outcome:
    """`fail` before `inconclusive` before `pass`, which is also that of no gates."""
    found = {result.outcome for result in results}
    return next((outcome for outcome in _WORST if outcome in found), "pass")
