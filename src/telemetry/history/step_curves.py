"""Curves of the values of steps, from the closed steps of a record log or of a record stream."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from telemetry import limits
from telemetry.common import formatting
from telemetry.common.memory import uncollected
from telemetry.errors import RunDirectoryError
from telemetry.statistics.hdr.layout import Floats, Integers
from telemetry.store.records import FILE_NAME, RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.events import ClosedStep, Closing, Spread, StreamRecord
from telemetry.wire.pictures import ProducersChange, StepCurve
from telemetry.wire.snapshot import MetricsSnapshot

_PLACES: Final = 6
POINTS: Final = 240
"""Largest number of points of a curve by default; it has half of them or more once it had all."""
NAMES: Final = 500
"""Largest number of curves by default."""
_HELD: Final = limits.STEPS_KEPT + 1
"""Closed steps of an axis that may still be corrected: a last correction can follow the step that ends the wait."""
_HELD_VALUES: Final = limits.STEP_VALUES
_REPORT_POINTS: Final = 24_000
_MOST_POINTS: Final = 500
_LEAST_POINTS: Final = 60
"""Points of all curves of a report, and of each one at most and at least."""
_ROOM: Final = 1 << 16
"""Values of all names that are kept in Python objects before they become points."""


class StepValues(NamedTuple):
    """A closed step with its corrections."""

    axis: str
    step: int
    wall_ns: int
    """Wall clock of its newest value when it was closed."""
    values: Mapping[str, float | None]
    """Null: not finite."""
    spread: Mapping[str, Spread]
    """Spread of each name that more than one producer reported."""


class StepCurves:
    """A collector of closed steps that keeps a bounded number of points of each value. Not thread-safe.

    Curves are by axis and name, in the order in which they appear. Further names than `names` are only counted.
    """

    def __init__(self, started_ns: int = 0, points: int = POINTS, names: int = NAMES) -> None:
        """`started_ns` is the wall clock of the run's start. There are 2 points or more."""
        self._started_ns = started_ns
        self._points = points
        self._most = names
        self._corrected = _Corrected()
        self._axes: dict[str, _AxisCurves] = {}
        self._names = 0
        self._left_out: set[tuple[str, str]] = set()

    @property
    def left_out(self) -> int:
        """Number of names without a curve, up to `limits.STEP_NAMES_KNOWN`."""
        return len(self._left_out)

    def feed(self, records: Iterable[StreamRecord]) -> bool:
        """Add the closed steps among these records. Return True if there are any."""
        fed = False
        for record in records:
            step = record.record
            if isinstance(step, ClosedStep):
                self._add(record.wall_ns, step)
                fed = True
        return fed

    def curves(self) -> list[StepCurve]:
        """Return the curves of all steps so far."""
        waiting: dict[str, list[StepValues]] = {}
        for step in self._corrected.waiting():
            waiting.setdefault(step.axis, []).append(step)
        return [
            curve for axis, curves in self._axes.items() for curve in curves.curves(axis, waiting.get(axis, []))
        ]

    def _add(self, wall_ns: int, step: ClosedStep | _StepLine) -> None:
        curves = self._axes.get(step.axis)
        if curves is None:
            curves = self._axes[step.axis] = _AxisCurves(self._started_ns, self._points)
        if not step.values.keys() <= curves.names.keys():
            self._learn(step, curves)
        for settled in self._corrected.add(wall_ns, step):
            self._axes[settled.axis].add(settled)

    def _learn(self, step: ClosedStep | _StepLine, curves: _AxisCurves) -> None:
        """Make a curve for each new name, while there is room."""
        for name in step.values:
            if name in curves.names:
                continue
            if self._names < self._most:
                self._names += 1
                curves.names[name] = StepPoints(self._points)
            elif len(self._left_out) < limits.STEP_NAMES_KNOWN:
                self._left_out.add((step.axis, name))


def read(
    directory: RunDirectory, points: int = POINTS, names: int = NAMES, started_ns: int | None = None
) -> list[StepCurve]:
    """Return the curves of a run directory. `started_ns` defaults to the start in its manifest.

    Blocks for the disk: a second for each million values. Raises RunDirectoryError if the log can't be read.
    """
    if started_ns is None:
        started_ns = _start_of(directory)
    curves = StepCurves(started_ns, points, names)
    for line in RecordLog(directory.records).of_type(_StepLine):
        curves._add(line.wall_ns, line)
    return curves.curves()


