"""MetricsSnapshot: the state of a run, live over `sn/1` and finally in `final_snapshot.json`.

Snapshots are maps, so that a subscriber in any language reads names, and the wire, the file and the JSON of every
command use the same words. Every snapshot is complete: a late subscriber needs only the next one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from telemetry import limits
from telemetry.wire.collectors import COLLECTORS
from telemetry.wire.events import Drops, Kind, Natural, RunId, Scalar, Text
from telemetry.wire.version import PROTOCOL, SCHEMA, Version

State = Literal["INITIALIZE", "LIVE", "DRAINING", "COMPLETE", "INTERRUPTED"]
TERMINAL: Final[frozenset[State]] = frozenset({"COMPLETE", "INTERRUPTED"})
PROGRAM_FAILED: Final = "the program failed"
"""Beginning of the reason of a run whose program ended with an exception, or died. A colon and more may follow."""
Completeness = Literal["complete", "lossy", "incomplete", "interrupted"]
"""Completeness of a result.

`complete`: all emitted events are in the numbers. `lossy`: events were dropped or are missing, and the accounts
list them. `incomplete`: a producer has not ended or was still recording when the run ended, or an aggregator was
lost with events that its journal could not take, or by a loss of power, so the loss is unknown. `interrupted`: the
run, or the source of its feed, was stopped by force.
"""

BackendState = Literal["starting", "writing", "idle", "retrying", "closing", "done", "undelivered", "failed"]
"""State of a writer.

`idle`: everything so far is delivered. `retrying`: the tracker does not accept items. `closing`: the run is over,
all of it is delivered, and the tracker's library finishes its work. `done`: the library has finished.
`undelivered`: the writer has ended and the rest can be delivered later. `failed`: the writer could not start, or
could not continue.
"""
BACKEND_ENDED: Final[frozenset[BackendState]] = frozenset({"done", "undelivered", "failed"})
ProducerStatus = Literal["live", "late", "lost", "ended"]
ProducerCompleteness = Literal["complete", "lossy", "incomplete", "unknown"]


class ProducerStat(Struct, kw_only=True, frozen=True):
    """The account of one producer.

    `emitted = received + Σ dropped_by_producer + missing`, `received = applied + Σ dropped + waiting`.
    """

    producer: str
    name: str = ""
    host: str = ""
    pid: int = 0
    rank: int | None = None
    status: ProducerStatus = "live"
    completeness: ProducerCompleteness = "incomplete"
    """Completeness of its events. `unknown`: it never sent a hello, so its end can't be recognized."""
    emitted: int = 0
    received: int = 0
    applied: int = 0
    dropped: dict[str, int] = {}
    dropped_by_producer: dict[str, int] = {}
    missing: int = 0
    missing_batches: list[tuple[int, int]] = []
    """Ranges `[first, last]` of batch numbers that are missing and may still arrive."""
    unrepairable_batches: list[tuple[int, int]] = []
    """Ranges that can't arrive any more: their producer no longer has them, or there were too many to track."""
    repaired: int = 0
    """Number of batches that were missing and arrived later."""
    unrepairable: int = 0
    """Number of batches that can't arrive any more, including those beyond the listed ranges."""
    duplicates: int = 0
    waiting: int = 0
    """Received events that wait for their definition."""
    events_per_s: float = 0.0
    lag_s: float | None = None
    """Age of the newest event at its arrival."""
    last_seen_ns: int = 0
    """Wall clock."""
    last_event_ns: int = 0
    """Wall clock of its newest event; 0 before the first."""
    unfinished: bool = False
    """True if it was still recording when the run ended: events recorded afterwards are in no number."""
    salvaged: int = 0
    """Number of received events that were read from its memory after its process was killed."""

    @property
    def is_collector(self) -> bool:
        """True for the collectors of the run, which are no part of the user's job."""
        return self.producer.startswith(COLLECTORS)


class FoldedProducers(Struct, kw_only=True, frozen=True):
    """Producers that ended without losses and no longer have a row of their own."""

    producers: int = 0
    events: int = 0
    """Number of events that they emitted; received and applied are equal to it."""
    repaired: int = 0
    duplicates: int = 0
    salvaged: int = 0


