"""Histograms of OTLP as counters and bins."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1 import metrics_pb2
from tests.unit.gateway.otlp.recorded import (
    CUMULATIVE,
    DELTA,
    Recorded,
    attributes,
    number,
    state,
    sums,
    take,
    times,
)

from telemetry.gateway.otlp.distributions import ExplicitBuckets, ExponentialBuckets, FiniteBins


def explicit(
    at_s: float, counts: list[int], bounds: list[float], *, total: float | None = None, **more: Any
) -> metrics_pb2.HistogramDataPoint:
    labels = more.pop("labels", {})
    return metrics_pb2.HistogramDataPoint(
        **times(at_s, more.pop("start_s", 0.0)),
        count=more.pop("count", sum(counts)),
        bucket_counts=counts,
        explicit_bounds=bounds,
        sum=total,
        attributes=attributes(**labels),
        **more,
    )


def exponential(at_s: float, scale: int, offset: int, counts: list[int], **more: Any) -> Any:
    point = metrics_pb2.ExponentialHistogramDataPoint(
        **times(at_s, 0.0),
        scale=scale,
        count=sum(counts) + more.get("zero_count", 0) + sum(more.get("below", [])),
        **{key: value for key, value in more.items() if key != "below"},
    )
    point.positive.offset = offset
    point.positive.bucket_counts.extend(counts)
    point.negative.offset = offset
    point.negative.bucket_counts.extend(more.get("below", []))
    return point


def histogram(*points: Any, temporality: int = DELTA, unit: str = "ms") -> metrics_pb2.Metric:
    metric = metrics_pb2.Metric(name="latency", unit=unit)
    is_exponential = isinstance(points[0], metrics_pb2.ExponentialHistogramDataPoint)
    data = metric.exponential_histogram if is_exponential else metric.histogram
    data.aggregation_temporality = temporality
    data.data_points.extend(points)
    return metric


def test_a_delta_is_a_count_a_sum_and_bins() -> None:
    """Bins keep the bounds, and their name keeps the labels, since the record has none."""
    recorded = Recorded()
    point = explicit(1.0, [0, 3, 4, 0], [0.0, 10.0, 20.0], total=70.5, labels={"route": "/a"})
    assert take(recorded, state(), histogram(point)) == (1, 0, "")
    assert recorded.units() == {"latency.count": ("counter", ""), "latency.sum": ("counter", "ms")}
    assert recorded.of("latency.count") == [7.0]
    assert recorded.of("latency.sum") == [70.5]
    assert recorded.bins == [("latency{route=/a,service=api}", [0.0, 10.0, 20.0], [3, 4])]
    assert {frozenset(each.labels.items()) for each in recorded.values} == {
        frozenset({("route", "/a"), ("service", "api")})
    }


def test_outer_buckets_end_at_the_least_and_the_greatest_value() -> None:
    """The sender knows them."""
    recorded = Recorded()
    take(recorded, state(), histogram(explicit(1.0, [2, 3, 1], [1.0, 10.0], total=30.0, min=0.25, max=12.5)))
    assert recorded.bins == [("latency{service=api}", [0.25, 1.0, 10.0, 12.5], [2, 3, 1])]


def test_values_in_a_bucket_without_an_end_are_in_a_counter_and_in_no_bin() -> None:
    """Values in a bucket without an end are in no bin, because no edge is made up for them."""
    recorded = Recorded()
    take(recorded, state(), histogram(explicit(1.0, [2, 3, 4], [1.0, 10.0], total=60.0)))
    assert recorded.bins == [("latency{service=api}", [1.0, 10.0], [3])]
    assert recorded.of("latency.count") == [9.0]
    assert recorded.of("latency.outside") == [6.0]


@pytest.mark.parametrize(
    ("buckets", "low", "high", "bins"),
    [
        (ExplicitBuckets((0.0, 5.0), (2, 1, 0)), 0.0, 4.0, FiniteBins([0.0, 5.0], [3], 0)),
        (ExplicitBuckets((0.0,), (2, 1)), 0.0, 4.0, FiniteBins([0.0, 4.0], [1], 2)),
        (ExplicitBuckets((1.0,), (2, 1)), 0.0, 4.0, FiniteBins([0.0, 1.0, 4.0], [2, 1], 0)),
        (ExplicitBuckets((1.0, 2.0), (2, 0, 1)), 9.0, -9.0, FiniteBins([1.0, 2.0], [0], 3)),
        (ExplicitBuckets((), (4,)), 1.0, 3.0, FiniteBins([1.0, 3.0], [4], 0)),
        (ExplicitBuckets((), (4,)), 3.0, 3.0, FiniteBins([2.5, 3.5], [4], 0)),
        (ExplicitBuckets((), (4,)), None, 3.0, FiniteBins([], [], 4)),
        (
            ExponentialBuckets(0, 0.0, 0, {0: 1, 2: 3}, {}),
            None,
            None,
            FiniteBins([1.0, 2.0, 4.0, 8.0], [1, 0, 3], 0),
        ),
        (ExponentialBuckets(1, 0.0, 0, {0: 1}, {}), None, None, FiniteBins([1.0, math.sqrt(2.0)], [1], 0)),
        (ExponentialBuckets(-1, 0.0, 0, {1: 1}, {}), None, None, FiniteBins([4.0, 16.0], [1], 0)),
        (ExponentialBuckets(0, 0.0, 5, {1: 1}, {}), 0.0, None, FiniteBins([0.0, 2.0, 4.0], [5, 1], 0)),
        (ExponentialBuckets(0, 0.0, 5, {}, {}), None, None, FiniteBins([0.0, 0.5], [5], 0)),
        (ExponentialBuckets(0, 0.25, 5, {1: 1}, {}), None, None, FiniteBins([-0.25, 0.25, 2.0, 4.0], [5, 0, 1], 0)),
        (
            ExponentialBuckets(0, 0.0, 5, {1: 1}, {0: 2, 1: 3}),
            None,
            None,
            FiniteBins([-4.0, -2.0, -1.0, 0.0, 2.0, 4.0], [3, 2, 0, 5, 1], 0),
        ),
        (ExponentialBuckets(0, 0.0, 0, {1023: 2}, {}), None, 1.7e308, FiniteBins([2.0**1023, 1.7e308], [2], 0)),
        (ExponentialBuckets(0, 0.0, 0, {1023: 2}, {}), None, None, FiniteBins([], [], 2)),
        (ExponentialBuckets(0, 0.0, 0, {5_000: 2}, {5_000: 1}), None, None, FiniteBins([], [], 3)),
        (ExponentialBuckets(-2_000, 0.0, 0, {1: 2, -1: 1}, {}), None, None, FiniteBins([], [], 3)),
        (ExponentialBuckets(2_000, 0.0, 0, {1: 2}, {}), None, None, FiniteBins([], [], 2)),
    ],
)
def test_bins_hold_what_has_two_ends(
    buckets: ExplicitBuckets | ExponentialBuckets,
    low: float | None,
    high: float | None,
    bins: FiniteBins,
) -> None:
    """Edges are bounds of buckets, or bounds of all values; nothing else is an edge."""
    found = buckets.bins(low, high)
    assert found.edges == pytest.approx(bins.edges, abs=0.0)
    assert found[1:] == bins[1:]


def test_a_cumulative_histogram_counts_differences() -> None:
    """A cumulative histogram counts differences in its count, its sum and each bin."""
    recorded, known = Recorded(), state()
    for at_s, counts, total in ((1.0, [0, 3, 4, 0], 70.0), (2.0, [0, 3, 4, 0], 70.0), (3.0, [0, 5, 4, 1], 105.5)):
        point = explicit(at_s, counts, [0.0, 10.0, 20.0], total=total, min=1.0, max=25.0)
        assert take(recorded, known, histogram(point, temporality=CUMULATIVE)) == (1, 0, "")
    assert recorded.of("latency.count") == [7.0, 3.0]
    assert recorded.of("latency.sum") == [70.0, 35.5]
    assert [(edges, counts) for _, edges, counts in recorded.bins] == [
        ([0.0, 10.0, 20.0], [3, 4]),
        ([0.0, 10.0, 20.0, 25.0], [2, 0, 1]),
    ]


def test_values_after_a_change_of_bounds_are_counted_and_in_no_bin() -> None:
    """Buckets with other bounds can't be subtracted."""
    recorded, known = Recorded(), state()
    for at_s, bounds, count in ((1.0, [0.0, 10.0], 3), (2.0, [0.0, 20.0], 5), (3.0, [0.0, 20.0], 6)):
        point = explicit(at_s, [0, count, 0], bounds, total=float(count))
        take(recorded, known, histogram(point, temporality=CUMULATIVE))
    assert recorded.of("latency.count") == [3.0, 2.0, 1.0]
    assert recorded.of("latency.outside") == [2.0]
    assert [(edges, counts) for _, edges, counts in recorded.bins] == [([0.0, 10.0], [3]), ([0.0, 20.0], [1])]


