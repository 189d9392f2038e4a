"""The leaf's side of nodes: its account, and what it tells its root at the end of each interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from telemetry import limits
from telemetry.aggregator.nodes.leaf_sums import LeafSums
from telemetry.aggregator.nodes.members import NewMembers
from telemetry.aggregator.nodes.outgoing import OutgoingInterval
from telemetry.aggregator.nodes.stats import Nodes
from telemetry.aggregator.snapshotter import SnapshotFacts, account_for, completeness
from telemetry.wire.control import Hello
from telemetry.wire.history import Interval
from telemetry.wire.nodes import Member, NodeAccount
from telemetry.wire.snapshot import FoldedProducers, ProducerStat, State


class LeafSide:
    """Sums and new producers of the interval that ended last.

    An aggregator that is no leaf has one too, which stays empty. Its state is that of the objects that it gets. The
    sums are in no checkpoint.
    """

    def __init__(self, sums: LeafSums, members: NewMembers, *, is_leaf: bool) -> None:
        self.is_leaf = is_leaf
        self._sums = sums
        self._members = members
        self._outgoing: OutgoingInterval | None = None

    def introduce(self, hello: Hello) -> None:
        """Register a producer."""
        if self.is_leaf:
            self._members.introduce(hello)

    def roll(self, interval: Interval, shift_ns: int) -> None:
        """End an interval. `shift_ns` leads from the run's clock to the wall clock."""
        self._members.roll()
        if self.is_leaf:
            self._outgoing = self._sums.take(interval, shift_ns)

    def take_interval(self) -> OutgoingInterval | None:
        """Return the sums of the interval that ended last, once."""
        taken, self._outgoing = self._outgoing, None
        return taken

    def new_members(self) -> list[Member]:
        """Return the producers that introduced themselves in the interval that ended last."""
        return self._members.newest

    def define_again(self) -> None:
        """Send all definitions with the next interval."""
        self._sums.define_again()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafFacts:
    """Facts about a leaf that its aggregator can't know by itself."""

    final: bool = False
    """True once the books are closed."""
    interrupted: bool = False
    unaccounted: bool = False
    """True if events may be lost that appear in no account."""
    reason: str = ""
    """Reason why the run ended."""
    hindrance: str = ""
    """Reason why the journal can't give exact percentiles; empty if it can."""
    clock_error_ns: int = 0
    endpoint: str = ""
    directory: str = ""
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnNumbers:
    """The part of the aggregator's state that an account needs."""

    values: int
    producers: list[ProducerStat]
    folded: FoldedProducers | None
    nodes: Nodes
    waiting_for: list[str]
    bad_frames: dict[str, int]
    uncounted: int
    warnings: list[str]


def own_account(own: OwnNumbers, roll: int, facts: LeafFacts) -> NodeAccount:
    """Return the account at the end of interval `roll`."""
    sums = account_for(own.producers, own.bad_frames, own.folded, own.nodes.stats)
    unfinished = [stat.producer for stat in own.producers if stat.unfinished and not stat.is_collector]
    pending_names = [*own.waiting_for, *unfinished, *own.nodes.owing]
    ended: State = "INTERRUPTED" if facts.interrupted else "COMPLETE"
    run = SnapshotFacts(run_id="", name="", state=ended, unaccounted=facts.unaccounted)
    folded = own.folded.producers if own.folded is not None else 0
    warnings = [*facts.warnings, *own.warnings, *own.nodes.warnings(over=facts.final)]
    return NodeAccount(
        roll=roll,
        values=own.values,
        account=sums,
        producers=sum(not stat.is_collector for stat in own.producers)
        + folded
        + sum(node.producers for node in own.nodes.stats),
        completeness=completeness(run, pending_names, sums, own.uncounted, nodes_lack=bool(own.nodes.lacks)),
        final=facts.final,
        owing=[name[: limits.PRODUCER_ID_CHARS] for name in pending_names[: limits.NODE_OWING]],
        reason=_text(facts.reason),
        hindrance=_text(facts.hindrance),
        clock_error_ns=facts.clock_error_ns,
        endpoint=_text(facts.endpoint),
        directory=_text(facts.directory),
        nodes=sum(1 + node.nodes for node in own.nodes.stats),
        warnings=[_text(warning) for warning in warnings[: limits.NODE_WARNINGS]],
    )


def _text(text: str) -> str:
    return text[: limits.TEXT_CHARS]
