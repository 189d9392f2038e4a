"""Partial values add up to what all values together come to."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from telemetry.aggregator.steps.reported_part import (
    is_possible,
    joined,
    mean_of,
    partial_value,
    spread_of,
    value_of,
)
from telemetry.wire.events import Reduction, Spread
from telemetry.wire.nodes import PartialValue


def partial(**values: float) -> PartialValue:
    """Return the partial value of producers, in order of ids; each one reports a nanosecond later."""
    times = {producer: at_ns for at_ns, producer in enumerate(values, 1)}
    return partial_value([*values], [*values.values()], times.__getitem__)


def test_a_sum_keeps_its_rounding_error() -> None:
    """Both floats together are exact, where one is not."""
    one = partial(a=1e16, b=1.0, c=1.0, d=1.0)
    assert (one.count, one.sum, one.rest) == (4, 1e16 + 4, -1.0)
    assert (one.min, one.lowest, one.max, one.highest) == (1.0, "b", 1e16, "a")
    assert (one.last, one.last_ns, one.last_producer) == (1.0, 4, "d")


@pytest.mark.parametrize(
    ("reduction", "value"), [("mean", 4 / 6), ("sum", 4.0), ("min", -1e16), ("max", 1e16), ("last", 1.0)]
)
def test_partial_values_add_up_in_any_order(reduction: Reduction, value: float) -> None:
    """Large numbers that cancel out leave the small ones whole."""
    parts = [partial(a=1e16, b=1.0), partial(c=-1e16, d=1.0), partial(e=1.0), replace(partial(f=1.0), last_ns=2)]
    for order in (parts, parts[::-1], [joined(parts[:2]), joined(parts[2:])]):
        assert value_of(joined(order), reduction) == value
        assert spread_of(joined(order)) == Spread(6, -1e16, 1e16, 4 / 6, "c", "a")


def test_equal_extremes_name_the_first_producer() -> None:
    """Whichever leaf it belongs to. Of equal times the last producer counts."""
    one = joined([partial(b=2.0), partial(c=2.0), partial(a=2.0)])
    assert (one.lowest, one.highest, one.last_producer) == ("a", "a", "c")


def test_a_single_value_is_itself() -> None:
    """A single value has no spread, as on one aggregator."""
    assert spread_of(partial(a=0.1)) is None
    assert [value_of(partial(a=0.1), reduction) for reduction in ("mean", "sum", "last")] == [0.1, 0.1, 0.1]


def test_sums_that_fit_in_no_float_keep_their_mean() -> None:
    """Sums that fit in no float keep their mean, of one leaf and of several together."""
    large = 1.5e308
    one = partial(a=large, b=large)
    assert (one.sum, one.rest, mean_of(one), value_of(one, "sum")) == (math.inf, large, large, None)
    both = joined([partial(a=large), partial(b=large)])
    assert (both.sum, mean_of(both)) == (math.inf, large)
    mixed = joined([partial(a=-large, b=-large), partial(c=large, d=large), partial(e=3.0)])
    assert (mixed.count, mean_of(mixed)) == (5, pytest.approx(0.6))
    assert joined([partial(a=-large), partial(b=-large)]).sum == -math.inf
    assert mean_of(joined([one, partial(c=1.0)])) == pytest.approx(1e308)


@pytest.mark.parametrize(
    "change",
    [
        {"count": 0},
        {"count": 1 << 50},
        {"sum": math.nan},
        {"rest": math.inf},
        {"min": -math.inf},
        {"max": math.nan},
        {"last": math.nan},
        {"min": 3.0},
        {"last": 9.0},
    ],
)
def test_impossible_numbers_are_recognized(change: dict[str, float]) -> None:
    """Impossible numbers are recognized, because a root must not compute with them."""
    one = partial(a=1.0, b=2.0)
    assert is_possible(one)
    assert not is_possible(replace(one, **change))


def test_numbers_that_were_made_up_do_not_raise() -> None:
    """Made-up numbers do not raise. Such numbers pass the checks one by one, but belong to no producers."""
    largest = 1.7e308
    odd = replace(partial(a=largest), sum=math.inf, rest=largest)
    assert math.isfinite(mean_of(joined([odd, odd, partial(b=largest)])))
    assert math.isfinite(mean_of(joined([replace(odd, sum=-math.inf, rest=-largest), odd])))
