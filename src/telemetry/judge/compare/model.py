"""The result of a comparison as structs, so that all output formats and the JSON agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from msgspec import Struct

from telemetry.common import formatting
from telemetry.common.directions import Better
from telemetry.common.formatting import number_of
from telemetry.store.calibrations import Of
from telemetry.wire.version import SCHEMA

Verdict = Literal["worse", "better", "changed", "differs", "same", "not_shown", "cannot_tell", "left_out"]
"""Verdicts on a figure.

`changed`: a figure without direction differs. `differs`: two single runs differ by more than their own bounds, or
in a value of steps; the noise between runs is unknown. `same`: the difference is shown to be too small to matter,
between two single runs by their own bounds.
`not_shown`: a difference that matters may or may not exist. `left_out`: no run has enough values for the figure. It
does not count for the comparison as a whole.
"""

VERDICT_WORDS: Final[dict[Verdict, str]] = {
    "worse": "worse",
    "better": "better",
    "changed": "changed",
    "differs": "differs in these two runs",
    "same": "no difference that matters",
    "not_shown": "no difference shown",
    "cannot_tell": "cannot tell",
    "left_out": "too few values",
}
"""Verdict → words, in the order of lists."""

ONE_SIDED: Final = ("only the runs before have it", "only the runs after have it")
"""Reasons for figures that no run of the other side has."""

OVERLAP: Final = "the bounds within the two runs overlap"
WITHOUT_BOUNDS: Final = "without bounds within a run"
ONE_RUN: Final = "one run "
"""Reasons for figures of two single runs that can't be told, and the beginning of that for one run against many."""

SideName = Literal["before", "after"]
SIDES: Final[tuple[SideName, SideName]] = ("before", "after")

Method = Literal["runs", "pairs", "exact", ""]
"""Source of an interval.

`runs`: the spread between runs of a side. `pairs`: the spread between pairs of consecutive runs. `exact`: figures
that are equal in every run of a side. Empty: no interval.
"""


class SideRun(Struct, frozen=True, kw_only=True):
    """A run of a side."""

    run_id: str
    name: str
    directory: str = ""
    started_ns: int = 0
    """Start as wall-clock time in nanoseconds."""
    seconds: float = 0.0
    completeness: str = ""
    exit_code: int | None = None
    """Exit code of its command; null without a command, or if a signal ended it."""
    signal: str | None = None


class BoundedFigure(Struct, frozen=True, kw_only=True):
    """A figure in one run, with bounds from its own values. They do not cover differences between runs."""

    value: float
    low: float | None = None
    high: float | None = None


class Noise(Struct, frozen=True, kw_only=True):
    """The noise of a figure, from a calibration."""

    runs: int
    low: float
    high: float | None
    """Differences between identical runs: from the largest fall to the largest rise; null for a rise without limit.

    The limits of all figures of the comparison hold together with its confidence.
    """
    exceeded: bool | None = None
    """True if the difference is beyond these limits; null without a difference."""

    def __str__(self) -> str:
        return f"{formatting.signed_percent(self.low)} … {formatting.signed_percent(self.high)}"


class MetricResult(Struct, frozen=True, kw_only=True):
    """A figure of both sides. Values are in `unit`; differences are fractions of the side before."""

    of: Of
    statistic: str
    name: str = ""
    labels: dict[str, str] = {}
    unit: str = ""
    better: Better = "neither"
    verdict: Verdict = "cannot_tell"
    reason: str = ""
    """Reason for `cannot_tell`, or a caveat on the verdict."""
    before: float | None = None
    after: float | None = None
    """Typical value of a side. Both differ by exactly `difference`, which the verdict rests on."""
    difference: float | None = None
    """`after / before - 1`; null if that is not a number."""
    low: float | None = None
    high: float | None = None
    """Interval of the difference. The verdict rests on it.

    All intervals of the comparison together hold with its confidence.
    """
    p_value: float | None = None
    p_adjusted: float | None = None
    """P-value adjusted (Holm) for all figures of the comparison."""
    method: Method = ""
    before_values: list[float] = []
    after_values: list[float] = []
    """Value of each run that has the figure, in the order of the runs."""
    before_within: BoundedFigure | None = None
    after_within: BoundedFigure | None = None
    """Bounds within one run, for information, if each side has a single run."""
    noise: Noise | None = None


class Curve(Struct, frozen=True, kw_only=True):
    """The percentile curve of a series: (fraction of the values, value), medians over the runs of a side."""

    name: str
    labels: dict[str, str] = {}
    unit: str = ""
    before: list[tuple[float, float]] = []
    after: list[tuple[float, float]] = []


