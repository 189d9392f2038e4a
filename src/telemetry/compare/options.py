"""What a comparison is asked to do. Chosen before anybody looks at the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from telemetry.compare.direction import Directions
from telemetry.compare.figures import PERCENTILES
from telemetry.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Options:
    """Raises UsageError for numbers that make no sense."""

    confidence: float = 0.95
    """Of intervals; the rest is the chance of any false alarm in the whole comparison."""
    min_effect: float = 0.02
    """The smallest difference that matters, as a fraction."""
    directions: Directions = field(default_factory=Directions)
    only: Sequence[str] = ()
    """Patterns of the figures to compare, as those of `Directions`; empty: all. Each has to mean one that a run
    has. Fewer figures find smaller differences."""
    percentiles: Sequence[str] = PERCENTILES
    allow_incomplete: bool = False
    """Runs that are not complete, or whose command failed, count as the others."""

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise UsageError(
                f"a confidence of {self.confidence} makes no sense", hint="between 0 and 1, such as 0.95"
            )
        if not 0 <= self.min_effect < 1:
            raise UsageError(
                f"a smallest effect of {self.min_effect:.0%} makes no sense", hint="at least 0 %, below 100 %"
            )

    @property
    def level(self) -> float:
        """The chance of a false alarm that is taken: what the confidence leaves, without the noise of floats."""
        return round(1 - self.confidence, 12)
