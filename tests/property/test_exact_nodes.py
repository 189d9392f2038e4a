"""The exact pass over any number of nodes, with any values and memory."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.aggregator.exact.nodes import PERCENTILES, Leaf, root_table, search_nodes

from telemetry.aggregator.exact.percentiles import ExactPass
from telemetry.statistics.hdr.percentiles import parse_percentile, rank

SERIES = 3
values = st.floats(0.0, 1e12) | st.floats(1.0, 1.0001) | st.integers(0, 50).map(float)
dealt = st.lists(st.tuples(st.integers(0, 3), st.integers(0, SERIES - 1), values), min_size=1, max_size=120)


@given(dealt=dealt, memory_bytes=st.sampled_from([1 << 20, 3_000, 300]), orders=st.permutations(range(SERIES)))
@settings(max_examples=settings().max_examples // 2)
def test_values_dealt_to_nodes_have_the_percentiles_of_all(
    dealt: list[tuple[int, int, float]], memory_bytes: int, orders: list[int]
) -> None:
    """Whichever node has which value: the percentiles are the order statistics of all values together."""
    leaves = [
        Leaf(
            node,
            {
                series: np.array([value for at, of, value in dealt if (at, of) == (node, series)])
                for series in (orders if node % 2 else range(SERIES))
            },
        )
        for node in range(4)
    ]
    table = root_table(SERIES, leaves)
    search = ExactPass(table.targets(), memory_bytes)
    search_nodes(search, table, leaves, most=200)
    assert search.problems == {}
    expected = {}
    for series in range(SERIES):
        own = np.sort(np.array([value for _, of, value in dealt if of == series]))
        if own.size:
            expected[series] = {key: own[rank(parse_percentile(key), own.size) - 1] for key in PERCENTILES}
    assert search.values() == expected
