"""The requests of a run as a table with one row for each, in CSV, JSON lines or Parquet."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from telemetry.history.request_log import LoggedRequest
from telemetry.history.tables.row_files import LARGEST, RowKind, write_rows

_ROWS_AT_ONCE: Final = 4_096
"""Rows of a group of a Parquet file: 5 MB with thirty chunks each."""


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
        chunks=0 if first is None else min(1 + len(gaps) + entry.chunks_left_out, LARGEST),
        chunks_left_out=entry.chunks_left_out,
        gaps_ns=gaps,
        chunk_tokens=entry.chunk_tokens or [1] * len(gaps),
        slo=entry.slo,
    )


def _at(time_ns: int, shift_ns: int) -> int:
    """Return a time on another clock. The result fits in 64 bits, whatever time a program gave."""
    return min(max(0, time_ns + shift_ns), LARGEST)


def _tpot_ns(request: LoggedRequest) -> float | None:
    entry = request.entry
    if entry.first_ns is None or entry.first_tokens is None or entry.output_tokens is None:
        return None
    later = entry.output_tokens - entry.first_tokens
    return (entry.ended_ns - entry.first_ns) / later if later > 0 else None


def write_requests(requests: Iterable[LoggedRequest], path: Path) -> int:
    """Write one row for each request, in the format of the file's suffix, and return their number.

    Raises what `write_rows` raises.
    """
    return write_rows(_KIND, map(row, requests), path)


def _columns(arrow: Any) -> dict[str, Any]:
    columns = dict.fromkeys(RequestRow._fields, arrow.int64())
    columns |= dict.fromkeys(("kind", "producer", "outcome", "reason", "turn"), arrow.string())
    columns |= dict.fromkeys(("tpot_ns", "input_tokens", "output_tokens"), arrow.float64())
    columns |= dict.fromkeys(("gaps_ns", "chunk_tokens"), arrow.list_(arrow.int64()))
    columns["labels"] = arrow.map_(arrow.string(), arrow.string())
    columns["slo"] = arrow.map_(arrow.string(), arrow.int64())
    return columns


_KIND: Final = RowKind("requests", RequestRow, "issued_at", _ROWS_AT_ONCE, _columns)
