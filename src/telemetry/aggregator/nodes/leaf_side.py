"""The leaf's side of nodes: what an aggregator tells its root at the end of each interval."""

from __future__ import annotations

from telemetry.aggregator.nodes.leaf_sums import LeafSums
from telemetry.aggregator.nodes.members import NewMembers
from telemetry.aggregator.nodes.outgoing import OutgoingInterval
from telemetry.wire.control import Hello
from telemetry.wire.history import Interval
from telemetry.wire.nodes import Member


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
