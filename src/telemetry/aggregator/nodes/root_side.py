"""The root's side of nodes: their records, and what is known of them and of the nodes that are expected."""

from __future__ import annotations

from telemetry import limits
from telemetry.aggregator.budgets import RecordBudget
from telemetry.aggregator.config import AggregatorConfig
from telemetry.aggregator.nodes.incoming import ArrivedInterval, IncomingIntervals
from telemetry.aggregator.nodes.members import NewMembers, NodeMembers
from telemetry.aggregator.nodes.state import NodeState
from telemetry.aggregator.nodes.stats import NO_NODES, ExpectedNodes, Nodes, nodes_of
from telemetry.aggregator.producers.account import ReasonWords
from telemetry.aggregator.producers.book import ProducerBook
from telemetry.aggregator.producers.producer import Producer
from telemetry.aggregator.run_clock import LATEST_NS, RunClock
from telemetry.aggregator.steps.merger import StepMerger
from telemetry.wire.control import MemberFacts
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.events import Define
from telemetry.wire.nodes import Member, NodeAccount, NodeInterval, StepPart


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
        self._answer: tuple[int, int, Nodes] = (0, 0, NO_NODES)
        """Time, number of leaves and result of the newest answer of `live_nodes`."""

    def live_nodes(self, now_ns: int, wall_ns: int) -> Nodes:
        """Return all nodes as `nodes` does. Of many, the answer may be as old as an interval of theirs."""
        answered_ns, answered_leaves, answer = self._answer
        leaves = len(self._book.leaves())
        is_old = now_ns - answered_ns >= limits.NODES_REPEATED_NS or leaves != answered_leaves
        if is_old or leaves <= limits.NODES_RENEWED:
            answer = self.nodes(now_ns, wall_ns)
            self._answer = now_ns, leaves, answer
        return answer

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


class NodeReader:
    """Reader of the records of leaves. Each counts as one applied or dropped event of the leaf."""

    def __init__(
        self,
        intervals: IncomingIntervals,
        steps: StepMerger,
        members: NodeMembers,
        new_members: NewMembers | None,
        *,
        clock: RunClock,
        room: RecordBudget,
        words: ReasonWords,
    ) -> None:
        """Prepare the reader. `new_members` gets the producers of nodes too; None if this is no leaf itself."""
        self._intervals = intervals
        self._steps = steps
        self._members = members
        self._new_members = new_members
        self._clock = clock
        self._room = room
        self._words = words
        self._arrived: list[tuple[NodeState, ArrivedInterval]] = []
        """Intervals that were read and not added yet."""

    def resolve(self, define: Define) -> int | None:
        """Return the route of an instrument of a leaf, or None if it is an instrument like any other."""
        return self._intervals.folded.resolve(define)

    def define(self, leaf: Producer, define: Define, route: int) -> None:
        """Take the definition of an instrument of a leaf, whose id is bound to it."""
        self._intervals.define(leaf, define, route)

    def add_waiting(self, leaf: Producer, node: NodeState) -> None:
        """Add the intervals that waited for definitions of this leaf. Call it once these are bound."""
        node.add(self._intervals.add_waiting(leaf))

    def read(
        self,
        leaf: Producer,
        node: NodeState,
        record: NodeInterval | NodeAccount | Member | StepPart,
        shift_ns: int,
        since: int,
    ) -> bool:
        """Read a record. Return False if there is no room for it in the record log.

        `shift_ns` leads from the leaf's wall clock to the run's clock. `since` as in `RecordReader.read`.
        """
        refused: Reason | None = None
        match record:
            case NodeInterval():
                self._arrived.append((node, ArrivedInterval(leaf, record, shift_ns)))
                return True
            case NodeAccount():
                if not node.replace_account(record, self._words):
                    refused = Reason.MALFORMED_RECORD
            case Member():
                self._members.add(leaf.key, record)
                if self._new_members is not None:
                    self._new_members.add(record)
            case StepPart():
                if self._room.is_full:  # the step of these values would not fit
                    return False
                refused = self._steps.report_part(leaf.key, record, shift_ns + self._clock.shift_ns, since)
        if refused is None:
            leaf.account.ledger.apply(1)
        else:
            leaf.account.ledger.drop(refused)
        return True

    def add_intervals(self) -> None:
        """Add the intervals that were read since the last call."""
        if not self._arrived:
            return
        arrived, self._arrived = self._arrived, []
        added = self._intervals.apply([interval for _, interval in arrived])
        for (node, (leaf, record, shift_ns)), values in zip(arrived, added, strict=True):
            if values is None:
                leaf.account.ledger.drop(Reason.MALFORMED_RECORD)
                continue
            end_ns = min(max(0, record.end_ns + shift_ns), LATEST_NS)
            node.add(values, end_ns)
            leaf.heard_event(end_ns, self._clock.now_ns)
            leaf.account.ledger.apply(1)