class OverlayLine(Struct, frozen=True, kw_only=True):
    """A run in an overlay."""

    run_id: str
    after: bool = False
    """True for a run of the side after."""
    starts: list[float] = []
    ends: list[float] = []
    """Each point covers a range: seconds since the run's start, or steps."""
    values: list[float | None] = []


class Overlay(Struct, frozen=True, kw_only=True):
    """A figure of several runs over time or steps."""

    of: Of
    name: str
    labels: dict[str, str] = {}
    unit: str = ""
    statistic: str = ""
    """`p99`, `rate`; empty for a value of steps."""
    lines: list[OverlayLine] = []


class ChangedSetting(Struct, frozen=True, kw_only=True):
    """A parameter, or the command line, whose values differ between the sides."""

    name: str
    before: list[str] = []
    """Different values of the runs of a side; empty if no run has it."""
    after: list[str] = []


class Comparison(Struct, frozen=True, kw_only=True):
    """A comparison of two sets of runs."""

    schema_version: int = SCHEMA
    confidence: float = 0.95
    min_effect: float = 0.0
    """Smallest difference that matters, as a fraction."""
    paired: bool = False
    """True if the sides ran by turns: each run is compared with its neighbour."""
    calibration: str = ""
    """Name of the calibration; empty without one."""
    calibration_argv: list[str] = []
    """Command that was calibrated."""
    calibration_runs: int = 0
    calibration_of: list[SideName] = []
    """Sides with runs of that command; empty for a calibration of another command."""
    before: list[SideRun] = []
    after: list[SideRun] = []
    concerns: list[str] = []
    """Values of steps that were not finite, with their side."""
    settings: list[ChangedSetting] = []
    """Settings that differ between the sides."""
    metrics: list[MetricResult] = []
    """Results: worse first, then better, then the rest; larger differences first within a verdict."""
    curves: list[Curve] = []
    overlays: list[Overlay] = []
    """Runs over time and steps, if they were asked for."""
    notes: list[str] = []
    """Notes for the reader about the whole comparison."""

    def count(self, verdict: Verdict) -> int:
        return sum(metric.verdict == verdict for metric in self.metrics)

    @property
    def verdict(self) -> Verdict:
        """The overall verdict: the first that any figure has of `worse`, `differs`, `cannot_tell` and the others.

        The others keep their order in `VERDICT_WORDS`. Without figures, it is `cannot_tell`.
        """
        verdicts = {metric.verdict for metric in self.metrics}
        order: tuple[Verdict, ...] = (
            "worse", "differs", "cannot_tell", "better", "changed", "not_shown", "same", "left_out",
        )  # fmt: skip
        return next((verdict for verdict in order if verdict in verdicts), "cannot_tell")

    def headline(self) -> str:
        """Return one line: the verdict, the number of figures with a notable verdict, and the number of runs.

        `9 figures of two single runs: 2 differ, 1 does not, 6 can't be told`
        """
        total, counted = len(self.metrics) - self.count("left_out"), self.count(self.verdict)
        if len(self.before) == len(self.after) == 1 and self.count("cannot_tell") < total:
            return f"{number_of(total, 'figure')} of two single runs: {', '.join(self._of_two_runs())}"
        notable: tuple[Verdict, ...] = ("worse", "better", "changed", "cannot_tell")
        parts = [f"{self.count(verdict)} {VERDICT_WORDS[verdict]}" for verdict in notable if self.count(verdict)]
        if not total:
            figures = "nothing to compare"
        elif counted == total or not parts:
            figures = f"{'all ' if counted == total > 1 else ''}{number_of(total, 'figure')}"
        else:
            figures = f"{', '.join(parts)} of {total:,} figures"
        runs = f"{number_of(len(self.before), 'run')} against {len(self.after)}"
        return f"{VERDICT_WORDS[self.verdict]}: {figures}, {runs}"

    def _of_two_runs(self) -> Iterator[str]:
        """Yield phrases for a comparison of one run with one run, such as `3 differ` and `5 do not`."""
        yield number_of(self.count("differs"), "differs", "differ")
        if same := self.count("same"):
            yield number_of(same, "does not", "do not")
        if noisy := self.count("not_shown"):
            yield number_of(noisy, "is within the noise", "are within the noise")
        if untold := self.count("cannot_tell"):
            yield f"{untold:,} can't be told"
