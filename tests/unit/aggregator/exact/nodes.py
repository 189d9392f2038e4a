"""A root and its leaves as tables, with all messages between them encoded and decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from telemetry.aggregator.exact.node_search import (
    LeafAnswer,
    LeafSeries,
    add_part,
    leaf_pass,
    search_messages,
    spans_of_leaf,
)
from telemetry.aggregator.exact.percentiles import ExactPass
from telemetry.aggregator.series.table import SeriesTable
from telemetry.wire.codec import decode_request, decode_response, encode_control
from telemetry.wire.nodes import Found, Search

PERCENTILES = ("1", "50", "75", "90", "99", "99.9", "100")
KINDS = 3
"""Ids of a leaf's definitions are three apart, because each kind of instrument has its own."""

Values = NDArray[np.float64]


class Leaf:
    """A leaf with the values of some series, by their number at the root."""

    def __init__(self, number: int, series: Mapping[int, Values], **definition: object) -> None:
        self.name = f"node-{number}"
        self.table = SeriesTable(PERCENTILES, 10)
        self.series = list(series)
        self.values = list(series.values())
        for own, (root, values) in enumerate(series.items()):
            self.table.add(f"s{root}", {}, "s", **definition)  # type: ignore[arg-type]
            self.table.record(np.full(values.size, own), values)

    def defined(self, roots: Mapping[int, int] | None = None) -> LeafSeries:
        """Series that the root knows, by its own numbers or those in `roots`."""
        own = np.arange(len(self.series))
        return LeafSeries(own * KINDS, np.array([(roots or {}).get(root, root) for root in self.series], np.intp))

    def answer(self, messages: Iterable[Search]) -> list[Found]:
        """Feed all values in a pass, and return the parts of the answer as the root receives them."""
        heard = [decode_response(encode_control(message)) for message in messages]
        leaf = leaf_pass([message for message in heard if isinstance(message, Search)], self.table)
        for own, values in enumerate(self.values):
            leaf.one_pass.feed(np.full(values.size, own), values)
        answer = LeafAnswer(self.name, 7, leaf)
        parts = [decode_request(encode_control(answer.part(part))) for part in range(1, answer.last + 1)]
        return [part for part in parts if isinstance(part, Found)]


def root_table(series: int, leaves: Iterable[Leaf], roots: Mapping[int, int] | None = None) -> SeriesTable:
    """Return the table of the root, which has the values of all leaves."""
    table = SeriesTable(PERCENTILES, 10)
    for number in range(series):
        table.add(f"s{number}", {}, "s")
    for leaf in leaves:
        for root, values in zip(leaf.defined(roots).series.tolist(), leaf.values, strict=True):
            table.record(np.full(values.size, root), values)
    return table


def search_nodes(
    search: ExactPass,
    table: SeriesTable,
    leaves: Iterable[Leaf],
    roots: Mapping[int, int] | None = None,
    *,
    change: Callable[[Found], Found] = lambda found: found,
    most: int = 40,
) -> int:
    """Run passes of the search over all leaves until the search is done. Return the number of passes.

    `change` may alter each part of a leaf's answer before the root gets it. Raises AssertionError after `most`
    passes.
    """
    leaves = list(leaves)
    for passes in range(most):
        if search.done:
            return passes
        for leaf in leaves:
            spans = spans_of_leaf(search.current, leaf.defined(roots))
            messages = list(search_messages(7, search.current, table, spans))
            assert [message.last for message in messages] == [False] * (len(messages) - 1) + [True]
            for found in leaf.answer(messages):
                for series, why in add_part(search.current, spans, change(found)):
                    search.problems.setdefault(series, f"{leaf.name}: {why}")
        search.end_pass()
    raise AssertionError(f"not done after {most} passes")
