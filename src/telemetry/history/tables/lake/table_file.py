"""The tables of a lake and their columns, and the Parquet files they are written to piece by piece."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

_NS_PER_US: Final = 1_000
_ENCODER: Final = msgspec.json.Encoder(order="sorted")


class Coded(NamedTuple):
    """A column of texts as numbers into a list of words, each word once."""

    codes: NDArray[np.int64]
    words: Sequence[str]

    @staticmethod
    def of(texts: Sequence[str]) -> Coded:
        """Return the column of these texts."""
        places: dict[str, int] = {}
        codes = [places.setdefault(text, len(places)) for text in texts]
        return Coded(np.array(codes, np.int64), list(places))

    def take(self, rows: NDArray[np.int64]) -> Coded:
        """Return some rows of the column, with the same words."""
        return Coded(self.codes[rows], self.words)


def json_text(value: Mapping[str, Any]) -> str:
    """Return a map as text: equal texts for equal maps."""
    return _ENCODER.encode(value).decode()


def number(value: Any) -> float | None:
    """Return a finite number as a float, and None for anything else."""
    try:
        result = None if value is None else float(value)
    except OverflowError:
        return None
    return result if result is not None and math.isfinite(result) else None


class TableFile:
    """The rows of one run in one table. The file exists once it has a row."""

    def __init__(self, arrow: Any, path: Path, table: str, run_id: str, facts: Mapping[str, str]) -> None:
        """Prepare the file. `facts` are written into it."""
        self.rows = 0
        self.path = path
        self._arrow = arrow
        self._columns = TABLES[table]
        self._schema = schema(arrow, table)
        self._run_id = run_id
        self._facts = {"telemetry.table": table, **facts}
        self._writer: Any = None

    def add(self, columns: Mapping[str, Any]) -> None:
        """Write rows, given by column, as one row group. Raises OSError."""
        arrays = [self._array(form, columns[name]) for name, form in self._columns.items()]
        count = len(arrays[0])
        if not count:
            return
        run_ids = self._array("text", Coded(np.zeros(count, np.int64), [self._run_id]))
        table = self._arrow.Table.from_arrays([run_ids, *arrays], schema=self._schema)
        if self._writer is None:
            # Without the schema of Arrow all readers see plain texts, and not only those that know dictionaries.
            self._writer = self._arrow.parquet.ParquetWriter(
                self.path, self._schema, compression="zstd", store_schema=False
            )
        self._writer.write_table(table, row_group_size=count)
        self.rows += count

    def add_rows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows, one map each. Raises OSError."""
        self.add({name: [row[name] for row in rows] for name in self._columns})

    def close(self) -> None:
        """Finish the file. May be called twice."""
        if self._writer is not None:
            self._writer.add_key_value_metadata(self._facts)
            self._writer.close()
            self._writer = None

    def _array(self, form: Form, column: Any) -> Any:
        arrow = self._arrow
        if isinstance(column, Coded):
            codes = arrow.array(column.codes.astype(np.int32))
            return arrow.DictionaryArray.from_arrays(codes, arrow.array(column.words, arrow.string()))
        if form == "number":
            values = np.array(column, np.float64)  # None becomes NaN
            return arrow.array(values, arrow.float64(), mask=~np.isfinite(values))
        if form == "time":
            return arrow.array(np.asarray(column, np.int64) // _NS_PER_US, arrow.timestamp("us", tz="UTC"))
        types = {
            "integer": arrow.int64(),
            "flag": arrow.bool_(),
            "integers": arrow.list_(arrow.int64()),
        }
        return arrow.array(column, types.get(form, arrow.dictionary(arrow.int32(), arrow.string())))


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
