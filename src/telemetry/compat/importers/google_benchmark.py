"""Results of Google Benchmark: `--benchmark_out_format=json`.

Each value is one repetition: the mean over its iterations. All times become nanoseconds, because benchmarks may
have different units. With several threads, 1.7 divides the real time by their number, and 1.9 doesn't.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from telemetry.compat.importers.benchmarks import IN_ORDER, Benchmarks, metric_name
from telemetry.compat.importers.result_file import ResultFile, unix_ns
from telemetry.compat.importers.results import Results
from telemetry.wire.units import TIME_NS

TOOL: Final = "Google Benchmark"
LOOKS_FOR: Final = "Google Benchmark: the JSON of `--benchmark_out=FILE --benchmark_out_format=json`"

_TIMES: Final = ("real_time", "cpu_time", "real_coefficient", "cpu_coefficient")
_UNITS: Final = {"items_per_second": "/s", "bytes_per_second": "B/s"}
_NO_FIGURES: Final = frozenset(
    {"family_index", "per_family_instance_index", "repetitions", "repetition_index", "threads", "iterations"}
)
"""Numbers of a row that are neither times nor counters."""


def recognizes(file: ResultFile) -> bool:
    """Return whether a file is one of Google Benchmark."""
    return file.has_keys("context", "benchmarks", "num_cpus", "library_build_type")


def read(file: ResultFile, results: Results) -> None:
    """Read the repetitions and counters of each benchmark, and state its aggregates."""
    content = _content(file)
    context = content["context"]
    results.version = str(context.get("library_version", "")).removeprefix("v")
    results.started_ns = unix_ns(context["date"])
    for name, value in context.items():
        if name not in ("date", "library_version", "json_schema_version"):
            results.param(name, value)
    benchmarks = Benchmarks(results)
    benchmarks.begin()
    has_values = False
    for row in content["benchmarks"]:
        key = row.get("family_index"), row.get("per_family_instance_index")
        title = benchmarks.title(row.get("run_name") or row["name"], key)
        if row.get("run_type", "iteration") == "aggregate":
            _state(row, title, results)
        elif row.get("error_occurred"):
            benchmarks.fail(title)
            results.mark(benchmarks.at_ns, f"{title} failed: {row.get('error_message', '')}")
        elif row.get("skipped"):
            results.mark(benchmarks.at_ns, f"{title} was skipped: {row.get('skip_message', '')}")
        else:
            has_values = True
            _add(row, title, benchmarks)
    if has_values:
        results.lacks("single iterations: a value is their mean in one repetition")
        results.lacks(f"when each repetition began: {IN_ORDER}")
    else:
        results.lacks("single repetitions: the file has aggregates only")


def _content(file: ResultFile) -> Any:
    """Return the JSON, in which Google Benchmark may write NaN and Infinity."""
    try:
        return file.json()
    except msgspec.DecodeError:
        with file.open() as opened:
            return json.load(opened)


def _figures(row: Mapping[str, Any], *, is_share: bool = False) -> Iterator[tuple[str, float, str]]:
    """Yield name, value and unit of the times and counters of a row. Shares of something have no unit."""
    for name, value in row.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or name in _NO_FIGURES:
            continue
        if is_share or name == "rms":
            yield name, value, ""
        elif name in _TIMES:
            yield name, value * TIME_NS[row["time_unit"]], "ns"
        else:
            yield name, value, _UNITS.get(name, "")


def _add(row: Mapping[str, Any], title: str, benchmarks: Benchmarks) -> None:
    benchmarks.advance(row["real_time"] * row["iterations"], TIME_NS[row["time_unit"]])
    for name, value, unit in _figures(row):
        benchmarks.add(metric_name(name), unit, {"benchmark": title}, value)


def _state(row: Mapping[str, Any], title: str, results: Results) -> None:
    for name, value, unit in _figures(row, is_share=row.get("aggregate_unit") == "percentage"):
        results.state(f"{title}_{row['aggregate_name']} {name}", value, unit)
