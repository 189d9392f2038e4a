"""Extents: beginnings and ends of instruments that are defined within a series of durations, their leader.

A row of a leader gives the beginning and end of a duration. Rows of its followers up to the newest beginning are
inside. A beginning is known only at its end, and beginnings arrive in any order. So a row that is later than all
beginnings waits in the tail for a leader's row that began even later.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from telemetry import limits
from telemetry.aggregator.batch_rows import KIND_BITS, KindRows, PendingColumns, PendingRows, Slots, slot_of
from telemetry.aggregator.checkpoint import PART, ArrayColumn
from telemetry.aggregator.counters import CounterTable
from telemetry.aggregator.registry import OVERFLOW, Registry
from telemetry.aggregator.rows import INDEX_BITS, KIND_CODES, Routes
from telemetry.aggregator.series.node_extents import NodeExtents
from telemetry.aggregator.snapshot_numbers import LARGEST, bounded, grown, plain
from telemetry.wire.events import Kind, Labels, Name
from telemetry.wire.snapshot import CounterStat, Extent, SeriesStat
from telemetry.wire.units import TIME_NS

_FEWEST: Final = 1_024  # minimum number of rows for a scan
Index = NDArray[np.intp]
Values = NDArray[np.float64]
_Stat = TypeVar("_Stat", CounterStat, SeriesStat)
_NEVER: Final = np.iinfo(np.int64).max
_LONGEST_NS: Final = float(1 << 62)  # times start at 0
_MOST_WITNESSED: Final = 1 << 13  # rows; the rows of one turn are added to that
_KINDS: Final[tuple[Kind, ...]] = ("series", "counter")


class _RouteIndex:
    """Map from a route to the index of a relevant instrument. −1 for all others, including unknown routes."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places = np.full(1, -1, np.int32)

    def __getitem__(self, slots: Slots) -> NDArray[np.int32]:
        return self._places.take(slots, mode="clip")

    def of(self, slot: int) -> int:
        return int(self._places[min(slot, self._places.size - 1)])

    def put(self, slot: int, number: int) -> None:
        size = self._places.size - 1
        if slot >= size:
            places = np.full(max(slot + 2, 2 * size), -1, np.int32)
            places[:size] = self._places[:-1]
            self._places = places
        self._places[slot] = number


