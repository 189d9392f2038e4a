"""Messages of producers: batches of rows (the hot path) and of records (the cold path)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

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
Groups = Annotated[
    dict[
        Annotated[str, Meta(min_length=1, max_length=limits.LABEL_KEY_CHARS)],
        int | Annotated[str, Meta(max_length=limits.LABEL_VALUE_CHARS)],
    ],
    Meta(max_length=limits.LABEL_COUNT),
]
"""Name of a dimension, such as `pp`, `dp` or `node` → the number or name of the group in it."""
Kind = Literal["counter", "gauge", "series"]
KINDS: Final[tuple[Kind, ...]] = ("counter", "gauge", "series")
Scalar = Text | int | float | bool | None
ProducerId = Annotated[str, Meta(min_length=1, max_length=limits.PRODUCER_ID_CHARS)]
RunId = Annotated[str, Meta(pattern=rf"^[A-Za-z0-9_-]{{1,{limits.RUN_ID_CHARS}}}(?!\n)$")]
"""Id of a run. Folders and files are named after it, so it must not be a path."""
Natural = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Step = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Digits = Annotated[int, Meta(ge=1, le=5)]
"""Significant decimal digits of a series."""
Bound = Annotated[float, Meta(ge=limits.LOWEST_BOUND, le=limits.HIGHEST_BOUND)]
Reduction = Literal["last", "mean", "sum", "min", "max"]
REDUCTIONS: Final[tuple[Reduction, ...]] = ("last", "mean", "sum", "min", "max")
ClosingRule = Literal["ended", "reported"]
CLOSING_RULES: Final[tuple[ClosingRule, ...]] = ("ended", "reported")
"""Rules by which the steps of an axis close.

`ended`: a step closes when all its producers have ended it. `reported`: it closes when one producer says `step_end`
for this very step.
"""
Closing = Literal["ended", "timeout", "run_end", "late"]
"""Reason why a step was closed.

`ended`: its producers ended it, or one reported it. `timeout`: a producer did not end it in time, or too many steps
were open. `run_end`: the run ended. `late`: values arrived after it was closed.
"""
AxisName = Annotated[str, Meta(max_length=limits.NAME_CHARS)]
"""Name of an axis; empty if the record belongs to no step."""
Drops = Annotated[
    dict[Annotated[str, Meta(min_length=1, max_length=limits.REASON_CHARS)], Natural],
    Meta(max_length=limits.DROP_REASONS),
]
"""Events that a producer dropped since its start, by reason."""


DEFAULT_AXIS: Final = "step"
"""Axis of programs that count one kind of step only."""


class BaseRecord(Struct, array_like=True, frozen=True, gc=False):
    """A record. Times are the producer's monotonic clock in nanoseconds; 0 means "when the batch was made"."""


class Define(BaseRecord, tag="define", frozen=True):
    """The binding of a row id of this producer to an instrument.

    A definition is not an event: it has no number and may be repeated.
    """

    id: Annotated[int, Meta(ge=0, lt=limits.PRODUCER_IDS)]
    name: Name
    kind: Kind
    unit: Unit = ""
    labels: Labels = {}
    digits: Digits = limits.DIGITS
    low: Bound | None = None
    high: Bound | None = None
    within: Annotated[str, Meta(max_length=limits.NAME_CHARS)] = ""
    """Name of a series of durations in a unit of time, with the same labels; may be its own name.

    An event of this instrument counts as inside while durations of that series still begin. See
    `telemetry.wire.snapshot.Extent`.
    """


class Sample(BaseRecord, tag="sample", frozen=True):
    """A value of a series, self-describing."""

    name: Name
    value: float
    time_ns: Natural = 0
    unit: Unit = ""
    labels: Labels = {}


class Count(BaseRecord, tag="count", frozen=True):
    """An increment of a counter, self-describing."""

    name: Name
    value: float = 1.0
    time_ns: Natural = 0
    unit: Unit = ""
    labels: Labels = {}


class Gauge(BaseRecord, tag="gauge", frozen=True):
    """A new value of a gauge, self-describing."""

    name: Name
    value: float
    time_ns: Natural = 0
    unit: Unit = ""
    labels: Labels = {}


class Expect(BaseRecord, tag="expect", frozen=True):
    """The total that a counter, the count of a series, or the step of an axis will reach: the base of progress."""

    name: Name
    total: Annotated[float, Meta(ge=0, le=limits.HIGHEST_BOUND)]
    time_ns: Natural = 0


