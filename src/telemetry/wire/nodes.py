"""Records of a leaf for its root, and the root's search for exact values in the journals of its nodes."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw, Struct

from telemetry import limits
from telemetry.wire.events import BaseRecord, Closing, EventRecord, Name, Natural, ProducerId, Rank, Step, Text
from telemetry.wire.request_log import RequestRecord
from telemetry.wire.snapshot import Accounting, Completeness

# --- columns of an interval ----------------------------------------------------------------------


class SeriesSums(Struct, array_like=True, frozen=True):
    """Series with at least one value in the interval, by ascending id."""

    id: bytes = b""  # u32
    count: bytes = b""  # u64
    total: bytes = b""  # f64
    rest: bytes = b""  # f64: rounding error of `total`; for integers, the sum of both is exact
    mean: bytes = b""  # f64
    squares: bytes = b""  # f64: sum of squared deviations from `mean`
    min: bytes = b""  # f64
    max: bytes = b""  # f64
    integral: bytes = b""  # u8: 1 if all values of the run so far are integers below 2**53
    imprecise: bytes = b""  # u64: integers beyond 2**53
    below: bytes = b""  # u64: values outside the range
    above: bytes = b""  # u64
    occupied: bytes = b""  # u32: histogram slots of each series that follow
    slots: bytes = b""  # u32: HDR slots, ascending within a series
    counts: bytes = b""  # u32: their counts
    first_ns: bytes = b""  # i64: beginning of the first value of the run so far; 0: unknown
    last_ns: bytes = b""  # i64: time of its last value


class CounterSums(Struct, array_like=True, frozen=True):
    """Counters with at least one increment in the interval, by ascending id."""

    id: bytes = b""  # u32
    events: bytes = b""  # u64
    whole: bytes = b""  # i64: sum of the increments that are integers
    huge: bytes = b""  # f64: part of that sum that does not fit into `whole`
    fraction: bytes = b""  # f64: sum of the other increments
    fractional: bytes = b""  # u8: 1 if the run so far has increments that are no integers
    imprecise: bytes = b""  # u64
    first_ns: bytes = b""  # i64: as of series
    last_ns: bytes = b""  # i64


class GaugeSums(Struct, array_like=True, frozen=True):
    """Gauges that were set in the interval, by ascending id."""

    id: bytes = b""  # u32
    events: bytes = b""  # u64
    value: bytes = b""  # f64: newest by time
    time_ns: bytes = b""  # i64: its time
    min: bytes = b""  # f64: over the run so far
    max: bytes = b""  # f64
    imprecise: bytes = b""  # u64


class ExtentSums(Struct, array_like=True, frozen=True):
    """Extents that changed in the interval, by ascending id of their instrument."""

    id: bytes = b""  # u32
    first_ns: bytes = b""  # i64
    last_ns: bytes = b""  # i64
    last_done_ns: bytes = b""  # i64
    end_ns: bytes = b""  # i64
    inside: bytes = b""  # u64: increase since the last interval
    inside_total: bytes = b""  # f64: the same


# --- records -------------------------------------------------------------------------------------


class NodeInterval(BaseRecord, tag="interval", frozen=True):
    """Sums of the values in one interval of a leaf, or in several intervals together.

    An interval with many series is split over several records of equal `roll`.
    """

    roll: Natural
    """Number of the last interval that it covers."""
    start_ns: Natural
    end_ns: Natural
    series: SeriesSums = SeriesSums()
    counters: CounterSums = CounterSums()
    gauges: GaugeSums = GaugeSums()
    extents: ExtentSums = ExtentSums()


class NodeAccount(BaseRecord, tag="node", frozen=True):
    """Account of a leaf and all its producers at the end of an interval. Replaces the one before."""

    roll: Natural
    values: Natural
    """Number of values in all intervals so far: series values, increments and gauge values."""
    account: Accounting
    producers: Natural = 0
    """Number of producers that the leaf has had."""
    completeness: Completeness = "incomplete"
    """Completeness of the leaf's numbers if its run ended now."""
    final: bool = False
    """True once the leaf's books are closed. No value follows."""
    owing: Annotated[list[ProducerId], Meta(max_length=limits.NODE_OWING)] = []
    """Producers that have not ended, or were still recording at the end: the first ones."""
    reason: Text = ""
    """Reason why the leaf's run ended."""
    hindrance: Text = ""
    """Reason why the leaf's journal can't give exact percentiles; empty if it can."""
    clock_error_ns: Natural = 0
    """Upper bound of the error with which the leaf's clock is known to the root; 0: unknown."""
    endpoint: Text = ""
    directory: Text = ""
    nodes: Natural = 0
    """Number of nodes below the leaf, if it is a root itself."""
    warnings: Annotated[list[Text], Meta(max_length=limits.NODE_WARNINGS)] = []


class Member(BaseRecord, tag="member", frozen=True):
    """A producer of the leaf, as it introduced itself."""

    producer: ProducerId
    name: Annotated[str, Meta(max_length=limits.NAME_CHARS)] = ""
    host: Annotated[str, Meta(max_length=limits.NAME_CHARS)] = ""
    pid: Natural = 0
    rank: int | None = None


class Relay(BaseRecord, tag="relay", frozen=True):
    """A record of the leaf's record stream, such as a mark, for the root's record stream."""

    producer: Annotated[str, Meta(max_length=limits.PRODUCER_ID_CHARS)]
    wall_ns: Natural
    record: Raw


