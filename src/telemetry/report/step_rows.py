"""The values of steps of a run as a table with one row for each, in CSV, JSON lines or Parquet."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec

from telemetry.distribution import install_hint
from telemetry.errors import RunDirectoryError, TelemetryError, UsageError
from telemetry.formatting import printable
from telemetry.history.step_curves import StepValues
from telemetry.store.append_file import describe
from telemetry.store.atomic import replacing

_ROWS_AT_ONCE: Final = 65_536
"""Rows of a group of a Parquet file."""
_FORMULA: Final = ("=", "+", "-", "@")
"""First characters of a formula in spreadsheets."""
_LATEST_NS: Final = (1 << 63) - 1
_ENCODER: Final = msgspec.json.Encoder()


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
    for one in steps:
        for name, value in one.values.items():
            spread = one.spread.get(name)
            known = value if value is not None and math.isfinite(value) else None
            low, high, producers = (known, known, 1) if spread is None else (spread.min, spread.max, spread.count)
            yield StepRow(one.axis, one.step, min(one.wall_ns, _LATEST_NS), name, known, low, high, producers)


def write_steps(steps: Iterable[StepValues], path: Path) -> int:
    """Write one row for each value, in the form that the suffix stands for, and return their number.

    The file appears when it is complete. Memory does not depend on the number of steps. Raises UsageError for an
    unknown suffix, RunDirectoryError if the file can't be written, TelemetryError if `pyarrow` is missing.
    """
    write = _FORMS.get(path.suffix.lower())
    if write is None:
        raise UsageError(
            f"the suffix {path.suffix} of {path} does not select a format for steps",
            hint=f"use one of {', '.join(_FORMS)}",
        )
    try:
        with replacing(path, durable=False) as file:
            return write(rows(steps), file)
    except OSError as error:
        raise RunDirectoryError(f"can't write {path}: {describe(error)}") from error


def _write_csv(found: Iterator[StepRow], file: BinaryIO) -> int:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=False)
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(StepRow._fields)
    count = 0
    for row in found:
        lines.writerow((_cell(row.axis), row.step, _iso(row.time), _cell(row.name), *row[4:]))
        count += 1
    text.flush()
    text.detach()  # the caller closes the file
    return count


def _cell(text: str) -> str:
    shown = printable(text)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown


def _write_lines(found: Iterator[StepRow], file: BinaryIO) -> int:
    count = 0
    for row in found:
        file.write(_ENCODER.encode({**row._asdict(), "time": _iso(row.time)}) + b"\n")
        count += 1
    return count


def _write_parquet(found: Iterator[StepRow], file: BinaryIO) -> int:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise TelemetryError(
            "can't write Parquet: the package `pyarrow` is not installed",
            hint=f"{install_hint('parquet')}, or choose a file that ends with .csv or .jsonl",
        ) from error
    columns = dict.fromkeys(StepRow._fields, pyarrow.float64())
    columns |= dict.fromkeys(("axis", "name"), pyarrow.string())
    columns |= dict.fromkeys(("step", "producers"), pyarrow.int64())
    columns["time"] = pyarrow.timestamp("ns", tz="UTC")
    schema = pyarrow.schema(list(columns.items()))
    count = 0
    with pyarrow.parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        while some := list(islice(found, _ROWS_AT_ONCE)):
            values = zip(*some, strict=True)
            arrays = [pyarrow.array(column, kind) for column, kind in zip(values, columns.values(), strict=True)]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
            count += len(some)
    return count


def _iso(time_ns: int) -> str:
    """Return a time on the wall clock as text, in UTC."""
    seconds, rest = divmod(time_ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


_FORMS: Final[dict[str, Callable[[Iterator[StepRow], BinaryIO], int]]] = {
    ".csv": _write_csv,
    ".jsonl": _write_lines,
    ".parquet": _write_parquet,
}
