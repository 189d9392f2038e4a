"""What producers send: batches of rows (the hot path) and of records (the cold path)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from telemetry import limits
from telemetry.wire.rows import RowArray
from telemetry.wire.version import Version

Name = Annotated[str, Meta(min_length=1, max_length=limits.NAME_CHARS)]
Unit = Annotated[str, Meta(max_length=limits.UNIT_CHARS)]
Text = Annotated[str, Meta(max_length=limits.TEXT_CHARS)]
Labels = Annotated[
    dict[
        Annotated[str, Meta(min_length=1, max_length=limits.LABEL_KEY_CHARS)],
        Annotated[str, Meta(max_length=limits.LABEL_VALUE_CHARS)],
    ],
    Meta(max_length=limits.LABEL_COUNT),
]
Kind = Literal["counter", "gauge", "series"]
KINDS: Final[tuple[Kind, ...]] = ("counter", "gauge", "series")
Scalar = Text | int | float | bool | None
ProducerId = Annotated[str, Meta(min_length=1, max_length=limits.PRODUCER_ID_CHARS)]
Natural = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Step = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Digits = Annotated[int, Meta(ge=1, le=5)]
"""Significant decimal digits of a series."""
Bound = Annotated[float, Meta(ge=limits.LOWEST_BOUND, le=limits.HIGHEST_BOUND)]
Reduction = Literal["last", "mean", "sum", "min", "max"]
REDUCTIONS: Final[tuple[Reduction, ...]] = ("last", "mean", "sum", "min", "max")
Closing = Literal["ended", "timeout", "run_end", "late"]
"""Why a step is said: its producers ended it, or one did not in time, or the run ended, or something came late."""
AxisName = Annotated[str, Meta(max_length=limits.NAME_CHARS)]
"""Empty: the record belongs to no step."""
Drops = Annotated[
    dict[Annotated[str, Meta(min_length=1, max_length=limits.REASON_CHARS)], Natural],
    Meta(max_length=limits.DROP_REASONS),
]
"""Events dropped by a producer since it began, by reason."""


class _Record(Struct, array_like=True, frozen=True, gc=False):
    """Times are the producer's monotonic clock in nanoseconds; 0 means "when the batch was made"."""


class Define(_Record, tag="define", frozen=True):
    """Binds a row id of this producer to an instrument. Not an event: it has no number and may be repeated."""

    id: Annotated[int, Meta(ge=0, lt=limits.PRODUCER_IDS)]
    name: Name
    kind: Kind
    unit: Unit = ""
    labels: Labels = {}
    digits: Digits = 3
    low: Bound | None = None
    high: Bound | None = None
    within: Annotated[str, Meta(max_length=limits.NAME_CHARS)] = ""
    """A series of durations in a unit of time, with the same labels: while they still begin, what this instrument
    records counts as inside. It may name itself. See `telemetry.wire.snapshot.Extent`."""


class Sample(_Record, tag="sample", frozen=True):
    """One value of a series, self-describing."""

    name: Name
    value: float
    time_ns: Natural = 0
    unit: Unit = ""
    labels: Labels = {}


class Count(_Record, tag="count", frozen=True):
    """One increment of a counter, self-describing."""

    name: Name
    value: float = 1.0
    time_ns: Natural = 0
    unit: Unit = ""
    labels: Labels = {}


class Gauge(_Record, tag="gauge", frozen=True):
    """One new value of a gauge, self-describing."""

    name: Name
    value: float
    time_ns: Natural = 0
    unit: Unit = ""
    labels: Labels = {}


class Expect(_Record, tag="expect", frozen=True):
    """The total a counter, or the count a series, will reach: the base of progress."""

    name: Name
    total: Annotated[float, Meta(ge=0, le=limits.HIGHEST_BOUND)]
    time_ns: Natural = 0


class Axis(_Record, tag="axis", frozen=True):
    """How several producers' values of one step become one. The first declaration of an axis stands; without one it
    is the mean. A producer's own later value of a name replaces its earlier one in any case."""

    name: Name
    reduce: Reduction = "mean"
    reductions: Annotated[dict[Name, Reduction], Meta(max_length=limits.PARAMS_PER_RECORD)] = {}
    """Names, or patterns such as `*/tokens`, that are put together otherwise. The first that fits counts."""
    time_ns: Natural = 0


class Mark(_Record, tag="mark", frozen=True):
    """A moment worth a line."""

    text: Text
    time_ns: Natural = 0
    labels: Labels = {}


class Params(_Record, tag="params", frozen=True):
    """Settings of the run, one flat map; nested ones are joined with dots."""

    values: Annotated[dict[Name, Scalar], Meta(max_length=limits.PARAMS_PER_RECORD)]
    time_ns: Natural = 0


class Scalars(_Record, tag="scalars", frozen=True):
    """Values of one step on a named axis; null stands for a value that was no finite number."""

    axis: Name
    step: Step
    values: Annotated[dict[Name, float | None], Meta(max_length=limits.PARAMS_PER_RECORD)]
    time_ns: Natural = 0


class StepEnd(_Record, tag="step_end", frozen=True):
    """This producer has reported all it has for a step, and for those before it."""

    axis: Name
    step: Step
    time_ns: Natural = 0


class Spread(Struct, array_like=True, frozen=True, gc=False):
    """What several producers reported of one name in one step."""

    count: Natural
    min: float
    max: float
    mean: float
    lowest: ProducerId
    highest: ProducerId


