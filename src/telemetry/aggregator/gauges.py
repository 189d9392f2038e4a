"""Gauges as columns: the newest value by event time wins, whichever producer sent it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from telemetry import limits
from telemetry.aggregator.checkpoint import ArrayColumn
from telemetry.aggregator.nodes.columns import GaugeArrays
from telemetry.aggregator.snapshot_numbers import grown, plain
from telemetry.wire.history import ValueColumns
from telemetry.wire.snapshot import GaugeStat

Index = NDArray[np.intp]
Values = NDArray[np.float64]
Times = NDArray[np.int64]


class GaugeTable:
    """Values of all gauges. The caller passes finite values, with times of at least 0 in ns of the run's clock."""

    STATE: ClassVar[Mapping[str, Any]] = {
        "_value": ArrayColumn(np.float64),
        "_min": ArrayColumn(np.float64),
        "_max": ArrayColumn(np.float64),
        "_time_ns": ArrayColumn(np.int64),
        "_events": ArrayColumn(np.int64),
        "_touched": ArrayColumn(np.bool_),
        "_imprecise": ArrayColumn(np.int64),
        "_sliced": ArrayColumn(np.bool_),
    }
    ADDED: ClassVar[tuple[str, ...]] = ("_imprecise", "_sliced")
    DERIVED: ClassVar[tuple[str, ...]] = ("_names",)

    def __init__(self) -> None:
        self._names: list[tuple[str, dict[str, str], str]] = []
        self._value = np.zeros(0, np.float64)
        self._min = np.zeros(0, np.float64)
        self._max = np.zeros(0, np.float64)
        self._time_ns = np.zeros(0, np.int64)
        self._events = np.zeros(0, np.int64)
        self._touched = np.zeros(0, np.bool_)
        self._sliced = np.zeros(0, np.bool_)
        """Gauges that were set in earlier slices of the interval."""
        self._imprecise = np.zeros(0, np.int64)
        """Number of values that float64 rounded before they arrived, as far as can be detected."""

    def restored(self) -> None:
        used = self._events > 0
        values = (self._value, self._min, self._max)
        if not all(np.isfinite(column[used]).all() for column in values) or self._time_ns.min(initial=0) < 0:
            raise ValueError("an invalid gauge")

    def __len__(self) -> int:
        return len(self._names)

    @property
    def values(self) -> int:
        """Number of values of all gauges."""
        return int(self._events.sum())

    def add(self, name: str, labels: dict[str, str], unit: str) -> int:
        """Add a gauge and return its index, dense from 0."""
        at = len(self._names)
        self._names.append((name, labels, unit))
        self._value = grown(self._value, at + 1)
        self._min = grown(self._min, at + 1)
        self._max = grown(self._max, at + 1)
        self._time_ns = grown(self._time_ns, at + 1)
        self._events = grown(self._events, at + 1)
        self._touched = grown(self._touched, at + 1)
        self._sliced = grown(self._sliced, at + 1)
        self._imprecise = grown(self._imprecise, at + 1)
        self._min[at], self._max[at] = np.inf, -np.inf
        return at

    def record(self, index: Index, value: Values, time_ns: Times) -> None:
        """Set values. For equal times, the later entry of the arrays or the later call wins."""
        self._events += np.bincount(index, minlength=len(self._events))
        np.minimum.at(self._min, index, value)
        np.maximum.at(self._max, index, value)
        self._touched[index] = True
        magnitude = np.abs(value)
        if magnitude.max() >= limits.EXACT_INTEGER:
            np.add.at(self._imprecise, index[magnitude >= limits.EXACT_INTEGER], 1)
        order = np.argsort(time_ns, kind="stable")
        order = order[time_ns[order] >= self._time_ns[index[order]]]
        self._value[index[order]] = value[order]  # for repeated indices the last assignment stays: the newest value
        self._time_ns[index[order]] = time_ns[order]

    @property
    def usual_columns(self) -> tuple[NDArray[Any], ...] | None:
        """The columns in which compiled code sets values, or None without gauges."""
        if not self._names:
            return None
        return self._value, self._min, self._max, self._time_ns, self._events, self._touched

    def add_sums(self, sums: GaugeArrays) -> None:
        """Set values that another aggregator has heard. `sums.id` are distinct indices.

        For equal times, the later call wins, as in `record`.
        """
        index = sums.id
        self._events[index] += sums.events
        self._min[index] = np.minimum(self._min[index], sums.min)
        self._max[index] = np.maximum(self._max[index], sums.max)
        self._touched[index] = True
        self._imprecise[index] += sums.imprecise
        newer = sums.time_ns >= self._time_ns[index]
        self._value[index[newer]] = sums.value[newer]
        self._time_ns[index[newer]] = sums.time_ns[newer]

    def totals(self) -> GaugeArrays:
        """Return columns of all gauges, as views."""
        size = len(self)
        columns = (self._events, self._value, self._time_ns, self._min, self._max, self._imprecise)
        return GaugeArrays.of([np.arange(size), *(column[:size] for column in columns)])

    def roll(self) -> ValueColumns:
        """End an interval: return the value of each gauge that was set in it."""
        self.slice()
        columns = self._columns(self._sliced)
        self._sliced[:] = False
        return columns

    def slice(self) -> ValueColumns:
        """End a slice of the interval: return the value of each gauge that was set in it."""
        columns = self._columns(self._touched)
        self._sliced |= self._touched
        self._touched[:] = False
        return columns

    def _columns(self, chosen: NDArray[np.bool_]) -> ValueColumns:
        touched = np.flatnonzero(chosen[: len(self)])
        return ValueColumns(touched.astype("<u4").tobytes(), self._value[touched].astype("<f8").tobytes())

    def stats(self, shift_ns: int = 0) -> list[GaugeStat]:
        """Return all gauges by index; an unset gauge has no value.

        `shift_ns` converts the run's clock to the wall clock.
        """
        columns = zip(
            self._names,
            self._value.tolist(),
            self._min.tolist(),
            self._max.tolist(),
            self._events.tolist(),
            self._time_ns.tolist(),
            self._imprecise.tolist(),
            strict=False,  # columns have spare capacity
        )
        return [
            GaugeStat(
                name=name,
                labels=labels,
                unit=unit,
                value=plain(value),
                min=plain(low),
                max=plain(high),
                events=events,
                time_ns=max(0, time_ns + shift_ns),
                imprecise=imprecise,
            )
            if events
            else GaugeStat(name=name, labels=labels, unit=unit)
            for (name, labels, unit), value, low, high, events, time_ns, imprecise in columns
        ]
