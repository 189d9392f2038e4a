"""MetricsSnapshot: what the aggregator says, live over `sn/1` and at last in `final_snapshot.json`.

Snapshots are maps, so that a subscriber in any language reads names, and the wire, the file and the JSON of every
command use the same words. Every snapshot is whole: a late subscriber needs only the next one.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from telemetry import limits
from telemetry.wire.events import Drops, Kind, Natural, Scalar, Text
from telemetry.wire.version import PROTOCOL, SCHEMA, Version

State = Literal["INITIALIZE", "LIVE", "DRAINING", "COMPLETE", "INTERRUPTED"]
TERMINAL: Final[frozenset[State]] = frozenset({"COMPLETE", "INTERRUPTED"})
Completeness = Literal["complete", "lossy", "incomplete", "interrupted"]
"""`complete`: all that was emitted is in the numbers. `lossy`: something was dropped or is missing, and it says
what. `incomplete`: a producer has not ended or was still recording when the run ended, or an aggregator was lost
with what its journal could not take, so nobody knows. `interrupted`: the run was stopped by force, or what it fed
from was."""

BackendState = Literal["starting", "writing", "idle", "retrying", "closing", "done", "undelivered", "failed"]
"""`idle`: all that is there is delivered. `retrying`: the tracker does not take it. `closing`: all of a run that is
over is delivered, and the tracker's library does what it does at the end. `done`: that is over. `undelivered`: the
writer has ended and the rest can be delivered later. `failed`: it could not begin, or go on."""
BACKEND_ENDED: Final[frozenset[BackendState]] = frozenset({"done", "undelivered", "failed"})
ProducerStatus = Literal["live", "late", "lost", "ended"]
ProducerCompleteness = Literal["complete", "lossy", "incomplete", "unknown"]


class ProducerStat(Struct, kw_only=True, frozen=True):
    """One producer's account: `emitted = received + Σ dropped_by_producer + missing`,
    `received = applied + Σ dropped`."""

    producer: str
    name: str = ""
    host: str = ""
    pid: int = 0
    rank: int | None = None
    status: ProducerStatus = "live"
    completeness: ProducerCompleteness = "incomplete"
    """`unknown`: it never said hello, so nobody can tell when it is done."""
    emitted: int = 0
    received: int = 0
    applied: int = 0
    dropped: dict[str, int] = {}
    dropped_by_producer: dict[str, int] = {}
    missing: int = 0
    missing_batches: list[tuple[int, int]] = []
    """Ranges `[first, last]` of batch numbers that have not come and still may."""
    unrepairable_batches: list[tuple[int, int]] = []
    """Ranges that can't come any more: their producer no longer has them, or they were too many to track."""
    repaired: int = 0
    """Batches that were missing and came."""
    unrepairable: int = 0
    """Batches that can't come any more, also those beyond the ranges listed."""
    duplicates: int = 0
    waiting: int = 0
    """Received events that wait for their definition."""
    events_per_s: float = 0.0
    lag_s: float | None = None
    """Age of the newest event when it arrived."""
    last_seen_ns: int = 0
    """Wall clock."""
    last_event_ns: int = 0
    """Wall clock of its newest event; 0 before the first."""
    unfinished: bool = False
    """It was still recording when the run ended: what it recorded afterwards is in no number."""


class FoldedProducers(Struct, kw_only=True, frozen=True):
    """Producers that ended completely and have no row of their own any more; what they lost is nothing."""

    producers: int = 0
    events: int = 0
    """Emitted, received and applied: all three are equal."""
    repaired: int = 0
    duplicates: int = 0


class Accounting(Struct, kw_only=True, frozen=True):
    """All producers together, and frames nobody could read."""

    emitted: int = 0
    received: int = 0
    applied: int = 0
    waiting: int = 0
    dropped: dict[str, int] = {}
    dropped_by_producer: dict[str, int] = {}
    missing: int = 0
    repaired: int = 0
    unrepairable: int = 0
    """Batches, as in `ProducerStat`."""
    duplicates: int = 0
    bad_frames: dict[str, int] = {}

    @property
    def lost(self) -> int:
        """Events that were emitted and are in no number."""
        return sum(self.dropped.values()) + sum(self.dropped_by_producer.values()) + self.missing