class Axis(BaseRecord, tag="axis", frozen=True):
    """The rule that combines the values of several producers for one step.

    The first declaration of an axis is valid; the default is the mean. Within one producer a later value of a name
    always replaces the earlier one.
    """

    name: Name
    reduce: Reduction = "mean"
    reductions: Annotated[dict[Name, Reduction], Meta(max_length=limits.PARAMS_PER_RECORD)] = {}
    """Other rules for names, or for patterns such as `*/tokens`. The first match applies."""
    time_ns: Natural = 0
    closing: ClosingRule = "ended"
    ranked: Annotated[list[Name], Meta(max_length=limits.RANKED_NAMES)] = []
    """Names whose values a closed step keeps one by one, for each rank."""
    groups: Groups = {}
    """Groups of the process that declares, such as `{"pp": 3, "node": "n3"}`. They hold for its rank alone."""
    rank: int | None = None
    """Rank of that process; null if it has none: then its id stands for it."""


class Mark(BaseRecord, tag="mark", frozen=True):
    """A text for one moment of the run."""

    text: Text
    time_ns: Natural = 0
    labels: Labels = {}


class Params(BaseRecord, tag="params", frozen=True):
    """Settings of the run in one flat map; nested names are joined with dots."""

    values: Annotated[dict[Name, Scalar], Meta(max_length=limits.PARAMS_PER_RECORD)]
    time_ns: Natural = 0


class Scalars(BaseRecord, tag="scalars", frozen=True):
    """Values of one step on a named axis; null stands for a value that was not finite."""

    axis: Name
    step: Step
    values: Annotated[dict[Name, float | None], Meta(max_length=limits.PARAMS_PER_RECORD)]
    time_ns: Natural = 0


class StepEnd(BaseRecord, tag="step_end", frozen=True):
    """A producer's notice that it has reported all its values for a step and for the steps before it.

    On an axis that closes by reports, it closes this step alone.
    """

    axis: Name
    step: Step
    time_ns: Natural = 0


class StepClear(BaseRecord, tag="step_clear", frozen=True):
    """A request to forget the values of an open step, or of all open steps of the axis. Closed steps stay."""

    axis: Name
    step: Step | None = None
    time_ns: Natural = 0


Rank = int | str
"""Rank of a producer, or its id if it has none."""


class Spread(Struct, array_like=True, frozen=True, gc=False):
    """The spread of the values that several producers reported for one name in one step."""

    count: Natural
    min: float
    max: float
    mean: float
    lowest: ProducerId
    highest: ProducerId


class ClosedStep(BaseRecord, tag="step", frozen=True):
    """A closed step of an axis, with the values of all producers. Made by the aggregator only."""

    axis: Name
    step: Step
    values: dict[Name, float | None]
    spread: dict[Name, Spread] = {}
    """Spread of each name that more than one producer reported."""
    producers: Natural = 1
    """Number of producers that reported a value."""
    closed: Closing = "ended"
    revision: Natural = 0
    """Above 0: a correction of a step that was already published; `values` holds only the changes."""
    ranks: dict[Name, list[tuple[Rank, float]]] = {}
    """Values of `Axis.ranked` names, each with the rank that reported it, in order of ranks."""


class SpanSource(Struct, array_like=True, frozen=True, gc=False):
    """The process that recorded a span. The aggregator that it sends to fills this in."""

    wall_ns: Natural = 0
    """Start of the span on the wall clock of the process; 0 if unknown."""
    name: Annotated[str, Meta(max_length=limits.NAME_CHARS)] = ""
    host: Annotated[str, Meta(max_length=limits.NAME_CHARS)] = ""
    pid: int = 0
    rank: int | None = None


class Span(BaseRecord, tag="span", frozen=True):
    """An activity with a beginning and an end."""

    name: Name
    start_ns: Natural
    end_ns: Natural
    track: Annotated[str, Meta(max_length=limits.NAME_CHARS)] = ""
    labels: Labels = {}
    source: SpanSource | None = None


class Note(BaseRecord, tag="text", frozen=True):
    """A named text."""

    name: Name
    text: Text
    time_ns: Natural = 0
    axis: AxisName = ""
    step: Step = 0


class Table(BaseRecord, tag="table", frozen=True):
    """A small table. Each row has as many cells as there are columns."""

    name: Name
    columns: Annotated[list[Name], Meta(min_length=1, max_length=limits.TABLE_COLUMNS)]
    rows: Annotated[
        list[Annotated[list[Scalar], Meta(max_length=limits.TABLE_COLUMNS)]], Meta(max_length=limits.TABLE_ROWS)
    ]
    time_ns: Natural = 0
    axis: AxisName = ""
    step: Step = 0


