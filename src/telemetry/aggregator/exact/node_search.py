"""Search over nodes: messages to a leaf with the spans of a pass, and the leaf's answer with its values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry import limits
from telemetry.aggregator.exact.one_pass import (
    BIN_BYTES,
    HIGHEST_ORDINAL,
    VALUE_BYTES,
    OnePass,
    PassPlan,
    SlotColumns,
    ValueRange,
)
from telemetry.aggregator.rows import INDEX_BITS, KIND_CODES
from telemetry.aggregator.series.table import SeriesTable
from telemetry.aggregator.series.ticks import Indices
from telemetry.statistics.hdr.layout import Floats, Integers
from telemetry.wire.nodes import (
    DISAGREES,
    OTHER_LAYOUT,
    Found,
    FoundBins,
    FoundValues,
    Search,
    SearchedRanges,
    SearchedSeries,
    UnfitRanges,
)

_RANGE_BYTES: Final = 34
_SERIES_BYTES: Final = 21
_RANGES_A_PART: Final = limits.SEARCH_PART_BYTES // (_RANGE_BYTES + _SERIES_BYTES)
_KINDS: Final = len(KIND_CODES)


class LeafSeries(NamedTuple):
    """Series that a leaf has defined."""

    ids: Integers
    """Ids of the leaf's definitions."""
    series: Indices
    """Series of the root for each id. Several ids may lead to one series: that of the overflow."""


def leaf_series(routes: NDArray[np.int32]) -> LeafSeries:
    """Return the series of a leaf, given the route of each id."""
    ids = np.flatnonzero((routes >= 0) & (routes >> INDEX_BITS == KIND_CODES["series"]))
    return LeafSeries(ids, routes[ids].astype(np.intp))


class LeafSpans(NamedTuple):
    """Spans of a pass that a leaf is asked for, in the order of their numbers."""

    places: Integers
    """Place of each span in the pass."""
    ids: Integers
    """Id of the leaf's definition for each span."""


def spans_of_leaf(one_pass: OnePass, leaf: LeafSeries) -> LeafSpans:
    """Return the spans of the series that a leaf has defined."""
    series = np.array([span.series for span in one_pass.spans], dtype=np.int64)
    order = np.argsort(series, kind="stable")
    ordered = series[order]
    starts = np.searchsorted(ordered, leaf.series, "left")
    lengths = np.searchsorted(ordered, leaf.series, "right") - starts
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if ends.size else 0
    places = order[np.repeat(starts - ends + lengths, lengths) + np.arange(total)]
    return LeafSpans(places, np.repeat(leaf.ids, lengths))


