"""What a tracker has of a run, in the same words for all of them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Written:
    """As the tracker's own reader says it."""

    steps: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)
    """(axis, step) → name → value; of several of one name the newest."""
    params: dict[str, str] = field(default_factory=dict)
    finals: dict[str, float] = field(default_factory=dict)
    """Numbers of the result, by their flat names without `final/`."""
    counts: dict[str, int] = field(default_factory=dict)
    """How many there are: `step` is values of steps with all that came twice, `reading` is readings."""

    def value(self, axis: str, step: int, name: str, value: float) -> None:
        """One more value of a step, in the order of the tracker."""
        self.steps.setdefault((axis, step), {})[name] = value
        self.counts["step"] = self.counts.get("step", 0) + 1
