"""Nodes as a snapshot shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from operator import itemgetter
from typing import Final, NamedTuple

from telemetry.aggregator.config import AggregatorConfig
from telemetry.aggregator.nodes.accounts import account_of
from telemetry.aggregator.nodes.expected import ExpectedNodes
from telemetry.aggregator.nodes.lacks import UNCONNECTED, Lack, lack_of, warnings
from telemetry.aggregator.nodes.state import NodeState
from telemetry.aggregator.producers.producer import Producer
from telemetry.formatting import number_of
from telemetry.wire.nodes import NodeAccount
from telemetry.wire.snapshot import Accounting, NodeStat

_MOST_BATCHES: Final = (1 << 63) - 1  # maximum on the wire; leaves may claim more than that
_CHARS_SHOWN: Final = 256  # of each text of a leaf: every snapshot repeats them


class Nodes(NamedTuple):
    """All nodes of a run, by name, and what is wrong with them."""

    stats: list[NodeStat]
    lacks: list[tuple[str, Lack]]
    """Name and reason of each node that is not complete."""
    missing: int
    """Number of expected nodes without a name that never connected."""
    expected: int

    def warnings(self, *, over: bool) -> list[str]:
        """Return one warning for each reason. `over`: the run has ended."""
        said = warnings(self.lacks, over=over)
        if self.missing and over:
            said.append(
                f"{self.missing:,} of {number_of(self.expected, 'expected node')} never connected{self._twins}"
            )
        return said

    @property
    def _twins(self) -> str:
        """The end of a sentence that explains missing nodes by leaves with the same name; empty without such."""
        name, leaves = max(Counter(stat.node for stat in self.stats).items(), key=itemgetter(1), default=("", 0))
        return f"; {leaves:,} leaves have the same name {name}: give each its own --node" if leaves > 1 else ""

    @property
    def owing(self) -> list[str]:
        """Names of nodes whose events are not all known."""
        unknown = [name for name, lack in self.lacks if lack.completeness != "lossy"]
        return unknown + ["a node that never connected"] * self.missing


NO_NODES: Final = Nodes([], [], 0, 0)


def nodes_of(
    leaves: Iterable[Producer],
    expected: ExpectedNodes,
    config: AggregatorConfig,
    now_ns: int,
    wall_ns: int,
    *,
    shift_ns: int,
    window_s: float,
) -> Nodes:
    """Return the leaves as nodes, and the expected nodes that have none.

    `now_ns` is the aggregator's monotonic clock. `shift_ns` converts the run's clock to the wall clock.
    """
    rows: list[tuple[NodeStat, Lack | None]] = []
    for leaf in leaves:
        if leaf.node is not None:
            lack = lack_of(leaf, leaf.node)
            rows.append((_stat(leaf, leaf.node, lack, config, now_ns, wall_ns, shift_ns, window_s), lack))
    known = {stat.node for stat, _ in rows}
    rows += [
        (NodeStat(node=name, status="lost", reason=UNCONNECTED.reason), UNCONNECTED)
        for name in expected.unmet(known)
    ]
    rows.sort(key=lambda row: (row[0].node, row[0].leaf))
    return Nodes(
        [stat for stat, _ in rows],
        [(stat.node, lack) for stat, lack in rows if lack is not None],
        expected.missing(known),
        expected.count,
    )


def _stat(  # noqa: PLR0917 – one place builds the row
    leaf: Producer,
    node: NodeState,
    lack: Lack | None,
    config: AggregatorConfig,
    now_ns: int,
    wall_ns: int,
    shift_ns: int,
    window_s: float,
) -> NodeStat:
    account = node.account or NodeAccount(0, 0, Accounting())
    return NodeStat(
        node=node.name,
        leaf=leaf.key,
        host=leaf.host,
        pid=leaf.pid,
        status=leaf.status(now_ns, config),
        completeness=lack.completeness if lack is not None else "complete",
        reason=(lack.reason if lack is not None else account.reason)[:_CHARS_SHOWN],
        producers=account.producers,
        owing=account.owing,
        nodes=account.nodes,
        account=account_of(leaf, node),
        missing_batches=min(sum(last - first + 1 for first, last in leaf.sequence.gaps), _MOST_BATCHES),
        unrepairable=leaf.sequence.unrepairable,
        events_per_s=leaf.events_per_s(window_s),
        interval_ns=max(0, node.interval_ns + shift_ns) if node.interval_ns else 0,
        last_seen_ns=max(0, wall_ns - (now_ns - leaf.last_seen_ns)),
        clock_error_s=account.clock_error_ns / 1e9 if account.clock_error_ns else None,
        endpoint=account.endpoint[:_CHARS_SHOWN],
        directory=account.directory[:_CHARS_SHOWN],
        warnings=[warning[:_CHARS_SHOWN] for warning in account.warnings],
    )
