"""Files with one row for each of many things: CSV, JSON lines or Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from telemetry.common.distribution import install_hint
from telemetry.common.formatting import printable
from telemetry.errors import RunDirectoryError, TelemetryError, UsageError
from telemetry.store.append_file import describe
from telemetry.store.atomic import replacing

LARGEST: Final = (1 << 63) - 1
"""Largest integer of a row: a column of Parquet has 64 bits."""
LATEST_NS: Final = LARGEST
"""Latest time of a row."""
_FORMULA: Final = ("=", "+", "-", "@")
"""First characters of a formula in spreadsheets."""
_ENCODER: Final = msgspec.json.Encoder()


@dataclass(frozen=True)
class RowKind:
    """A kind of rows, with all that the writers must know."""

    what: str
    """Plural noun for messages, such as `requests`."""
    type: Any
    """Class of the rows, a NamedTuple."""
    time: str
    """Field with a time on the wall clock, in nanoseconds. It is written as a timestamp."""
    rows_at_once: int
    """Rows of a group of a Parquet file."""
    columns: Callable[[Any], dict[str, Any]]
    """Function of `pyarrow` that returns the type of each field."""


def write_rows(kind: RowKind, rows: Iterable[Any], path: Path) -> int:
    """Write the rows in the format of the file's suffix, and return their number.

    The file appears when it is complete. Memory does not depend on the number of rows. Raises UsageError for an
    unknown suffix, RunDirectoryError if the file can't be written, TelemetryError if `pyarrow` is missing.
    """
    write = _FORMS.get(path.suffix.lower())
    if write is None:
        raise UsageError(
            f"the suffix {path.suffix} of {path} does not select a format for {kind.what}",
            hint=f"use one of {', '.join(_FORMS)}",
        )
    try:
        with replacing(path, durable=False) as file:
            return write(kind, iter(rows), file)
    except OSError as error:
        raise RunDirectoryError(f"can't write {path}: {describe(error)}") from error


def iso(time_ns: int) -> str:
    """Return a time on the wall clock as text, in UTC."""
    seconds, rest = divmod(time_ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def cell(value: Any) -> Any:
    """Return a value as a cell of a CSV file. Lists are joined with `;`, maps are JSON objects."""
    if isinstance(value, str):
        shown = printable(value)
        return f"'{shown}" if shown.startswith(_FORMULA) else shown
    if isinstance(value, list):
        return ";".join("" if item is None else str(item) for item in value)
    if isinstance(value, dict):
        return _ENCODER.encode(value).decode() if value else ""
    return value


def _write_csv(kind: RowKind, rows: Iterator[Any], file: BinaryIO) -> int:
    """Write a header, and a line for each row."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=False)
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(kind.type._fields)
    count = 0
    for row in rows:
        lines.writerow(map(cell, _with_text_time(kind, row)))
        count += 1
    text.flush()
    text.detach()  # the caller closes the file
    return count


def _write_lines(kind: RowKind, rows: Iterator[Any], file: BinaryIO) -> int:
    """Write a JSON object for each row."""
    count = 0
    for row in rows:
        file.write(_ENCODER.encode(_with_text_time(kind, row)._asdict()) + b"\n")
        count += 1
    return count


def _with_text_time(kind: RowKind, row: Any) -> Any:
    return row._replace(**{kind.time: iso(getattr(row, kind.time))})


def _write_parquet(kind: RowKind, rows: Iterator[Any], file: BinaryIO) -> int:
    """Write a Parquet file with list columns for lists, and map columns for maps."""
    pyarrow = arrow(", or choose a file that ends with .csv or .jsonl")
    types = kind.columns(pyarrow) | {kind.time: pyarrow.timestamp("ns", tz="UTC")}
    schema = pyarrow.schema([(name, types[name]) for name in kind.type._fields])
    count = 0
    with pyarrow.parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        while some := list(islice(rows, kind.rows_at_once)):
            columns = zip(*some, strict=True)
            arrays = [pyarrow.array(_pairs(of), each.type) for of, each in zip(columns, schema, strict=True)]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
            count += len(some)
    return count


def _pairs(column: tuple[Any, ...]) -> Iterable[Any]:
    """Return a column with its maps as lists of pairs, as `pyarrow` takes them."""
    return [list(value.items()) for value in column] if isinstance(column[0], dict) else column


_FORMS: Final[dict[str, Callable[[RowKind, Iterator[Any], BinaryIO], int]]] = {
    ".csv": _write_csv,
    ".jsonl": _write_lines,
    ".parquet": _write_parquet,
}


def arrow(otherwise: str = "") -> Any:
    """Import `pyarrow` with its Parquet module. Raises TelemetryError if that fails.

    `otherwise` is what else the user can do, for the hint.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        absent = isinstance(error, ModuleNotFoundError)
        why = "the package `pyarrow` is not installed" if absent else f"can't import `pyarrow`: {error}"
        raise TelemetryError(f"can't write Parquet: {why}", hint=f"{install_hint('parquet')}{otherwise}") from error
    return pyarrow
