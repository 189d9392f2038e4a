"""The items that a backend receives: records of a run and readings of its instruments, in terms of trackers.

All numbers are finite, except that NaN stands for a step's value that was not finite. Times are wall-clock times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from telemetry.wire.events import Closing, Rank, Scalar, SpanSource, Spread
from telemetry.wire.snapshot import MetricsSnapshot


class _Item(Struct, frozen=True, kw_only=True):
    key: str
    """Permanent name of the item in its run. A repeated delivery has the same key."""
    time_ns: int


class Step(_Item, frozen=True, kw_only=True):
    """The values of one step of an axis. Steps usually arrive in order; corrections arrive later."""

    axis: str
    step: int
    values: dict[str, float]
    spread: dict[str, Spread] = {}
    """Spread of the values that several producers reported."""
    closed: Closing = "ended"
    revision: int = 0
    """Revision number. Above 0, these values replace or extend those of an earlier delivery of the step."""
    ranks: dict[str, list[tuple[Rank, float]]] = {}
    """Values of the axis's ranked names, each with the rank or the producer that reported it, in order."""


class SeriesReading(Struct, frozen=True, kw_only=True):
    """A distribution over some seconds. Values are in `unit`."""

    name: str
    labels: dict[str, str] = {}
    unit: str = ""
    count: int = 0
    rate: float = 0.0
    """Values per second."""
    total: float = 0.0
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    percentiles: dict[str, float] = {}
    """Percentile → value. Keys are decimal strings such as "99.9"."""
    cells: list[tuple[float, float, int]] = []
    """Histogram as (from, to, count), ascending."""


class CounterReading(Struct, frozen=True, kw_only=True):
    name: str
    labels: dict[str, str] = {}
    unit: str = ""
    value: float = 0.0
    """Value since the run's start."""
    rate: float = 0.0
    """Increase per second over these seconds."""


class GaugeReading(Struct, frozen=True, kw_only=True):
    name: str
    labels: dict[str, str] = {}
    unit: str = ""
    value: float = 0.0


class Reading(_Item, frozen=True, kw_only=True):
    """A reading of all instruments over some seconds that end at `time_ns`.

    With `final`, the result of the whole run.
    """

    elapsed_s: float
    """Seconds since the run's start."""
    seconds: float
    """Duration that the reading covers."""
    series: list[SeriesReading] = []
    counters: list[CounterReading] = []
    gauges: list[GaugeReading] = []
    final: bool = False


class Live(_Item, frozen=True, kw_only=True):
    """The newest snapshot, for backends that are polled. Older snapshots are skipped."""

    snapshot: MetricsSnapshot


class Params(_Item, frozen=True, kw_only=True):
    """Flat parameters of the run. A later value replaces an earlier one of the same name."""

    values: dict[str, Scalar]


class Mark(_Item, frozen=True, kw_only=True):
    """An event that deserves a line."""

    text: str
    labels: dict[str, str] = {}
    producer: str = ""


class _AtStep(_Item, frozen=True, kw_only=True):
    name: str
    axis: str = ""
    """Axis of the step; empty for an item without a step."""
    step: int = 0


class Text(_AtStep, frozen=True, kw_only=True):
    text: str


class Table(_AtStep, frozen=True, kw_only=True):
    columns: list[str]
    rows: list[list[Scalar]]


class Histogram(_AtStep, frozen=True, kw_only=True):
    """A distribution counted by a producer: `counts[i]` values from `edges[i]` up to `edges[i + 1]`."""

    edges: list[float]
    counts: list[int]


class Artifact(_AtStep, frozen=True, kw_only=True):
    """A reference to a file: a path on the producer's host, or a URI.

    `kind` is free text; `image` has a meaning.
    """

    uri: str
    kind: str = ""


class Span(_Item, frozen=True, kw_only=True):
    """An event with a start and an end. `time_ns` is the start."""

    name: str
    end_ns: int
    track: str = ""
    labels: dict[str, str] = {}
    producer: str = ""
    source: SpanSource | None = None
    """Process of the producer; null in runs of older versions."""


Item = Step | Reading | Live | Params | Mark | Text | Table | Histogram | Artifact | Span
KINDS: Final[tuple[type[Item], ...]] = (
    *(Step, Reading, Live, Params, Mark),
    *(Text, Table, Histogram, Artifact, Span),
)


def without_gaps(cells: Sequence[tuple[float, float, int]]) -> tuple[list[float], list[int]]:
    """Return edges and counts of neighbouring bins, one edge more than counts. A gap becomes an empty bin."""
    edges, counts = [low for low, _, _ in cells[:1]], []
    for low, high, count in cells:
        if low > edges[-1]:
            edges.append(low)
            counts.append(0)
        edges.append(high)
        counts.append(count)
    return edges, counts