def test_a_cumulative_exponential_histogram_that_became_coarser_is_still_compared() -> None:
    """Senders merge pairs of buckets when values spread."""
    recorded, known = Recorded(), state()
    points = [
        exponential(1.0, 1, 0, [1, 2, 3], sum=9.0),
        exponential(2.0, 0, 0, [3, 3 + 1, 0, 0, 2], sum=50.0),
    ]
    for point in points:
        assert take(recorded, known, histogram(point, temporality=CUMULATIVE)) == (1, 0, "")
    assert recorded.of("latency.count") == [6.0, 3.0]
    assert recorded.of("latency.sum") == [9.0, 41.0]
    _, edges, counts = recorded.bins[1]
    assert (edges, counts) == ([2.0, 4.0, 16.0, 32.0], [1, 0, 2])


def test_a_cumulative_exponential_histogram_that_became_finer_has_no_bins() -> None:
    """A finer histogram has no bins: the finer buckets of the earlier values are unknown."""
    recorded, known = Recorded(), state()
    for at_s, scale, counts in ((1.0, 0, [3]), (2.0, 1, [3, 1]), (3.0, 1, [4, 1])):
        take(recorded, known, histogram(exponential(at_s, scale, 0, counts, sum=at_s), temporality=CUMULATIVE))
    assert recorded.of("latency.outside") == [1.0]
    assert [counts for _, _, counts in recorded.bins] == [[3], [1]]


