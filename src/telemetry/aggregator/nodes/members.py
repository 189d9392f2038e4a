"""Producers of nodes: those that a leaf reports, and those that a root knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from telemetry import limits
from telemetry.wire.control import Hello, MemberFacts
from telemetry.wire.nodes import Member


class NewMembers:
    """Producers that introduced themselves to a leaf, until the end of the interval."""

    STATE: ClassVar[Mapping[str, Any]] = {"_waiting": dict[str, Member]}
    DERIVED: ClassVar[tuple[str, ...]] = ("newest",)

    def __init__(self) -> None:
        self._waiting: dict[str, Member] = {}
        self.newest: list[Member] = []
        """Producers of the interval that ended last."""

    def introduce(self, hello: Hello) -> None:
        """Add a producer. The name of a leaf is that of its node."""
        name = hello.node or hello.name
        self.add(Member(hello.producer, name, hello.host, hello.pid, hello.rank))

    def add(self, member: Member) -> None:
        if member.producer in self._waiting or len(self._waiting) < limits.NODE_MEMBERS:
            self._waiting[member.producer] = member

    def roll(self) -> None:
        """End an interval."""
        self.newest, self._waiting = list(self._waiting.values()), {}


class NodeMembers:
    """Producers of all nodes of a root, the newest NODE_MEMBERS of them."""

    STATE: ClassVar[Mapping[str, Any]] = {"rows": list[tuple[str, Member]]}
    DERIVED: ClassVar[tuple[str, ...]] = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], Member] = {}
        """(leaf, producer) → facts, in order of their arrival."""

    @property
    def rows(self) -> list[tuple[str, Member]]:
        """Leaf and facts of each producer. A new object can be assigned these once."""
        return [(leaf, member) for (leaf, _), member in self._rows.items()]

    @rows.setter
    def rows(self, rows: list[tuple[str, Member]]) -> None:
        for leaf, member in rows:
            self.add(leaf, member)
        if len(self._rows) != len(rows):
            raise ValueError("producers of nodes that are too many, or the same")

    def add(self, leaf: str, member: Member) -> None:
        self._rows.pop((leaf, member.producer), None)
        self._rows[leaf, member.producer] = member
        if len(self._rows) > limits.NODE_MEMBERS:
            del self._rows[next(iter(self._rows))]

    def of(self, leaf: str) -> list[MemberFacts]:
        """Return the producers of a leaf."""
        return [
            MemberFacts(
                producer=member.producer, name=member.name, host=member.host, pid=member.pid, rank=member.rank
            )
            for (whose, _), member in self._rows.items()
            if whose == leaf
        ]
