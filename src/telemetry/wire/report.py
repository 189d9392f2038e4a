"""Report: the last snapshot of a run, and its source."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from msgspec import Struct

from telemetry.errors import UsageError
from telemetry.wire.feeds import missing_messages, tells_interruption
from telemetry.wire.gates import GateResult
from telemetry.wire.imported import ImportedFile
from telemetry.wire.pictures import Pictures, StepCurve
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
from telemetry.wire.upper_modules import provided

if TYPE_CHECKING:
    import os

LARGEST_TOLERANCE: Final = 0.5
"""Bound of the early-stopping tolerance, exclusive.

Early stopping covers percentiles from the median on; the median minus this tolerance is 0 %.
"""
Source = Literal["pubsub", "file", "status", "last_live", "journal"]
SOURCE_WORDS: Final[dict[Source, str]] = {
    "pubsub": "the aggregator's final snapshot",
    "file": "final_snapshot.json",
    "status": "the aggregator of the live run",
    "last_live": "the last live snapshot",
    "journal": "the journal",
}

_GOING_ON: Final[dict[State, str]] = {"INITIALIZE": "waiting", "LIVE": "live", "DRAINING": "draining"}

_LATEST_NS: Final = 1 << 63  # signed 64-bit limit; dates go further

_MAXIMUM: Final = frozenset({"100", "100.0"})
_Identity = tuple[str, frozenset[tuple[str, str]]]

_Stat = TypeVar("_Stat", CounterStat, GaugeStat, SeriesStat)


class TimeRange(Struct, frozen=True, kw_only=True):
    """The time range that a report covers; seconds since the run's start."""

    start_s: float
    end_s: float
    chosen: Literal["given", "trim_warmup", "steady"]
    found: bool = True
    """True if a range of that kind was found; if not, this is the whole range that was searched."""
    reason: str = ""
    """Explanation: how the range was found, or why there is none."""


class Bounds(Struct, frozen=True, kw_only=True, gc=False):
    """Confidence bounds of a percentile of the process behind the values. The confidence is that of its series."""

    low: float | None = None
    high: float | None = None
    """Upper bound; null: too few values for a bound (`low` likewise)."""
    beyond: int = 0
    """Number of values above the percentile's rank."""


class SeriesBounds(Struct, frozen=True, kw_only=True):
    name: str
    labels: dict[str, str] = {}
    confidence: float = 0.95
    percentiles: dict[str, Bounds] = {}


class SeriesPoint(Struct, frozen=True, kw_only=True, gc=False):  # there are tens of thousands, with numbers only
    """A series in one step of time; seconds since the run's start."""

    start_s: float
    end_s: float
    count: int = 0
    rate: float | None = 0.0
    """Values per second of the time with values; null before the first value and after the last."""
    min: float | None = None
    max: float | None = None
    percentiles: dict[str, float] = {}


class SeriesOverTime(Struct, frozen=True, kw_only=True):
    name: str
    labels: dict[str, str] = {}
    unit: str = ""
    points: list[SeriesPoint] = []


class Rate(Struct, frozen=True, kw_only=True):
    """The rate of completed requests, and of their output tokens; null: unknown."""

    requests_per_s: float | None = None
    tokens_per_s: float | None = None


class Rates(Struct, frozen=True, kw_only=True):
    """The rate of requests by three definitions, which differ in the time range and in the counted requests."""

    while_issuing: Rate = Rate()
    """Requests completed between the first and the last issue of completed requests; stragglers are excluded."""
    loadgen: Rate = Rate()
    """Rate as defined by MLPerf's LoadGen.

    It counts all requests but one, from the first issue to the completion of the request that was issued last.
    """
    overall: Rate = Rate()
    """Rate of all requests, from the first issue to the last completion."""


class EarlyStop(Struct, frozen=True, kw_only=True):
    """An upper bound of a percentile, as in MLPerf's early stopping."""

    bound: float | None = None
    """The bound, with the confidence of the figures it belongs to; null: too few samples."""
    needed: int
    """Smallest number of samples that have a bound."""
    missing: int = 0
    """Number of samples that are still missing to `needed`."""


