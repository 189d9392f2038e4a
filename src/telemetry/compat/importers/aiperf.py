"""Results of NVIDIA AIPerf: profile_export.jsonl, its folder, or profile_export_aiperf.json with figures only.

Times are those of the wall clock. The tool measures the latency up to the last chunk with text. Requests of other
phases than profiling, such as the warm-up, are in none of its figures, and are left out here.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Final

from telemetry.common.formatting import number_of
from telemetry.compat.importers.result_file import ResultFile, ns_of, unix_ns
from telemetry.compat.importers.results import UNKNOWN, Results

TOOL: Final = "AIPerf"
LOOKS_FOR: Final = "AIPerf: profile_export.jsonl, or the folder that has it and profile_export_aiperf.json"

_REQUESTS: Final = ("profile_export.jsonl", "profile_export.jsonl.gz")
_FIGURES: Final = ("profile_export_aiperf.json", "profile_export_aiperf.json.gz")
_AVERAGE_ONLY: Final = ("http_req_", "effective_", "active_", "tokens_in_flight", "credit_")
"""Beginnings of figures of which only the average is stated: they have hundreds of percentiles."""
_UNITS: Final = {"ms": "ms", "sec": "s", "%": "%", "tokens": "tokens", "requests/sec": "/s", "tokens/sec": "/s"}
_ROUNDING_S: Final = 2e-6


def recognizes(file: ResultFile) -> bool:
    """Return whether a file or folder is one of AIPerf."""
    if file.is_folder:
        requests = file.member(*_REQUESTS)
        return requests is not None and recognizes(requests)
    return file.has_keys("session_num", "benchmark_phase", "metrics") or file.has_keys(
        "schema_version", "aiperf_version", "benchmark_id"
    )


def read(file: ResultFile, results: Results) -> None:
    """Read the requests, and the figures if the file is a folder."""
    requests = file.member(*_REQUESTS) if file.is_folder else file
    if requests is None:
        raise ValueError(f"it has no {_REQUESTS[0]}")
    if requests.has_keys("aiperf_version"):
        _read_figures(requests.json(), results)
        results.lacks(f"single requests: they are in {_REQUESTS[0]}")
        return
    _read_requests(requests, results)
    figures = file.member(*_FIGURES) if file.is_folder else None
    if figures is not None:
        _read_figures(figures.json(), results)
    else:
        results.lacks(f"the figures of the tool: they are in {_FIGURES[0]}, so import its folder")


def _read_requests(file: ResultFile, results: Results) -> None:
    left_out, began_ns = 0, UNKNOWN
    for record in file.json_lines():
        if record["metadata"]["benchmark_phase"] != "profiling":
            left_out += 1
            continue
        _add(record, results)
        start_ns = record["metadata"]["request_start_ns"]
        began_ns = start_ns if began_ns == UNKNOWN else min(began_ns, start_ns)
    if left_out and began_ns != UNKNOWN:
        results.mark(began_ns, f"warm-up ended: {number_of(left_out, 'request')} of it left out")


def _add(record: Any, results: Results) -> None:
    times, error = record["metadata"], record.get("error")
    metrics = {name: metric["value"] for name, metric in record["metrics"].items()}
    start_ns, end_ns = int(times["request_start_ns"]), int(times["request_end_ns"])
    if error:
        if end_ns == start_ns:
            results.lacks("how long failed requests took")
        results.requests_of("llm").add(
            start_ns,
            end_ns if end_ns > start_ns else UNKNOWN,
            failure=" ".join(str(error[key]) for key in ("code", "type") if error.get(key)) or "failed",
            input_tokens=int(metrics.get("error_isl", UNKNOWN)),
        )
        return
    ttft = metrics.get("time_to_first_token")
    chunks_ns: list[int] = []
    if ttft is not None:
        gaps_ns = (ns_of(gap, 1e6) for gap in metrics.get("inter_chunk_latency", ()))
        chunks_ns = list(accumulate(gaps_ns, initial=start_ns + ns_of(ttft, 1e6)))
    results.requests_of("llm").add(
        start_ns,
        max([start_ns + ns_of(metrics["request_latency"], 1e6), *chunks_ns[-1:]]),
        first_ns=chunks_ns[0] if chunks_ns else UNKNOWN,
        chunks_ns=chunks_ns[1:],
        input_tokens=int(metrics.get("input_sequence_length", UNKNOWN)),
        output_tokens=int(metrics.get("output_sequence_length", UNKNOWN)),
    )


def _read_figures(result: Mapping[str, Any], results: Results) -> None:
    results.version = str(result["aiperf_version"])
    results.is_interrupted = result.get("was_cancelled") is True
    for tag, metric in result.items():
        if isinstance(metric, dict) and "unit" in metric:
            unit = _UNITS.get(metric["unit"], "")
            for key in ("avg",) if tag.startswith(_AVERAGE_ONLY) else metric:
                results.state(f"{tag} {key}", metric.get(key), "" if key == "count" else unit)
    if result.get("start_time") and result.get("end_time"):
        start_ns, end_ns = unix_ns(result["start_time"]), unix_ns(result["end_time"])
        results.measured_s = _measured_s(result, (end_ns - start_ns) / 1e9)
        if not results.requests:
            results.mark(start_ns, "benchmark began")
            results.mark(end_ns, "benchmark ended")
    _read_settings(result["input_config"], results)


def _measured_s(result: Mapping[str, Any], span_s: float) -> float:
    """Return the time by which the tool divides: from `start_time` to `end_time`, which lack its nanoseconds.

    They follow from a rate that the tool states.
    """
    count, rate = (result.get(tag, {}).get("avg") for tag in ("request_count", "request_throughput"))
    exact_s = round(count / rate, 9) if count and rate else span_s
    return exact_s if abs(exact_s - span_s) <= _ROUNDING_S else span_s


def _read_settings(config: Mapping[str, Any], results: Results) -> None:
    models = config.get("models", {}).get("items") or [{}]
    results.name = str(models[0].get("name", ""))
    endpoint, phases = config.get("endpoint", {}), config.get("phases") or [{}]
    results.param("model", models[0].get("name"))
    results.param("url", (endpoint.get("urls") or [None])[0])
    results.param("endpoint_type", endpoint.get("type"))
    results.param("streaming", endpoint.get("streaming"))
    for name in ("type", "requests", "duration", "concurrency", "rate"):
        results.param(f"load_{name}", phases[-1].get(name))
    if results.requests and (goodput := config.get("slos")):
        results.limit("llm", goodput)
