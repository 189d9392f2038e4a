"""Options of a comparison, chosen before the figures are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from telemetry.errors import UsageError
from telemetry.judge.compare.figures import PERCENTILES, Directions


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a comparison. Raises UsageError for numbers out of range."""

    confidence: float = 0.95
    """Confidence of intervals. The rest is the chance of any false alarm in the whole comparison."""
    min_effect: float = 0.02
    """Smallest difference that matters, as a fraction."""
    directions: Directions = field(default_factory=Directions)
    only: Sequence[str] = ()
    """Patterns of figures to compare, in the syntax of `Directions`; empty for all.

    Each must match a figure of some run. With fewer figures, smaller differences are found.
    """
    percentiles: Sequence[str] = PERCENTILES
    overlays: bool = False
    """True to have the runs over time and steps in the result, as far as the reports have them."""
    allow_incomplete: bool = False
    """True to treat incomplete runs, and runs whose command failed, like all others."""

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise UsageError(
                f"confidence={self.confidence} is out of range", hint="give a number between 0 and 1, such as 0.95"
            )
        if not 0 <= self.min_effect < 1:
            raise UsageError(
                f"min_effect={self.min_effect:.0%} is out of range", hint="give at least 0 % and less than 100 %"
            )

    @property
    def level(self) -> float:
        """Accepted chance of a false alarm: 1 - confidence, without float rounding."""
        return round(1 - self.confidence, 12)
