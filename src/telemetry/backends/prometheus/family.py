"""Metric families, as all formats of Prometheus have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PrometheusHistogram:
    """A series as a histogram."""

    labels: Labels
    count: int
    total: float
    buckets: Sequence[tuple[float, int]]
    """(upper bound, number of values up to it), ascending, without the bound +Inf."""
    cells: Sequence[tuple[float, float, int]]
    """(from, to, count), for native histograms."""


@dataclass(slots=True)
class PrometheusFamily:
    name: str
    """Name without `_total`."""
    kind: Kind
    help: str
    unit: str = ""
    samples: list[tuple[Labels, float]] = field(default_factory=list)
    distributions: list[PrometheusHistogram] = field(default_factory=list)
    """Distributions of a histogram, which has no `samples`."""