class ClosedStep(_Record, tag="step", frozen=True):
    """A step of an axis, with the values of all producers. The aggregator alone makes it."""

    axis: Name
    step: Step
    values: dict[Name, float | None]
    spread: dict[Name, Spread] = {}
    """Of names that more than one producer reported."""
    producers: Natural = 1
    """How many reported something."""
    closed: Closing = "ended"
    revision: Natural = 0
    """Above 0: the step was said before, and `values` holds only what has changed since."""


class Span(_Record, tag="span", frozen=True):
    """Something with a beginning and an end."""

    name: Name
    start_ns: Natural
    end_ns: Natural
    track: Annotated[str, Meta(max_length=limits.NAME_CHARS)] = ""
    labels: Labels = {}


class Note(_Record, tag="text", frozen=True):
    """A named piece of text."""

    name: Name
    text: Text
    time_ns: Natural = 0
    axis: AxisName = ""
    step: Step = 0


class Table(_Record, tag="table", frozen=True):
    """A small table. Each row has as many cells as there are columns."""

    name: Name
    columns: Annotated[list[Name], Meta(min_length=1, max_length=limits.TABLE_COLUMNS)]
    rows: Annotated[
        list[Annotated[list[Scalar], Meta(max_length=limits.TABLE_COLUMNS)]], Meta(max_length=limits.TABLE_ROWS)
    ]
    time_ns: Natural = 0
    axis: AxisName = ""
    step: Step = 0


class Bins(_Record, tag="bins", frozen=True):
    """A distribution that a producer counted itself: `counts[i]` values from `edges[i]` up to `edges[i + 1]`."""

    name: Name
    edges: Annotated[list[float], Meta(min_length=2, max_length=limits.BINS + 1)]
    counts: Annotated[list[Natural], Meta(min_length=1, max_length=limits.BINS)]
    time_ns: Natural = 0
    axis: AxisName = ""
    step: Step = 0


class Artifact(_Record, tag="artifact", frozen=True):
    """A file by reference. `kind` is a word of the producer's choice; `image` is known to backends."""

    name: Name
    uri: Text
    kind: Annotated[str, Meta(max_length=limits.UNIT_CHARS)] = ""
    time_ns: Natural = 0
    axis: AxisName = ""
    step: Step = 0


class Uncounted(_Record, tag="uncounted", frozen=True):
    """Text whose tokens somebody else is to count: a worker of the aggregator, off the way of the events."""

    text: Annotated[str, Meta(max_length=limits.UNCOUNTED_CHARS)]
    tokens: Name
    """The series that gets their number."""
    time_ns: Natural = 0
    labels: Labels = {}
    per_token: Annotated[str, Meta(max_length=limits.NAME_CHARS)] = ""
    """A series in ns that gets `span_ns` for each token but the first `skipped`; empty for none."""
    span_ns: Natural = 0
    skipped: Natural = 0


class Counted(_Record, tag="counted", frozen=True):
    """Texts that are done, by their numbers in order of arrival. What they came to is in the records beside it."""

    texts: Annotated[list[Natural], Meta(max_length=limits.BATCH_RECORDS)]
    failed: Natural = 0
    """How many of them could not be counted."""


class Session(_Record, tag="session", frozen=True):
    """A named moment of the producer's own life, such as `started` or `warm`."""

    event: Name
    time_ns: Natural = 0


EventRecord = (
    Define
    | Sample
    | Count
    | Gauge
    | Expect
    | Mark
    | Params
    | Scalars
    | StepEnd
    | Span
    | Note
    | Artifact
    | Session
    | Uncounted
    | Counted
    | Axis
    | Table
    | Bins
)
Streamed = (
    Mark | Params | Expect | Scalars | StepEnd | Span | Note | Artifact | Session | Axis | Table | Bins | ClosedStep
)
"""What the record stream carries. Scalars and their ends were in it until 1.1; since 1.2 steps are."""
STREAMED: Final = (Mark, Params, Expect, Span, Note, Artifact, Session, Axis, Table, Bins)
"""Record types of producers that go on to the record stream as they are; the others only change numbers."""


class _BatchHead(Struct, array_like=True, frozen=True, gc=False):
    """Every event of a producer has a number, from 0 up: first the records but for `define`, in order, then the
    rows. An event that the producer itself dropped has a number too, so that

        first number of the next batch = `first` + events in this batch + events dropped between the two.
    """

    version: Version
    producer: ProducerId
    seq: Natural
    first: Natural
    anchor: tuple[Natural, Natural]
    """(monotonic, wall) nanoseconds, read together: turns any time of the batch into wall time."""
    dropped: Drops
    records: Annotated[list[Raw], Meta(max_length=limits.BATCH_RECORDS)]


class RawBatch(_BatchHead, frozen=True, gc=False):
    """One frame of topic `ev/1`, as it is on the wire."""

    rows: Raw
    """A flat array `id, time, value, id, time, value, …`; see `telemetry.wire.rows`."""


class EventBatch(_BatchHead, frozen=True, gc=False):
    """The same, with its rows looked at."""

    rows: RowArray


class OutgoingBatch(Struct, array_like=True, frozen=True, gc=False):
    """The encoding side of `RawBatch`: values instead of raw bytes."""

    version: Version
    producer: str
    seq: int
    first: int
    anchor: tuple[int, int]
    dropped: dict[str, int]
    records: Sequence[EventRecord | Raw]
    rows: list[float]


class StreamRecord(Struct, array_like=True, frozen=True):
    """One frame of topic `rec/1`: a record with its place in the run's one contiguous sequence, from 0."""

    version: Version
    run_id: str
    seq: Natural
    producer: str
    wall_ns: int
    record: Streamed


RECORD_DECODER: Final[msgspec.msgpack.Decoder[EventRecord]] = msgspec.msgpack.Decoder(EventRecord)