class PartialValue(Struct, array_like=True, frozen=True, gc=False):
    """Values of one name in one step, of all producers of a leaf that have a number for it."""

    count: Natural
    sum: float
    """Infinite if the sum does not fit in a float."""
    rest: float
    """Rounding error of `sum`. If `sum` is infinite: the mean."""
    min: float
    max: float
    lowest: ProducerId
    """Producer with the minimum; of several, the first by id."""
    highest: ProducerId
    last: float
    """Newest value by time, then by producer id."""
    last_ns: Natural
    last_producer: ProducerId


class StepPart(BaseRecord, tag="step_part", frozen=True):
    """A leaf's share of a step: one partial value for each name, of all producers of the leaf.

    A part replaces the values of the same names in parts of this step with lower numbers. A part without values
    only tells which steps the leaf has ended.
    """

    axis: Name
    step: Step
    values: Annotated[dict[Name, PartialValue | None], Meta(max_length=limits.PARAMS_PER_RECORD)]
    """Null if no producer has a finite value."""
    wall_ns: Natural = 0
    """Time of the newest value."""
    producers: Natural = 1
    """Number of producers that reported a value."""
    ended: bool = True
    """True if the leaf waits for none of its producers in this step and all lower ones.

    On an axis whose steps close by reports: true if a producer of the leaf has reported this step.
    """
    ranks: dict[Name, list[tuple[Rank, float]]] = {}
    number: Natural = 0
    """Number of the part among all parts of the leaf on this axis."""
    closed: Closing = "ended"
    """Reason why the leaf closed the step."""
    cleared: bool = False
    """True if the values of earlier parts of this step are to be forgotten, unless the step is closed."""
    left: bool = False
    """True if no producer of the leaf is left on the axis, so that no step waits for the leaf."""
    first_ns: Natural = 0
    """Time of the oldest value of the step; 0 if unknown."""
    not_finite: Annotated[list[Name], Meta(max_length=limits.PARAMS_PER_RECORD)] = []
    """Names among `values` that some producer reported without a finite number."""


NodeRecord = NodeInterval | NodeAccount | Member | Relay | StepPart
NODE_RECORDS: Final = (NodeInterval, NodeAccount, Member, Relay, StepPart)
"""Record types that only a leaf sends. They are events of the leaf, but none of the run."""

BatchRecord = EventRecord | NodeRecord | RequestRecord
"""Every record that a batch may have."""
RECORD_DECODER: Final[msgspec.msgpack.Decoder[BatchRecord]] = msgspec.msgpack.Decoder(BatchRecord)


DISAGREES: Final = 1
"""Reason of a leaf: its journal and its histogram have different numbers of values."""
OTHER_LAYOUT: Final = 2
"""Reason of a leaf: its series has other digits, ticks or another upper bound than that of the root."""


class _Message(Struct, kw_only=True, frozen=True, tag_field="type"):
    id: int = 0


class SearchedSeries(Struct, array_like=True, frozen=True):
    """Series of a leaf, and the layout of the root's histogram."""

    id: bytes = b""  # u32: id of the leaf's definition
    digits: bytes = b""  # u8
    ticks: bytes = b""  # f64: number of ticks in one unit
    highest: bytes = b""  # f64: last tick of the range


class SearchedRanges(Struct, array_like=True, frozen=True):
    """Ranges of values. Each lies in one slot of a histogram.

    The ranges of all messages of a search are numbered from 0.
    """

    series: bytes = b""  # u32: position in the series of the same message
    slot: bytes = b""  # u32
    first: bytes = b""  # i64: ordinal of the smallest value
    last: bytes = b""  # i64: ordinal of the largest value
    count: bytes = b""  # u64: number of values of all nodes together
    whole: bytes = b""  # u8: 1 for all values of the slot, whatever `first` and `last` are
    kept: bytes = b""  # u8: 1 if the values are wanted, 0 if counts are


class Search(_Message, tag="search", kw_only=True, frozen=True):
    """A push of the root to a leaf: ranges of values that hold wanted percentiles."""

    number: Natural
    """Number of the search. A new number replaces the search before."""
    part: Annotated[int, Meta(ge=0, lt=limits.SEARCH_PARTS)] = 0
    last: bool = True
    bins: Annotated[int, Meta(ge=1, le=limits.SEARCH_BINS)] = 1
    """Number of bins into which a range is divided if its values are not kept."""
    series: SearchedSeries = SearchedSeries()
    ranges: SearchedRanges = SearchedRanges()


class FoundValues(Struct, array_like=True, frozen=True):
    """Values of ranges that are kept."""

    range: bytes = b""  # u32: number of the range
    count: bytes = b""  # u32: how many of the values that follow are in it
    values: bytes = b""  # f64


class FoundBins(Struct, array_like=True, frozen=True):
    """Occupied bins of ranges that are counted."""

    range: bytes = b""  # u32: number of the range
    bin: bytes = b""  # u32
    count: bytes = b""  # u64
    low: bytes = b""  # i64: ordinal of the smallest value in the bin
    high: bytes = b""  # i64: ordinal of the largest value in the bin


class UnfitRanges(Struct, array_like=True, frozen=True):
    """Ranges for which the leaf can't give the right values."""

    range: bytes = b""  # u32
    why: bytes = b""  # u8: DISAGREES or OTHER_LAYOUT


class Found(_Message, tag="found", kw_only=True, frozen=True):
    """A part of a leaf's answer to `search`. The next part follows once this one is answered with `noted`.

    Part 0 is empty: the leaf has the whole search. It is repeated while the leaf works.
    """

    producer: ProducerId
    number: Natural
    part: Natural = 0
    last: bool = False
    reason: Text = ""
    """Reason why the leaf can't answer; empty if it can."""
    values: FoundValues = FoundValues()
    bins: FoundBins = FoundBins()
    unfit: UnfitRanges = UnfitRanges()
