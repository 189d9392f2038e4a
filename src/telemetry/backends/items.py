"""What a backend is given: the records of a run, and readings of its instruments, in words that trackers know.

Everything is finite but the values of steps: NaN stands for one that was no finite number. Times are wall clock.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from telemetry.wire.events import Closing, Scalar, Spread
from telemetry.wire.snapshot import MetricsSnapshot


class _Item(Struct, frozen=True, kw_only=True):
    key: str
    """Names the item in its run for ever: delivered again, it has the same."""
    time_ns: int


class Step(_Item, frozen=True, kw_only=True):
    """The values of one step of an axis. Steps of an axis mostly come in order; corrections come later."""

    axis: str
    step: int
    values: dict[str, float]
    spread: dict[str, Spread] = {}
    """Of names that several producers reported."""
    closed: Closing = "ended"
    revision: int = 0
    """Above 0: the step was given before, and these values replace or extend its."""


class SeriesReading(Struct, frozen=True, kw_only=True):
    """A distribution of some seconds. Values are in `unit`."""

    name: str
    labels: dict[str, str] = {}
    unit: str = ""
    count: int = 0
    rate: float = 0.0
    """Per second."""
    total: float = 0.0
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    percentiles: dict[str, float] = {}
    """Keys are decimal strings such as "99.9"."""
    cells: list[tuple[float, float, int]] = []
    """(from, to, count): where the values lie, in ascending order."""


class CounterReading(Struct, frozen=True, kw_only=True):
    name: str
    labels: dict[str, str] = {}
    unit: str = ""
    value: float = 0.0
    """Since the run's start."""
    rate: float = 0.0
    """Per second, of these seconds."""


class GaugeReading(Struct, frozen=True, kw_only=True):
    name: str
    labels: dict[str, str] = {}
    unit: str = ""
    value: float = 0.0


class Reading(_Item, frozen=True, kw_only=True):
    """All instruments over some seconds that end at `time_ns`. With `final`, over the whole run: the result."""

    elapsed_s: float
    """Since the run's start."""
    seconds: float
    """What it is about."""
    series: list[SeriesReading] = []
    counters: list[CounterReading] = []
    gauges: list[GaugeReading] = []
    final: bool = False


class Live(_Item, frozen=True, kw_only=True):
    """The newest snapshot, older ones are passed over: for backends that are asked and not told."""

    snapshot: MetricsSnapshot


class Params(_Item, frozen=True, kw_only=True):
    """Settings of the run, flat; later ones replace those of the same name."""

    values: dict[str, Scalar]


class Mark(_Item, frozen=True, kw_only=True):
    """A moment worth a line."""

    text: str
    labels: dict[str, str] = {}
    producer: str = ""


class _AtStep(_Item, frozen=True, kw_only=True):
    name: str
    axis: str = ""
    """Empty: it belongs to no step."""
    step: int = 0


class Text(_AtStep, frozen=True, kw_only=True):
    text: str


class Table(_AtStep, frozen=True, kw_only=True):
    columns: list[str]
    rows: list[list[Scalar]]


class Histogram(_AtStep, frozen=True, kw_only=True):
    """A distribution that a producer counted itself: `counts[i]` values from `edges[i]` up to `edges[i + 1]`."""

    edges: list[float]
    counts: list[int]


class Artifact(_AtStep, frozen=True, kw_only=True):
    """A file by reference: a path of its producer's host, or a URI. `kind` is any word; `image` is known."""

    uri: str
    kind: str = ""


class Span(_Item, frozen=True, kw_only=True):
    """Something with a beginning and an end; `time_ns` is the beginning."""

    name: str
    end_ns: int
    track: str = ""
    labels: dict[str, str] = {}
    producer: str = ""


Item = Step | Reading | Live | Params | Mark | Text | Table | Histogram | Artifact | Span
KINDS: Final[tuple[type[Item], ...]] = (
    *(Step, Reading, Live, Params, Mark),
    *(Text, Table, Histogram, Artifact, Span),
)
