"""Counters as columns: sums of integers are exact, other sums are compensated."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from telemetry import limits
from telemetry.aggregator.checkpoint import PART, ArrayColumn
from telemetry.aggregator.event_times import EventTimes
from telemetry.aggregator.nodes.columns import CounterArrays
from telemetry.aggregator.snapshot_numbers import LARGEST, bounded, grown
from telemetry.wire.history import ValueColumns
from telemetry.wire.snapshot import CounterStat

Index = NDArray[np.intp]
Values = NDArray[np.float64]

EXACT_ADDEND: Final = float(limits.EXACT_INTEGER // (1 << limits.CHUNK_EVENTS.bit_length()))
"""Bound of integers whose sum over a chunk fits in float64 without rounding."""
_LEAST_EXPONENT: Final = -1_074  # of a float64
_SPILL: Final = 1 << 62
"""Bound of an int64 total. A larger one moves into a Python integer. One chunk adds less than 2**53."""


class CounterTable:
    """Totals of all counters. They never decrease: the caller passes finite increments of at least 0."""

    STATE: ClassVar[Mapping[str, Any]] = {
        "_whole": ArrayColumn(np.int64),
        "huge": dict[int, str],
        "_fraction": ArrayColumn(np.float64),
        "_compensation": ArrayColumn(np.float64),
        "_fractional": ArrayColumn(np.bool_),
        "_events": ArrayColumn(np.int64),
        "_increase": ArrayColumn(np.float64),
        "_rolls": list[tuple[float, Values]],
        "_imprecise": ArrayColumn(np.int64),
        "_interval_fraction": ArrayColumn(np.float64),
        "_interval_compensation": ArrayColumn(np.float64),
        "_sliced": ArrayColumn(np.float64),
        "times": PART,
    }
    ADDED: ClassVar[tuple[str, ...]] = (
        *("_imprecise", "_interval_fraction", "_interval_compensation", "_sliced", "times"),
    )
    DERIVED: ClassVar[tuple[str, ...]] = ("_names", "_huge", "_rates", "_leaf")

    def __init__(self, window_rolls: int, *, leaf: bool = False) -> None:
        self._leaf = leaf
        self._names: list[tuple[str, dict[str, str], str]] = []
        self._whole = np.zeros(0, np.int64)
        self._huge: dict[int, int] = {}
        self._fraction = np.zeros(0, np.float64)
        self._compensation = np.zeros(0, np.float64)
        self._fractional = np.zeros(0, np.bool_)
        self._events = np.zeros(0, np.int64)
        self._increase = np.zeros(0, np.float64)
        self._sliced = np.zeros(0, np.float64)
        """Increase in the earlier slices of the interval."""
        self._imprecise = np.zeros(0, np.int64)
        """Number of increments that float64 rounded before they arrived, as far as can be detected."""
        self._interval_fraction = np.zeros(0, np.float64)
        """Sum of the fractions since the last `take_fractions`, only of a leaf."""
        self._interval_compensation = np.zeros(0, np.float64)
        self._rolls: deque[tuple[float, Values]] = deque(maxlen=window_rolls)
        self._rates: list[float] = []
        self.times = EventTimes()

    def restored(self) -> None:
        if not all(seconds > 0.0 and len(increase) <= len(self) for seconds, increase in self._rolls):
            raise ValueError("an invalid roll")
        self.times.forget_before(self._events[: len(self)])
        self._rates = self._window_rates() if self._rolls else []

    @property
    def huge(self) -> dict[int, str]:
        """The parts of totals beyond 64 bits, in hexadecimal, because msgpack can't hold such integers."""
        return {index: f"{number:x}" for index, number in self._huge.items()}

    @huge.setter
    def huge(self, huge: dict[int, str]) -> None:
        if not huge.keys() <= set(range(len(self))):
            raise ValueError("a total of no counter")
        self._huge = {index: int(digits, 16) for index, digits in huge.items()}

    def __len__(self) -> int:
        return len(self._names)

    @property
    def values(self) -> int:
        """Number of increments of all counters."""
        return int(self._events.sum())

    def add(self, name: str, labels: dict[str, str], unit: str) -> int:
        """Add a counter and return its index, dense from 0."""
        self._names.append((name, labels, unit))
        size = len(self._names)
        self._whole = grown(self._whole, size)
        self._fraction = grown(self._fraction, size)
        self._compensation = grown(self._compensation, size)
        self._fractional = grown(self._fractional, size)
        self._events = grown(self._events, size)
        self._increase = grown(self._increase, size)
        self._sliced = grown(self._sliced, size)
        self._imprecise = grown(self._imprecise, size)
        self._interval_fraction = grown(self._interval_fraction, size)
        self._interval_compensation = grown(self._interval_compensation, size)
        self.times.add()
        return size - 1

    def record(self, index: Index, value: Values) -> None:
        """Add any number of increments."""
        for start in range(0, len(index), limits.CHUNK_EVENTS):
            chunk = slice(start, start + limits.CHUNK_EVENTS)
            self._record_chunk(index[chunk], value[chunk])

    @property
    def usual_columns(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Values] | None:
        """The columns to which compiled code adds integers: totals, events, increase. None without counters."""
        return (self._whole, self._events, self._increase) if self._names else None

    def _record_chunk(self, index: Index, value: Values) -> None:
        size = len(self._whole)
        events = np.bincount(index, minlength=size)
        self._events += events
        largest = value.item(value.argmax())
        if largest == 1.0 and value.item(value.argmin()) == 1.0:
            self._add_sums(events, events)
            return
        whole = np.floor(value) == value
        if largest < EXACT_ADDEND and whole.all():
            self._add_whole(index, value)
            return
        small = value < EXACT_ADDEND
        self._add_whole(index[whole & small], value[whole & small])
        self._add_huge(index[~small], value[~small])
        self._add_fractions(index[~whole], value[~whole])

    def _add_whole(self, index: Index, value: Values) -> None:
        sums = np.bincount(index, value, minlength=len(self._whole))
        self._add_sums(sums, sums.astype(np.int64))

    def _add_sums(self, increase: NDArray[Any], whole: NDArray[np.int64]) -> None:
        self._increase += increase
        self._whole += whole
        while self._whole.item(i := int(self._whole.argmax())) > _SPILL:
            self._huge[i] = self._huge.get(i, 0) + int(self._whole[i])
            self._whole[i] = 0

    def _add_huge(self, index: Index, value: Values) -> None:
        for i, number in zip(index.tolist(), value.tolist(), strict=True):
            self._huge[i] = self._huge.get(i, 0) + int(number)
            self._increase[i] = min(float(self._increase[i]) + number, LARGEST)
            self._imprecise[i] += number >= limits.EXACT_INTEGER

    def _add_fractions(self, index: Index, value: Values) -> None:
        """Add fractions, which are below 2**53.

        Each chunk is split into a coarse part that sums exactly and a rest that hardly rounds. Over the chunks, the
        sum is Neumaier's.
        """
        if not len(index):
            return
        size = len(self._fraction)
        _, exponent = math.frexp(value.max())
        grain = math.ldexp(1.0, max(exponent + limits.CHUNK_EVENTS.bit_length() - 52, _LEAST_EXPONENT))
        coarse = np.rint(value / grain) * grain
        for part in (coarse, value - coarse):
            self._add_fraction_sums(np.bincount(index, part, minlength=size))
        self._fractional[index] = True

    def _add_fraction_sums(self, sums: NDArray[Any]) -> None:
        _add_compensated(self._fraction, self._compensation, sums)
        if self._leaf:
            _add_compensated(self._interval_fraction, self._interval_compensation, sums)
        self._increase += sums

    def add_sums(self, sums: CounterArrays) -> None:
        """Add increments that another aggregator has summed up. `sums.id` are distinct indices."""
        index = sums.id
        self._events[index] += sums.events
        self._imprecise[index] += sums.imprecise
        self.times.join(index, sums.first_ns, sums.last_ns)
        size = len(self._whole)
        if sums.huge.any() or sums.whole.max(initial=0) >= _SPILL:
            for i, number in zip(index.tolist(), sums.integers(), strict=True):
                self._huge[i] = self._huge.get(i, 0) + number
                self._increase[i] = min(float(self._increase[i]) + float(bounded(number)), LARGEST)
        else:
            whole = np.zeros(size, np.int64)
            whole[index] = sums.whole
            self._add_sums(whole, whole)
        if sums.fraction.any():
            fraction = np.zeros(size)
            fraction[index] = sums.fraction
            self._add_fraction_sums(fraction)
        self._fractional[index] |= sums.fractional

    def totals(self) -> CounterArrays:
        """Return columns of all counters; `huge` is zero, see `beyond`. Fractions are those of the interval."""
        size = len(self)
        return CounterArrays(
            np.arange(size),
            self._events[:size],
            self._whole[:size],
            np.zeros(size),
            self._interval_fraction[:size] + self._interval_compensation[:size],
            self._fractional[:size],
            self._imprecise[:size],
            self.times.first[:size],
            self.times.last[:size],
        )

    @property
    def beyond(self) -> Mapping[int, int]:
        """Return the parts of totals that are not in the column of integers, by counter."""
        return self._huge

    def start_interval(self) -> None:
        """Forget the fractions of the interval."""
        self._interval_fraction.fill(0.0)
        self._interval_compensation.fill(0.0)

    def events(self, index: int) -> int:
        """Return the number of increments so far."""
        return int(self._events[index])

    def value(self, index: int) -> int | float:
        """Return the total, as an int if all increments were integers."""
        whole = int(self._whole[index]) + self._huge.get(index, 0)
        if not self._fractional[index]:
            return bounded(whole)
        return float(bounded(whole)) + (float(self._fraction[index]) + float(self._compensation[index]))

    def roll(self, seconds: float, end_ns: int = 0) -> ValueColumns:
        """End an interval at `end_ns`: return the increase in it, and compute new rates over the window."""
        self.times.rolled_ns = end_ns
        self.slice()
        increase = self._sliced[: len(self)].copy()
        self._sliced[:] = 0
        self._rolls.append((seconds, increase))
        self._rates = self._window_rates()
        return _columns(increase)

    def slice(self) -> ValueColumns:
        """End a slice of the interval: return the increase in it."""
        columns = _columns(self._increase[: len(self)])
        with np.errstate(over="ignore"):
            np.minimum(self._sliced + self._increase, LARGEST, out=self._sliced)
        self._increase[:] = 0
        return columns

    def _window_rates(self) -> list[float]:
        seconds = self.times.window_seconds(sum(roll[0] for roll in self._rolls), self._events[: len(self)])
        total = np.zeros(len(self))
        with np.errstate(over="ignore"):
            for _, increase in self._rolls:
                total[: len(increase)] += increase
            rates: list[float] = np.minimum(total / seconds, LARGEST).tolist()
        return rates

    def stats(self) -> list[CounterStat]:
        """Return all counters by index. A total that no integer of a message can hold is marked as imprecise."""
        events, imprecise = self._events.tolist(), self._imprecise.tolist()
        rates = self._rates + [0.0] * (len(self) - len(self._rates))
        values = [self.value(index) for index in range(len(self))]
        times = self.times.ranges(self._events[: len(self)])
        return [
            CounterStat(
                name=name,
                labels=labels,
                unit=unit,
                value=values[i],
                events=events[i],
                rate=rates[i],
                imprecise=imprecise[i] or int(isinstance(values[i], float) and values[i] >= limits.EXACT_INTEGER),
                began_ns=times[i][0],
                ended_ns=times[i][1],
            )
            for i, (name, labels, unit) in enumerate(self._names)
        ]


def _columns(increase: Values) -> ValueColumns:
    changed = np.flatnonzero(increase)
    return ValueColumns(changed.astype("<u4").tobytes(), increase[changed].astype("<f8").tobytes())


def _add_compensated(total: Values, compensation: Values, term: Values) -> None:
    """Add to each total by Neumaier's sum, in place."""
    added = total + term
    larger = np.abs(total) >= np.abs(term)
    compensation += np.where(larger, (total - added) + term, (term - added) + total)
    total[:] = added
