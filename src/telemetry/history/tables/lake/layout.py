"""The tables of a lake and their columns.

Every table also has the column `run_id`, and the partition `run`: `TABLE/run=NAME-TIME-ID/part-0.parquet`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

SCHEMA: Final = 1
"""Version of the layout. New columns and tables leave it as it is; another meaning of a column raises it."""
PARTITION: Final = "run"
FILE: Final = "part-0.parquet"
PERCENTILES: Final = ("50", "75", "90", "95", "99", "99.9", "99.99")
"""Percentiles of whole runs with a column of their own: the ones that a run has by default."""
INTERVAL_PERCENTILES: Final = ("50", "90", "95", "99", "99.9")
"""Percentiles of intervals, which make up half of the size of a lake."""

Form = Literal["text", "json", "integer", "number", "flag", "time", "integers"]
"""Form of a column.

`json`: a map as text, with sorted keys, equal for equal maps. `time`: a time of day in UTC, to the microsecond,
because not every reader knows nanoseconds. `integers`: a list.
"""
Columns = dict[str, Form]


def percentile_column(key: str) -> str:
    """Return the name of the column of a percentile, such as `p99_9`."""
    return f"p{key.replace('.', '_')}"


def _percentiles(keys: Sequence[str]) -> Columns:
    return {percentile_column(key): "number" for key in keys}


_INSTRUMENT: Final[Columns] = {"name": "text", "labels": "json", "unit": "text"}
_SPAN_OF_TIME: Final[Columns] = {"time": "time", "elapsed_s": "number", "seconds": "number"}

TABLES: Final[dict[str, Columns]] = {
    "runs": {
        "name": "text",
        "started": "time",
        "ended": "time",
        "elapsed_s": "number",
        "completeness": "text",
        "state": "text",
        "reason": "text",
        "exact": "flag",
        "events": "integer",
        "lost": "integer",
        "producers": "integer",
        "host": "text",
        "command": "text",
        "exit_code": "integer",
        "signal": "text",
        "merged": "integer",
        "directory": "text",
        "telemetry": "text",
    },
    "producers": {
        "producer": "text",
        "name": "text",
        "host": "text",
        "pid": "integer",
        "rank": "integer",
        "completeness": "text",
        "emitted": "integer",
        "applied": "integer",
    },
    "params": {"name": "text", "value": "text", "number": "number"},
    "marks": {"time": "time", "elapsed_s": "number", "text": "text", "labels": "json", "producer": "text"},
    "series": {
        **_INSTRUMENT,
        "count": "integer",
        "total": "number",
        "min": "number",
        "max": "number",
        "mean": "number",
        "stddev": "number",
        **_percentiles(PERCENTILES),
        "percentiles": "json",
        "exact": "flag",
    },
    "last_values": {
        "kind": "text",
        **_INSTRUMENT,
        "value": "number",
        "min": "number",
        "max": "number",
        "events": "integer",
    },
    "loads": {
        "kind": "text",
        "labels": "json",
        "window": "text",
        "issued": "number",
        "completed": "number",
        "failed": "number",
        "expired": "number",
        "requests_per_s": "number",
        "input_tokens_per_s": "number",
        "output_tokens_per_s": "number",
        "total_tokens_per_s": "number",
        "concurrency_mean": "number",
        "slo": "text",
        "good": "number",
        "goodput_per_s": "number",
        "attainment": "number",
    },
    "intervals": {
        **_INSTRUMENT,
        **_SPAN_OF_TIME,
        "count": "integer",
        "total": "number",
        "min": "number",
        "max": "number",
        **_percentiles(INTERVAL_PERCENTILES),
    },
    "value_intervals": {"kind": "text", **_INSTRUMENT, **_SPAN_OF_TIME, "value": "number"},
    "steps": {
        "axis": "text",
        "step": "integer",
        "time": "time",
        "elapsed_s": "number",
        "name": "text",
        "value": "number",
        "low": "number",
        "high": "number",
        "producers": "integer",
    },
    "requests": {
        "kind": "text",
        "labels": "json",
        "producer": "text",
        "number": "integer",
        "outcome": "text",
        "reason": "text",
        "turn": "text",
        "issued_at": "time",
        "planned_ns": "integer",
        "issued_ns": "integer",
        "first_ns": "integer",
        "ended_ns": "integer",
        "latency_ns": "integer",
        "ttft_ns": "integer",
        "tpot_ns": "number",
        "largest_gap_ns": "integer",
        "input_tokens": "number",
        "output_tokens": "number",
        "first_tokens": "integer",
        "chunks": "integer",
        "chunks_left_out": "integer",
        "gaps_ns": "integers",
        "chunk_tokens": "integers",
        "slo": "json",
        "good": "flag",
    },
    "spans": {
        "name": "text",
        "track": "text",
        "producer": "text",
        "labels": "json",
        "time": "time",
        "start_ns": "integer",
        "duration_ns": "integer",
    },
}
"""Table → column → form. `runs` is the last one to be replaced: a run that is in it is complete."""


def schema(arrow: Any, table: str) -> Any:
    """Return the schema of the files of a table, for `pyarrow`."""
    text = arrow.dictionary(arrow.int32(), arrow.string())
    types: dict[Form, Any] = {
        "text": text,
        "json": text,
        "integer": arrow.int64(),
        "number": arrow.float64(),
        "flag": arrow.bool_(),
        "time": arrow.timestamp("us", tz="UTC"),
        "integers": arrow.list_(arrow.int64()),
    }
    columns: Columns = {"run_id": "text", **TABLES[table]}
    return arrow.schema([(name, types[form]) for name, form in columns.items()])