def test_a_histogram_without_buckets_or_sum_is_a_count() -> None:
    """A sender may leave out both."""
    recorded = Recorded()
    assert take(recorded, state(), histogram(explicit(1.0, [], [], count=4))) == (1, 0, "")
    assert recorded.units() == {"latency.count": ("counter", "")}
    assert recorded.of("latency.count") == [4.0]
    assert recorded.bins == []


@pytest.mark.parametrize(
    ("point", "reason"),
    [
        (
            explicit(1.0, [1, 2], [1.0], count=4, total=1.0),
            "'latency': its buckets hold 3 values, but its count is 4",
        ),
        (explicit(1.0, [1, 2], [1.0, 2.0], total=1.0), "'latency': it has 2 buckets for 2 bounds"),
        (explicit(1.0, [1, 2, 0], [2.0, 1.0], total=1.0), "'latency': the bounds of its buckets don't ascend"),
        (explicit(1.0, [1, 2], [math.inf], total=1.0), "'latency': the bounds of its buckets don't ascend"),
        (explicit(1.0, [1], [], total=math.nan), "'latency': its sum is nan, which is not a number"),
        (explicit(1.0, [1], [], total=-2.5), "'latency': it grew by -2.5, but a total only grows"),
        (
            explicit(1.0, [], [], count=1 << 60),
            "'latency': its count is 1,152,921,504,606,846,976, which is too large to be exact",
        ),
        (
            exponential(1.0, 0, 0, [1], zero_threshold=math.nan),
            "'latency': its zero threshold is nan, must be a number from 0 up",
        ),
    ],
)
def test_a_wrong_point_records_nothing(point: Any, reason: str) -> None:
    """A wrong point records nothing, not even a part of it."""
    recorded = Recorded()
    assert take(recorded, state(), histogram(point)) == (0, 1, reason)
    assert recorded.values == []
    assert recorded.bins == []


def test_a_name_that_is_taken_records_nothing_of_the_histogram() -> None:
    """The count would be there without the sum."""
    recorded, known = Recorded(), state()
    take(recorded, known, sums("latency.sum", number(1), unit="s"))
    took = take(recorded, known, histogram(explicit(1.0, [1], [], total=1.0)))
    assert took == (0, 1, "'latency.sum' is already defined with unit 's', not 'ms'")
    assert recorded.of("latency.count") == []


_COUNTS = st.dictionaries(st.integers(-3_000, 3_000), st.integers(1, 1_000), max_size=20)
_BOUND = st.none() | st.floats(allow_nan=False, allow_infinity=False)


@given(
    st.integers(-12, 22),
    st.integers(0, 100),
    st.tuples(_COUNTS, _COUNTS),
    st.sampled_from([0.0, 1e-9, 0.7, 1e300]),
    st.tuples(_BOUND, _BOUND),
)
def test_bins_of_any_exponential_histogram_are_valid_and_lose_no_value(
    scale: int,
    zero: int,
    sides: tuple[dict[int, int], dict[int, int]],
    threshold: float,
    bounds: tuple[float | None, float | None],
) -> None:
    """Edges are finite and ascend, and each value is in a bin or outside."""
    buckets = ExponentialBuckets(scale, threshold, zero, *sides)
    edges, counts, outside = buckets.bins(*bounds)
    assert all(map(math.isfinite, edges))
    assert edges == sorted(set(edges))
    assert len(edges) == len(counts) + 1 or not counts
    assert sum(counts) + outside == buckets.total


@given(_COUNTS, _COUNTS, st.integers(-4, 4), st.integers(0, 4))
def test_the_difference_of_two_exponential_histograms_is_what_came_between(
    first: dict[int, int], more: dict[int, int], scale: int, coarser: int
) -> None:
    """The difference is the same whether or not the second histogram is coarser."""
    whole = {index >> coarser: 0 for index in first}
    for index, count in first.items():
        whole[index >> coarser] += count
    for index, count in more.items():
        whole[index] = whole.get(index, 0) + count
    before = ExponentialBuckets(scale + coarser, 0.0, 2, first, {})
    found = ExponentialBuckets(scale, 0.0, 5, whole, {}).since(before)
    assert found == ExponentialBuckets(scale, 0.0, 3, more, {})
