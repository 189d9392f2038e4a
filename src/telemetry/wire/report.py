"""Report: the last snapshot of a run, and where it came from."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from msgspec import Struct

from telemetry.errors import UsageError
from telemetry.wire.gates import GateResult
from telemetry.wire.snapshot import (
    TERMINAL,
    Completeness,
    CounterStat,
    GaugeStat,
    MetricsSnapshot,
    SeriesStat,
    State,
)
from telemetry.wire.sources import SourceStat

if TYPE_CHECKING:
    import os

LARGEST_TOLERANCE: Final = 0.5
"""Early stopping is about percentiles from the median on; this much less than the median is nothing."""
Source = Literal["pubsub", "file", "status", "last_live", "journal"]
SOURCE_WORDS: Final[dict[Source, str]] = {
    "pubsub": "the aggregator's final snapshot",
    "file": "final_snapshot.json",
    "status": "the aggregator, while the run goes on",
    "last_live": "the last live snapshot",
    "journal": "the journal",
}

_GOING_ON: Final[dict[State, str]] = {"INITIALIZE": "waiting", "LIVE": "live", "DRAINING": "draining"}

_LATEST_NS: Final = 1 << 63  # of 64 bits with a sign; dates go further

_MAXIMUM: Final = frozenset({"100", "100.0"})
_Identity = tuple[str, frozenset[tuple[str, str]]]

_Stat = TypeVar("_Stat", CounterStat, GaugeStat, SeriesStat)


class TimeRange(Struct, frozen=True, kw_only=True):
    """The part of a run that a report is of; seconds since the run's start."""

    start_s: float
    end_s: float
    chosen: Literal["given", "trim_warmup", "steady"]
    found: bool = True
    """Whether there was a part of that kind; if not, this is all that it was looked for in."""
    reason: str = ""
    """In words: how it was found, or why there is none."""


class Bounds(Struct, frozen=True, kw_only=True, gc=False):
    """Where a percentile of the process lies that the values are a sample of, with the confidence of its series."""

    low: float | None = None
    high: float | None = None
    """Null: no value of so few is such a bound."""
    beyond: int = 0
    """Values above the percentile's rank."""


class SeriesBounds(Struct, frozen=True, kw_only=True):
    name: str
    labels: dict[str, str] = {}
    confidence: float = 0.95
    percentiles: dict[str, Bounds] = {}


class SeriesPoint(Struct, frozen=True, kw_only=True, gc=False):  # there are tens of thousands, of numbers alone
    """A series in one step of time; seconds since the run's start."""

    start_s: float
    end_s: float
    count: int = 0
    rate: float = 0.0
    min: float | None = None
    max: float | None = None
    percentiles: dict[str, float] = {}


class SeriesOverTime(Struct, frozen=True, kw_only=True):
    name: str
    labels: dict[str, str] = {}
    unit: str = ""
    points: list[SeriesPoint] = []


class Rate(Struct, frozen=True, kw_only=True):
    """Of requests that completed, and of their output tokens; null: unknown."""

    requests_per_s: float | None = None
    tokens_per_s: float | None = None


class Rates(Struct, frozen=True, kw_only=True):
    """One thing by three definitions: they differ in when the time ends, and in what is counted."""

    while_issuing: Rate = Rate()
    """What completed until the last of the completed requests was issued, in the time from the first: stragglers
    count no time, and are not counted."""
    loadgen: Rate = Rate()
    """As MLPerf's LoadGen has it: all but one, in the time from the first issue to when the request that was
    issued last completed."""
    overall: Rate = Rate()
    """All, in the time from the first issue to the last completion."""


class EarlyStop(Struct, frozen=True, kw_only=True):
    """What a percentile is surely below, as MLPerf's early stopping has it."""

    bound: float | None = None
    """With the confidence of the figures it belongs to; null: the samples are too few."""
    needed: int
    """The least number of samples that have a bound."""
    missing: int = 0
    """Samples that are still missing to that."""


class EarlyRule(Struct, frozen=True, kw_only=True):
    """By which rule early stopping tells what a percentile is surely below. Raises UsageError for values that make
    none."""

    confidence: float = 0.99
    """How often the bound is right, between 0 and 1."""
    tolerance: float = 0.0
    """How much less than the percentile may be below the bound: 0.01 makes 99 % into 98 %."""

    def __post_init__(self) -> None:
        if not 0.0 < self.confidence < 1.0:
            raise UsageError(f"{self.confidence!r} is no confidence", hint="a number between 0 and 1, such as 0.99")
        if not 0.0 <= self.tolerance < LARGEST_TOLERANCE:
            raise UsageError(
                f"{self.tolerance!r} is no tolerance", hint="0 or more and less than 0.5, such as 0.001"
            )