class Extent(Struct, kw_only=True, frozen=True):
    """When something happened, in nanoseconds, and how much of it came while more of it still began.

    Times are the wall clock as it was when the run's first events came, carried on by the monotonic clocks of those
    who recorded: their differences are durations, whatever wall clocks did meanwhile.

    Only for instruments defined `within` a series of durations. "Inside" is what was recorded until the newest
    beginning among that series' values: stragglers at the end are outside, and stretch nothing.
    """

    first_ns: int = 0
    """The earliest beginning: of the series it is defined within."""
    last_ns: int = 0
    """The latest beginning. 0 for several windows or runs together: nobody knows then what was inside."""
    last_done_ns: int = 0
    """The end of the one that began last; 0 if it is unknown which that was."""
    end_ns: int = 0
    """The latest end."""
    inside: int = 0
    """Events recorded until `last_ns`."""
    inside_total: int | float = 0
    """The sum of their values."""


class CounterStat(Struct, kw_only=True, frozen=True):
    name: str
    labels: dict[str, str] = {}
    unit: str = ""
    value: int | float = 0
    events: int = 0
    rate: float = 0.0
    """Per second, over the window."""
    extent: Extent | None = None
    imprecise: int = 0
    """Increments that are integers beyond 2**53, which float64 rounds. 1 if the total alone is rounded."""


class GaugeStat(Struct, kw_only=True, frozen=True):
    name: str
    labels: dict[str, str] = {}
    unit: str = ""
    value: int | float | None = None
    min: int | float | None = None
    max: int | float | None = None
    events: int = 0
    time_ns: int = 0
    """Wall clock of the value."""
    imprecise: int = 0
    """Values that are integers beyond 2**53, which float64 rounds."""


class WindowStat(Struct, kw_only=True, frozen=True):
    """The last seconds of a series; moves once a second, and at the end."""

    seconds: float = 0.0
    count: int = 0
    rate: float = 0.0
    percentiles: dict[str, int | float] = {}


class SeriesStat(Struct, kw_only=True, frozen=True):
    """A distribution. Values are in `unit`; percentile keys are decimal strings."""

    name: str
    labels: dict[str, str] = {}
    unit: str = ""
    digits: int = 3
    count: int = 0
    total: int | float = 0
    min: int | float | None = None
    max: int | float | None = None
    mean: float | None = None
    stddev: float | None = None
    percentiles: dict[str, int | float] = {}
    exact: bool = False
    """The percentiles are order statistics of the values themselves."""
    error_bound: float | None = 0.001
    """Largest relative error of a percentile; 0 if exact, null if values fell outside the range."""
    resolution: float = 0.0
    """Largest absolute error of small values, in `unit`; 0 if exact."""
    below: int = 0
    above: int = 0
    """Values outside the range, kept in its edge buckets."""
    imprecise: int = 0
    """Integers beyond 2**53, which float64 rounds."""
    histogram: list[tuple[int, int]] = []
    """(cell, count) of the display histogram; edges in `telemetry.wire.cells`, times `cell_unit`."""
    cell_unit: float = 0.0
    """One tick of the cell edges, in `unit`."""
    window: WindowStat = WindowStat()
    extent: Extent | None = None


class AxisStat(Struct, kw_only=True, frozen=True):
    """The steps of one axis."""

    name: str
    closed: int = 0
    """Steps that were said."""
    open: int = 0
    newest: int | None = None
    """The highest step that was said; `values` are its, or older ones of names that it lacks."""
    oldest_open: int | None = None
    waiting_for: list[str] = []
    """Producers that have not ended the oldest open step."""
    producers: int = 0
    """That have reported on it and have not ended."""
    timeouts: int = 0
    """Steps that were closed without all their producers."""
    corrections: int = 0
    values: dict[str, float | None] = {}


