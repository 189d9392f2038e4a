"""The values of steps of a run as a table with one row for each, in CSV, JSON lines or Parquet."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from telemetry.history.step_curves import StepValues
from telemetry.history.tables.row_files import LATEST_NS, RowKind, write_rows

_ROWS_AT_ONCE: Final = 65_536
"""Rows of a group of a Parquet file."""


class StepRow(NamedTuple):
    """A value of a step as a row."""

    axis: str
    step: int
    time: int
    """Wall clock at which the step was closed, in nanoseconds since 1970."""
    name: str
    value: float | None
    """Null: not finite."""
    low: float | None
    """Lowest value of a producer."""
    high: float | None
    producers: int
    """Number of producers that reported the value."""


def rows(steps: Iterable[StepValues]) -> Iterator[StepRow]:
    """Yield a row for each value of each step."""
    for step in steps:
        for name, value in step.values.items():
            spread = step.spread.get(name)
            finite = value if value is not None and math.isfinite(value) else None
            low, high, producers = (finite, finite, 1) if spread is None else (spread.min, spread.max, spread.count)
            yield StepRow(step.axis, step.step, min(step.wall_ns, LATEST_NS), name, finite, low, high, producers)


def write_steps(steps: Iterable[StepValues], path: Path) -> int:
    """Write one row for each value, in the format of the file's suffix, and return their number.

    Raises what `write_rows` raises.
    """
    return write_rows(_KIND, rows(steps), path)


def _columns(arrow: Any) -> dict[str, Any]:
    columns = dict.fromkeys(StepRow._fields, arrow.float64())
    columns |= dict.fromkeys(("axis", "name"), arrow.string())
    columns |= dict.fromkeys(("step", "producers"), arrow.int64())
    return columns


_KIND: Final = RowKind("steps", StepRow, "time", _ROWS_AT_ONCE, _columns)