class Extents:
    """Columns by leader. Followers are counters and series; a leader may follow itself.

    The overflow instruments are excluded, because they mix many instruments.
    """

    STATE: ClassVar[Mapping[str, Any]] = {
        "leaders": list[tuple[Name, Labels]],
        "followers": list[tuple[Kind, int, int]],
        "_first": ArrayColumn(np.int64),
        "_last": ArrayColumn(np.int64),
        "_last_done": ArrayColumn(np.int64),
        "_end": ArrayColumn(np.int64),
        "_inside": PART,
        "_tail": PART,
        "_nodes": PART,
    }
    ADDED: ClassVar[tuple[str, ...]] = ("_nodes",)
    DERIVED: ClassVar[tuple[str, ...]] = (
        *("_registry", "_warn", "_leaders", "_followers", "_leader_of", "_leads", "_follows"),
        *("_concerned", "concerned_count", "_ns_per_unit", "_pending"),
    )

    def __init__(self, registry: Registry, warn: Callable[[str], None]) -> None:
        self._registry = registry
        self._warn = warn
        self._leaders: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
        """Leaders by name and labels, even if the series does not exist yet."""
        self._followers: list[tuple[Kind, int]] = []
        self._leader_of = np.zeros(0, np.int32)
        """Leader of each follower."""
        self._leads = _RouteIndex()
        self._follows = _RouteIndex()
        self._concerned = {code: np.zeros(0, np.bool_) for code in KIND_CODES.values()}
        self.concerned_count = 0
        """Number that grows with each leader and follower."""
        """Kind → True for indices of leaders and followers. The last entry stands for all larger indices."""
        self._ns_per_unit = np.zeros(0)
        self._first = np.zeros(0, np.int64)
        self._last = np.zeros(0, np.int64)
        self._last_done = np.zeros(0, np.int64)
        self._end = np.zeros(0, np.int64)
        self._inside = CounterTable(1)
        """Counters by follower: their events count the rows inside, their value is the sum."""
        self._tail = Tail()
        self._nodes = NodeExtents()
        self._pending = PendingRows()

    def restored(self) -> None:
        used = self._last >= 0
        ordered = (self._first <= self._last) & (self._last <= self._last_done) & (self._last_done <= self._end)
        followed = {leader for _, _, leader in self.followers}
        if not ordered[used].all() or self._first.min(initial=0) < 0 or len(followed) != len(self):
            raise ValueError("an invalid extent")
        if len(self._nodes) > max(16, 2 * len(self._followers)):
            raise ValueError("extents of nodes without an owner")
        if len(self._tail) and self._tail.places.max() >= len(self._followers):
            raise ValueError("a row without an owner")

    def __len__(self) -> int:
        return len(self._leaders)

    # --- leaders and followers -------------------------------------------------------------------

    @property
    def leaders(self) -> list[tuple[str, dict[str, str]]]:
        """The names and labels of leaders. New extents can be assigned these once."""
        return [(name, dict(labels)) for name, labels in self._leaders]

    @leaders.setter
    def leaders(self, leaders: list[tuple[str, dict[str, str]]]) -> None:
        for number, (name, labels) in enumerate(leaders):
            if self._leader(name, labels) != number:
                raise ValueError("a leader that comes twice")

    @property
    def followers(self) -> list[tuple[Kind, int, int]]:
        """Kind, index and leader of each follower. New extents with leaders can be assigned these once."""
        pairs = zip(self._followers, self._leader_of.tolist(), strict=False)  # columns have spare capacity
        return [(kind, index, leader) for (kind, index), leader in pairs]

    @followers.setter
    def followers(self, followers: list[tuple[Kind, int, int]]) -> None:
        for kind, index, leader in followers:
            exists = kind in _KINDS and 0 <= index < len(self._registry.instruments[kind])
            if not exists or not 0 <= leader < len(self) or self._follows.of(_slot(kind, index)) >= 0:
                raise ValueError("an invalid follower")
            self._add_follower(kind, index, leader)

    def define(self, route: int, within: str, labels: dict[str, str]) -> None:
        """Define an instrument within the series of that name and the instrument's labels.

        The first definition stays.

        Rows recorded before are not inside, and do not affect the leader's times.
        """
        self.settle()
        kind, index = _kind_and_index(route)
        if kind not in _KINDS or self._registry.instruments[kind][index].name == OVERFLOW:
            return
        number = self._follows.of(_slot(kind, index))
        if number < 0:
            self._add_follower(kind, index, self._leader(within, labels))
        elif self._leaders.get(_key(within, labels)) != self._leader_of[number]:
            name = self._registry.instruments[kind][index].name
            self._warn(f"{kind} {name!r} was defined before within another series; the first definition is used")

    def meet(self, index: int, name: str, labels: dict[str, str], unit: str) -> None:
        """Register a new series, which may already be named as a leader."""
        leader = self._leaders.get(_key(name, labels))
        if leader is not None:
            self.settle()
            self._bind(leader, index, name, unit)

    def _leader(self, name: str, labels: dict[str, str]) -> int:
        """Return a leader, new or known. Its series may not exist yet."""
        key = _key(name, labels)
        leader = self._leaders.get(key)
        if leader is not None:
            return leader
        leader = self._leaders[key] = len(self._leaders)
        size = leader + 1
        self._ns_per_unit = grown(self._ns_per_unit, size)
        self._first, self._last = grown(self._first, size), grown(self._last, size)
        self._last_done, self._end = grown(self._last_done, size), grown(self._end, size)
        self._first[leader], self._last[leader] = _NEVER, -1
        self._last_done[leader] = self._end[leader] = -1
        index = self._registry.series(name, labels)
        if index is not None:
            self._bind(leader, index, name, self._registry.instruments["series"][index].unit)
        return leader

    def _bind(self, leader: int, index: int, name: str, unit: str) -> None:
        if unit in TIME_NS:
            self._ns_per_unit[leader] = TIME_NS[unit]
            self._leads.put(_slot("series", index), leader)
            self._concern("series", index)
        else:
            self._warn(f"series {name!r} has no unit of time, so the start of its values is unknown")

    def _add_follower(self, kind: Kind, index: int, leader: int) -> None:
        number = self._inside.add("", {}, "")
        self._followers.append((kind, index))
        self._leader_of = grown(self._leader_of, number + 1)
        self._leader_of[number] = leader
        self._follows.put(_slot(kind, index), number)
        self._concern(kind, index)

    def _concern(self, kind: Kind, index: int) -> None:
        code = KIND_CODES[kind]
        self._concerned[code] = grown(self._concerned[code], index + 2)
        self._concerned[code][index] = True
        self.concerned_count += 1

    # --- input -----------------------------------------------------------------------------------

    def witness(self, kind: int, part: KindRows) -> None:
        """Buffer applied rows of leaders and followers."""
        concerned = self._concerned[kind]
        if concerned.size:
            at = concerned.take(part.indices, mode="clip").nonzero()[0]
            if at.size:
                self._pending.add(kind, part, at)
                if self._pending.rows >= _MOST_WITNESSED:
                    self.settle()

    @property
    def watched(self) -> tuple[NDArray[np.bool_], ...]:
        """Marks of the leaders and followers, by kind and index. An index beyond them has no mark."""
        return tuple(self._concerned.values())

    def witness_columns(
        self,
        kind: int,
        columns: tuple[Index, Values, NDArray[np.uint64]],
        row_ranges: Sequence[tuple[int, tuple[int, int]]],
        now_ns: int,
    ) -> None:
        """Buffer applied rows of leaders and followers: index, value and time.

        `row_ranges` has the number of these rows and the anchor of each row range.
        """
        self._pending.add_columns(kind, columns, row_ranges, now_ns)
        if self._pending.rows >= _MOST_WITNESSED:
            self.settle()

    def settle(self) -> None:
        """Process the buffered rows. The result does not depend on the time of the call.

        The tail is scanned after the same rows in any case. A state is saved settled.
        """
        if not self._pending.rows:
            return
        rows, self._pending = self._pending.columns(), PendingRows()
        ends, part, taken = rows.part_ends, 0, 0
        while (part := bisect_left(ends, taken + self._tail.rows_until_due, part)) < len(ends):
            self._take(rows, slice(taken, ends[part]))
            taken = ends[part]
            self._look_through()
        self._take(rows, slice(taken, ends[-1]))

    def _take(self, rows: PendingColumns, part: slice) -> None:
        slots, values, ends = rows.slots[part], rows.values[part], rows.wall_times[part]
        if not slots.size:
            return
        self._tail.expect(slots.size)
        leaders, places = self._leads[slots], self._follows[slots]
        leading = (leaders >= 0).nonzero()[0]
        self._lead(leaders[leading], values[leading], ends[leading])
        following = (places >= 0).nonzero()[0]
        self._tail.add(places[following], ends[following], values[following])

    def _lead(self, leaders: NDArray[np.int32], value: Values, ends: NDArray[np.int64]) -> None:
        scale = self._ns_per_unit.take(leaders)
        began = ends - np.rint(np.minimum(value, _LONGEST_NS / scale) * scale).astype(np.int64)
        np.maximum(began, 0, out=began)
        np.minimum.at(self._first, leaders, began)
        np.maximum.at(self._end, leaders, ends)
        self._last_done[leaders[began > self._last.take(leaders)]] = -1
        np.maximum.at(self._last, leaders, began)
        newest = (began == self._last.take(leaders)).nonzero()[0]  # if several began last, the latest end counts
        np.maximum.at(self._last_done, leaders[newest], ends[newest])

    def _look_through(self) -> None:
        """Count rows up to the newest beginning as inside.

        The oldest rows beyond the limit count as inside too.
        """
        self._count(*self._tail.release(self._is_inside(self._tail.rows)))
        if self._tail.is_full:
            self._warn(
                f"more than {limits.EXTENT_ROWS:,} events came after the newest beginning: the oldest of them "
                "count as inside"
            )
            self._count(*self._tail.shed())

    def _count(self, places: NDArray[np.int32], value: Values) -> None:
        if places.size:
            self._inside.record(places.astype(np.intp), value)

    def _is_inside(self, rows: TailRows) -> NDArray[np.bool_]:
        inside: NDArray[np.bool_] = rows.wall_times <= self._last.take(self._leader_of.take(rows.places))
        return inside

    # --- output ----------------------------------------------------------------------------------

    def by_instrument(self) -> dict[Kind, dict[int, Extent]]:
        """Return the extents of followers whose leader has recorded values, by kind and index."""
        self.settle()
        extents: dict[Kind, dict[int, Extent]] = {kind: {} for kind in _KINDS}
        tail = self._tail
        inside = self._is_inside(tail.rows)
        size = len(self._followers)
        counts = np.bincount(tail.places[inside], minlength=size).tolist()
        totals = np.bincount(tail.places[inside], tail.values[inside], minlength=size).tolist()
        for number, (kind, index) in enumerate(self._followers):
            leader = int(self._leader_of[number])
            own = None
            if self._last[leader] >= 0:
                own = Extent(
                    first_ns=int(self._first[leader]),
                    last_ns=int(self._last[leader]),
                    last_done_ns=int(self._last_done[leader]),
                    end_ns=int(self._end[leader]),
                    inside=self._inside.events(number) + counts[number],
                    inside_total=bounded(self._inside.value(number) + plain(min(totals[number], LARGEST))),
                )
            joined = self._nodes.join(number, own)
            if joined is not None:
                extents[kind][index] = joined
        return extents

    def places_of(self, routes: Routes) -> NDArray[np.intp]:
        """Return the follower that each route leads to, or −1."""
        kinds = routes >> INDEX_BITS
        return self._follows[(routes - (kinds << INDEX_BITS)) << KIND_BITS | kinds].astype(np.intp)

    @property
    def nodes(self) -> NodeExtents:
        """Extents that leaves have worked out, by follower."""
        return self._nodes

    def followers_from(self, number: int) -> list[tuple[Kind, int, str]]:
        """Return kind and index of the followers from a number on, each with the name of its leader."""
        if number == len(self._followers):
            return []
        names = [name for name, _ in self._leaders]
        return [(kind, index, names[leader]) for kind, index, leader in self.followers[number:]]

    @property
    def follower_count(self) -> int:
        return len(self._followers)