def curves_of(directory: RunDirectory, snapshot: MetricsSnapshot) -> list[StepCurve]:
    """Return the curves of a run for its report. Return nothing for a large or unreadable record log.

    The more names the run has, the fewer points each curve has.
    """
    names = sum(len(stat.values) for stat in snapshot.axes)
    points = max(min(_MOST_POINTS, _REPORT_POINTS // max(min(names, NAMES), 1)), _LEAST_POINTS)
    try:
        if _size(directory) > limits.READ_CURVES_BYTES:
            return []
        with uncollected():
            return read(directory, points, started_ns=snapshot.started_ns)
    except RunDirectoryError:
        return []


def curve_findings(
    curves: Sequence[StepCurve], directory: RunDirectory, snapshot: MetricsSnapshot
) -> Iterator[str]:
    """Yield notes for readers of a report whose curves do not show all values of steps."""
    names = sum(len(stat.values) for stat in snapshot.axes)
    if names and not curves and _size(directory) > limits.READ_CURVES_BYTES:
        yield f"no curves of steps: the record log is {formatting.size(_size(directory))}, too large for a report"
    elif names > len(curves) >= NAMES:
        yield f"curves of steps show the first {len(curves):,} of {names:,} names or more"


def closed_steps(directory: RunDirectory) -> Iterator[StepValues]:
    """Yield all closed steps of a run directory in the order in which they were closed, corrections applied.

    Blocks for the disk. Raises RunDirectoryError if the log can't be read.
    """
    corrected = _Corrected()
    for line in RecordLog(directory.records).of_type(_StepLine):
        yield from corrected.add(line.wall_ns, line)
    yield from corrected.waiting()


# --- implementation --------------------------------------------------------------------------------


class _StepLine(Struct, tag_field="type", tag=str(ClosedStep.__struct_config__.tag), gc=False):
    """The fields of a closed step in the record log that curves need."""

    wall_ns: int
    axis: str
    step: int
    values: dict[str, float | None]
    spread: dict[str, Spread] = {}
    closed: Closing = "ended"


def _size(directory: RunDirectory) -> int:
    """Return the size of the record log in bytes; 0 if there is none."""
    try:
        return (directory.records / FILE_NAME).stat().st_size
    except OSError:
        return 0


def _start_of(directory: RunDirectory) -> int:
    try:
        return directory.read_manifest().started_ns
    except RunDirectoryError:
        return directory.started_ns


class _Corrected:
    """Closed steps that wait until they can't be corrected any more."""

    def __init__(self) -> None:
        self._held: dict[str, dict[int, StepValues]] = {}
        self._values = 0

    def add(self, wall_ns: int, step: ClosedStep | _StepLine) -> list[StepValues]:
        """Add a closed step, a further piece of one, or a correction. Return the steps that are final now."""
        held = self._held.get(step.axis)
        if held is None:
            held = self._held[step.axis] = {}
        before = held.get(step.step)
        if before is not None:
            values = {**before.values, **step.values}
            spread = {
                name: old_spread for name, old_spread in before.spread.items() if name not in step.values
            } | step.spread
            held[step.step] = StepValues(step.axis, step.step, before.wall_ns, values, spread)
            self._values += len(values) - len(before.values)
        elif step.closed == "late":
            return []  # its step was not seen, or is final since there were too many values
        else:
            held[step.step] = StepValues(step.axis, step.step, wall_ns, step.values, step.spread)
            self._values += len(step.values)
        settled = []
        while len(held) > _HELD or (self._values > _HELD_VALUES and len(held) > 1):
            oldest = held.pop(next(iter(held)))
            self._values -= len(oldest.values)
            settled.append(oldest)
        return settled

    def waiting(self) -> Iterator[StepValues]:
        """Yield the steps that may still be corrected, axis by axis."""
        for held in self._held.values():
            yield from held.values()


class _AxisCurves:
    """The curves of one axis."""

    def __init__(self, started_ns: int, points: int) -> None:
        self.names: dict[str, StepPoints] = {}
        self._started_ns = started_ns
        self._points = points
        self._rows: list[StepValues] = []
        self._buffered = 0

    def add(self, row: StepValues) -> None:
        """Add a step that does not change any more."""
        self._rows.append(row)
        self._buffered += len(row.values)
        if self._buffered >= _ROOM:
            self._settle()

    def curves(self, axis: str, waiting: list[StepValues]) -> Iterator[StepCurve]:
        """Yield the curves with the steps that may still change."""
        self._settle()
        names = self.names
        if waiting:
            names = {name: points.copy() for name, points in names.items()}
            self._fold(waiting, names)
        for name, points in names.items():
            yield points.curve(axis, name)

    def _settle(self) -> None:
        if self._rows:
            self._fold(self._rows, self.names)
            self._rows, self._buffered = [], 0

    def _fold(self, rows: list[StepValues], names: Mapping[str, StepPoints]) -> None:
        """Add rows to the points of their names, as columns."""
        steps = np.array([row.step for row in rows], np.int64)
        times = (np.array([row.wall_ns for row in rows], np.int64) - self._started_ns) / 1e9
        columns: dict[str, _ValueColumn] = {}
        for index, row in enumerate(rows):
            for name, value in row.values.items():
                column = columns.get(name)
                if column is None:
                    if name not in names:
                        continue
                    column = columns[name] = _ValueColumn([], [], [])
                column.places.append(index)
                column.values.append(value)
            for name, spread in row.spread.items():
                column = columns.get(name)
                if column is not None:
                    column.spreads.append((len(column.places) - 1, spread))
        for name, column in columns.items():
            own = slice(None) if len(column.places) == len(rows) else np.array(column.places)
            names[name].add(column.new_steps(steps[own], times[own]))


class _ValueColumn(NamedTuple):
    """The values of one name: the places of their rows, and the spreads by place in the column."""

    places: list[int]
    values: list[float | None]
    spreads: list[tuple[int, Spread]]

    def new_steps(self, steps: Integers, times: Floats) -> NewSteps:
        """Return the values as arrays."""
        values = np.array(self.values, np.float64)
        producers = np.ones(values.size, np.int64)
        if not self.spreads:
            return NewSteps(steps, times, values, values, values, producers)
        places = [index for index, _ in self.spreads]
        low, high = values.copy(), values.copy()
        low[places] = [spread.min for _, spread in self.spreads]
        high[places] = [spread.max for _, spread in self.spreads]
        producers[places] = [spread.count for _, spread in self.spreads]
        return NewSteps(steps, times, values, low, high, producers)


class NewSteps(NamedTuple):
    """Values of one name in several steps."""

    steps: Integers
    times: Floats
    values: Floats
    low: Floats
    """Lowest value of a producer, as `high` is the highest."""
    high: Floats
    producers: Integers
    """Number of producers that reported a value."""


class StepPoints:
    """A bounded number of points, each of a range of `2**n` step numbers. Not thread-safe."""

    def __init__(self, points: int) -> None:
        """Start without points. There may be 2 or more."""
        self._most = points
        self._shift = 0
        self._step: Integers = np.zeros(0, np.int64)
        """Last step of each point, ascending."""
        self._table: Floats = np.zeros((5, 0))
        """Rows by point: time of the last step, sum of finite values, number of them, lowest, highest."""
        self._count = 0
        self._producers = 1
        self._newest = (0, 0)
        """Highest step so far that has a finite value, and the number of its producers."""
        self._change: ProducersChange | None = None
        self._first = self._last = self._least = self._largest = (0, math.nan)
        """Step and value."""
        self._last_spread = (math.nan, math.nan)
        """Lowest and highest value of a producer in the last step."""

    def copy(self) -> StepPoints:
        """Return points to which steps can be added without changing these."""
        return copy(self)  # arrays are replaced, never changed

    def add(self, new: NewSteps) -> None:
        """Add steps in any order."""
        steps, times, values, low, high, producers = new
        is_finite = np.isfinite(values)
        table = np.stack((times, np.where(is_finite, values, 0.0), is_finite, low, high))
        if not (steps[1:] > steps[:-1]).all():
            order = np.argsort(steps, kind="stable")
            steps, table, values, is_finite = steps[order], table[:, order], values[order], is_finite[order]
            producers = producers[order]
        self._mark(steps, np.where(is_finite, values, np.nan), (float(table[3, -1]), float(table[4, -1])))
        self._count += steps.size
        self._producers = max(self._producers, int(producers.max(initial=1)))
        self._count_producers(steps[is_finite], producers[is_finite])
        self._merge(np.concatenate((self._step, steps)), np.concatenate((self._table, table), axis=1))

    def curve(self, axis: str, name: str) -> StepCurve:
        """Return the curve."""
        times, totals, numbers, low, high = self._table
        with np.errstate(invalid="ignore", divide="ignore"):
            means = totals / numbers
        alone = bool(((low == means) & (high == means) | (numbers == 0)).all())
        has_values = bool(numbers.any())
        return StepCurve(
            axis=axis,
            name=name,
            steps=self._step.tolist(),
            times_s=np.round(times, _PLACES).tolist(),
            values=_finite(means),
            low=[] if alone else _finite(low),
            high=[] if alone else _finite(high),
            count=self._count,
            producers=self._producers,
            producers_change=self._change,
            first=_number(self._first[1]),
            last=_number(self._last[1]),
            last_low=_number(self._last_spread[0]),
            last_high=_number(self._last_spread[1]),
            min=_number(self._least[1]),
            max=_number(self._largest[1]),
            min_step=self._least[0] if has_values else None,
            max_step=self._largest[0] if has_values else None,
        )

    def _count_producers(self, steps: Integers, producers: Integers) -> None:
        """Look for changes among ascending steps. Steps below those of earlier calls are left out."""
        if self._newest[1]:
            is_later = steps > self._newest[0]
            steps = np.append(self._newest[0], steps[is_later])
            producers = np.append(self._newest[1], producers[is_later])
        if not steps.size:
            return
        self._newest = int(steps[-1]), int(producers[-1])
        places = np.flatnonzero(np.diff(producers))
        if places.size:
            place = int(places[-1])
            self._change = ProducersChange(
                before=int(producers[place]),
                last=int(steps[place]),
                after=int(producers[place + 1]),
                first=int(steps[place + 1]),
                changes=places.size + (self._change.changes if self._change else 0),
            )

    def _mark(self, steps: Integers, values: Floats, last_spread: tuple[float, float]) -> None:
        """Take the first, last, smallest and largest value among ascending steps."""
        if not self._step.size or steps[0] < self._first[0]:
            self._first = int(steps[0]), float(values[0])
        if not self._step.size or steps[-1] >= self._last[0]:
            self._last = int(steps[-1]), float(values[-1])
            self._last_spread = last_spread
        if np.isfinite(values).any():
            least, largest = int(np.nanargmin(values)), int(np.nanargmax(values))
            if not values[least] >= self._least[1]:
                self._least = int(steps[least]), float(values[least])
            if not values[largest] <= self._largest[1]:
                self._largest = int(steps[largest]), float(values[largest])

    def _merge(self, steps: Integers, table: Floats) -> None:
        """Make points of these ranges of steps; widen the ranges until the points are few enough."""
        if not (steps[1:] >= steps[:-1]).all():
            order = np.argsort(steps, kind="stable")
            steps, table = steps[order], table[:, order]
        begins = _begins(steps >> self._shift)
        while begins.size > self._most:
            self._shift += 1
            begins = _begins(steps >> self._shift)
        ends = np.append(begins[1:], steps.size) - 1
        self._step = steps[ends]
        with np.errstate(over="ignore", invalid="ignore"):  # values may be as large as floats allow
            sums = np.add.reduceat(table[1:3], begins, axis=1)
        low, high = np.fmin.reduceat(table[3], begins), np.fmax.reduceat(table[4], begins)
        self._table = np.vstack((table[0, ends], sums, low, high))


def _begins(numbers: Integers) -> NDArray[np.intp]:
    """Return the places where a new number begins."""
    return np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))


def _finite(values: Floats) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
