"""Bins of equal width for whole distributions that a program hands over.

Uses numpy if the program has loaded it, else the same algorithm in Python.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import isfinite
from typing import Any, Final, NamedTuple

import msgspec

from telemetry import limits
from telemetry.client.records import Place, clean
from telemetry.client.steps import number
from telemetry.wire.events import Bins

COUNT: Final = 64
_MOST: Final = 1 << 63
_ENCODE: Final = msgspec.msgpack.Encoder().encode


class CountedBins(NamedTuple):
    """Bins of a distribution: `counts[i]` values from `edges[i]` up to `edges[i + 1]`, with ascending edges.

    `refused` counts values that were not numbers.
    """

    edges: list[float]
    counts: list[int]
    refused: int = 0


def encoded(name: object, counted: CountedBins, position: Place) -> bytes:
    return _ENCODE(Bins(clean(name, limits.NAME_CHARS) or "_", counted.edges, counted.counts, *position))


def count(values: Any) -> CountedBins:
    """Count values into bins. A pair `(edges, counts)` or `(counts, edges)` is kept as it is.

    Edges are the longer part of a pair, by one. Values that are not finite are left out. Raises TypeError or
    ValueError for input that is not a distribution.
    """
    if isinstance(values, tuple) and len(values) == 2 and all(map(_many, values)):
        return _given(*values)
    array = _array(values)
    return _count_plain(values) if array is None else _count_array(array)


def _many(part: object) -> bool:
    return isinstance(part, Sequence) or bool(getattr(part, "shape", ()))


def _given(either: Sequence[Any], other: Sequence[Any]) -> CountedBins:
    first, second = (either, other) if len(either) > len(other) else (other, either)
    edges, counts = [float(edge) for edge in first], [_whole(part) for part in second]
    if len(edges) != len(counts) + 1 or not counts:
        raise ValueError(f"{len(counts)} bins have {len(counts) + 1} edges, not {len(edges)}")
    if not all(map(isfinite, edges)) or any(upper <= lower for lower, upper in pairwise(edges)):
        raise ValueError("the edges of bins are finite and ascend")
    together = -(-len(counts) // limits.BINS)
    starts = range(0, len(counts), together)
    return CountedBins(
        [*(edges[at] for at in starts), edges[-1]], [sum(counts[at : at + together]) for at in starts]
    )


def _whole(value: Any) -> int:
    plain = int(value)
    if plain != value or not 0 <= plain < _MOST // limits.BINS:
        raise ValueError(f"{value!r} is not a valid number of values")
    return plain


def edges_between(low: float, high: float) -> list[float]:
    """Return the edges of at most COUNT bins. There are fewer bins if adjacent floats are too far apart."""
    if low == high:
        wide = max(abs(low) * 1e-3, 0.5)
        low, high = max(low - wide, -sys.float_info.max), min(high + wide, sys.float_info.max)
    between = [low * (1 - part / COUNT) + high * (part / COUNT) for part in range(1, COUNT)]
    return [low, *(edge for edge, after in pairwise([*dict.fromkeys(between), high]) if low < edge < after), high]


# --- in Python -----------------------------------------------------------------------------------


def finite_numbers(values: Iterable[object]) -> tuple[list[float], int]:
    """Return the finite numbers of values and of lists in them, and how many values were not numbers."""
    if isinstance(values, str | bytes):
        raise TypeError("text can't be a distribution")
    finite: list[float] = []
    refused = 0
    waiting = [iter(values)]
    while waiting:
        for value in waiting[-1]:
            if isinstance(value, list | tuple) and len(waiting) < limits.LABEL_COUNT:
                waiting.append(iter(value))
                break
            try:
                plain = number(value)
            except Exception:  # noqa: BLE001 – a value may raise anything; the others are still counted
                refused += 1
            else:
                if plain is not None:
                    finite.append(plain)
        else:
            waiting.pop()
    if not finite:
        raise ValueError("it has no finite values")
    return finite, refused


def _count_plain(values: Iterable[object]) -> CountedBins:
    """Count values in Python."""
    finite, refused = finite_numbers(values)
    edges = edges_between(min(finite), max(finite))
    counts = [0] * (len(edges) - 1)
    last = len(counts) - 1
    for plain in finite:
        counts[min(last, bisect_right(edges, plain) - 1)] += 1
    return CountedBins(edges, counts, refused)


# --- with numpy ----------------------------------------------------------------------------------


def _array(values: Any) -> Any:
    """Return the values as an array of numbers. Return None if they are not, or if numpy is not loaded."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if hasattr(values, "detach"):  # a tensor: may be on a device, need gradients, or have a type unknown to numpy
        values = values.detach().cpu().double().numpy()
    try:
        array = numpy.asarray(values)
    except ValueError:  # rows of different lengths
        return None
    return array.astype(float, copy=False).ravel() if array.ndim and array.dtype.kind in "biuf" else None


def _count_array(array: Any) -> CountedBins:
    numpy = sys.modules["numpy"]
    finite = numpy.isfinite(array)
    if not finite.all():
        array = array[finite]
    if not len(array):
        raise ValueError("it has no finite values")
    low, high = float(array.min()), float(array.max())
    edges = edges_between(low, high)
    # even edges need no search for each value
    even = len(edges) == COUNT + 1 and low < high and isfinite(high - low)
    counts, bounds = numpy.histogram(array, COUNT, (low, high)) if even else numpy.histogram(array, edges)
    return CountedBins(bounds.tolist(), counts.tolist())