def search_messages(number: int, one_pass: OnePass, table: SeriesTable, spans: LeafSpans) -> Iterator[Search]:
    """Yield the messages that ask a leaf for spans."""
    total = spans.places.size
    parts = max(1, -(-total // _RANGES_A_PART))
    for part in range(parts):
        chosen = slice(part * _RANGES_A_PART, (part + 1) * _RANGES_A_PART)
        yield _message(number, part, part == parts - 1, one_pass, table, spans.places[chosen], spans.ids[chosen])


def _message(  # noqa: PLR0917 – the parts of one message
    number: int, part: int, last: bool, one_pass: OnePass, table: SeriesTable, places: Integers, ids: Integers
) -> Search:
    asked = [one_pass.spans[index] for index in places.tolist()]
    defined, first, position = np.unique(ids, return_index=True, return_inverse=True)
    layouts = [table.layout_of(asked[at].series) for at in first.tolist()]
    return Search(
        number=number,
        part=part,
        last=last,
        bins=one_pass.bins,
        series=SearchedSeries(
            id=_column(defined, "<u4"),
            digits=_column([layout.digits for layout in layouts], "<u1"),
            ticks=_column([layout.ticks for layout in layouts], "<f8"),
            highest=_column([layout.highest for layout in layouts], "<f8"),
        ),
        ranges=SearchedRanges(
            series=_column(position, "<u4"),
            slot=_column([span.slot for span in asked], "<u4"),
            first=_column([span.first for span in asked], "<i8"),
            last=_column([span.last for span in asked], "<i8"),
            count=_column([span.count for span in asked], "<u8"),
            whole=_column([span.whole for span in asked], "<u1"),
            kept=_column(one_pass.is_kept[places], "<u1"),
        ),
    )


class LeafPass(NamedTuple):
    """A pass of a leaf over its own values."""

    one_pass: OnePass
    numbers: Integers
    """Number of each span, by its place in the pass."""
    own_counts: Integers
    """Number of values of each span by the leaf's histogram; -1 where it can't tell, by place in the pass."""
    other_layout: Integers
    """Numbers of the spans whose series has another layout."""


def leaf_pass(messages: Sequence[Search], table: SeriesTable) -> LeafPass:
    """Return the pass that a search asks for. Raise ValueError if it can't be read or is too large."""
    asked = _read(messages, table)
    has_layout = _has_layout(asked, table)
    fitting, other = np.flatnonzero(has_layout), np.flatnonzero(~has_layout)
    whole, kept = asked.whole[fitting] > 0, asked.kept[fitting] > 0
    slots = asked.slot[fitting]
    index = asked.series[fitting]
    if (slots >= table.slots_of(index)).any():
        raise ValueError("a slot is outside the histogram")
    own = table.slot_counts(index, slots)
    counts = np.minimum(own, asked.counts[fitting])
    bins = messages[0].bins
    _check_memory(int(counts[kept].sum()), int((~kept).sum()) * bins)
    columns = table.slot_columns()
    spans = _own_spans(asked, fitting, counts.tolist(), columns)
    is_kept = kept.tolist()
    plan = PassPlan(
        [span for span, keep in zip(spans, is_kept, strict=True) if keep],
        [span for span, keep in zip(spans, is_kept, strict=True) if not keep],
        bins,
        [],
    )
    one_pass = OnePass(plan, columns)
    line_of = {id(span): line for line, span in enumerate(spans)}
    lines = np.array([line_of[id(span)] for span in one_pass.spans], dtype=np.int64)
    return LeafPass(one_pass, fitting[lines], np.where(whole, own, -1)[lines], other)


def _own_spans(asked: _Asked, chosen: Integers, counts: list[int], columns: SlotColumns) -> list[ValueRange]:
    lines = zip(
        asked.series[chosen].tolist(),
        asked.slot[chosen].tolist(),
        asked.first[chosen].tolist(),
        asked.last[chosen].tolist(),
        counts,
        (asked.whole[chosen] > 0).tolist(),
        strict=True,
    )
    groups, rows = columns.group_of.tolist(), columns.row_of.tolist()
    return [
        ValueRange(series, groups[series], rows[series], slot, first, last, count, (), whole)
        for series, slot, first, last, count, whole in lines
    ]


class _Asked(NamedTuple):
    """Columns of all messages of a search, one entry for each span."""

    series: Indices
    """Ids of the leaf's definitions, then its own series."""
    digits: Integers
    ticks: NDArray[np.float64]
    highest: NDArray[np.float64]
    slot: Integers
    first: Integers
    last: Integers
    counts: Integers
    whole: Integers
    kept: Integers


def _read(messages: Sequence[Search], table: SeriesTable) -> _Asked:
    """Return the columns of a search. Raise ValueError if they don't fit together."""
    asked = _Asked(*(np.concatenate(columns) for columns in zip(*map(_columns, messages), strict=True)))
    if asked.series.size > limits.SEARCH_RANGES:
        raise ValueError("too many ranges")
    numbers, kinds = np.divmod(asked.series, _KINDS)
    if (kinds != KIND_CODES["series"]).any() or (numbers >= len(table)).any():
        raise ValueError("an id is none of a series")
    ordered = (asked.first >= 0) & (asked.first <= asked.last) & (asked.last <= HIGHEST_ORDINAL)
    if not ordered.all() or (asked.counts < 0).any():
        raise ValueError("a range is not possible")
    return asked._replace(series=numbers)


def _columns(message: Search) -> _Asked:
    series, ranges = message.series, message.ranges
    about = [
        read_column(series.id, "<u4"),
        read_column(series.digits, "<u1"),
        read_column(series.ticks, "<f8"),
        read_column(series.highest, "<f8"),
    ]
    of = [
        read_column(ranges.slot, "<u4"),
        read_column(ranges.first, "<i8"),
        read_column(ranges.last, "<i8"),
        read_column(ranges.count, "<i8"),
        read_column(ranges.whole, "<u1"),
        read_column(ranges.kept, "<u1"),
    ]
    position = read_column(ranges.series, "<u4")
    check_sizes(about)
    check_sizes([position, *of])
    if position.max(initial=-1) >= about[0].size:
        raise ValueError("a position is outside the series")
    return _Asked(*(column[position] for column in about), *of)


def _has_layout(asked: _Asked, table: SeriesTable) -> NDArray[np.bool_]:
    """Return whether the own series of each span has the layout of the root's series."""
    layouts = {index: table.layout_of(index) for index in np.unique(asked.series).tolist()}
    own = np.array([layouts[index] for index in asked.series.tolist()], dtype=np.float64).reshape(-1, 3)
    same = (own[:, 0] == asked.digits) & (own[:, 1] == asked.ticks) & (own[:, 2] == asked.highest)
    return np.asarray(same, dtype=np.bool_)


def _check_memory(kept_values: int, bins: int) -> None:
    if max(kept_values * VALUE_BYTES, bins * BIN_BYTES) > limits.EXACT_MEMORY_BYTES:
        raise ValueError("the search needs too much memory")


def read_column(data: bytes, kind: str) -> NDArray[Any]:
    """Return a column as floats or as int64. Raise ValueError if its size does not fit."""
    column = np.frombuffer(data, kind)
    return column if kind == "<f8" else column.astype(np.int64)


def check_sizes(columns: Sequence[NDArray[Any]]) -> None:
    """Raise ValueError unless all columns have the same size."""
    if len({column.size for column in columns}) != 1:
        raise ValueError("columns don't fit together")


def _column(values: Any, kind: str) -> bytes:
    return np.asarray(values).astype(kind).tobytes()


def unfit_numbers(leaf: LeafPass, lacking: Collection[int] = ()) -> tuple[Integers, Integers]:
    """Return the numbers of the spans that the leaf has no right values for, and the reason of each.

    `lacking` are series that it can't give at all.
    """
    spans = leaf.one_pass.spans
    is_lacking = np.array([span.series in lacking for span in spans], dtype=np.bool_)
    disagrees = is_lacking | ((leaf.own_counts >= 0) & (leaf.one_pass.seen != leaf.own_counts))
    numbers = np.concatenate([leaf.numbers[disagrees], leaf.other_layout])
    return numbers, np.repeat([DISAGREES, OTHER_LAYOUT], [int(disagrees.sum()), leaf.other_layout.size])


_VALUES_A_PART: Final = limits.SEARCH_PART_BYTES // 16  # a value has 8 bytes, and number and count of its range 8
_BINS_A_PART: Final = limits.SEARCH_PART_BYTES // 32
_UNFIT_A_PART: Final = limits.SEARCH_PART_BYTES // 5


class LeafAnswer:
    """Answer of a leaf to one search, once all its values were fed. The same values give the same parts."""

    def __init__(self, producer: str, number: int, leaf: LeafPass, lacking: Collection[int] = ()) -> None:
        """Prepare the parts. `lacking` are series that nodes below this leaf can't give."""
        leaf.one_pass.work_off()
        self._head = Found(producer=producer, number=number)
        self._numbers, self._counts, self._values = _kept(leaf)
        self._ends = np.cumsum(self._counts)
        self._bins = _occupied(leaf)
        self._unfit = unfit_numbers(leaf, lacking)
        self._begins = [
            *(("values", start) for start in range(0, self._values.size, _VALUES_A_PART)),
            *(("bins", start) for start in range(0, self._bins[0].size, _BINS_A_PART)),
            *(("unfit", start) for start in range(0, self._unfit[0].size, _UNFIT_A_PART)),
        ]

    @property
    def last(self) -> int:
        """Number of the last part. Part 0, which says that the leaf has the search, is not among the parts."""
        return max(1, len(self._begins))

    def part(self, number: int) -> Found:
        """Return a part, from 1 on."""
        kind, start = self._begins[number - 1] if self._begins else ("values", 0)
        return Found(
            producer=self._head.producer,
            number=self._head.number,
            part=number,
            last=number == self.last,
            values=self._values_from(start) if kind == "values" else FoundValues(),
            bins=self._bins_from(start) if kind == "bins" else FoundBins(),
            unfit=self._unfit_from(start) if kind == "unfit" else UnfitRanges(),
        )

    def _values_from(self, start: int) -> FoundValues:
        end = min(start + _VALUES_A_PART, self._values.size)
        lines = slice(
            int(np.searchsorted(self._ends, start, "right")), int(np.searchsorted(self._ends, end, "left")) + 1
        )
        ends = np.minimum(self._ends[lines], end)
        starts = np.maximum(self._ends[lines] - self._counts[lines], start)
        return FoundValues(
            range=self._numbers[lines].astype("<u4").tobytes(),
            count=(ends - starts).astype("<u4").tobytes(),
            values=self._values[start:end].astype("<f8", copy=False).tobytes(),
        )

    def _bins_from(self, start: int) -> FoundBins:
        number, bin_index, count, low, high = (column[start : start + _BINS_A_PART] for column in self._bins)
        return FoundBins(
            range=number.astype("<u4").tobytes(),
            bin=bin_index.astype("<u4").tobytes(),
            count=count.astype("<u8").tobytes(),
            low=low.astype("<i8").tobytes(),
            high=high.astype("<i8").tobytes(),
        )

    def _unfit_from(self, start: int) -> UnfitRanges:
        numbers, why = (column[start : start + _UNFIT_A_PART] for column in self._unfit)
        return UnfitRanges(range=numbers.astype("<u4").tobytes(), why=why.astype("<u1").tobytes())


def _kept(leaf: LeafPass) -> tuple[Integers, Integers, Floats]:
    """Return number and count of the kept spans with values, and the values of all."""
    one_pass = leaf.one_pass
    regions = [one_pass.kept.region(number) for number in range(one_pass.kept_places.size)]
    sizes = np.array([region.size for region in regions], dtype=np.int64)
    used = np.flatnonzero(sizes)
    values = np.concatenate(regions) if regions else np.zeros(0)
    return leaf.numbers[one_pass.kept_places][used], sizes[used], values


def _occupied(leaf: LeafPass) -> tuple[Integers, Integers, Integers, Integers, Integers]:
    """Return number, bin, count, smallest and largest ordinal of all occupied bins."""
    numbers, bins, counts, lows, highs = leaf.one_pass.narrowing.occupied()
    return leaf.numbers[leaf.one_pass.narrowed_places][numbers], bins, counts, lows, highs


def add_part(one_pass: OnePass, spans: LeafSpans, part: Found) -> set[tuple[int, int]]:
    """Add a part of a leaf's answer to a pass. Return each series that the leaf can't give, with the reason.

    Raise ValueError, with nothing added, if the part can't be right.
    """
    values = _read_values(one_pass, spans, part.values)
    bins = _read_bins(one_pass, spans, part.bins)
    numbers, why = read_column(part.unfit.range, "<u4"), read_column(part.unfit.why, "<u1")
    check_sizes([numbers, why])
    unfit = _places(spans, numbers)
    if values is not None:
        one_pass.feed(*values)
    if bins is not None:
        one_pass.add_bins(*bins)
    lines = zip(unfit.tolist(), why.tolist(), strict=True)
    return {(one_pass.spans[index].series, reason) for index, reason in lines}


def _places(spans: LeafSpans, numbers: Integers) -> Integers:
    if numbers.max(initial=-1) >= spans.places.size:
        raise ValueError("the range was not asked for")
    places: Integers = spans.places[numbers]
    return places


def _read_values(one_pass: OnePass, spans: LeafSpans, part: FoundValues) -> tuple[NDArray[np.intp], Floats] | None:
    """Return the values with their series. The pass itself finds their spans, so that none is in a wrong one."""
    numbers, counts = read_column(part.range, "<u4"), read_column(part.count, "<u4")
    values = read_column(part.values, "<f8")
    check_sizes([numbers, counts])
    places = _places(spans, numbers)
    if int(counts.sum()) != values.size or not one_pass.is_kept[places].all():
        raise ValueError("the values don't fit to their ranges")
    if not values.size:
        return None
    if not (values.min() >= 0 and values.max() < np.inf):  # false for any NaN
        raise ValueError("a value is not possible")
    series = np.array([one_pass.spans[index].series for index in places.tolist()], dtype=np.intp)
    return np.repeat(series, counts), values


def _read_bins(
    one_pass: OnePass, spans: LeafSpans, part: FoundBins
) -> tuple[Integers, Integers, Integers, Integers, Integers] | None:
    """Return place, bin, count, smallest and largest ordinal. Each bin holds only values that belong there."""
    columns = (
        read_column(part.range, "<u4"),
        read_column(part.bin, "<u4"),
        read_column(part.count, "<i8"),
        read_column(part.low, "<i8"),
        read_column(part.high, "<i8"),
    )
    check_sizes(columns)
    numbers, bins, counts, lows, highs = columns
    if not numbers.size:
        return None
    places = _places(spans, numbers)
    most = np.array([one_pass.spans[index].count for index in places.tolist()], dtype=np.int64)
    if one_pass.is_kept[places].any() or (counts < 1).any() or (counts > most).any() or (lows < 0).any():
        raise ValueError("the counts don't fit to their ranges")
    narrowed = one_pass.number[places]
    narrowing = one_pass.narrowing
    inside = (narrowing.bins_of(narrowed, lows) == bins) & (narrowing.bins_of(narrowed, highs) == bins)
    if not inside.all() or (lows > highs).any():
        raise ValueError("a bin has values of another one")
    return places, bins, counts, lows, highs
