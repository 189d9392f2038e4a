"""A Parquet file of one table, written piece by piece."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from telemetry.history.tables.lake.layout import TABLES, Form, schema

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
