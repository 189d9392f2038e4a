"""Totals and spreads of series against exact arithmetic, whatever comes in which order."""

from __future__ import annotations

import statistics
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry.aggregator.series.table import SeriesTable

pytestmark = pytest.mark.slow

SERIES = 4
values = st.one_of(
    st.integers(0, 20).map(float),
    st.integers(0, (1 << 53) - 1).map(float),
    st.floats(1e-3, 1e3),
    st.floats(1e9, 1.0001e9),
)
steps = st.lists(
    st.one_of(
        st.lists(st.tuples(st.integers(0, SERIES - 1), values), min_size=1, max_size=4),
        st.just("fold"),
        st.just("roll"),
    ),
    max_size=15,
)


@settings(max_examples=5 * settings().max_examples)
@given(steps)
def test_totals_and_spreads_are_those_of_exact_arithmetic(steps: list[list[tuple[int, float]] | str]) -> None:
    """Integers add up exactly; other totals, means and standard deviations to rounding."""
    table = SeriesTable(("50",), 3)
    for number in range(SERIES):
        table.add(f"s{number}", {}, "ns")
    recorded: list[list[float]] = [[] for _ in range(SERIES)]
    for step in steps:
        if step == "fold":
            table.stats()
        elif step == "roll":
            table.roll(1.0)
        else:
            index, value = zip(*step, strict=True)
            table.record(np.array(index, np.intp), np.array(value, np.float64))
            for number, one in step:
                recorded[number].append(one)
    for stat, own in zip(table.stats(), recorded, strict=True):
        _compare(stat.total, stat.mean, stat.stddev, own)


def _compare(total: float, mean: float | None, deviation: float | None, own: list[float]) -> None:
    if not own:
        assert mean is None
        return
    exact = sum(map(Fraction, own))
    if all(one.is_integer() for one in own):
        assert total == exact
        assert type(total) is int
    assert total == pytest.approx(float(exact), rel=1e-13)
    assert mean == pytest.approx(float(exact / len(own)), rel=1e-13)
    spread = statistics.pstdev(map(Fraction, own))
    assert deviation == pytest.approx(spread, rel=1e-6, abs=1e-9 * max(own))
