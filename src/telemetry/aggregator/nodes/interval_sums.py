"""Several intervals as one of the same meaning.

Integers are added exactly. Floats are added exactly and rounded once, so only mean and squares depend on the order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from telemetry.aggregator.nodes.columns import (
    CounterArrays,
    ExtentArrays,
    Floats,
    GaugeArrays,
    Integers,
    SeriesArrays,
    divide_counts,
)

_Arrays = TypeVar("_Arrays", SeriesArrays, CounterArrays, GaugeArrays, ExtentArrays)
_FIT: Final = 1 << 62
_MANTISSA: Final = 53
_LARGEST_BITS: Final = 1_024
"""Bits of integers that no float can hold."""


class _LineGroups(NamedTuple):
    """Lines of equal ids side by side."""

    order: NDArray[np.intp]
    """Lines by id; equal ids in the order in which they came."""
    starts: NDArray[np.intp]
    ids: Integers
    group_of: NDArray[np.intp]
    """Group of each line in `order`."""

    def add(self, column: NDArray[Any]) -> NDArray[Any]:
        return np.add.reduceat(column[self.order], self.starts)

    def least(self, column: NDArray[Any]) -> NDArray[Any]:
        return np.minimum.reduceat(column[self.order], self.starts)

    def greatest(self, column: NDArray[Any]) -> NDArray[Any]:
        return np.maximum.reduceat(column[self.order], self.starts)

    def parts(self, column: NDArray[Any]) -> Iterable[list[Any]]:
        values = column[self.order].tolist()
        ends = [*self.starts.tolist()[1:], len(values)]
        return (values[start:end] for start, end in zip(self.starts.tolist(), ends, strict=True))


def join_series(parts: Sequence[SeriesArrays]) -> SeriesArrays:
    """Return lines with distinct, ascending ids."""
    sums = _concatenated(parts)
    if not sums.id.size:
        return sums
    groups = _grouped(sums.id)
    count = groups.add(sums.count)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, squares = _spread(groups, sums, count)
    total, rest = _totals(groups, sums)
    least, most = groups.least(sums.min), groups.greatest(sums.max)
    occupied, slots, counts = _slots(groups, sums)
    return SeriesArrays(
        id=groups.ids,
        count=count,
        total=total,
        rest=rest,
        mean=np.clip(mean, least, most),
        squares=squares,
        min=least,
        max=most,
        integral=np.logical_and.reduceat(sums.integral[groups.order], groups.starts),
        imprecise=groups.add(sums.imprecise),
        below=groups.add(sums.below),
        above=groups.add(sums.above),
        occupied=occupied,
        slots=slots,
        counts=counts,
        first_ns=groups.least(sums.first_ns),
        last_ns=groups.greatest(sums.last_ns),
    )


def join_counters(parts: Sequence[CounterArrays]) -> CounterArrays:
    """Return lines with distinct, ascending ids."""
    sums = _concatenated(parts)
    if not sums.id.size:
        return sums
    groups = _grouped(sums.id)
    if sums.huge.any() or int(sums.whole.max()) > _FIT // sums.id.size:
        integers = np.array(sums.integers(), dtype=object)
        pairs = [split_integer(sum(numbers)) for numbers in groups.parts(integers)]
        whole, huge = np.array([pair[0] for pair in pairs], np.int64), np.array([pair[1] for pair in pairs])
    else:
        whole, huge = groups.add(sums.whole), np.zeros(groups.ids.size)
    fractions = [exact_sum(numbers)[0] for numbers in groups.parts(sums.fraction)]
    return CounterArrays(
        id=groups.ids,
        events=groups.add(sums.events),
        whole=whole,
        huge=huge,
        fraction=np.array(fractions),
        fractional=np.logical_or.reduceat(sums.fractional[groups.order], groups.starts),
        imprecise=groups.add(sums.imprecise),
        first_ns=groups.least(sums.first_ns),
        last_ns=groups.greatest(sums.last_ns),
    )


def join_gauges(parts: Sequence[GaugeArrays]) -> GaugeArrays:
    """Return lines with distinct, ascending ids. The newest value wins, and of equal times the later line."""
    sums = _concatenated(parts)
    if not sums.id.size:
        return sums
    groups = _grouped(sums.id)
    times = sums.time_ns[groups.order]
    newest = np.lexsort((np.arange(times.size), times, groups.group_of))
    last = groups.order[newest[np.append(groups.starts[1:], times.size) - 1]]
    return GaugeArrays(
        id=groups.ids,
        events=groups.add(sums.events),
        value=sums.value[last],
        time_ns=sums.time_ns[last],
        min=groups.least(sums.min),
        max=groups.greatest(sums.max),
        imprecise=groups.add(sums.imprecise),
    )


def join_extents(parts: Sequence[ExtentArrays]) -> ExtentArrays:
    """Return lines with distinct, ascending ids."""
    sums = _concatenated(parts)
    if not sums.id.size:
        return sums
    groups = _grouped(sums.id)
    last = groups.greatest(sums.last_ns)
    began_last = sums.last_ns[groups.order] == last[groups.group_of]
    done = np.where(began_last, sums.last_done_ns[groups.order], -1)
    return ExtentArrays(
        id=groups.ids,
        first_ns=groups.least(sums.first_ns),
        last_ns=last,
        last_done_ns=np.maximum.reduceat(done, groups.starts),
        end_ns=groups.greatest(sums.end_ns),
        inside=groups.add(sums.inside),
        inside_total=np.array([exact_sum(numbers)[0] for numbers in groups.parts(sums.inside_total)]),
    )


def exact_sum(numbers: list[float]) -> tuple[float, float]:
    """Return the sum rounded once, and its rounding error. Infinite after an overflow."""
    if len(numbers) == 1:
        return numbers[0], 0.0
    try:
        total = math.fsum(numbers)
        return (total, math.fsum([*numbers, -total])) if math.isfinite(total) else (math.inf, 0.0)
    except OverflowError:
        return math.inf, 0.0


def split_integer(number: int) -> tuple[int, float]:
    """Return an integer as a sum of 64 bits and of a float. What fits into neither of them is left out."""
    if number < _FIT:
        return number, 0.0
    if number.bit_length() > _LARGEST_BITS:
        number = (1 << _LARGEST_BITS) - 1
    dropped_bits = max(0, number.bit_length() - _MANTISSA)
    huge = number >> dropped_bits << dropped_bits
    rest = number - huge
    return (rest if rest < _FIT else _FIT - 1), float(huge)


def _concatenated(parts: Sequence[_Arrays]) -> _Arrays:
    if len(parts) == 1:
        return parts[0]
    columns = zip(*(part.columns() for part in parts), strict=True)
    return parts[0].of(np.concatenate(column) for column in columns)


def _grouped(ids: Integers) -> _LineGroups:
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    first = np.diff(ordered, prepend=-1) != 0
    starts = np.flatnonzero(first)
    return _LineGroups(order, starts, ordered[starts], np.cumsum(first) - 1)


def _spread(groups: _LineGroups, sums: SeriesArrays, count: Integers) -> tuple[Floats, Floats]:
    """Return mean and squared deviations. Means are taken as distances to the first one, which are small."""
    lines, mean = sums.count[groups.order].astype(np.float64), sums.mean[groups.order]
    base = mean[groups.starts]
    distance = mean - base[groups.group_of]
    offset = np.add.reduceat(lines * distance, groups.starts) / count
    between = lines * (distance - offset[groups.group_of]) ** 2
    squares = groups.add(sums.squares) + np.add.reduceat(between, groups.starts)
    return base + offset, np.where(np.isnan(squares), np.inf, squares)


def _totals(groups: _LineGroups, sums: SeriesArrays) -> tuple[Floats, Floats]:
    total, rest = sums.total[groups.order[groups.starts]], sums.rest[groups.order[groups.starts]]
    sizes = np.diff(groups.starts, append=groups.order.size)
    for group in np.flatnonzero(sizes > 1).tolist():
        lines = groups.order[groups.starts[group] : groups.starts[group] + sizes[group]]
        total[group], rest[group] = exact_sum([*sums.total[lines].tolist(), *sums.rest[lines].tolist()])
    return total, rest


def _slots(groups: _LineGroups, sums: SeriesArrays) -> tuple[Integers, NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the slots of each group in ascending order, each once unless its count needs several."""
    group_of_line = np.empty(groups.order.size, np.int64)
    group_of_line[groups.order] = groups.group_of
    keys = np.repeat(group_of_line, sums.occupied) << 32
    keys += sums.slots
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    totals = np.add.reduceat(sums.counts[order], starts, dtype=np.int64)
    pieces, slots, counts = divide_counts((keys[starts] & 0xFFFFFFFF).astype(np.uint32), totals)
    occupied = np.bincount(keys[starts] >> 32, weights=pieces, minlength=groups.ids.size).astype(np.int64)
    return occupied, slots, counts
