"""Values of several producers become one."""

from __future__ import annotations

import math

import pytest

from telemetry import limits
from telemetry.aggregator.steps.merged import Reductions, ReportedValues, finite, merged
from telemetry.wire.events import Axis, Reduction, Spread


def said(**values: float | None) -> dict[str, ReportedValues]:
    """One name, `x`, of producers, in this order, each a second later."""
    return {rank: ReportedValues({"x": value}, at_ns) for at_ns, (rank, value) in enumerate(values.items(), 1)}


@pytest.mark.parametrize(
    ("reduction", "value"), [("mean", 3.0), ("sum", 9.0), ("min", 1.0), ("max", 6.0), ("last", 2.0)]
)
def test_each_reduction(reduction: Reduction, value: float) -> None:
    """Each reduction has the values of the producers in its spread."""
    values, spread = merged(said(a=6.0, b=1.0, c=2.0), Reductions(Axis("train", reduction)))
    assert values == {"x": value}
    assert spread == {"x": Spread(3, 1.0, 6.0, 3.0, "b", "a")}


def test_who_is_alone_has_no_spread() -> None:
    """The values of a lone producer are the step's, without a spread."""
    assert merged(said(a=2.0), Reductions(None)) == ({"x": 2.0}, {})


def test_nulls_count_only_where_there_is_nothing_else() -> None:
    """A rank whose loss was not finite does not spoil the others'."""
    assert merged(said(a=None, b=2.0), Reductions(None)) == ({"x": 2.0}, {})
    assert merged(said(a=None, b=None), Reductions(None)) == ({"x": None}, {})
    values, spread = merged(said(a=None, b=2.0, c=4.0), Reductions(None))
    assert (values, spread["x"].count, spread["x"].lowest) == ({"x": 3.0}, 2, "b")


def test_each_name_has_the_producers_that_reported_it() -> None:
    """Names come in the order of the producers' ids, however they arrived."""
    of = {"b": ReportedValues({"y": 1.0, "x": 2.0}, 1), "a": ReportedValues({"x": 4.0, "z": 7.0}, 2)}
    values, spread = merged(of, Reductions(None))
    assert list(values.items()) == [("x", 3.0), ("z", 7.0), ("y", 1.0)]
    assert list(spread) == ["x"]
    assert merged(of, Reductions(None), ["y"]) == ({"y": 1.0}, {})


def test_equal_values_name_the_first_producer() -> None:
    """Lowest and highest are the same two whoever came first."""
    _, spread = merged(said(c=1.0, b=1.0, a=1.0), Reductions(None))
    assert (spread["x"].lowest, spread["x"].highest) == ("a", "a")


def test_the_newest_of_one_moment_is_that_of_the_last_id() -> None:
    """Time first, then the producer's id."""
    of = {
        "b": ReportedValues({"x": 1.0}, 5),
        "a": ReportedValues({"x": 2.0}, 5),
        "c": ReportedValues({"x": 3.0}, 4),
    }
    assert merged(of, Reductions(Axis("train", "last")))[0] == {"x": 1.0}


def test_numbers_near_the_largest() -> None:
    """A mean is between its values, also where their sum is no float; such a sum is null."""
    of = said(a=1.7e308, b=1.7e308)
    assert merged(of, Reductions(None))[0] == {"x": 1.7e308}
    assert merged(of, Reductions(Axis("train", "sum")))[0] == {"x": None}
    assert merged(said(a=0.1, b=0.1, c=0.1), Reductions(None))[0] == {"x": 0.1}


def test_what_is_not_finite_is_null() -> None:
    """Numbers, also those whose sum is too large, stay."""
    assert finite({"a": 1.7e308, "b": 1.7e308}) == {"a": 1.7e308, "b": 1.7e308}
    assert finite({"a": math.nan, "b": math.inf, "c": None, "d": 2.0}) == {
        "a": None,
        "b": None,
        "c": None,
        "d": 2.0,
    }
    assert finite({"a": math.inf, "b": -math.inf}) == {"a": None, "b": None}


def test_a_producers_newer_value_counts() -> None:
    """An older one, of a batch that was lost on the way, changes nothing."""
    mine = ReportedValues({"x": 1.0}, 10)
    mine.add({"x": 2.0, "y": 5.0}, 20)
    mine.add({"x": 3.0, "z": 6.0}, 15)
    mine.add({"y": 7.0}, 20)
    assert mine.values == {"x": 2.0, "y": 7.0, "z": 6.0}
    assert [mine.time_of(name) for name in "xyz"] == [20, 20, 15]
    assert mine.units == limits.STEP_UNITS + 6


def test_the_first_pattern_that_fits_counts() -> None:
    """`*` is anything, also slashes; other characters are themselves; without any the axis's own counts."""
    of = Reductions(
        Axis("train", "min", {"a/lr": "last", "*/tokens": "sum", "b/tokens": "max", "x[0]": "max", "a*c*": "mean"})
    )
    assert [of(name) for name in ("a/lr", "a/b/tokens", "b/tokens", "x[0]", "x0", "abcd", "ab")] == [
        *("last", "sum", "sum", "max", "min", "mean", "min"),
    ]
    assert of("a/lr") == "last"


def test_patterns_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each new name is tried against all of them; plain names cost nothing."""
    monkeypatch.setattr(limits, "STEP_PATTERNS", 1)
    of = Reductions(Axis("train", "mean", {"a*": "sum", "b*": "max", "c": "min"}))
    assert [of(name) for name in "abc"] == ["sum", "mean", "min"]


def test_patterns_that_would_take_for_ever_do_not() -> None:
    """Time grows with the name's length times the pattern's, whoever wrote them."""
    of = Reductions(Axis("train", "mean", {"a*" * 60 + "b": "sum"}))
    assert of("a" * 200) == "mean"
