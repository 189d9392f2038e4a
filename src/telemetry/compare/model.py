"""What a comparison of two sets of runs came to. Structs, so that every rendering and the JSON say the same."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from telemetry.formatting import number_of
from telemetry.store.calibrations import Of
from telemetry.wire.version import SCHEMA

Verdict = Literal["worse", "better", "changed", "same", "not_shown", "cannot_tell"]
"""`changed`: a difference of a figure that is neither good nor bad. `same`: shown to differ by less than matters.
`not_shown`: a difference that matters may or may not be there."""

VERDICT_WORDS: Final[dict[Verdict, str]] = {
    "worse": "worse",
    "better": "better",
    "changed": "changed",
    "same": "no difference that matters",
    "not_shown": "no difference shown",
    "cannot_tell": "cannot tell",
}
"""In the order in which they are listed."""

ONE_SIDED: Final = ("only the runs before have it", "only the runs after have it")
"""Reasons of figures that no run of the other side has."""

Better = Literal["lower", "higher", "neither"]
Method = Literal["runs", "pairs", "exact", ""]
"""What an interval comes from: `runs`, the spread between runs of a side; `pairs`, the spread between pairs of runs
that followed each other; `exact`, figures that are the same in every run of a side; empty: there is none."""


class RunFacts(Struct, frozen=True, kw_only=True):
    """One run of a side."""

    run_id: str
    name: str
    directory: str = ""
    started_ns: int = 0
    """Wall clock."""
    seconds: float = 0.0
    completeness: str = ""
    exit_code: int | None = None
    """Of its command; null without one, or if a signal ended it."""
    signal: str | None = None


class BoundedFigure(Struct, frozen=True, kw_only=True):
    """A figure in one run, with bounds that its values alone give it: how runs differ is not in them."""

    value: float
    low: float | None = None
    high: float | None = None


class Noise(Struct, frozen=True, kw_only=True):
    """What a calibration says of a figure."""

    cv: float
    """Standard deviation between runs that were the same, as a fraction of their mean."""
    runs: int
    limit: float
    """A difference of the two sides beyond it, up or down, is rarer than one in twenty by noise alone."""
    exceeded: bool | None = None
    """Whether the difference is beyond it; null if there is no difference to look at."""


class MetricResult(Struct, frozen=True, kw_only=True):
    """One figure of both sides. Values are in `unit`; differences are fractions of the side before."""

    of: Of
    statistic: str
    name: str = ""
    labels: dict[str, str] = {}
    unit: str = ""
    better: Better = "neither"
    verdict: Verdict = "cannot_tell"
    reason: str = ""
    """Why it can't be told, or what makes the verdict less plain than it looks."""
    before: float | None = None
    after: float | None = None
    """What is typical of a side."""
    difference: float | None = None
    """`after / before - 1`; null where that is no number."""
    low: float | None = None
    high: float | None = None
    """Interval of the difference, at the confidence of the comparison, for this figure alone."""
    p_value: float | None = None
    p_adjusted: float | None = None
    """The same among all figures of the comparison, after Holm: what the verdict rests on."""
    method: Method = ""
    before_values: list[float] = []
    after_values: list[float] = []
    """One of each run that has it, in the order of the runs."""
    before_within: BoundedFigure | None = None
    after_within: BoundedFigure | None = None
    """With one run a side: for information."""
    noise: Noise | None = None


class Curve(Struct, frozen=True, kw_only=True):
    """The percentile curve of a series: (fraction of the values, value), medians over the runs of a side."""

    name: str
    labels: dict[str, str] = {}
    unit: str = ""
    before: list[tuple[float, float]] = []
    after: list[tuple[float, float]] = []


class Comparison(Struct, frozen=True, kw_only=True):
    """Two sets of runs beside each other."""

    schema_version: int = SCHEMA
    confidence: float = 0.95
    min_effect: float = 0.0
    """The smallest difference that matters, as a fraction."""
    paired: bool = False
    """The sides ran by turns, and each run is held against its neighbour."""
    calibration: str = ""
    """Its name; empty without one."""
    before: list[RunFacts] = []
    after: list[RunFacts] = []
    metrics: list[MetricResult] = []
    """Worse first, then better, then the rest."""
    curves: list[Curve] = []
    notes: list[str] = []
    """What a reader should know of all of it, in plain words."""

    def count(self, verdict: Verdict) -> int:
        return sum(metric.verdict == verdict for metric in self.metrics)

    @property
    def verdict(self) -> Verdict:
        """Of all figures together: the first of `VERDICT_WORDS` that any has, but what can't be told counts before
        what is better; `cannot_tell` if there are none."""
        found = {metric.verdict for metric in self.metrics}
        order: tuple[Verdict, ...] = ("worse", "cannot_tell", "better", "changed", "not_shown", "same")
        return next((verdict for verdict in order if verdict in found), "cannot_tell")

    def headline(self) -> str:
        """One line: the verdict, the figures that are not without a difference, and how many runs there are."""
        total, counted = len(self.metrics), self.count(self.verdict)
        told: tuple[Verdict, ...] = ("worse", "better", "changed", "cannot_tell")
        parts = [f"{self.count(verdict)} {VERDICT_WORDS[verdict]}" for verdict in told if self.count(verdict)]
        if not total:
            figures = "nothing to compare"
        elif counted == total or not parts:
            figures = f"{'all ' if counted == total > 1 else ''}{number_of(total, 'figure')}"
        else:
            figures = f"{', '.join(parts)} of {total:,} figures"
        runs = f"{number_of(len(self.before), 'run')} against {len(self.after)}"
        return f"{VERDICT_WORDS[self.verdict]}: {figures}, {runs}"