class Bins(BaseRecord, tag="bins", frozen=True):
    """A distribution counted by its producer: `counts[i]` values from `edges[i]` up to `edges[i + 1]`."""

    name: Name
    edges: Annotated[list[float], Meta(min_length=2, max_length=limits.BINS + 1)]
    counts: Annotated[list[Natural], Meta(min_length=1, max_length=limits.BINS)]
    time_ns: Natural = 0
    axis: AxisName = ""
    step: Step = 0


class Artifact(BaseRecord, tag="artifact", frozen=True):
    """A file by reference. `kind` is the producer's choice; backends know `image`."""

    name: Name
    uri: Text
    kind: Annotated[str, Meta(max_length=limits.UNIT_CHARS)] = ""
    time_ns: Natural = 0
    axis: AxisName = ""
    step: Step = 0


class Uncounted(BaseRecord, tag="uncounted", frozen=True):
    """A text whose tokens a worker of the aggregator counts, so that counting does not delay the events."""

    text: Annotated[str, Meta(max_length=limits.UNCOUNTED_CHARS)]
    tokens: Name
    """Series that gets the number of tokens."""
    time_ns: Natural = 0
    labels: Labels = {}
    per_token: Annotated[str, Meta(max_length=limits.NAME_CHARS)] = ""
    """Series in ns that gets `span_ns` for each token after the first `skipped`; empty for no series."""
    span_ns: Natural = 0
    skipped: Natural = 0
    number: Natural | None = None
    """Number of the request in its process that the text belongs to, as in the request log; null: not logged."""
    tpot_limit_ns: Natural | None = None
    """Limit for the time per token, which can be judged once the tokens are known; null: no limit."""
    otherwise_good: bool = False
    """True if the request meets all its other limits."""
    producer: Annotated[str, Meta(max_length=limits.PRODUCER_ID_CHARS)] = ""
    """Id of the producer, which the aggregator fills in."""


class Counted(BaseRecord, tag="counted", frozen=True):
    """Processed texts, by number in order of arrival. Their token counts are in records of the same batch."""

    texts: Annotated[list[Natural], Meta(max_length=limits.BATCH_RECORDS)]
    failed: Natural = 0
    """Number of texts that could not be counted."""


class Session(BaseRecord, tag="session", frozen=True):
    """A named moment in the life of the producer, such as `started` or `warm`."""

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
    | StepClear
)
Streamed = (
    Mark | Params | Expect | Scalars | StepEnd | Span | Note | Artifact | Session | Axis | Table | Bins | ClosedStep
)
"""Records of the record stream. Up to 1.1 it had `scalars` and `step_end`; since 1.2 it has closed steps."""
STREAMED: Final = (Mark, Params, Expect, Span, Note, Artifact, Session, Axis, Table, Bins)
"""Record types of producers that are passed on to the record stream unchanged; the others only change numbers."""


class _BatchHead(Struct, array_like=True, frozen=True, gc=False):
    """The fields that come before the rows of a batch.

    Every event of a producer has a number, from 0 up: first the records except `define`, in order, then the rows.
    An event that the producer dropped has a number too, so

        first number of the next batch = `first` + events in this batch + events dropped between the two.
    """

    version: Version
    producer: ProducerId
    seq: Natural
    first: Natural
    anchor: tuple[Natural, Natural]
    """(monotonic, wall) nanoseconds, read together: converts any time of the batch to wall time."""
    dropped: Drops
    records: Annotated[list[Raw], Meta(max_length=limits.BATCH_RECORDS)]


class RawBatch(_BatchHead, frozen=True, gc=False):
    """A frame of topic `ev/1`, as on the wire."""

    rows: Raw
    """A flat array `id, time, value, id, time, value, …`; see `telemetry.wire.rows`."""


class EventBatch(_BatchHead, frozen=True, gc=False):
    """A frame of topic `ev/1` with its rows read."""

    rows: RowArray


class OutgoingBatch(Struct, array_like=True, frozen=True, gc=False):
    """The encoding side of `RawBatch`: values instead of raw bytes."""

    version: Version
    producer: str
    seq: int
    first: int
    anchor: tuple[int, int]
    dropped: dict[str, int]
    records: Sequence[BaseRecord | Raw]
    rows: list[float] | Raw


class StreamRecord(Struct, array_like=True, frozen=True):
    """A frame of topic `rec/1`: a record with its number in the run's contiguous sequence, from 0."""

    version: Version
    run_id: str
    seq: Natural
    producer: str
    wall_ns: int
    record: Streamed