class BackendStat(Struct, kw_only=True, frozen=True):
    """One writer: what a process of its own hands on to a tracker."""

    name: Annotated[str, Meta(min_length=1, max_length=limits.BACKEND_NAME_CHARS)]
    kind: Annotated[str, Meta(max_length=limits.BACKEND_NAME_CHARS)] = ""
    state: BackendState = "starting"
    pid: Natural = 0
    time_ns: Natural = 0
    """Wall clock of its last word."""
    next_record: Natural = 0
    """All records of the stream below this number are delivered, or counted in `dropped`."""
    queued: Natural = 0
    """Records of the stream that are not, as far as is known."""
    written: Natural = 0
    """Items delivered: records, and readings of instruments."""
    retried: Natural = 0
    """Attempts after the first."""
    repeated: Natural = 0
    """Items that may be there twice: delivered once more after a death, to a tracker that can't tell."""
    dropped: Drops = {}
    """Items that are not there and will not be, by reason."""
    no_place: Drops = {}
    """Items of kinds that the tracker has no place for."""
    breaker: Literal["closed", "open", "half-open"] = "closed"
    failures: Natural = 0
    """In a row."""
    restarts: Natural = 0
    last_error: Text = ""
    calling_s: Annotated[float, Meta(ge=0, le=1e9)] = 0.0
    """How long the call into the tracker's library that goes on now has taken."""
    place: Text = ""
    """Where the data is: a directory, or an address."""


class Progress(Struct, kw_only=True, frozen=True):
    name: str
    done: float
    total: float


class MarkStat(Struct, kw_only=True, frozen=True):
    text: str
    time_ns: int
    producer: str = ""
    labels: dict[str, str] = {}


class Pending(Struct, kw_only=True, frozen=True):
    """What a run that is DRAINING still waits for."""

    producers: list[str] = []
    events: int = 0
    deferred: int = 0
    deadline_s: float | None = None


class SelfCost(Struct, kw_only=True, frozen=True):
    """What the aggregator itself costs; docs/METRICS.md explains each."""

    cpu_s: float = 0.0
    cpu_percent: float = 0.0
    rss_bytes: int = 0
    events_per_s: float = 0.0
    frames: int = 0
    frame_bytes: int = 0
    ticks: int = 0
    ticks_late: int = 0
    tick_ms: float = 0.0
    tick_ms_max: float = 0.0
    journal_bytes: int = 0
    history_bytes: int = 0
    series: int = 0
    pages: int = 0


class CommandFacts(Struct, kw_only=True, frozen=True):
    """The command that `telemetry run` wrapped."""

    argv: list[str]
    pid: int = 0
    exit_code: int | None = None
    signal: str | None = None
    wall_s: float = 0.0
    cpu_user_s: float = 0.0
    cpu_system_s: float = 0.0
    max_rss_bytes: int = 0
    """Its peak memory; 0: unknown."""
    max_rss_bound_bytes: int = 0
    """Where the peak is unknown, what it did not exceed; 0: unknown as well."""


class MetricsSnapshot(Struct, kw_only=True, frozen=True):
    """The whole state of a run at one moment."""

    schema_version: int = SCHEMA
    protocol: Version = PROTOCOL
    run_id: str
    name: str
    epoch: str = ""
    """Changes when the aggregator process changes."""
    seq: int = 0
    state: State = "INITIALIZE"
    completeness: Completeness = "incomplete"
    reason: str = ""
    """Why the run ended."""
    exact: bool = False
    exact_reason: str = ""
    """Why the percentiles are not exact."""
    started_ns: int = 0
    time_ns: int = 0
    elapsed_s: float = 0.0
    refresh_hz: float = 0.0
    window_s: float = 0.0
    pending: Pending = Pending()
    accounting: Accounting = Accounting()
    producers: list[ProducerStat] = []
    progress: list[Progress] = []
    counters: list[CounterStat] = []
    gauges: list[GaugeStat] = []
    series: list[SeriesStat] = []
    marks: list[MarkStat] = []
    params: dict[str, Scalar] = {}
    command: CommandFacts | None = None
    cost: SelfCost = SelfCost()
    axes: list[AxisStat] = []
    backends: list[BackendStat] = []
    overflow: dict[Kind, int] = {}
    """Instruments beyond the cap, by kind: their events went to the instrument called `overflow`."""
    warnings: list[str] = []
    directory: str = ""
    folded: FoldedProducers | None = None
    """Those that `producers` does not list; `accounting` counts them too."""

    @property
    def producer_count(self) -> int:
        """All producers, with and without a row."""
        return len(self.producers) + (self.folded.producers if self.folded else 0)
