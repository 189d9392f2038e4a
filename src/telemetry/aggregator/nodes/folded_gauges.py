"""Gauges of nodes at a root: those of a few nodes apart, and those of all nodes folded into one.

Each node has the same figures of its machine, with the label `node`. A thousand nodes would use up the room for
instruments. So the gauges of the first nodes are instruments of their own. Once there are more nodes, the root also
has one gauge with the label `node=all` for each figure: the median over the nodes, with the least and the greatest
value and the names of their nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from telemetry import limits
from telemetry.aggregator.gauges import GaugeTable
from telemetry.aggregator.nodes.columns import GaugeArrays, Integers
from telemetry.aggregator.registry import Registry
from telemetry.aggregator.rows import CONFLICT, INDEX_BITS, KIND_CODES, UNKNOWN
from telemetry.wire.events import Define
from telemetry.wire.snapshot import ALL_NODES, NODE_LABEL, GaugeStat, NodeSpread

OTHERS: Final = "others"
"""Value of the label of a counter that stands for all nodes but the first ones."""
FOLDED: Final = len(KIND_CODES)
"""Code of a gauge of a node in a route, beside those of kinds of instruments."""
_SILENT_NS: Final = 60_000_000_000
"""A node whose gauges are older than the newest by this much no longer counts."""
_NODE_BITS: Final = 32
_APART: Final = -1
"""Index of a gauge or a row that is not in the table of gauges."""


class FoldedRow(NamedTuple):
    """A figure that every node has."""

    name: str
    labels: dict[str, str]
    """Without the label `node`."""
    unit: str


class FoldedGauges:
    """Newest value of each gauge of each node."""

    STATE: ClassVar[Mapping[str, Any]] = {
        "_rows": list[FoldedRow],
        "_nodes": list[str],
        "_member_rows": list[int],
        "_member_nodes": list[int],
        "_gauges_apart": list[int],
        "_gauges_of_all": list[int],
        "_value": NDArray[np.float64],
        "_time_ns": NDArray[np.int64],
        "_heard_ns": NDArray[np.int64],
        "_events": NDArray[np.int64],
        "_least": NDArray[np.float64],
        "_greatest": NDArray[np.float64],
        "_is_new": bool,
        "_spreads": dict[int, NodeSpread],
    }
    DERIVED: ClassVar[tuple[str, ...]] = (
        *("_registry", "_table", "_is_leaf", "_row_numbers", "_node_numbers", "_members", "_apart"),
        "_columns",
    )

    def __init__(self, registry: Registry, table: GaugeTable, *, is_leaf: bool) -> None:
        """Prepare the table. `is_leaf`: this root is a leaf itself, and tells its root the gauges of each node."""
        self._registry = registry
        self._table = table
        self._is_leaf = is_leaf
        self._rows: list[FoldedRow] = []
        self._nodes: list[str] = []
        self._member_rows: list[int] = []
        """Row of each member, which is a gauge of a node."""
        self._member_nodes: list[int] = []
        self._gauges_apart: list[int] = []
        """Index of the gauge of each member, or _APART."""
        self._gauges_of_all: list[int] = []
        """Index of the gauge of each row, or _APART while all members have gauges."""
        self._value = np.zeros(0)
        self._time_ns = np.zeros(0, np.int64)
        self._heard_ns = np.zeros(0, np.int64)
        """Time of the newest gauge of each node."""
        self._events = np.zeros(0, np.int64)
        """Number of values of each row since the last `fold`, without those of gauges apart."""
        self._least = np.zeros(0)
        self._greatest = np.zeros(0)
        """Extremes of each row over the run."""
        self._is_new = False
        """True if values have arrived since the last `fold`."""
        self._spreads: dict[int, NodeSpread] = {}
        """Gauge → its newest values over the nodes."""
        self._row_numbers: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
        self._node_numbers: dict[str, int] = {}
        self._members: dict[int, int] = {}
        """Row and node as one number → member."""
        self._apart = 0
        """Number of members with a gauge of their own."""
        self._columns: tuple[Integers, Integers, Integers] | None = None

    def restored(self) -> None:
        self._row_numbers = {_key(row.name, row.labels): number for number, row in enumerate(self._rows)}
        self._node_numbers = {name: number for number, name in enumerate(self._nodes)}
        pairs = zip(self._member_rows, self._member_nodes, strict=True)
        self._members = {row << _NODE_BITS | node: number for number, (row, node) in enumerate(pairs)}
        self._apart = sum(gauge != _APART for gauge in self._gauges_apart)
        rows, members, gauges = len(self._rows), len(self._members), range(_APART, len(self._table))
        is_possible = (
            members == len(self._member_rows) == len(self._gauges_apart)
            and len(self._row_numbers) == rows == len(self._gauges_of_all)
            and len(self._node_numbers) == len(self._nodes)
            and all(0 <= row < rows for row in self._member_rows)
            and all(0 <= node < len(self._nodes) for node in self._member_nodes)
            and all(gauge in gauges for gauge in (*self._gauges_apart, *self._gauges_of_all, *self._spreads))
            and len(self._value) == len(self._time_ns) <= members
            and len(self._heard_ns) <= len(self._nodes)
            and len(self._events) == len(self._least) == len(self._greatest) <= rows
            and bool(np.isfinite(self._value).all())
        )
        if not is_possible:
            raise ValueError("impossible gauges of nodes")

    def __len__(self) -> int:
        return len(self._member_rows)

    # --- definitions -----------------------------------------------------------------------------

    def resolve(self, define: Define) -> int | None:
        """Return the route of a node's gauge or counter. Return None for an instrument like any other."""
        name = define.labels.get(NODE_LABEL)
        if name is None or define.kind == "series":
            return None
        node = self._node_numbers.get(name, len(self._nodes))
        if node >= limits.NODE_NAMES:
            return None
        if node == len(self._nodes):
            self._node_numbers[name] = node
            self._nodes.append(name)
        if define.kind == "counter":
            if self._is_leaf or node < limits.NODES_APART:
                return None
            return self._registry.resolve(
                "counter", define.name, {**define.labels, NODE_LABEL: OTHERS}, define.unit
            )
        labels = {key: value for key, value in define.labels.items() if key != NODE_LABEL}
        return self._member(define, FoldedRow(define.name, labels, define.unit), node)

    def _member(self, define: Define, figure: FoldedRow, node: int) -> int | None:
        row = self._row(figure)
        if row < 0:
            return row if row == CONFLICT else None
        place = row << _NODE_BITS | node
        member = self._members.get(place)
        if member is None:
            if len(self) >= (limits.NODE_GAUGES_RELAYED if self._is_leaf else limits.NODE_GAUGES):
                return None
            member = self._members[place] = len(self)
            self._member_rows.append(row)
            self._member_nodes.append(node)
            self._gauges_apart.append(self._gauge_apart(define, row, node))
            self._columns = None
        return FOLDED << INDEX_BITS | member

    def _row(self, row: FoldedRow) -> int:
        """Return the number of a row, CONFLICT, or UNKNOWN if there is no room."""
        if self._registry.conflicts("gauge", row.name, row.unit):
            return CONFLICT
        key = _key(row.name, row.labels)
        number = self._row_numbers.get(key)
        if number is None:
            if len(self._rows) >= limits.NODE_FIGURES:
                return UNKNOWN
            number = self._row_numbers[key] = len(self._rows)
            self._rows.append(row)
            self._gauges_of_all.append(_APART)
        return number

    def _gauge_apart(self, define: Define, row: int, node: int) -> int:
        """Return the index of a new gauge for one node. If there are too many, let the row have a gauge for all."""
        if self._is_leaf or (node < limits.NODES_APART and self._apart < limits.NODE_GAUGES_APART):
            self._apart += 1
            return self._registry.beside(define.name, define.labels, define.unit)
        if self._gauges_of_all[row] == _APART:
            of_row = self._rows[row]
            self._gauges_of_all[row] = self._registry.beside(
                of_row.name, {**of_row.labels, NODE_LABEL: ALL_NODES}, of_row.unit
            )
        return _APART

    # --- values ----------------------------------------------------------------------------------

    def add(self, lines: GaugeArrays) -> None:
        """Add values. `lines.id` are distinct members."""
        rows, nodes, apart = self._arrays()
        self._grow()
        members = lines.id
        self._is_new = True
        newer = lines.time_ns >= self._time_ns[members]
        self._value[members[newer]] = lines.value[newer]
        self._time_ns[members[newer]] = lines.time_ns[newer]
        np.maximum.at(self._heard_ns, nodes[members], lines.time_ns)
        np.minimum.at(self._least, rows[members], lines.min)
        np.maximum.at(self._greatest, rows[members], lines.max)
        gauges = apart[members]
        is_apart = gauges != _APART
        if is_apart.any():
            self._table.add_sums(lines.take(is_apart).with_ids(gauges[is_apart]))
        if not is_apart.all():
            np.add.at(self._events, rows[members[~is_apart]], lines.events[~is_apart])

    def fold(self) -> None:
        """Set the gauges that stand for all nodes. Call it at the end of an interval."""
        of_all = np.array(self._gauges_of_all, np.int64)
        if not self._is_new or not (of_all != _APART).any():
            return
        self._is_new = False
        self._grow()
        rows, nodes, _ = self._arrays()
        heard = self._heard_ns > self._heard_ns.max(initial=0) - _SILENT_NS
        members = np.flatnonzero((self._time_ns > 0) & heard[nodes] & (of_all[rows] != _APART))
        if not members.size:
            return
        members = members[np.lexsort((self._value[members], rows[members]))]
        folded = rows[members]
        starts = np.flatnonzero(np.diff(folded, prepend=-1))
        ends = np.append(starts[1:], members.size)
        values, of_row = self._value[members], folded[starts]
        half = ends - starts
        median = values[starts + (half - 1) // 2] / 2.0 + values[starts + half // 2] / 2.0
        self._table.add_sums(
            GaugeArrays(
                id=of_all[of_row],
                events=self._events[of_row],
                value=median,
                time_ns=np.maximum.reduceat(self._time_ns[members], starts),
                min=self._least[of_row],
                max=self._greatest[of_row],
                imprecise=np.zeros(of_row.size, np.int64),
            )
        )
        self._events[of_row] = 0
        for row, start, end in zip(of_row.tolist(), starts.tolist(), ends.tolist(), strict=True):
            least, greatest = members.item(start), members.item(end - 1)
            self._spreads[self._gauges_of_all[row]] = NodeSpread(
                nodes=end - start,
                least=self._value.item(least),
                least_node=self._nodes[self._member_nodes[least]],
                greatest=self._value.item(greatest),
                greatest_node=self._nodes[self._member_nodes[greatest]],
            )

    def put_into(self, stats: list[GaugeStat]) -> list[GaugeStat]:
        """Put the spreads over the nodes into the stats of their gauges, and return all stats."""
        for gauge, spread in self._spreads.items():
            stats[gauge] = replace(stats[gauge], over_nodes=spread)
        return stats

    def _arrays(self) -> tuple[Integers, Integers, Integers]:
        """Return the row, the node and the gauge of each member."""
        if self._columns is None:
            lists = (self._member_rows, self._member_nodes, self._gauges_apart)
            rows, nodes, apart = (np.array(numbers, np.int64) for numbers in lists)
            self._columns = rows, nodes, apart
        return self._columns

    def _grow(self) -> None:
        """Give all columns their length."""
        members, nodes, rows = len(self), len(self._nodes), len(self._rows)
        if self._value.size < members:
            self._value, self._time_ns = _longer(self._value, members), _longer(self._time_ns, members)
        if self._heard_ns.size < nodes:
            self._heard_ns = _longer(self._heard_ns, nodes)
        if self._events.size < rows:
            self._events = _longer(self._events, rows)
            self._least = _longer(self._least, rows, np.inf)
            self._greatest = _longer(self._greatest, rows, -np.inf)


def _longer(column: NDArray[Any], size: int, fill: float = 0) -> NDArray[Any]:
    return np.concatenate((column, np.full(size - column.size, fill, column.dtype)))


def _key(name: str, labels: Mapping[str, str]) -> tuple[str, tuple[tuple[str, str], ...]]:
    return name, tuple(sorted(labels.items()))
