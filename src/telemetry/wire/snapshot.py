"""MetricsSnapshot: what the aggregator says, live over `sn/1` and at last in `final_snapshot.json`.

Snapshots are maps, so that a subscriber in any language reads names, and the wire, the file and the JSON of every
command use the same words. Every snapshot is whole: a late subscriber needs only the next one.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from telemetry.wire.events import Kind, Scalar
from telemetry.wire.version import PROTOCOL, SCHEMA, Version

State = Literal["INITIALIZE", "LIVE", "DRAINING", "COMPLETE", "INTERRUPTED"]
TERMINAL: Final[frozenset[State]] = frozenset({"COMPLETE", "INTERRUPTED"})
Completeness = Literal["complete", "lossy", "incomplete", "interrupted"]
"""`complete`: all that was emitted is in the numbers. `lossy`: something was dropped or is missing, and it says
what. `incomplete`: a producer has not ended, or an aggregator was lost with what its journal could not take, so
nobody knows. `interrupted`: the run was stopped by force."""

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
    """When something happened, in wall-clock nanoseconds, and how much of it came while more of it still began.

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
    overflow: dict[Kind, int] = {}
    """Instruments beyond the cap, by kind: their events went to the instrument called `overflow`."""
    warnings: list[str] = []
    directory: str = ""