class RequestFigures(Struct, frozen=True, kw_only=True):
    """Requests of one kind, in one tracking window or all together. Their distributions are among the series."""

    kind: str
    labels: dict[str, str] = {}
    """Those of the kind: without window, finish reason, reason and turn."""
    window: str | None = None
    """Null: all together. Empty: outside any window."""
    issued: int | float = 0
    completed: int | float = 0
    failed: dict[str, int | float] = {}
    """By reason."""
    expired: int | float = 0
    in_flight: int | float | None = None
    """Issued and not heard of since. Null in a part of a run."""
    after_end: int | float = 0
    """Calls for requests that had ended, or that nobody knows."""
    out_of_order: int | float = 0
    """Durations that were left out because their end lies before their beginning."""
    finishes: dict[str, int | float] = {}
    """Completed ones by finish reason."""
    rates: Rates = Rates()
    """Of the whole run: nothing is known in a part of one."""
    early_stopping: dict[str, dict[str, EarlyStop]] = {}
    """By what was measured, as `latency` or `ttft`, then by percentile from 50 on."""
    confidence: float = 0.99
    """Of `early_stopping`."""
    tolerance: float = 0.0
    """Of `early_stopping`: so much less than each percentile is below its bound."""
    windows: list[RequestFigures] = []
    """Only of all together: each tracking window, and what was outside if there are any."""