class EarlyRule(Struct, frozen=True, kw_only=True):
    """The parameters of early stopping, which finds upper bounds of percentiles.

    Raises UsageError for invalid values.
    """

    confidence: float = 0.99
    """Probability that the bound is right, between 0 and 1."""
    tolerance: float = 0.0
    """Allowed reduction of the percentile that the bound is for: 0.01 turns 99 % into 98 %."""

    def __post_init__(self) -> None:
        if not 0.0 < self.confidence < 1.0:
            raise UsageError(
                f"confidence={self.confidence!r} is out of range",
                hint="give a number between 0 and 1, such as 0.99",
            )
        if not 0.0 <= self.tolerance < LARGEST_TOLERANCE:
            raise UsageError(
                f"tolerance={self.tolerance!r} is out of range",
                hint="give 0 or more and less than 0.5, such as 0.001",
            )


class RequestFigures(Struct, frozen=True, kw_only=True):
    """Requests of one kind, in one tracking window or in total. Their distributions are among the series."""

    kind: str
    labels: dict[str, str] = {}
    """Labels of the kind, without window, finish reason, reason and turn."""
    window: str | None = None
    """Tracking window. Null: the total. Empty: requests outside any window."""
    issued: int | float = 0
    completed: int | float = 0
    failed: dict[str, int | float] = {}
    """Failed requests by reason."""
    expired: int | float = 0
    in_flight: int | float | None = None
    """Issued requests without an outcome yet. Null if the report covers a time range of the run."""
    after_end: int | float = 0
    """Number of calls for requests that had ended, or for unknown requests."""
    out_of_order: int | float = 0
    """Number of durations that were left out because their end lies before their beginning."""
    finishes: dict[str, int | float] = {}
    """Completed requests by finish reason."""
    rates: Rates = Rates()
    """Rates of the whole run; unknown for a time range of it."""
    input_tokens_per_s: float | None = None
    """This and all following rates are those of completed requests, from their first issue to their last end."""
    output_tokens_per_s: float | None = None
    total_tokens_per_s: float | None = None
    """Input and output tokens per second."""
    peak_output_tokens_per_s: float | None = None
    """Output tokens of the best whole second; null: unknown."""
    offered_per_s: float | None = None
    """Issued requests per second, from the first issue to the last one; null: unknown."""
    concurrency_mean: float | None = None
    """Mean number of requests in flight, from the first issue to the last end; null: unknown."""
    concurrency_peak: int | float | None = None
    """Largest number of requests in flight at one time."""
    concurrency_peak_exact: bool = False
    """True if the peak is exact, by the request log. Else it is the largest number at the end of a time step."""
    tokens_per_chunk: float | None = None
    """Mean number of output tokens in a chunk, the first one included; null: unknown."""
    slo: str = ""
    """Limits for a request, such as `ttft:200ms tpot:50ms`; empty without limits, or if they are unknown."""
    good: int | float | None = None
    """Number of completed requests within all their limits; null: the requests have no limits."""
    met: dict[str, int | float] = {}
    """Number of completed requests within one limit, by its key."""
    goodput_per_s: float | None = None
    """Good requests per second."""
    attainment: float | None = None
    """Share of the completed, failed and expired requests that are good; null without limits."""
    attainment_low: float | None = None
    """Lower bound of the attainment, with a confidence of 95 % (Wilson)."""
    attainment_high: float | None = None
    early_stopping: dict[str, dict[str, EarlyStop]] = {}
    """Bounds by measurement, such as `latency` or `ttft`, then by percentile from 50 on."""
    confidence: float = 0.99
    """Confidence of `early_stopping`."""
    tolerance: float = 0.0
    """Tolerance of `early_stopping`: each bound is for a percentile that is lower by this much."""
    windows: list[RequestFigures] = []
    """List of the tracking windows, and of the requests outside any window if there are any. Only in the total."""


class SpanSpread(Struct, frozen=True, kw_only=True):
    """How the total duration of the spans of one name differs between producers."""

    name: str
    producers: int
    """Number of producers that recorded such spans."""
    mean_ms: float
    least_ms: float
    most_ms: float
    least: str
    """Id of the producer with the least total."""
    most: str


class HistogramBounds(Struct, frozen=True, kw_only=True):
    """Bounds of the percentiles of a histogram that another program has counted."""

    name: str
    labels: dict[str, str] = {}
    unit: str = ""
    count: int
    unknown: int = 0
    """Values in buckets without an end. They widen the bounds."""
    percentiles: dict[str, tuple[float | None, float | None]]
    """Percentile → smallest and largest value that it can have. Null: no bound."""


