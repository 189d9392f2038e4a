"""Tests of what one exact pass keeps, narrows and leaves for the next one."""

from __future__ import annotations

import math
import sys

import numpy as np

from telemetry.aggregator.exact.one_pass import (
    HIGHEST_ORDINAL,
    KeptValues,
    Narrowing,
    ValueRange,
    WantedPercentile,
    from_ordinal,
    ordinal,
    ordinals,
    plan_pass,
)


def span_of(values: list[float], *ranks: int) -> ValueRange:
    wants = tuple(WantedPercentile(0, key, rank) for key, rank in enumerate(ranks))
    return ValueRange(0, 0, 0, 0, ordinal(min(values)), ordinal(max(values)), len(values), wants, True)


def test_ordinals_order_floats() -> None:
    """Ordinals grow with the values, go back to them, and know one zero."""
    values = np.array([0.0, 5e-324, 1e-9, 1.0, np.nextafter(1.0, 2.0), 1e300, sys.float_info.max])
    places = ordinals(values)
    assert np.all(np.diff(places) > 0)
    assert [from_ordinal(place) for place in places.tolist()] == values.tolist()
    assert ordinals(np.array([-0.0])).tolist() == [0]
    assert [ordinal(value) for value in values.tolist()] == places.tolist()
    assert ordinal(math.inf) == HIGHEST_ORDINAL


def test_kept_values_are_sorted_out_by_span() -> None:
    """Values of several spans come in portions; each wanted rank is found in its own."""
    first, second = [5.0, 1.0, 3.0], [9.0, 7.0]
    kept = KeptValues([span_of(first, 1, 3), span_of(second, 2)])
    kept.add(np.array([0, 1, 0], dtype=np.uint16), np.array([5.0, 9.0, 1.0]))
    kept.add(np.array([1, 0], dtype=np.uint16), np.array([7.0, 3.0]))
    assert [value for _, value in kept.resolve(0)] == [1.0, 5.0]
    assert [value for _, value in kept.resolve(1)] == [9.0]


def test_values_beyond_a_span_s_count_do_not_reach_its_neighbour() -> None:
    """A span that gets more than its count leaves the others whole."""
    kept = KeptValues([span_of([1.0], 1), span_of([7.0, 8.0], 1, 2)])
    kept.add(np.array([0, 0, 0, 1, 1], dtype=np.uint16), np.array([1.0, 2.0, 3.0, 8.0, 7.0]))
    assert [value for _, value in kept.resolve(1)] == [7.0, 8.0]


def test_narrowing_resolves_repetitions_and_narrows_the_rest() -> None:
    """A bin of equal values is an answer; another becomes a span for the next pass, with the rank within it."""
    values = [1.0, 1.0, 1.0, 2.0, np.nextafter(2.0, 3.0), 4.0]
    narrowing = Narrowing([span_of(values, 2, 5)], 16)
    narrowing.add(np.zeros(len(values), dtype=np.int64), np.array(values))
    resolved, (narrower,) = narrowing.resolve(0)
    assert [(want.key, value) for want, value in resolved] == [(0, 1.0)]
    assert (narrower.count, narrower.whole, narrower.wants) == (2, False, (WantedPercentile(0, 1, 2),))
    assert from_ordinal(narrower.first) == 2.0
    assert narrower.last - narrower.first == 1


def test_a_plan_keeps_to_its_memory_and_always_makes_progress() -> None:
    """Small slots are kept, large ones narrowed, and what does not fit waits; never does everything wait."""
    spans = [
        ValueRange(row, 0, row, 0, 0, 1 << 40, count, (), True) for row, count in enumerate([10, 10**6, 20, 10**7])
    ]
    plan = plan_pass(spans, 4_000)
    assert [span.count for span in plan.kept] == [10, 20]
    assert [span.count for span in plan.narrowed] == [10**6, 10**7]
    assert plan.bins * len(plan.narrowed) * 24 <= 1_000
    least = plan_pass(spans, 0)
    assert (len(least.kept), len(least.narrowed), len(least.waiting)) == (0, 1, 3)
