"""Nodes that belong to the run, whether or not their leaves have connected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from telemetry import limits
from telemetry.wire.control import ExpectNodes
from telemetry.wire.drop_reasons import Count


class ExpectedNodes:
    """Names and number of the nodes that the run can't be complete without. Both only grow."""

    STATE: ClassVar[Mapping[str, Any]] = {"names": dict[str, None], "count": Count}
    DERIVED: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self.count = 0
        """Number of nodes that the run has at least, whatever their names."""

    def __bool__(self) -> bool:
        return bool(self.names or self.count)

    def has_room_for(self, note: ExpectNodes) -> bool:
        return len(self.names.keys() | set(note.nodes)) <= limits.NODES

    def is_news(self, note: ExpectNodes) -> bool:
        return note.count > self.count or any(name not in self.names for name in note.nodes)

    def expect(self, note: ExpectNodes) -> None:
        """Add the nodes of a note. Names beyond the bound count, but have no row."""
        for name in note.nodes:
            if len(self.names) < limits.NODES:
                self.names[name] = None
        self.count = max(self.count, note.count)

    def unmet(self, node_names: Iterable[str]) -> list[str]:
        """Return the expected names that are not among `node_names`, sorted."""
        return sorted(self.names.keys() - set(node_names))

    def missing(self, node_names: Iterable[str]) -> int:
        """Return the number of nodes beyond `node_names` and the expected names that are still missing."""
        return max(0, self.count - len(self.names.keys() | set(node_names)))
