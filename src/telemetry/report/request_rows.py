"""The requests of a run as a table with one row for each, in CSV, JSON lines or Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec

from telemetry.distribution import install_hint
from telemetry.errors import RunDirectoryError, TelemetryError, UsageError
from telemetry.formatting import printable
from telemetry.history.request_log import LoggedRequest
from telemetry.store.append_file import describe
from telemetry.store.atomic import replacing

_ROWS_AT_ONCE: Final = 8_192
"""Rows of a group of a Parquet file: 10 MB with thirty chunks each."""
_FORMULA: Final = ("=", "+", "-", "@")
"""First characters of a formula in spreadsheets."""
_LATEST_NS: Final = (1 << 63) - 1
_ENCODER: Final = msgspec.json.Encoder()


class RequestRow(NamedTuple):
    """A request as a row. Times and durations are in nanoseconds; times are on the run's clock, since 1970."""

    kind: str
    labels: dict[str, str]
    producer: str
    number: int
    """Number of the request in the process of its producer."""
    outcome: str
    reason: str
    """Finish reason of a completed request, reason of a failed one."""
    turn: str
    issued_at: int
    """Time of issue on the wall clock, as a timestamp."""
    planned_ns: int | None
    issued_ns: int
    first_ns: int | None
    """Time of the first output."""
    ended_ns: int
    latency_ns: int
    """From issued to ended, whatever the outcome."""
    ttft_ns: int | None
    """From issued to the first output."""
    tpot_ns: float | None
    """Time per output token after the first output; null if there are none or their number is unknown."""
    largest_gap_ns: int | None
    input_tokens: float | None
    output_tokens: float | None
    first_tokens: int | None
    """Tokens of the first output."""
    chunks: int
    """Number of outputs: the first one and all later ones."""
    chunks_left_out: int
    """Later outputs before those in `gaps_ns`: of a very long answer the log has only the last ones."""
    gaps_ns: list[int]
    """For each later output, the time since the one before."""
    chunk_tokens: list[int | None]
    """Tokens of each later output; null if unknown."""
    slo: dict[str, int]
    """Limits of this request instead of those of its kind, in nanoseconds."""


def row(request: LoggedRequest) -> RequestRow:
    """Return the row of a request."""
    entry, to_run_ns = request.entry, request.offset_ns
    first, gaps = entry.first_ns, entry.gaps_ns
    return RequestRow(
        kind=request.kind,
        labels=request.labels,
        producer=request.producer,
        number=entry.number,
        outcome=entry.outcome,
        reason=entry.reason,
        turn=entry.turn,
        issued_at=_at(entry.issued_ns, request.shift_ns),
        planned_ns=None if entry.planned_ns is None else _at(entry.planned_ns, to_run_ns),
        issued_ns=_at(entry.issued_ns, to_run_ns),
        first_ns=None if first is None else _at(first, to_run_ns),
        ended_ns=_at(entry.ended_ns, to_run_ns),
        latency_ns=entry.ended_ns - entry.issued_ns,
        ttft_ns=None if first is None else first - entry.issued_ns,
        tpot_ns=_tpot_ns(request),
        largest_gap_ns=max(gaps, default=None),
        input_tokens=entry.input_tokens,
        output_tokens=entry.output_tokens,
        first_tokens=None if first is None else entry.first_tokens,
        chunks=0 if first is None else 1 + len(gaps) + entry.chunks_left_out,
        chunks_left_out=entry.chunks_left_out,
        gaps_ns=gaps,
        chunk_tokens=entry.chunk_tokens or [1] * len(gaps),
        slo=entry.slo,
    )


def _at(time_ns: int, shift_ns: int) -> int:
    """Return a time on another clock. The result fits in 64 bits, whatever time a program gave."""
    return min(max(0, time_ns + shift_ns), _LATEST_NS)