class Accounting(Struct, kw_only=True, frozen=True):
    """The sum of all producers without the collectors of the run, and frames that could not be read."""

    emitted: int = 0
    received: int = 0
    applied: int = 0
    waiting: int = 0
    dropped: dict[str, int] = {}
    dropped_by_producer: dict[str, int] = {}
    missing: int = 0
    repaired: int = 0
    unrepairable: int = 0
    """Number of batches, as in `ProducerStat`."""
    duplicates: int = 0
    bad_frames: dict[str, int] = {}
    salvaged: int = 0
    """Number of received events that were read from the memory of killed processes."""

    @property
    def lost(self) -> int:
        """Number of events that were emitted and are in no number."""
        return sum(self.dropped.values()) + sum(self.dropped_by_producer.values()) + self.missing


class NodeStat(Struct, kw_only=True, frozen=True):
    """One node of a run on several machines: its leaf, and the account of all its producers."""

    node: str
    """Name of the node, for people."""
    leaf: str = ""
    """Run id of its leaf, which is also its producer id. Empty if no leaf of this node has connected."""
    host: str = ""
    pid: int = 0
    status: ProducerStatus = "live"
    completeness: Completeness = "incomplete"
    reason: str = ""
    """Reason why it is not complete, or why it ended."""
    producers: int = 0
    owing: list[str] = []
    """Its producers that have not ended, or were still recording: the first ones."""
    nodes: int = 0
    """Number of nodes below it, if it is a root itself."""
    account: Accounting = Accounting()
    """Account of its producers. Values that have not reached the root count as missing."""
    missing_batches: int = 0
    """Number of the leaf's batches that are missing and may still arrive."""
    unrepairable: int = 0
    """Number of the leaf's batches that can't arrive any more."""
    events_per_s: float = 0.0
    interval_ns: int = 0
    """End of the newest interval in the numbers, on the root's wall clock; 0 before the first."""
    last_seen_ns: int = 0
    clock_error_s: float | None = None
    """Upper bound of the error with which its clock is known; null if unknown."""
    endpoint: str = ""
    directory: str = ""
    warnings: list[str] = []


RootState = Literal["waiting", "connected", "silent", "refused", "delivered", "undelivered"]


class RootStat(Struct, kw_only=True, frozen=True):
    """The root of a run that is a leaf, as the leaf knows it."""

    address: str
    node: str
    """Name of this leaf's node."""
    state: RootState = "waiting"
    """`waiting` until the first answer. A result has `delivered` only if the root took the leaf's last account."""
    reason: str = ""
    """Sentence that says why the root lacks numbers of this node, and what to do; empty if it does not."""


class Extent(Struct, kw_only=True, frozen=True):
    """The time range of an instrument's events in nanoseconds, and how many came before the last duration began.

    Times are the wall clock at the run's first events, continued by the monotonic clocks of the producers. Their
    differences are durations, even if a wall clock was changed meanwhile.

    Only instruments defined `within` a series of durations have an extent. Events are "inside" if they were
    recorded until the newest beginning among that series' values. Stragglers at the end are outside, so they don't
    lengthen the time range.
    """

    first_ns: int = 0
    """Earliest beginning in the series that it is defined within."""
    last_ns: int = 0
    """Latest beginning. 0 for several windows or runs together, for which inside is unknown."""
    last_done_ns: int = 0
    """End of the duration that began last; 0 if unknown."""
    end_ns: int = 0
    """Latest end."""
    inside: int = 0
    """Number of events recorded until `last_ns`."""
    inside_total: int | float = 0
    """Sum of the values of these events."""


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
    """Number of increments that are integers beyond 2**53, which float64 rounds. 1 if only the total is rounded."""
    began_ns: Natural = 0
    """Time since which it was counted: that of the first event, less the mean time between two events.

    It is on the clock of `Extent`. 0: unknown, or no events.
    """
    ended_ns: Natural = 0
    """Time of the last event."""


