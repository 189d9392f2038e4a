"""The conversion of items to Trackio rows. Pure.

A run of Trackio has one sequence of steps for each name. So a name on several axes is kept apart:

  train/loss            a name on the first axis that used the group `train`
  train/loss: eval      the same name on another axis, here `eval`
  depth:seconds         the same name among readings, whose axis is time
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from telemetry.backends.items import Artifact, Histogram, Item, Reading, Step, Table, Text, without_gaps
from telemetry.backends.naming import FINAL, flat
from telemetry.common.wording import labelled
from telemetry.wire.events import Scalar

SECONDS: Final = ""
"""Axis of items without a step: whole seconds since the run's start. Axes of steps are never empty."""
_GROUPS: Final = 10_000  # groups whose axis is remembered; the state contains all of them
_RESERVED: Final = frozenset({"project", "run", "timestamp", "step", "time", "metrics"})
"""Words reserved by Trackio, which renames them in the same way."""


class TrackioRow(NamedTuple):
    key: str
    """Key of the item. The database stores a key once."""
    time_ns: int
    step: int
    values: dict[str, Any]


class TrackioRows:
    """A converter of the items of a run to rows."""

    def __init__(self, started_ns: int, owners: Mapping[str, str] | None = None, *, spread: bool = False) -> None:
        """Start with `owners`.

        `spread`: also write the minimum and maximum of values of several producers in a step.
        """
        self.owners: dict[str, str] = dict(owners or {})
        """Group of a name (the text before its first slash) → axis that uses it without a suffix."""
        self._started_ns = started_ns
        self._spread = spread

    def of(self, item: Item) -> Iterator[TrackioRow]:
        """Yield at most one row, and none for an item without values."""
        match item:
            case Step(values=values) if values:
                row_values = {self._name(item.axis, name): value for name, value in values.items()}
                if self._spread:
                    for name, spread in item.spread.items():
                        row_values[self._name(item.axis, f"{name}/min")] = spread.min
                        row_values[self._name(item.axis, f"{name}/max")] = spread.max
                yield TrackioRow(item.key, item.time_ns, item.step, row_values)
            case Reading():
                numbers = flat(item) | _distributions(item)
                row_values = {self._name(SECONDS, name): value for name, value in numbers.items()}
                if row_values:
                    yield TrackioRow(item.key, item.time_ns, math.floor(item.elapsed_s), row_values)
            case Text():
                yield self.one(item, {"_type": "trackio.markdown", "_value": item.text})
            case Table():
                yield self.one(item, {"_type": "trackio.table", "_value": records(item.columns, item.rows)})
            case Histogram():
                yield self.one(item, {"_type": "trackio.histogram", "bins": item.edges, "values": item.counts})

    def one(self, item: Text | Table | Histogram | Artifact, value: dict[str, Any]) -> TrackioRow:
        """Return a row with one value, a map that contains its type."""
        name = self._name(item.axis, item.name)
        return TrackioRow(item.key, item.time_ns, self.step_of(item), {name: value})

    def step_of(self, item: Text | Table | Histogram | Artifact) -> int:
        return item.step if item.axis else max(0, item.time_ns - self._started_ns) // 1_000_000_000

    def _name(self, axis: str, name: str) -> str:
        group = name.partition("{")[0].partition("/")[0]
        if group not in self.owners and len(self.owners) < _GROUPS:
            self.owners[group] = axis
        if self.owners.get(group) != axis:
            name += f": {axis}" if axis else ":seconds"
        return _free(name)


def config_name(name: str) -> str:
    """Escape a leading underscore, which Trackio reserves."""
    return f"%5F{name[1:]}" if name.startswith("_") else name


def records(columns: Sequence[str], rows: Sequence[Sequence[Scalar]]) -> list[dict[str, Scalar]]:
    """Return rows as maps of column name → value. Duplicate column names get their number as a suffix."""
    names: list[str] = []
    for number, name in enumerate(columns, 1):
        while name in names:
            name = f"{name} ({number})"  # noqa: PLW2901 – until it is unique
        names.append(name)
    return [dict(zip(names, row, strict=True)) for row in rows]


def _free(name: str) -> str:
    return f"__{name}" if name in _RESERVED or name.startswith("__") else name


def _distributions(reading: Reading) -> dict[str, Any]:
    head = FINAL if reading.final else ""
    histograms: dict[str, Any] = {}
    for series in reading.series:
        if series.cells:
            edges, counts = without_gaps(series.cells)
            name = f"{head}{labelled(series.name, series.labels)}/histogram"
            histograms[name] = {"_type": "trackio.histogram", "bins": edges, "values": counts}
    return histograms
