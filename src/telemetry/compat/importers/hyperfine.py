"""Results of hyperfine: `--export-json` of 1.x and 2.x.

Each value is one execution of a command, in seconds. With a shell, hyperfine has subtracted the time that the shell
takes to start, so a value may be 0. Failed executions are in the times, too. Warm-up runs are in no file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from telemetry.compat.importers.benchmarks import IN_ORDER, Benchmarks
from telemetry.compat.importers.result_file import ResultFile, unix_ns
from telemetry.compat.importers.results import Results

TOOL: Final = "hyperfine"
LOOKS_FOR: Final = "hyperfine: the JSON of `hyperfine --export-json`"

_STATISTICS: Final = ("mean", "stddev", "median", "min", "max")
_MEANS: Final = ("user", "system")
_WALL: Final = "time_wall_clock"
_MEMORY: Final = "memory_peak_resident"
_UNITS: Final = {"second": "s", "byte": "B"}


def recognizes(file: ResultFile) -> bool:
    """Return whether a file is one of hyperfine."""
    return file.has_keys("results", "command", "mean", "stddev", "median", "user", "system", "times") or (
        file.has_keys("schema_version", "hyperfine_version", "results")
    )


def read(file: ResultFile, results: Results) -> None:
    """Read the runs of each command."""
    content = file.json()
    benchmarks = Benchmarks(results, "command")
    metadata = content.get("metadata")
    if metadata is None:
        results.is_dated = False
        results.lacks(f"when each run began: {IN_ORDER}")
    else:
        results.version = metadata["hyperfine_version"]
        results.started_ns = unix_ns(metadata["start_time"])
        results.lacks(f"when each run but the first began: {IN_ORDER}")
        for name, value in (metadata.get("platform") or {}).items():
            results.param(name, value)
    benchmarks.begin()
    for place, result in enumerate(content["results"]):
        _read_result(result, place, benchmarks, results)


def _read_result(result: Mapping[str, Any], place: int, benchmarks: Benchmarks, results: Results) -> None:
    title = benchmarks.title(result.get("name") or result["command"], place)
    if title != result["command"]:
        results.param(f"{title} command", result["command"])
    labels = {name: _text(value) for name, value in (result.get("parameters") or {}).items()}
    labels["command"] = title
    for values, exit_code in _runs(result):
        benchmarks.advance(values["time"][0])
        for name, (value, unit) in values.items():
            benchmarks.add(name, unit, labels, value)
        if exit_code != 0:
            benchmarks.fail(title)
    if "summary" in result:
        for metric, summary in result["summary"].items():
            name, unit = _name(metric), _unit(summary)
            for key in _STATISTICS:
                results.state(_stated(title, name, key), summary.get(key), unit)
        return
    results.lacks("user and system time of single runs: hyperfine 1.x writes their means")
    if "exit_codes" not in result:
        results.lacks("which runs failed")
    for key in (*_STATISTICS, *_MEANS):
        results.state(_stated(title, "time", key), result.get(key), "s")


def _runs(result: Mapping[str, Any]) -> Iterator[tuple[dict[str, tuple[float, str]], object]]:
    """Yield the values of each run, by name and with their units, and its exit code. Raises ValueError."""
    if "measurements" in result:
        for run in result["measurements"]:
            metrics = {metric: value for metric, value in run.items() if metric != "exit_code"}
            yield {_name(key): (of["value"], _unit(of)) for key, of in metrics.items()}, run.get("exit_code")
        return
    times = result["times"]
    codes, memory = result.get("exit_codes") or [0] * len(times), result.get("memory_usage_byte")
    for time, code, size in zip(times, codes, memory or [None] * len(times), strict=True):
        yield {"time": (time, "s")} | ({} if size is None else {_MEMORY: (size, "B")}), code


def _name(metric: str) -> str:
    return "time" if metric == _WALL else metric


def _unit(values: Mapping[str, Any]) -> str:
    unit = str(values.get("unit", ""))
    return _UNITS.get(unit, unit)


def _text(value: object) -> str:
    return str(value["value"] if isinstance(value, Mapping) else value)


def _stated(title: str, name: str, key: str) -> str:
    return f"{title} {key}" if name == "time" else f"{title} {name} {key}"
