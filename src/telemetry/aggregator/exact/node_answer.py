"""Answer to a search over nodes: the values of a leaf as messages, and these messages in the pass of the root."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
from numpy.typing import NDArray

from telemetry import limits
from telemetry.aggregator.exact.node_search import LeafPass, LeafSpans, check_sizes, read_column, unfit_numbers
from telemetry.aggregator.exact.one_pass import OnePass
from telemetry.statistics.hdr.layout import Floats, Integers
from telemetry.wire.search import Found, FoundBins, FoundValues, UnfitRanges

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