class Report(Struct, frozen=True, kw_only=True, dict=True):  # its dict is where indices are cached
    """The result of a run, or its state so far; `final` tells which.

    Example:
        report = telemetry.load_report("load-test")
        print(report.series("latency").percentiles["99"])
        report.save("report.html")
        frame = report.to_pandas()
    """

    snapshot: MetricsSnapshot
    source: Source
    source_reason: str = ""
    """Why it did not come from a better source; empty for the best one."""
    time_range: TimeRange | None = None
    """What part of the run the series are of; None: the whole."""
    bounds: list[SeriesBounds] = []
    step_s: float = 0.0
    """Of `over_time`."""
    over_time: list[SeriesOverTime] = []
    findings: list[str] = []
    """What a reader of the numbers should know, in plain words, beside the snapshot's warnings."""
    gates: list[GateResult] = []
    sources: list[SourceStat] = []
    """The runs that a merged run was made of; empty for any other."""
    requests: list[RequestFigures] = []
    """By kind and labels, if there are counters of requests."""
    early_rule: EarlyRule = EarlyRule()
    """Of the `early_stopping` of requests."""

    @property
    def state(self) -> State:
        return self.snapshot.state

    @property
    def completeness(self) -> Completeness:
        return self.snapshot.completeness

    @property
    def final(self) -> bool:
        return self.snapshot.state in TERMINAL

    @property
    def directory(self) -> str:
        return self.snapshot.directory

    def counter(self, name: str, **labels: str) -> CounterStat:
        """Return the counter of this name and exactly these labels. Raise KeyError if there is none.

        Example:
            report.counter("requests", route="/search").value
        """
        return _pick(self.snapshot.counters, name, labels)

    def gauge(self, name: str, **labels: str) -> GaugeStat:
        """Return the gauge of this name and exactly these labels. Raise KeyError if there is none.

        Example:
            report.gauge("temperature").value
        """
        return _pick(self.snapshot.gauges, name, labels)

    def series(self, name: str, **labels: str) -> SeriesStat:
        """Return the series of this name and exactly these labels. Raise KeyError if there is none.

        Example:
            report.series("latency", route="/search").percentiles["99"]
        """
        return _pick(self.snapshot.series, name, labels)

    def bounds_of(self, stat: SeriesStat) -> SeriesBounds | None:
        """Those of a series of this report; None if nobody has looked for them."""
        return self._bounds.get(_identity(stat))

    def trusted(self, stat: SeriesStat, percentile: str) -> bool:
        """False for a percentile that rests on too few values to have bounds on both sides. The 100th is the
        maximum of the values and claims nothing beyond them."""
        bounds = self.bounds_of(stat)
        if bounds is None or percentile not in bounds.percentiles or percentile in _MAXIMUM:
            return True
        found = bounds.percentiles[percentile]
        return found.low is not None and found.high is not None

    @cached_property
    def _bounds(self) -> dict[_Identity, SeriesBounds]:
        return {_identity(bounds): bounds for bounds in self.bounds}

    def save(self, path: str | os.PathLike[str], format: str | None = None) -> None:
        """Write the report to a file, whole or not at all.

        Example:
            run.report.save("report.html")

        `format` is one of `telemetry.report.FORMATS`, by default the one that the suffix says: `.txt`, `.json`,
        `.md`, `.csv`, `.html`, `.hgrm` or `.xml` (JUnit). Curves over time come from the run directory, if it is
        there. Blocks for the disk. Raises UsageError for an unknown format, RunDirectoryError if the file can't be
        written.
        """
        facade().save(self, path, format)

    def to_pandas(self) -> Any:
        """Return a pandas data frame of one figure a row, with a column `label_…` for each label.

        Example:
            report.to_pandas().query("name == 'latency' and figure == 'p99'")

        Raises UsageError if pandas is not installed.
        """
        return facade().frame(self, "pandas")

    def to_polars(self) -> Any:
        """Return a polars data frame of one figure a row, with a column `label_…` for each label.

        Example:
            report.to_polars().filter(figure="p99")

        Raises UsageError if polars is not installed.
        """
        return facade().frame(self, "polars")

    def __repr__(self) -> str:
        return f"<Report {self.headline()}>"

    def _repr_html_(self) -> str:
        """Return the headline and the most important figures, for a notebook."""
        return str(facade().report_html(self))

    @property
    def verdict(self) -> str:
        """How complete the result is, in one word; what the run does while it goes on and could be asked."""
        return _GOING_ON.get(self.state, self.completeness) if self.source == "status" else self.completeness

    @property
    def unknown(self) -> str:
        """What nobody can know of the events, in words; empty if the accounts have all of them.

        Who was cut off heard nothing of what came then; a producer that never ended has said no total, and one that
        was still recording may have recorded more.
        """
        if self.verdict == "interrupted" or (self.verdict == "incomplete" and self.state not in TERMINAL):
            return f"what came {_after(self.snapshot.time_ns)} is unknown"
        producers = self.snapshot.producers
        unfinished = sum(stat.unfinished for stat in producers)
        unended = sum(stat.completeness == "incomplete" for stat in producers) - unfinished
        if self.verdict != "incomplete" or not (unended or unfinished):
            return ""
        of_all = f" of {_number_of(self.snapshot.producer_count, 'producer')}"
        parts = [f"{unended:,}{of_all} never ended"] if unended else []
        if unfinished:
            was = "was" if unfinished == 1 else "were"
            parts.append(f"{unfinished:,}{'' if unended else of_all} {was} still recording when the run ended")
        return ", ".join(parts)

    def headline(self) -> str:
        """One line: how complete, what run, how many events, how many lost, or what is unknown of that."""
        account = self.snapshot.accounting
        facts = [f"{account.applied:,} of {_number_of(account.emitted, 'event')} applied", f"{account.lost:,} lost"]
        if self.unknown:
            applied = f"{_number_of(account.applied, 'event')} applied"
            facts = [applied, *([facts[1]] if account.lost else []), self.unknown]
        return f"{self.verdict}: {self.snapshot.name}, {', '.join(facts)}"

    def __str__(self) -> str:
        return self.headline()


def facade() -> Any:
    """Return the module that draws, writes and tabulates reports.

    It lies above this one and takes arrays and files. Loading it when a user asks keeps the client light.
    """
    return import_module("telemetry.report.facade")


def _identity(of: SeriesStat | SeriesBounds) -> _Identity:
    return of.name, frozenset(of.labels.items())


def _number_of(number: int, what: str) -> str:
    """As `telemetry.formatting` has it, which the wire does not know."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _after(wall_ns: int) -> str:
    if not 0 < wall_ns < _LATEST_NS:
        return "later"
    return f"after {datetime.fromtimestamp(wall_ns // 10**9, UTC):%H:%M:%S} UTC"


def _pick(stats: list[_Stat], name: str, labels: dict[str, str]) -> _Stat:
    for stat in stats:
        if stat.name == name and stat.labels == labels:
            return stat
    known = sorted({stat.name for stat in stats})
    raise KeyError(f"{name!r} with labels {labels} is not among {known}")
