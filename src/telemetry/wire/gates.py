"""The result of a gate: an expression, its outcome and the evidence for it."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from telemetry.wire.exit_codes import Exit

Outcome = Literal["pass", "fail", "inconclusive"]
RUN_EXIT_CODES: Final[dict[Outcome, Exit]] = {
    "fail": Exit.GATE_FAILED,
    "inconclusive": Exit.INCONCLUSIVE,
    "pass": Exit.OK,
}
"""Worst outcome of the gates → exit code of `telemetry run` for a command that succeeded."""
_WORST: Final[tuple[Outcome, ...]] = ("fail", "inconclusive", "pass")


class GateResult(Struct, frozen=True, kw_only=True):
    """The result of one gate. Numbers are in `unit`, if they have a unit."""

    expression: str
    outcome: Outcome
    reason: str
    """Value and limit in one line, or why the gate is inconclusive."""
    value: float | None = None
    limit: float | None = None
    unit: str = ""
    low: float | None = None
    high: float | None = None
    """Confidence bounds of the value; null if there are none."""
    samples: int | None = None
    """Number of values behind the result."""
    start_s: float | None = None
    end_s: float | None = None
    """Time range that decided, in seconds since the run's start; null: the whole run."""
    windows: int = 0
    """Number of windows checked; 0 for a gate on the whole run."""
    windows_failed: int = 0


def worst(results: list[GateResult]) -> Outcome:
    """Return the worst outcome: `fail`, then `inconclusive`, then `pass`. Return `pass` for an empty list."""
    outcomes = {result.outcome for result in results}
    return next((outcome for outcome in _WORST if outcome in outcomes), "pass")