class NodeSpread(Struct, kw_only=True, frozen=True):
    """Newest values of one gauge over the nodes of a run."""

    nodes: int
    least: float
    least_node: str
    greatest: float
    greatest_node: str


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
    """Number of values that are integers beyond 2**53, which float64 rounds."""
    over_nodes: NodeSpread | None = None
    """For a gauge that stands for all nodes, whose `value` is their median."""


NODE_LABEL: Final = "node"
"""Label of a figure of one node, or with ALL_NODES of all."""
ALL_NODES: Final = "all"


def without_single_nodes(gauges: Iterable[GaugeStat]) -> list[GaugeStat]:
    """Return the gauges without those of single nodes, where a gauge stands for all nodes."""
    gauges = list(gauges)
    folded = {stat.name for stat in gauges if stat.over_nodes is not None}
    return [
        stat for stat in gauges if stat.name not in folded or stat.labels.get(NODE_LABEL, ALL_NODES) == ALL_NODES
    ]


class WindowStat(Struct, kw_only=True, frozen=True):
    """The last seconds of a series; updated once a second, and at the end."""

    seconds: float = 0.0
    count: int = 0
    rate: float = 0.0
    percentiles: dict[str, int | float] = {}


class SeriesStat(Struct, kw_only=True, frozen=True):
    """A distribution. Values are in `unit`; percentile keys are decimal strings."""

    name: str
    labels: dict[str, str] = {}
    unit: str = ""
    digits: int = limits.DIGITS
    count: int = 0
    total: int | float = 0
    min: int | float | None = None
    max: int | float | None = None
    mean: float | None = None
    stddev: float | None = None
    percentiles: dict[str, int | float] = {}
    exact: bool = False
    """True if the percentiles are order statistics of the values themselves."""
    error_bound: float | None = 0.001
    """Largest relative error of a percentile; 0 if exact, null if values fell outside the range."""
    resolution: float = 0.0
    """Largest absolute error of small values, in `unit`; 0 if exact."""
    below: int = 0
    above: int = 0
    """Number of values outside the range, kept in its edge buckets."""
    imprecise: int = 0
    """Number of integers beyond 2**53, which float64 rounds."""
    histogram: list[tuple[int, int]] = []
    """(cell, count) of the display histogram; edges in `telemetry.wire.cells`, times `cell_unit`."""
    cell_unit: float = 0.0
    """Size of one tick of the cell edges, in `unit`."""
    window: WindowStat = WindowStat()
    extent: Extent | None = None
    began_ns: Natural = 0
    """As of a counter; with a unit of time, the earliest beginning of a value."""
    ended_ns: Natural = 0
    """Time of the last value."""


class AxisStat(Struct, kw_only=True, frozen=True):
    """The steps of one axis."""

    name: str
    closed: int = 0
    """Number of published steps."""
    open: int = 0
    newest: int | None = None
    """Highest published step. `values` are its values; names missing in it have values of older steps."""
    oldest_open: int | None = None
    waiting_for: list[str] = []
    """Producers that have not ended the oldest open step."""
    producers: int = 0
    """Number of producers that have reported on the axis and have not ended."""
    timeouts: int = 0
    """Number of steps that were closed before all their producers ended them, or because too many were open."""
    corrections: int = 0
    values: dict[str, float | None] = {}
    not_finite: dict[str, int] = {}
    """Names among `values` that were NaN or infinite in a step → the lowest such step."""
    lowest: int | None = None
    """Lowest step with values, open or closed. Likewise `highest`. Null: unknown, or no step."""
    highest: int | None = None
    began_ns: Natural = 0
    """Time of the first value less the mean time between two steps; 0 if unknown. `ended_ns`: of the last value."""
    ended_ns: Natural = 0


