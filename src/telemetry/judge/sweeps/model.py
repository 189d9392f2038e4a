"""The result of a sweep as structs, so that all output formats and the JSON agree."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from telemetry.common.directions import Better
from telemetry.history.headlines import Flavour
from telemetry.wire.events import Scalar
from telemetry.wire.gates import GateResult
from telemetry.wire.snapshot import Completeness
from telemetry.wire.version import SCHEMA

Verdict = Literal["pass", "fail", "inconclusive", "failed", "incomplete", "none"]
"""Verdict on a point, the worst of its runs.

`pass`, `fail` and `inconclusive` are about its gates; without gates, `pass` and `fail` are about attainment.
`failed`: a command failed. `incomplete`: a result is not complete. `none`: there are no gates and no limits.
"""

VERDICT_WORDS: Final[dict[Verdict, str]] = {
    "pass": "pass",
    "fail": "fail",
    "inconclusive": "inconclusive",
    "failed": "command failed",
    "incomplete": "not complete",
    "none": "",
}
Judged = Literal["gates", "attainment", ""]
"""Rule behind the verdicts; empty without gates and limits."""


class SweepColumn(Struct, frozen=True, kw_only=True):
    """A figure that the points have."""

    key: str
    """Such as `requests_per_s`, `ttft_p99`, `last(loss)`."""
    title: str
    unit: str = ""
    """Unit of the values. Empty for plain numbers; `share` for a fraction of 1."""
    better: Better = "neither"
    detail: bool = False
    """True for a figure that is left out first where space is short."""


class PointFigure(Struct, frozen=True, kw_only=True):
    """A figure of a point."""

    value: float | None = None
    """Median of its runs; attainment is that of all their requests together."""
    low: float | None = None
    """Smallest value of several runs; null for one run. Of attainment: the lower 95 % bound (Wilson)."""
    high: float | None = None


class PointRun(Struct, frozen=True, kw_only=True):
    """A run of a point."""

    run_id: str
    name: str
    directory: str = ""
    started_ns: int = 0
    seconds: float = 0.0
    completeness: Completeness = "complete"
    exit_code: int | None = None
    signal: str | None = None
    gates: list[GateResult] = []


class SweepPoint(Struct, frozen=True, kw_only=True):
    """Runs with the same values of the parameters."""

    params: dict[str, Scalar]
    runs: list[PointRun] = []
    figures: dict[str, PointFigure] = {}
    """Figures by the key of their column. A figure that no run has is missing."""
    verdict: Verdict = "none"
    reason: str = ""
    """Why the verdict is not `pass`, in a few words."""

    def value(self, key: str) -> float | None:
        """Return the value of a figure, or None."""
        reading = self.figures.get(key)
        return None if reading is None else reading.value


class Knee(Struct, frozen=True, kw_only=True):
    """The point with the highest throughput among those that pass."""

    params: dict[str, Scalar]
    throughput: float
    is_last: bool
    """True if no point with more throughput or load was tried: the knee may lie beyond."""


class Sweep(Struct, frozen=True, kw_only=True):
    """Points of runs that differ in parameters."""

    schema_version: int = SCHEMA
    name: str
    """Names of the runs."""
    by: list[str]
    """Parameters of the points. The first one is on the axis of charts; the others make lines."""
    flavour: Flavour = "metrics"
    subject: str = ""
    """Kind of request, axis or series that the figures are about."""
    slo: str = ""
    """Limits of the requests, such as `ttft:200ms`; empty without limits, or if the runs have different ones."""
    judged: Judged = ""
    throughput: str = ""
    """Key of the column of throughput; empty if there is none."""
    columns: list[SweepColumn] = []
    points: list[SweepPoint] = []
    knee: Knee | None = None
    notes: list[str] = []
