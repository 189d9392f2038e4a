"""Tables of a lake, read back by programs that did not write them."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

Rows = list[dict[str, Any]]
Read = Callable[[Path, str], Rows]


def by_duckdb(lake: Path, table: str) -> Rows:
    import duckdb

    found = duckdb.sql(f"SELECT * FROM read_parquet('{lake}/{table}/*/*.parquet')")
    return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]


def by_polars(lake: Path, table: str) -> Rows:
    import polars

    return polars.scan_parquet(lake / table).collect().to_dicts()


def by_pandas(lake: Path, table: str) -> Rows:
    import pandas

    frame = pandas.read_parquet(lake / table)
    return [
        {str(key): _plain(value) for key, value in row.items()} for row in frame.astype(object).to_dict("records")
    ]


def _plain(value: Any) -> Any:
    """Return a value of a data frame as the other programs return it."""
    import numpy
    import pandas

    if isinstance(value, pandas.Timestamp):
        return value.to_pydatetime()
    if isinstance(value, numpy.ndarray):
        return [None if one is None or math.isnan(one) else int(one) for one in value.tolist()]
    if isinstance(value, float) and math.isnan(value):
        return None
    return None if value is pandas.NaT or value is pandas.NA else value


READERS: Final[dict[str, Read]] = {"duckdb": by_duckdb, "polars": by_polars, "pandas": by_pandas}
