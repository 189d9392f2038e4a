"""Figures of the values of one series in one time range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """The figures. Values are in the series' unit.

    Percentiles have the error bound of the series' digits and lie between `min` and `max`. Without values there are
    no percentiles.
    """

    seconds: float = 0.0
    count: int = 0
    rate: float = 0.0
    """Values per second."""
    total: float = 0.0
    min: float | None = None
    max: float | None = None
    percentiles: Mapping[str, float] = field(default_factory=dict)