class Straggler(Struct, frozen=True, kw_only=True):
    """A cause of slow steps: a rank, a node or a stage that the others wait for more often than chance explains."""

    rank: int | str
    """Rank of the producer, or its id if it has none. For a node or a stage: its rank that lags most."""
    name: str
    cost_s: float
    """Seconds that a step would have ended sooner, had the ranks of this cause worked like their peers."""
    cost: float
    """The same as a share of a step."""
    step_s: float
    """Duration of a step."""
    lag_s: float
    """Seconds that it waits less than the median of the others, because it works longer."""
    excess: float
    """The same as a share of the work of the others."""
    work_s: float
    others_s: float
    """Median work of the others."""
    least_lag: float | None = None
    """Its smallest lag in a part of the run, as a share of a step. Near 0: it has been as fast as the others."""
    first_step: int
    last_step: int
    steps: int
    """Number of steps in which it was slow. All figures are about these."""
    windows: int
    last_in: int
    """Number of windows of these steps in which it was the last rank."""
    always: bool
    """True if it was slow from the first steps on."""
    now: bool
    """True if it was slow in the newest steps."""
    dimension: str = ""
    """`node` or `pp` for a node or a stage; empty for a rank."""
    group: int | str | None = None
    """Name of the node, or number of the stage."""
    ranks: list[int | str] = []
    """Ranks of the node or stage."""
    groups: dict[str, int | str] = {}
    """Groups of a single rank."""
    alone_s: float | None = None
    """The cost if all other causes were repaired. Well above `cost_s`: another cause hides this one."""
    highest_s: float | None = None
    """Upper bound of `cost_s`. It is higher in pipelines, whose stages hide an unknown part of a cost."""
    sure: bool = True
    """False if the cost can't be told better than by `highest_s`."""
    pauses: int = 0
    """Number of pauses of a cause that pauses in single steps; 0 for one that is slow in most steps."""
    pause_s: float = 0.0
    """Median length of a pause."""
    every: int | None = None
    """Number of steps from pause to pause; null if they are irregular."""
    node: str = ""
    """Node whose ranks are those of the stage, so that it may be slow instead."""


class LeastCause(Struct, frozen=True, kw_only=True):
    """The smallest causes that would be named in the newest steps of a run."""

    excess: float | None = None
    """Longer work of one rank in each step, as a share; null if there are too few steps for any."""
    cost_s: float | None = None
    """Cost of such a rank."""
    pauses: int | None = None
    """Number of pauses; null if there are too few steps for any."""
    pause_s: float | None = None


class LagFold(Struct, frozen=True, kw_only=True):
    """The map of lags with a row for each group of a dimension."""

    dimension: str
    ranks: list[str] = []
    """Names of the rows."""
    lags: list[list[float | None]] = []


class LagMap(Struct, frozen=True, kw_only=True):
    """How much each rank lags behind the median rank, as a share of a step, over the whole run."""

    ranks: list[str] = []
    """Names of the rows. A row of several ranks shows the one with the largest lag."""
    steps: list[int] = []
    """First step of each column."""
    last_step: int | None = None
    lags: list[list[float | None]] = []
    """For each row, the lag by column; null: absent."""
    folds: list[LagFold] = []
    """The same by group, for each dimension with two groups or more."""


class Stragglers(Struct, frozen=True, kw_only=True):
    """Causes of slow steps on an axis of steps with work and wait."""

    axis: str
    ranks: int
    steps: int
    """Number of closed steps with the waits of two ranks or more."""
    step_s: float
    """Duration of a step in the newest steps."""
    confidence: float
    """Probability that no rank is named if none is slow."""
    slow: list[Straggler] = []
    """The most expensive one first."""
    map: LagMap = LagMap()
    together_s: float | None = None
    """What the causes of the newest steps cost together; null if there are fewer than two."""
    together: float | None = None
    """The same as a share of a step."""
    least: LeastCause | None = None
    """The smallest causes that would be named; null if some are."""
    unjudged: str = ""
    """Reason why the steps were not judged; empty if they were."""


