"""Reader of the records that only a leaf sends, except relayed ones."""

from __future__ import annotations

from telemetry.aggregator.nodes.incoming import IncomingIntervals
from telemetry.aggregator.nodes.members import NewMembers, NodeMembers
from telemetry.aggregator.nodes.state import NodeState
from telemetry.aggregator.producers.account import ReasonWords
from telemetry.aggregator.producers.producer import Producer
from telemetry.aggregator.record_budget import RecordBudget
from telemetry.aggregator.run_clock import LATEST_NS, RunClock
from telemetry.aggregator.steps.merger import StepMerger
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.events import Define
from telemetry.wire.nodes import Member, NodeAccount, NodeInterval, StepPart


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
                refused = self._interval(leaf, node, record, shift_ns)
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

    def _interval(self, leaf: Producer, node: NodeState, record: NodeInterval, shift_ns: int) -> Reason | None:
        values = self._intervals.apply(leaf, record, shift_ns)
        if values is None:
            return Reason.MALFORMED_RECORD
        end_ns = min(max(0, record.end_ns + shift_ns), LATEST_NS)
        node.add(values, end_ns)
        leaf.heard_event(end_ns, self._clock.now_ns)
        return None
