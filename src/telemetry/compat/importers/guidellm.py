"""Results of guidellm: the JSON of `guidellm run --output kind=json`.

Times are those of the wall clock. The tool measures the latency up to the end of the stream; of the output it has
only the first and the last time, and a mean gap. A failed request ends where the tool gave it up. Requests outside
the measured time, in the warm-up or the cool-down, are in none of its figures, and are left out here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import nan
from typing import Any, Final

from telemetry.common.formatting import number_of
from telemetry.compat.importers.result_file import ResultFile, ns_of
from telemetry.compat.importers.results import UNKNOWN, RequestColumns, Results

TOOL: Final = "guidellm"
LOOKS_FOR: Final = "guidellm: the JSON of `guidellm run --output kind=json`"

_FAILURES: Final = {
    "successful": "",
    "errored": "failed",
    "incomplete": "not complete when the benchmark ended",
}
_STATISTICS: Final = ("mean", "median", "std_dev", "min", "max")
_UNIT_BY_END: Final = {"_ms": "ms", "_per_second": "/s", "_latency": "s", "_delay": "s", "_time": "s"}


def recognizes(file: ResultFile) -> bool:
    """Return whether a file is one of guidellm."""
    return file.has_keys("guidellm_version", "benchmarks")


def read(file: ResultFile, results: Results) -> None:
    """Read the requests of all benchmarks of the file. Each of several is a part of the load."""
    report = file.json()
    results.version = str(report["metadata"]["guidellm_version"])
    results.lacks("when each output token came: the file has only the first time, the last one and a mean gap")
    benchmarks = report["benchmarks"]
    for number, benchmark in enumerate(benchmarks, 1):
        title = f"benchmark {number}, {_load(benchmark)}" if len(benchmarks) > 1 else ""
        _read_settings(benchmark["config"], title, results)
        listed = _read_requests(benchmark, title, results)
        total = benchmark["metrics"]["request_totals"]["total"]
        if listed < total:
            results.lacks(f"{total - listed} of {total} requests: the file has a random sample (sample_size)")
        elif not title:  # the rates of a sample, and of several benchmarks, are others
            results.measured_s = float(benchmark["duration"])
        _state(benchmark, title, results)
        if title:
            results.mark(ns_of(benchmark["start_time"]), f"{title} began")


def _load(benchmark: Mapping[str, Any]) -> str:
    strategy = benchmark["config"]["strategy"]
    amount = strategy.get("streams") or strategy.get("rate")
    return str(strategy["type_"]) + (f"@{amount}" if amount else "")


def _read_settings(config: Mapping[str, Any], title: str, results: Results) -> None:
    backend = config["backend"]
    results.name = str(backend.get("model") or "")
    for name in ("model", "target", "request_format", "stream"):
        results.param(name, backend.get(name))
    if not title:
        for name, value in config["strategy"].items():
            results.param(name.rstrip("_"), value)


def _read_requests(benchmark: Mapping[str, Any], title: str, results: Results) -> int:
    """Add the requests of a benchmark, and return how many the file has of those that the tool measured."""
    columns = results.requests_of("llm", {"mean_itl": "ms"})
    start_s, end_s = benchmark["start_time"], benchmark["end_time"]
    part = results.label("name", title) if title else ""
    measured = left_out = 0
    for failure, request in _requests(benchmark):
        ended_s, began_s = request["request_end_time"], request["request_start_time"]
        if ended_s < start_s or (ended_s if began_s is None else began_s) > end_s:
            left_out += 1
            continue
        measured += 1
        _add(request, failure, part, columns)
    if left_out:
        left_out_text = number_of(left_out, "request")
        results.mark(ns_of(start_s), f"measured time began: {left_out_text} of warm-up and cool-down left out")
    return measured


def _requests(benchmark: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for status, failure in _FAILURES.items():
        for request in benchmark["requests"][status] or ():
            error = str(request["info"].get("error") or "") if failure else ""
            yield error.partition("\\n")[0].partition("\n")[0] or failure, request


def _add(request: Any, failure: str, part: str, columns: RequestColumns) -> None:
    ended_s, began_s = request["request_end_time"], request["request_start_time"]
    first_s, gap_ms = request["info"]["timings"]["first_token_iteration"], request["inter_token_latency_ms"]
    given, produced = request["prompt_tokens"], request["output_tokens"]
    columns.add(
        ns_of(ended_s if began_s is None else began_s),
        ns_of(ended_s),
        failure=failure,
        part=part,
        first_ns=UNKNOWN if first_s is None else ns_of(first_s),
        input_tokens=UNKNOWN if given is None else int(given),
        output_tokens=UNKNOWN if produced is None else int(produced),
        values=(nan if gap_ms is None else float(gap_ms),),
    )


def _state(benchmark: Mapping[str, Any], title: str, results: Results) -> None:
    """State the figures of successful requests, and the means of all."""
    prefix = f"{title}: " if title else ""
    results.state(f"{prefix}duration", benchmark["duration"], "s")
    for name, metric in benchmark["metrics"].items():
        if name == "request_totals":
            for status, count in metric.items():
                results.state(f"{prefix}{name} {status}", count)
        if not isinstance(metric, dict) or not isinstance(metric.get("successful"), dict):
            continue
        unit = next((unit for end, unit in _UNIT_BY_END.items() if name.endswith(end)), "")
        summary = metric["successful"]
        if summary["count"] and summary["max"]:
            for statistic in _STATISTICS:
                results.state(f"{prefix}{name} successful {statistic}", summary[statistic], unit)
            for key, value in summary["percentiles"].items():
                results.state(f"{prefix}{name} successful {key}", value, unit)
            if name.endswith(("_per_second", "_concurrency")):
                results.state(f"{prefix}{name} total mean", metric["total"]["mean"], unit)
