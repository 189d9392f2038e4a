"""Intervals of leaves that wait for definitions, because their batches overtook those with the definitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from msgspec import Struct

from telemetry import limits
from telemetry.wire.events import Natural, ProducerId
from telemetry.wire.nodes import NodeInterval

_LEAVES: Final = 8
"""Number of leaves that share the room, at least."""


class WaitingInterval(Struct, array_like=True, frozen=True):
    """An interval, and one of the ids that have no definition yet."""

    record: NodeInterval
    shift_ns: int
    missing: Natural


class WaitingIntervals:
    """Waiting intervals by leaf, in order of arrival. They take at most NODE_WAITING_BYTES."""

    STATE: ClassVar[Mapping[str, Any]] = {"_by_leaf": dict[ProducerId, list[WaitingInterval]]}
    DERIVED: ClassVar[tuple[str, ...]] = ("_bytes",)

    def __init__(self) -> None:
        self._by_leaf: dict[str, list[WaitingInterval]] = {}
        self._bytes: dict[str, int] = {}
        """Size of the intervals of each leaf."""

    def restored(self) -> None:
        self._bytes = {
            leaf: sum(_size(waiting.record) for waiting in several) for leaf, several in self._by_leaf.items()
        }
        if not all(self._by_leaf.values()) or sum(self._bytes.values()) > limits.NODE_WAITING_BYTES:
            raise ValueError("intervals that can't be waiting")

    def add(self, leaf: str, waiting: WaitingInterval) -> bool:
        """Add an interval. Return False if there is no room for it."""
        size = _size(waiting.record)
        of_leaf = self._bytes.get(leaf, 0) + size
        of_all = sum(self._bytes.values()) + size
        if of_leaf > limits.NODE_WAITING_BYTES // _LEAVES or of_all > limits.NODE_WAITING_BYTES:
            return False
        self._by_leaf.setdefault(leaf, []).append(waiting)
        self._bytes[leaf] = of_leaf
        return True

    def take(self, leaf: str, is_bound: Callable[[int], bool]) -> list[WaitingInterval]:
        """Remove and return the intervals of a leaf whose missing id is bound now. Others may be missing too."""
        waiting = self._by_leaf.pop(leaf, [])
        taken = [one for one in waiting if is_bound(one.missing)]
        if len(taken) < len(waiting):
            self._by_leaf[leaf] = [one for one in waiting if not is_bound(one.missing)]
            self._bytes[leaf] -= sum(_size(one.record) for one in taken)
        else:
            self._bytes.pop(leaf, None)
        return taken


def _size(record: NodeInterval) -> int:
    columns = (record.series, record.counters, record.gauges, record.extents)
    return 200 + sum(len(getattr(sums, name)) for sums in columns for name in sums.__struct_fields__)