def with_extents(stats: list[_Stat], extents: Mapping[int, Extent]) -> list[_Stat]:
    """Put the extents of some instruments into their stats, and return all stats."""
    for index, extent in extents.items():
        stats[index] = replace(stats[index], extent=extent)
    return stats


def _slot(kind: Kind, index: int) -> int:
    return slot_of(KIND_CODES[kind], index)


def _key(name: str, labels: dict[str, str]) -> tuple[str, tuple[tuple[str, str], ...]]:
    return name, tuple(sorted(labels.items()))


def _kind_and_index(route: int) -> tuple[Kind, int]:
    code = route >> INDEX_BITS
    kind = next(kind for kind, number in KIND_CODES.items() if number == code)
    return kind, route - (code << INDEX_BITS)


class TailRows(NamedTuple):
    places: NDArray[np.int32]
    wall_times: NDArray[np.int64]
    values: NDArray[np.float64]


class Tail:
    """Rows in order of arrival.

    They are scanned only after as many rows arrived as were left by the last scan, so the cost per row is constant.
    So there are at most twice EXTENT_ROWS, plus the rows of one turn.
    """

    STATE: ClassVar[Mapping[str, Any]] = {"rows": TailRows, "_left": int, "_came": int}
    DERIVED: ClassVar[tuple[str, ...]] = ("_places", "_wall_times", "_values", "_used")

    def __init__(self) -> None:
        self._places = np.zeros(0, np.int32)
        self._wall_times = np.zeros(0, np.int64)
        self._values = np.zeros(0)
        self._used = 0
        self._left = 0
        """Number of rows left after the last scan."""
        self._came = 0
        """Number of rows announced since then."""

    def restored(self) -> None:
        values = self.values
        good = bool((values >= 0).all() and (values < np.inf).all()) and self.places.min(initial=0) >= 0
        good = good and self._used <= self._left + self._came
        if not good or not 0 <= self._left <= limits.EXTENT_ROWS or self._came < 0 or self.rows_until_due <= 0:
            raise ValueError("an invalid tail")

    def __len__(self) -> int:
        return self._used

    @property
    def rows(self) -> TailRows:
        """The rows, as views. A new tail can be assigned these once."""
        return TailRows(self.places, self.wall_times, self.values)

    @rows.setter
    def rows(self, rows: TailRows) -> None:
        if len({len(column) for column in rows}) != 1:
            raise ValueError("an invalid tail")
        self.add(*rows)

    @property
    def places(self) -> NDArray[np.int32]:
        """The follower of each row."""
        return self._places[: self._used]

    @property
    def wall_times(self) -> NDArray[np.int64]:
        return self._wall_times[: self._used]

    @property
    def values(self) -> NDArray[np.float64]:
        return self._values[: self._used]

    @property
    def rows_until_due(self) -> int:
        """Number of further rows until a scan for rows inside is due."""
        return max(_FEWEST, self._left) - self._came

    @property
    def is_full(self) -> bool:
        """True if more rows are left than there is room for."""
        return self._used > limits.EXTENT_ROWS

    def expect(self, rows: int) -> None:
        """Announce the maximum number of rows that will be added before the next scan."""
        self._came += rows

    def add(self, places: NDArray[np.int32], wall_times: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        start, self._used = self._used, self._used + len(places)
        self._places = grown(self._places, self._used)
        self._wall_times = grown(self._wall_times, self._used)
        self._values = grown(self._values, self._used)
        self._places[start : self._used] = places
        self._wall_times[start : self._used] = wall_times
        self._values[start : self._used] = values

    def release(self, gone: NDArray[np.bool_]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Remove these rows. Return their followers and values."""
        places, values = self.places[gone], self.values[gone]
        stay = ~gone
        self._places, self._wall_times, self._values = self.places[stay], self.wall_times[stay], self.values[stay]
        self._used = self._left = len(self._places)
        self._came = 0
        return places, values

    def shed(self) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Remove the oldest rows beyond the limit. Returns as `release`."""
        return self.release(np.arange(self._used) < self._used - limits.EXTENT_ROWS)