class BackendStat(Struct, kw_only=True, frozen=True):
    """The state of one writer: a separate process that delivers data to a tracker."""

    name: Annotated[str, Meta(min_length=1, max_length=limits.BACKEND_NAME_CHARS)]
    kind: Annotated[str, Meta(max_length=limits.BACKEND_NAME_CHARS)] = ""
    state: BackendState = "starting"
    pid: Natural = 0
    time_ns: Natural = 0
    """Wall clock of its last report."""
    next_record: Natural = 0
    """Number below which all records of the stream are delivered, or counted in `dropped`."""
    queued: Natural = 0
    """Number of stream records not delivered yet, as far as known."""
    written: Natural = 0
    """Number of delivered items: records, and readings of instruments."""
    retried: Natural = 0
    """Number of attempts after the first."""
    repeated: Natural = 0
    """Number of items that may be stored twice.

    After a crash they were delivered again, to a tracker that can't recognize repeated items.
    """
    dropped: Drops = {}
    """Items that will never be delivered, by reason."""
    no_place: Drops = {}
    """Items of kinds that the tracker can't store."""
    breaker: Literal["closed", "open", "half-open"] = "closed"
    failures: Natural = 0
    """Consecutive failures."""
    restarts: Natural = 0
    last_error: Text = ""
    calling_s: Annotated[float, Meta(ge=0, le=1e9)] = 0.0
    """Duration so far of the current call into the tracker's library."""
    place: Text = ""
    """Location of the data: a directory, or an address."""
    refused: Annotated[list[Natural], Meta(max_length=limits.BACKEND_REFUSED)] = []
    """Numbers of the newest stream records that the tracker refused for good. They are counted in `dropped`."""


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
    """The work that a DRAINING run still waits for."""

    producers: list[str] = []
    events: int = 0
    deferred: int = 0
    deadline_s: float | None = None


class SelfCost(Struct, kw_only=True, frozen=True):
    """The cost of the aggregator itself; docs/METRICS.md explains each field."""

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


class RequestLogStat(Struct, kw_only=True, frozen=True):
    """The size of the request log."""

    kept: int = 0
    """Number of requests in the log."""
    left_out: int = 0
    """Number of requests that ended and are not in the log."""
    cap_bytes: int = 0
    """Cap of the log's size, once a request did not fit; 0 before. The log then has the first requests."""


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
    """Peak memory of the command; 0: unknown."""
    max_rss_bound_bytes: int = 0
    """Upper bound of an unknown peak; 0: unknown too."""


class MetricsSnapshot(Struct, kw_only=True, frozen=True):
    """The whole state of a run at one moment."""

    schema_version: int = SCHEMA
    protocol: Version = PROTOCOL
    run_id: RunId
    name: str
    epoch: str = ""
    """Id of the aggregator process; another process has another epoch."""
    seq: int = 0
    state: State = "INITIALIZE"
    completeness: Completeness = "incomplete"
    reason: str = ""
    """Reason why the run ended."""
    exact: bool = False
    exact_reason: str = ""
    """Reason why the percentiles are not exact."""
    started_ns: Natural = 0
    time_ns: Natural = 0
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
    """Producers that `producers` does not list; `accounting` counts them too."""
    nodes: list[NodeStat] = []
    """Nodes of a run on several machines, in order of their names. `accounting` includes their producers."""
    missing_nodes: int = 0
    """Number of expected nodes that have not connected and have no name, so that `nodes` does not list them."""
    request_log: RequestLogStat | None = None
    """Null if no request was logged or left out."""
    root: RootStat | None = None
    """Null if the run is no leaf."""

    @property
    def own_producers(self) -> list[ProducerStat]:
        """Producers of the user's job that have a row: all but the collectors of the run."""
        return [stat for stat in self.producers if not stat.is_collector]

    @property
    def collectors(self) -> list[ProducerStat]:
        """Producers of the run's collectors: one, and one more after each restart."""
        return [stat for stat in self.producers if stat.is_collector]

    @property
    def direct_producers(self) -> int:
        """Number of producers that send to this aggregator itself, with and without a row. Without collectors."""
        return len(self.own_producers) + (self.folded.producers if self.folded else 0)

    @property
    def node_count(self) -> int:
        """Number of nodes of a run on several machines, with those that have not connected."""
        return len(self.nodes) + self.missing_nodes

    @property
    def producer_count(self) -> int:
        """Number of producers, with and without a row, and those of all nodes."""
        return self.direct_producers + sum(node.producers for node in self.nodes)
