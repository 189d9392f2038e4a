"""The root's side of nodes: what is known of them, from their leaves and from the nodes that are expected."""

from __future__ import annotations

from telemetry.aggregator.config import AggregatorConfig
from telemetry.aggregator.nodes.expected import ExpectedNodes
from telemetry.aggregator.nodes.members import NodeMembers
from telemetry.aggregator.nodes.stats import Nodes, nodes_of
from telemetry.aggregator.producers.book import ProducerBook
from telemetry.aggregator.run_clock import RunClock
from telemetry.wire.control import MemberFacts


class RootSide:
    """Answers about the nodes of a run. Its state is that of the objects that it gets."""

    def __init__(
        self,
        book: ProducerBook,
        expected: ExpectedNodes,
        members: NodeMembers,
        *,
        clock: RunClock,
        config: AggregatorConfig,
    ) -> None:
        self._book = book
        self._expected = expected
        self._members = members
        self._clock = clock
        self._config = config

    def nodes(self, now_ns: int, wall_ns: int) -> Nodes:
        """Return all nodes, and what is wrong with them."""
        return nodes_of(
            self._book.leaves(),
            self._expected,
            self._config,
            now_ns,
            wall_ns,
            shift_ns=self._clock.shift_at(now_ns, wall_ns),
            window_s=self._book.window_s,
        )

    def leaves(self) -> dict[str, str]:
        """Return the leaves by producer id, with the names of their nodes."""
        return {leaf.key: leaf.node.name for leaf in self._book.leaves() if leaf.node is not None}

    def all_ended(self) -> bool:
        """Return whether nodes are expected, and the leaf of each has ended and sent all its batches."""
        node_names, expected = self.leaves().values(), self._expected
        if not expected or expected.unmet(node_names) or expected.missing(node_names):
            return False
        return all(leaf.reconciled for leaf in self._book.leaves())

    def members(self, node: str) -> list[MemberFacts] | None:
        """Return the producers of a node, by its name or the id of its leaf. Return None for an unknown node."""
        leaves = [key for key, name in self.leaves().items() if node in (key, name)]
        if not leaves:
            return [] if node in self._expected.names else None
        return [member for leaf in leaves for member in self._members.of(leaf)]