class Report(Struct, frozen=True, kw_only=True, dict=True):  # the dict caches indices
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
    """Reason why a better source was not used; empty for the best one."""
    time_range: TimeRange | None = None
    """Time range of the run that the series cover; None: the whole run."""
    bounds: list[SeriesBounds] = []
    step_s: float = 0.0
    """Step of `over_time` in seconds."""
    over_time: list[SeriesOverTime] = []
    curves: list[StepCurve] = []
    """Values of steps over the run, if the record log was read."""
    pictures: Pictures | None = None
    """Figures for pictures, if they were asked for."""
    findings: list[str] = []
    """Notes for readers of the numbers, in plain words, besides the snapshot's warnings."""
    gates: list[GateResult] = []
    sources: list[SourceStat] = []
    """Runs that were merged into this one; empty for any other run."""
    imported: ImportedFile | None = None
    """The file of another tool that the run was made from; null for a run that was recorded."""
    requests: list[RequestFigures] = []
    """Requests by kind and labels, if there are request counters."""
    spans: list[SpanSpread] = []
    """Spans of several producers, if the record log was read. Their figures are the series `span.NAME`."""
    distributions: list[HistogramBounds] = []
    """Histograms that another program has counted, if the record log was read."""
    stragglers: list[Stragglers] = []
    """Causes of slow steps by axis, if steps have work and wait and the record log was read."""
    early_rule: EarlyRule = EarlyRule()
    """Rule for the `early_stopping` of requests."""

    @classmethod
    def from_snapshot(cls, snapshot: MetricsSnapshot | Mapping[str, Any]) -> Report:
        """Return the report of a snapshot, with bounds, findings and figures of requests. Reads no files.

        Example:
            for snapshot in telemetry.subscribe(run):
                print(Report.from_snapshot(snapshot))

        `snapshot` may be its JSON form: what `final_snapshot.json` or a line of `telemetry tail` contains. Raises
        ProtocolError if it is not that of a snapshot.
        """
        report: Report = provided("reports").of_snapshot(snapshot)
        return report

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

    def counter(self, name: str, /, **labels: str) -> CounterStat:
        """Return the counter of this name and exactly these labels. Raise KeyError if there is none.

        Example:
            report.counter("requests", route="/search").value
        """
        return _pick(self.snapshot.counters, name, labels)

    def gauge(self, name: str, /, **labels: str) -> GaugeStat:
        """Return the gauge of this name and exactly these labels. Raise KeyError if there is none.

        Example:
            report.gauge("temperature").value
        """
        return _pick(self.snapshot.gauges, name, labels)

    def series(self, name: str, /, **labels: str) -> SeriesStat:
        """Return the series of this name and exactly these labels. Raise KeyError if there is none.

        Example:
            report.series("latency", route="/search").percentiles["99"]
        """
        return _pick(self.snapshot.series, name, labels)

    def bounds_of(self, stat: SeriesStat) -> SeriesBounds | None:
        """Return the bounds of a series of this report; None if they were not computed."""
        return self._bounds.get(_identity(stat))

    def trusted(self, stat: SeriesStat, percentile: str) -> bool:
        """Return False for a percentile with too few values for bounds on both sides.

        The 100th percentile is always trusted: it is the maximum of the values and claims nothing beyond them.
        """
        bounds = self.bounds_of(stat)
        if bounds is None or percentile not in bounds.percentiles or percentile in _MAXIMUM:
            return True
        percentile_bounds = bounds.percentiles[percentile]
        return percentile_bounds.low is not None and percentile_bounds.high is not None

    @cached_property
    def _bounds(self) -> dict[_Identity, SeriesBounds]:
        return {_identity(bounds): bounds for bounds in self.bounds}

    def save(self, path: str | os.PathLike[str], format: str | None = None) -> None:
        """Write the report to a file atomically.

        Example:
            run.report.save("report.html")

        `format` is one of `telemetry.report.FORMATS`. The default follows from the suffix: `.txt`, `.json`, `.md`,
        `.csv`, `.html`, `.hgrm` or `.xml` (JUnit). Curves over time come from the run directory, if it exists.
        Blocks for the disk. Raises UsageError for an unknown format, RunDirectoryError if the file can't be
        written.
        """
        provided("reports").save(self, path, format)

    def to_pandas(self) -> Any:
        """Return a pandas data frame with one figure per row and a column `label_…` for each label.

        Example:
            report.to_pandas().query("name == 'latency' and figure == 'p99'")

        Raises UsageError if pandas is not installed.
        """
        return provided("reports").frame(self, "pandas")

    def to_polars(self) -> Any:
        """Return a polars data frame with one figure per row and a column `label_…` for each label.

        Example:
            report.to_polars().filter(figure="p99")

        Raises UsageError if polars is not installed.
        """
        return provided("reports").frame(self, "polars")

    def __repr__(self) -> str:
        return f"<Report {self.headline()}>"

    def _repr_html_(self) -> str:
        """Return the headline and the most important figures, for a notebook."""
        return str(provided("reports").report_html(self))

    @property
    def verdict(self) -> str:
        """Completeness of the result in one word; the state of the run while the aggregator still answers."""
        return _GOING_ON.get(self.state, self.completeness) if self.source == "status" else self.completeness

    @property
    def outcome(self) -> str:
        """The verdict, with the events of killed processes: `complete (1,234 events salvaged)`."""
        salvaged = self.snapshot.accounting.salvaged
        return f"{self.verdict} ({_number_of(salvaged, 'event')} salvaged)" if salvaged else self.verdict

    @property
    def unknown(self) -> str:
        """Explanation of which events are unknown; empty if the accounts cover all events.

        After an interruption, later events are unknown, except if a benchmark reported it: such a run ends in
        order. A producer that never ended has reported no total. A producer that was still recording may have
        recorded more. An incomplete node may have had more events, and a session of a feed more messages.
        """
        is_over = self.state in TERMINAL and (
            self.verdict != "interrupted" or tells_interruption(self.snapshot.reason)
        )
        if self.verdict in ("interrupted", "incomplete") and not is_over:
            return f"events {_after(self.snapshot.time_ns)} are unknown"
        producers, nodes = self.snapshot.own_producers, self.snapshot.nodes
        unfinished = sum(stat.unfinished for stat in producers)
        unended = sum(stat.completeness == "incomplete" for stat in producers) - unfinished
        lacking = sum(node.completeness in ("incomplete", "interrupted") for node in nodes)
        lacking += self.snapshot.missing_nodes
        if self.verdict not in ("incomplete", "interrupted"):
            return ""
        parts = [f"{lacking:,} of {_number_of(self.snapshot.node_count, 'node')} incomplete"] if lacking else []
        of_all = f" of {_number_of(self.snapshot.direct_producers, 'producer')}"
        if unended:
            parts.append(f"{unended:,}{of_all} never ended")
        if unfinished:
            was = "was" if unfinished == 1 else "were"
            parts.append(f"{unfinished:,}{'' if unended else of_all} {was} still recording when the run ended")
        if self.time_range is None:  # the counters of a time range tell nothing of the other sessions
            parts += missing_messages(self.snapshot.counters)
        if self.verdict == "incomplete" and producers and not parts:  # a warning says what the journal may lack
            parts = ["an unknown number of events may be missing"]
        return ", ".join(parts)

    def headline(self) -> str:
        """Return one line: completeness, name of the run, nodes, applied events, and lost or unknown events.

        Events are those of the job, without the collectors.
        """
        account, nodes = self.snapshot.accounting, self.snapshot.node_count
        number = account.applied
        facts = [f"{number:,} of {_number_of(account.emitted, 'event')} applied", f"{account.lost:,} lost"]
        of_collectors = sum(stat.applied for stat in self.snapshot.collectors)
        if of_collectors and not account.emitted:
            facts[0] = f"no events of the command, {_number_of(of_collectors, 'event')} of collectors"
        if self.unknown:
            applied = f"{_number_of(number, 'event')} applied"
            facts = [applied, *([facts[1]] if account.lost else []), self.unknown]
        if nodes:
            producers = _number_of(self.snapshot.producer_count, "producer")
            facts = [_number_of(nodes, "node"), producers, *facts]
        return f"{self.outcome}: {self.snapshot.name}, {', '.join(facts)}"

    def __str__(self) -> str:
        return self.headline()


def _identity(of: SeriesStat | SeriesBounds) -> _Identity:
    return of.name, frozenset(of.labels.items())


def _number_of(number: int, what: str) -> str:
    """Return the count with its noun, like `telemetry.common.formatting`, which the wire layer can't import."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _after(wall_ns: int) -> str:
    if not 0 < wall_ns < _LATEST_NS:
        return "after that"
    return f"after {datetime.fromtimestamp(wall_ns // 10**9, UTC):%H:%M:%S} UTC"


def _pick(stats: list[_Stat], name: str, labels: dict[str, str]) -> _Stat:
    for stat in stats:
        if stat.name == name and stat.labels == labels:
            return stat
    names = sorted({stat.name for stat in stats})
    raise KeyError(f"{name!r} with labels {labels} is not among {names}")
