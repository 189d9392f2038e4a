"""Results of pytest-benchmark: `--benchmark-json`, and saved ones.

Saved results have single rounds with `--benchmark-save-data` only. Each value is one round, in seconds: the mean
over the calls (`iterations`) of the round.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from telemetry.compat.importers.benchmarks import IN_ORDER, Benchmarks
from telemetry.compat.importers.result_file import ResultFile, unix_ns
from telemetry.compat.importers.results import Results

TOOL: Final = "pytest-benchmark"
LOOKS_FOR: Final = "pytest-benchmark: the JSON of `pytest --benchmark-json` or `--benchmark-save`"

_UNITS: Final = {
    **dict.fromkeys(("min", "max", "mean", "stddev", "median", "iqr", "q1", "q3", "ld15iqr", "hd15iqr"), "s"),
    "total": "s",
    "ops": "/s",
    **dict.fromkeys(("rounds", "iqr_outliers", "stddev_outliers"), ""),
}
"""Figure of a benchmark → its unit."""
_OF_MACHINE: Final = ("node", "machine", "python_implementation", "python_version", "system", "release")


def recognizes(file: ResultFile) -> bool:
    """Return whether a file is one of pytest-benchmark."""
    return file.has_keys("machine_info", "commit_info", "benchmarks")


def read(file: ResultFile, results: Results) -> None:
    """Read the rounds of each benchmark. The last one is taken to end when the file was written."""
    content = file.json()
    results.version = str(content["version"])
    machine, commit = content["machine_info"], content["commit_info"]
    for name in _OF_MACHINE:
        results.param(name, machine.get(name))
    results.param("cpu", (machine.get("cpu") or {}).get("brand_raw"))
    results.param("commit", commit.get("id"))
    results.param("dirty", commit.get("dirty"))
    benchmarks = Benchmarks(results)
    benchmarks.begin()
    for place, benchmark in enumerate(content["benchmarks"]):
        _read_benchmark(benchmark, place, benchmarks, results)
    results.mark(benchmarks.at_ns, "benchmarks ended")
    results.started_ns = unix_ns(content["datetime"]) - benchmarks.at_ns
    results.lacks(f"when each round began: {IN_ORDER}, until the file was written")
    results.lacks("whether a test failed after its measurement")


def _read_benchmark(benchmark: Mapping[str, Any], place: int, benchmarks: Benchmarks, results: Results) -> None:
    title, stats = benchmarks.title(benchmark["fullname"], place), benchmark["stats"]
    group, iterations = benchmark.get("group"), stats["iterations"]
    labels = {"benchmark": title} | ({"group": str(group)} if group else {})
    if "data" in stats:
        for value in stats["data"]:
            benchmarks.advance(value * iterations)
            benchmarks.add("time", "s", labels, value)
    else:
        results.lacks("single rounds: the file was saved without --benchmark-save-data")
        benchmarks.advance(stats["total"] * iterations)
    if iterations > 1:
        results.param(f"{title} iterations", iterations)
        results.lacks("single calls of benchmarks with several iterations: a value is their mean in one round")
    for name, unit in _UNITS.items():
        results.state(f"{title} {name}", stats.get(name), unit)
