"""The result of `telemetry ab` as structs: settings, pairs and verdicts. Its file and its JSON agree."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from telemetry.common.directions import Better
from telemetry.wire.events import Natural
from telemetry.wire.version import SCHEMA

Side = Literal["before", "after"]
SIDES: Final[tuple[Side, Side]] = ("before", "after")

_Command = Annotated[list[str], Meta(min_length=1)]

_Difference = Annotated[float, Meta(ge=-1, le=1e305)]
"""A relative difference. The judge makes none beyond these bounds, so the width of an interval is finite too."""

Verdict = Literal["worse", "better", "changed", "same", "cannot_tell"]
"""Verdicts on a figure. `changed`: a figure without a better direction differs."""

Ending = Literal["", "decided", "pairs", "budget", "void", "stopped"]
"""Reason why no more pairs are run; empty while they are.

`decided`: every figure that decides has a verdict. `pairs` and `budget`: a limit is reached. `void`: too many void
pairs one after the other. `stopped`: a signal.
"""


class AbSettings(Struct, frozen=True, kw_only=True):
    """The choices that hold for all pairs."""

    before: _Command
    """Command line in UTF-8 with secrets masked; `after` is that of the other side."""
    after: _Command
    labels: tuple[str, str]
    """Names of both sides, as results show them."""
    masked: bool = False
    """True if the commands are not as they were run, so that a later call has to give all of them again."""
    cwd: str = ""
    refs: list[str] = []
    """Two commits, if the same command runs in a checkout of each."""
    setup: str = ""
    """Command that prepares each checkout."""
    prepare: tuple[str, str] | None = None
    """Shell command of each side that goes before each of its runs; null without."""
    same: bool = False
    """True if both sides are the same, to measure the machine."""
    duet: bool = False
    """True if both runs of a pair go at the same time, on cores of their own."""
    seed: int
    """Seed of the order of each pair."""
    warmup: Natural = 1
    """Pairs that are run before the others, and not used."""
    alpha: Annotated[float, Meta(gt=0, lt=1)] = 0.05
    """Largest expected share of wrong verdicts among the verdicts."""
    min_effect: Annotated[float, Meta(ge=0, lt=1)] = 0.02
    """Smallest difference that matters, as a fraction."""
    metrics: list[str] = []
    """Patterns of figures; empty for the time of the commands, without recording."""
    decide: list[str] = []
    """Patterns of the figures that decide; empty for all figures."""


class AbFigure(Struct, frozen=True, kw_only=True):
    """A figure of both sides."""

    name: str
    unit: str
    better: Better
    decides: bool = True
    """True if the pairs go on until this figure has a verdict."""


class AbRun(Struct, frozen=True, kw_only=True):
    """A run of a side."""

    values: dict[str, float] = {}
    """Name of the figure → value."""
    failure: str = ""
    """Reason why the run can't be used, such as `exit code 1`; empty if it can."""
    requests: Natural = 0
    """Number of requests that it recorded."""
    ended: Natural = 0
    """Number of requests with an outcome."""
    failed: Natural = 0
    """Number of requests that failed or expired."""
    run_id: str = ""
    """Id of its run directory, beside the file; empty without recording."""

    def __post_init__(self) -> None:
        if self.failed > self.ended:
            raise ValueError(f"{self.failed} of {self.ended} requests failed")


class AbPair(Struct, frozen=True, kw_only=True):
    """Two runs, one of each side."""

    before: AbRun
    after: AbRun
    first: Side
    """Side that ran first, or on the first half of the cores."""
    void: str = ""
    """Reason why the pair is not used; empty if it is."""


class FailedRequests(Struct, frozen=True, kw_only=True):
    """The shares of failed requests of both sides, if they differ. Then figures are of different requests."""

    before: float
    after: float
    verdict: Verdict = "cannot_tell"
    """`worse` if the pairs show that the side after fails more."""


class FigureVerdict(Struct, frozen=True, kw_only=True):
    """The verdict on a figure. Differences are fractions of the side before."""

    figure: str
    verdict: Verdict = "cannot_tell"
    pairs: Natural = 0
    """Number of pairs that the verdict rests on: those up to the moment of the verdict."""
    difference: _Difference | None = None
    """Typical `after / before - 1` of a pair; null without pairs."""
    low: _Difference | None = None
    high: _Difference | None = None
    """Interval of the difference; null for an end that can't be bounded yet."""
    level: float | None = None
    """Chance that the interval misses the difference. It is smaller with several figures."""
    wealth: float = 1.0
    """Evidence against "no difference": the larger wealth of the bets on "more" and on "less", halved."""
    needed: Natural | None = None
    """Pairs in all that a verdict would probably take; null if unknown, or with a verdict."""
    least_effect: _Difference | None = None
    """Smallest difference that this number of pairs shows on this machine; null unless both sides are the same."""


class AbResult(Struct, frozen=True, kw_only=True):
    """All pairs so far, and the verdicts after them."""

    schema_version: int = SCHEMA
    settings: AbSettings
    most_pairs: int
    budget_s: float | None = None
    seconds: float = 0.0
    """Time that the pairs took, over all calls, without set-up and warm-up."""
    figures: list[AbFigure] = []
    pairs: list[AbPair] = []
    verdicts: list[FigureVerdict] = []
    """State of each figure after the newest pair."""
    final: list[FigureVerdict] = []
    """Verdicts that later pairs don't change, as they were when they were reached."""
    failures: FailedRequests | None = None
    """Failed requests of both sides; null unless their shares differ."""
    ending: Ending = ""

    @property
    def valid_pairs(self) -> int:
        return sum(not pair.void for pair in self.pairs)

    @property
    def deciding(self) -> list[FigureVerdict]:
        """The verdicts of the figures that decide."""
        names = {figure.name for figure in self.figures if figure.decides}
        return [verdict for verdict in self.verdicts if verdict.figure in names]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of the figures that decide; `cannot_tell` without figures.

        If the shares of failed requests differ, it is the verdict on these.
        """
        if self.failures is not None:
            return self.failures.verdict
        verdicts = {verdict.verdict for verdict in self.deciding}
        order: tuple[Verdict, ...] = ("worse", "cannot_tell", "changed", "better", "same")
        return next((verdict for verdict in order if verdict in verdicts), "cannot_tell")
