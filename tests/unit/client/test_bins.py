"""Distributions that a program hands over whole."""

from __future__ import annotations

import math
import random
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from telemetry import limits
from telemetry.client import bins
from telemetry.client.records import Place
from telemetry.wire.codec import decode_record
from telemetry.wire.events import Bins


@pytest.fixture(params=["numpy", "python"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the way of counting, with numpy loaded or without it."""
    if request.param == "python":
        monkeypatch.setattr(bins, "_array", lambda values: None)
    return str(request.param)


def check(counted: bins.CountedBins, values: list[float]) -> None:
    """Edges ascend from the least value to the greatest, and each value is in a bin that holds it."""
    assert all(lower < upper for lower, upper in pairwise(counted.edges))
    assert len(counted.edges) == len(counted.counts) + 1
    assert sum(counted.counts) == len(values)
    assert counted.edges[0] <= min(values) <= max(values) <= counted.edges[-1]
    beyond = 1e-9 * (counted.edges[-1] - counted.edges[0])
    left = sorted(values)
    for lower, upper, count in zip(counted.edges, counted.edges[1:], counted.counts, strict=False):
        held, left = left[:count], left[count:]
        assert all(lower - beyond <= value <= upper + beyond for value in held)


def test_values_are_counted_in_64_bins(way: str) -> None:
    """The same in both ways."""
    source = random.Random(1)
    values = [source.gauss(5.0, 2.0) for _ in range(2_000)]
    counted = bins.count(values)
    assert len(counted.counts) == 64
    check(counted, values)
    assert counted.counts == np.histogram(values, 64)[0].tolist()


@pytest.mark.parametrize(
    "values",
    [
        [3.0],
        [0.0, 0.0],
        [1e300, 1e300],
        [-sys.float_info.max, sys.float_info.max],
        [sys.float_info.max] * 2,
        [0.0, 5e-324],
        [0.0, 1e-322],
        [1e16, 1e16 + 4],
        [1.0, math.nextafter(1.0, 2.0)],
        [-1.0, 0.0, 1.0],
    ],
    ids=str,
)
def test_values_at_the_edge_of_what_floats_can_tell_apart(way: str, values: list[float]) -> None:
    """There is no span that can't be divided, and none that overflows."""
    check(bins.count(values), values)


def test_values_that_are_not_finite_are_left_out(way: str) -> None:
    """Values that are not finite are in no bin."""
    check(bins.count([1.0, math.nan, 2.0, math.inf, -math.inf]), [1.0, 2.0])
    for nothing in ([], [math.nan], iter(())):
        with pytest.raises(ValueError, match="no finite value"):
            bins.count(nothing)


def test_what_is_no_number_is_told() -> None:
    """The others are counted; text is no number, whatever it says."""
    counted = bins.count([1.0, "2.0", None, 3])
    assert (sum(counted.counts), counted.refused) == (2, 2)
    for text in ("1.0", b"1.0"):
        with pytest.raises(TypeError, match="text"):
            bins.count(text)
    with pytest.raises(TypeError, match="iterable"):
        bins.count(5)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "int8", "int64", "uint64", "bool"])
def test_arrays_of_all_kinds(kind: str) -> None:
    """Arrays of each kind are counted, whatever their shape."""
    array = np.arange(6).reshape(2, 3).astype(kind)
    check(bins.count(array), [float(value) for value in array.ravel()])


def test_nested_lists_are_one(way: str) -> None:
    """Nested lists are counted as one, also with rows of several lengths, and generators as well."""
    for values in ([[1.0, 2.0], [3.0, 4.0]], [[1.0], [2.0, 3.0], 4.0], (value for value in (1.0, 2.0, 3.0, 4.0))):
        check(bins.count(values), [1.0, 2.0, 3.0, 4.0])


def test_a_list_within_itself_ends() -> None:
    """Depth is bounded; what lies deeper is no number."""
    endless: list[Any] = [1.0]
    endless.append(endless)
    assert bins.count(endless).refused == 1


class Tensor:
    """A tensor of a device, which must be asked for its values step by step."""

    def __init__(self, values: list[float], *done: str) -> None:
        self._values, self._done = values, done

    def __getattr__(self, name: str) -> Any:
        if name not in ("detach", "cpu", "double"):
            raise AttributeError(name)
        return lambda: Tensor(self._values, *self._done, name)

    def numpy(self) -> Any:
        assert self._done == ("detach", "cpu", "double")
        return np.array(self._values)


def test_a_tensor_is_fetched() -> None:
    """A tensor is fetched from its gradient, its device and its type."""
    check(bins.count(Tensor([1.0, 2.0])), [1.0, 2.0])


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_bins_that_were_counted_elsewhere_stay(kind: Any) -> None:
    """Bins that were counted elsewhere stay, in the order of `numpy.histogram` or in the other order."""
    expected = ([0.0, 1.0, 4.0], [3, 5])
    assert bins.count((kind([0, 1, 4]), kind([3, 5])))[:2] == expected
    assert bins.count((kind([3.0, 5.0]), kind([0, 1, 4])))[:2] == expected


def test_a_pair_of_numbers_is_two_values() -> None:
    """A pair of numbers is two values, not edges and counts."""
    check(bins.count((1.0, 2.0)), [1.0, 2.0])


def test_too_many_bins_are_put_together() -> None:
    """Too many bins are merged without the loss of a value. No edge moves, but some are removed."""
    counts = list(range(2_500))
    counted = bins.count((list(range(2_501)), counts))
    assert len(counted.counts) <= limits.BINS
    assert counted.edges[:3] == [0.0, 3.0, 6.0]
    assert counted.edges[-1] == 2_500.0
    assert counted.counts[:2] == [0 + 1 + 2, 3 + 4 + 5]
    assert sum(counted.counts) == sum(counts)


@pytest.mark.parametrize(
    "pair",
    [
        ([0, 1], [1, 2]),
        ([0, 1, 1], [1, 2]),
        ([0, 2, 1], [1, 2]),
        ([0, 1, math.inf], [1, 2]),
        ([0, 1], [-1]),
        ([0, 1], [0.5]),
        ([0, 1], [1 << 63]),
        ([0], []),
        ([], []),
    ],
    ids=str,
)
def test_bins_that_cannot_be_are_refused(pair: Any) -> None:
    """Impossible bins are refused, and no guess replaces them."""
    with pytest.raises(ValueError):  # noqa: PT011 – each says something else
        bins.count(pair)


def test_a_record_of_bins() -> None:
    """A record of bins has its step, and the form that the wire takes."""
    raw = bins.encoded("w", bins.CountedBins([0.0, 1.0], [2]), Place(7, "train", 3))
    assert decode_record(raw) == Bins("w", [0.0, 1.0], [2], 7, "train", 3)
