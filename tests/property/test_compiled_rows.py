"""What is in C leaves what numpy would, to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from telemetry.aggregator.series import group
from telemetry.aggregator.series.table import SeriesTable
from telemetry.aggregator.state import encode, save

SERIES = (
    {"unit": "ns"},
    {"unit": "tokens"},
    {"unit": "ms", "low": 0.01, "high": 50.0},
    {"unit": "s"},
    {"unit": "", "low": 3.0},
)
WHOLE = st.sampled_from([0.0, -0.0, 1.0, 2.0, 255.0, 256.0, 2047.0, 2048.0, 2049.0, 4095.0, 1e6, 1e9])
EDGES = st.sampled_from([0.5, 1.5, 2.5, 2.0**52 - 0.5, 2.0**53 - 1, 2.0**53])
ANY = st.floats(0, 1e4) | st.floats(0, 1e100) | EDGES
ROWS = st.lists(st.tuples(st.integers(0, len(SERIES) - 1), WHOLE | ANY), min_size=1, max_size=20)
STEPS = st.lists(ROWS | st.integers(2, 40) | st.none(), min_size=1, max_size=12)
"""Rows; the last ones so many times more; a second ends."""


def state(steps: list[list[tuple[int, float]] | int | None]) -> bytearray:
    table = SeriesTable(("50", "99"), 3)
    for number, options in enumerate(SERIES):
        table.add(f"s{number}", {}, **options)  # type: ignore[arg-type]
    index, value = np.zeros(1, np.intp), np.ones(1)
    for step in steps:
        if step is None:
            table.roll(1.0)
        elif isinstance(step, int):
            table.record(np.tile(index, step), np.tile(value, step))
        else:
            index, value = np.array([row[0] for row in step], np.intp), np.array([row[1] for row in step])
            table.record(index, value)
    return encode(save(table))


ZEROS = [[(1, 1.0)], [(1, 0.0), (1, -0.0)], None]
FAR = [[(1, 2.0**52 - 500)], [(0, 999.5)], None, [(1, 2.0**52 - 500)] * 2, [(0, 999.5)]]


@example(ZEROS)
@example(FAR)
@given(STEPS)
def test_both_ways_lead_to_the_same_state(
    compiled: Callable[..., float], steps: list[list[tuple[int, float]] | int | None]
) -> None:
    """Whatever is recorded in whatever portions: sums as they round, counts by slot, minimum and maximum."""
    with mock.patch.object(group, "record_usual", compiled):
        found = state(steps)
    with mock.patch.object(group, "record_usual", None):
        assert found == state(steps)