def _tpot_ns(request: LoggedRequest) -> float | None:
    entry = request.entry
    if entry.first_ns is None or entry.first_tokens is None or entry.output_tokens is None:
        return None
    later = entry.output_tokens - entry.first_tokens
    return (entry.ended_ns - entry.first_ns) / later if later > 0 else None


def write_requests(requests: Iterable[LoggedRequest], path: Path) -> int:
    """Write one row for each request, in the format of the file's suffix, and return their number.

    The file appears when it is complete. Memory does not depend on the number of requests. Raises UsageError for an
    unknown suffix, RunDirectoryError if the file can't be written, TelemetryError if `pyarrow` is missing.
    """
    write = _FORMS.get(path.suffix.lower())
    if write is None:
        raise UsageError(
            f"the suffix {path.suffix} of {path} does not select a format for requests",
            hint=f"use one of {', '.join(_FORMS)}",
        )
    try:
        with replacing(path, durable=False) as file:
            return write(map(row, requests), file)
    except OSError as error:
        raise RunDirectoryError(f"can't write {path}: {describe(error)}") from error


def _write_csv(rows: Iterator[RequestRow], file: BinaryIO) -> int:
    """Write a header and a line for each request. Lists are joined with `;`, labels are a JSON object."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=False)
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(RequestRow._fields)
    count = 0
    for found in rows:
        lines.writerow(map(_cell, found._replace(issued_at=_iso(found.issued_at))))  # type: ignore[arg-type]
        count += 1
    text.flush()
    text.detach()  # the caller closes the file
    return count


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        shown = printable(value)
        return f"'{shown}" if shown.startswith(_FORMULA) else shown
    if isinstance(value, list):
        return ";".join("" if item is None else str(item) for item in value)
    if isinstance(value, dict):
        return _ENCODER.encode(value).decode() if value else ""
    return value


def _write_lines(rows: Iterator[RequestRow], file: BinaryIO) -> int:
    """Write a JSON object for each request."""
    count = 0
    for found in rows:
        fields = found._replace(issued_at=_iso(found.issued_at))._asdict()  # type: ignore[arg-type]
        file.write(_ENCODER.encode(fields) + b"\n")
        count += 1
    return count


def _write_parquet(rows: Iterator[RequestRow], file: BinaryIO) -> int:
    """Write a Parquet file with list columns for chunks, and a timestamp for `issued_at`."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise TelemetryError(
            "can't write Parquet: the package `pyarrow` is not installed",
            hint=f"{install_hint('parquet')}, or choose a file that ends with .csv or .jsonl",
        ) from error
    columns = dict.fromkeys(RequestRow._fields, pyarrow.int64())
    columns |= dict.fromkeys(("kind", "producer", "outcome", "reason", "turn"), pyarrow.string())
    columns |= dict.fromkeys(("tpot_ns", "input_tokens", "output_tokens"), pyarrow.float64())
    columns |= dict.fromkeys(("gaps_ns", "chunk_tokens"), pyarrow.list_(pyarrow.int64()))
    columns["labels"] = pyarrow.map_(pyarrow.string(), pyarrow.string())
    columns["slo"] = pyarrow.map_(pyarrow.string(), pyarrow.int64())
    columns["issued_at"] = pyarrow.timestamp("ns", tz="UTC")
    schema = pyarrow.schema(list(columns.items()))
    count = 0
    with pyarrow.parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            values = dict(zip(RequestRow._fields, zip(*some, strict=True), strict=True))
            for name in ("labels", "slo"):
                values[name] = tuple(list(pairs.items()) for pairs in values[name])
            arrays = [pyarrow.array(values[name], kind) for name, kind in columns.items()]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
            count += len(some)
    return count


def _iso(time_ns: int) -> str:
    """Return a time on the wall clock as text, in UTC."""
    seconds, rest = divmod(time_ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


_FORMS: Final[dict[str, Callable[[Iterator[RequestRow], BinaryIO], int]]] = {
    ".csv": _write_csv,
    ".jsonl": _write_lines,
    ".parquet": _write_parquet,
}
