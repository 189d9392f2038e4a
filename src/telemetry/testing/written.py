"""The content of a tracker, in the same form for all trackers."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Written:
    """The content of one run, as read by the tracker's own reader."""

    steps: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)
    """(axis, step) → name → value; the newest of duplicates."""
    params: dict[str, str] = field(default_factory=dict)
    finals: dict[str, float] = field(default_factory=dict)
    """Numbers of the result, by flat names without `final/`."""
    counts: dict[str, int] = field(default_factory=dict)
    """Counts: `step` counts values of steps including duplicates, `reading` counts readings."""

    def value(self, axis: str, step: int, name: str, value: float) -> None:
        """Add a value of a step. Call it in the order of the tracker."""
        self.steps.setdefault((axis, step), {})[name] = value
        self.counts["step"] = self.counts.get("step", 0) + 1
