"""The mapping of instruments from several histories to common indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from telemetry.errors import RunDirectoryError, UsageError
from telemetry.hdr.layout import Layout
from telemetry.merge.sources import SeriesId
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval, SeriesColumns, ValueColumns

_U32: Final = np.dtype("<u4")
_U64: Final = np.dtype("<u8")
_F64: Final = np.dtype("<f8")
_NONE: Final = -1
_KINDS: Final = ("series", "counter", "gauge")

_Array = NDArray[Any]
_Id = tuple[str, SeriesId]


class Instruments:
    """The instruments of several histories, each once.

    A series gets the lowest number of digits among the histories.
    """

    def __init__(self, keys: Sequence[tuple[str, Sequence[SeriesKey]]]) -> None:
        """Read (owner, keys) of each history.

        Raises UsageError if a series has different ticks in two histories.
        """
        self._known: dict[_Id, tuple[SeriesKey, str]] = {}
        sizes = dict.fromkeys(_KINDS, 0)
        for owner, own in keys:
            for key in own:
                if key.kind not in sizes:
                    continue
                known = self._known.get(_id(key))
                if known is None:
                    self._known[_id(key)] = replace(key, index=sizes[key.kind]), owner
                    sizes[key.kind] += 1
                else:
                    self._known[_id(key)] = _agreed(*known, key, owner), known[1]

    @property
    def keys(self) -> list[SeriesKey]:
        return [key for key, _ in self._known.values()]

    def translation(self, keys: Sequence[SeriesKey]) -> Translation:
        """Return the translation from indices of these keys to the common indices."""
        return Translation(keys, {identity: key for identity, (key, _) in self._known.items()})


class Translation:
    """A translation of one history's indices to the common indices."""

    def __init__(self, keys: Sequence[SeriesKey], known: dict[_Id, SeriesKey]) -> None:
        self._places: dict[str, _Array] = {}
        self._coarser: dict[int, tuple[Layout, Layout]] = {}
        """Index of a series → its layout, and the layout with fewer digits that it gets."""
        for kind in _KINDS:
            own = [key for key in keys if key.kind == kind]
            places = np.full(max((key.index for key in own), default=-1) + 2, _NONE, dtype=np.int64)
            for key in own:
                target = known[_id(key)]
                places[key.index] = target.index
                if kind == "series" and target.digits != key.digits:
                    self._coarser[key.index] = Layout.of(key.digits), Layout.of(target.digits)
            self._places[kind] = places

    def interval(self, interval: Interval) -> Interval:
        """Translate a decoded interval. Raises RunDirectoryError for an index without a key."""
        return replace(
            interval,
            series=self._series(interval.series),
            counters=self._values("counter", interval.counters),
            gauges=self._values("gauge", interval.gauges),
        )

    def _series(self, columns: SeriesColumns) -> SeriesColumns:
        old = np.frombuffer(columns.index, _U32)
        new = self._translated("series", old)
        occupied = np.frombuffer(columns.occupied, _U32)
        slots, counts = np.frombuffer(columns.slots, _U32), np.frombuffer(columns.counts, _U32)
        if self._coarser:
            slots = self._coarsened(old, np.cumsum(occupied, dtype=np.int64), slots)
        order = np.argsort(new)
        of_slots = np.argsort(np.repeat(new, occupied), kind="stable")
        return SeriesColumns(
            index=new[order].astype(_U32).tobytes(),
            count=np.frombuffer(columns.count, _U64)[order].tobytes(),
            total=np.frombuffer(columns.total, _F64)[order].tobytes(),
            min=np.frombuffer(columns.min, _F64)[order].tobytes(),
            max=np.frombuffer(columns.max, _F64)[order].tobytes(),
            occupied=occupied[order].tobytes(),
            slots=slots[of_slots].tobytes(),
            counts=counts[of_slots].tobytes(),
        )

    def _coarsened(self, old: _Array, ends: _Array, slots: _Array) -> _Array:
        """Convert slots to the layouts with fewer digits. A finer slot always lies within one coarser slot."""
        slots = slots.copy()
        for row, index in enumerate(old.tolist()):
            if index in self._coarser:
                finer, coarser = self._coarser[index]
                own = slice(int(ends[row - 1]) if row else 0, int(ends[row]))
                known = np.minimum(slots[own].astype(np.int64), finer.slots - 1)
                slots[own] = coarser.slot_of(finer.lowest_of(known))
        return slots

    def _values(self, kind: str, columns: ValueColumns) -> ValueColumns:
        new = self._translated(kind, np.frombuffer(columns.index, _U32))
        order = np.argsort(new)
        return ValueColumns(new[order].astype(_U32).tobytes(), np.frombuffer(columns.value, _F64)[order].tobytes())

    def _translated(self, kind: str, old: _Array) -> _Array:
        places = self._places[kind]
        new: _Array = places[np.minimum(old, places.size - 1)]
        unknown = old[new == _NONE]
        if unknown.size:
            raise RunDirectoryError(f"the history does not define {kind} {unknown[0]}")
        return new


def _id(key: SeriesKey) -> _Id:
    return key.kind, (key.name, tuple(sorted(key.labels.items())))


def _agreed(first: SeriesKey, first_owner: str, other: SeriesKey, owner: str) -> SeriesKey:
    if first.kind == "series" and first.ticks_per_unit != other.ticks_per_unit:
        lows = [f"{1.0 / key.ticks_per_unit:g}" for key in (first, other)]
        raise UsageError(
            f"the lowest values of series {first.name!r} differ: {lows[0]} in {first_owner} and "
            f"{lows[1]} in {owner}",
            hint="their histograms can't be added; give both the same `low`, or leave out one of the runs",
        )
    return replace(first, digits=min(first.digits, other.digits))
