"""Reads the lake of `--to parquet`."""

from __future__ import annotations

import json
import math
from pathlib import Path

from tests.lakes import by_polars

from telemetry.backends.items import CounterReading, GaugeReading, Reading, SeriesReading
from telemetry.backends.naming import FINAL, flat
from telemetry.testing.backends import Written


def read_back(folder: Path, where: str) -> Written:
    """`where` is the lake."""
    lake = Path(where)
    found = Written(counts={"step": 0})
    for row in by_polars(lake, "steps"):
        found.value(row["axis"], row["step"], row["name"], math.nan if row["value"] is None else row["value"])
    found.params = {row["name"]: row["value"] for row in by_polars(lake, "params")}
    found.counts["reading"] = len({row["elapsed_s"] for row in by_polars(lake, "intervals")})
    (run,) = by_polars(lake, "runs")
    seconds = run["elapsed_s"]
    final = Reading(key="final", time_ns=0, elapsed_s=seconds, seconds=seconds, final=True)
    for row in by_polars(lake, "series"):
        labels, figures = json.loads(row["labels"]), json.loads(row["percentiles"])
        numbers = {name: row[name] for name in ("count", "min", "max", "mean")}
        final.series.append(SeriesReading(name=row["name"], labels=labels, percentiles=figures, **numbers))
    for row in by_polars(lake, "last_values"):
        named = {"name": row["name"], "labels": json.loads(row["labels"]), "value": row["value"]}
        if row["kind"] == "counter":
            final.counters.append(CounterReading(**named))
        elif row["value"] is not None:
            final.gauges.append(GaugeReading(**named))
    found.finals = {name.removeprefix(FINAL): number for name, number in flat(final).items()}
    return found
