"""Results of `vllm bench serve`: `--save-result`, and `--save-detailed`, which has each request.

The tool measures the latency up to the last chunk. A request has its start only since version 0.11.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, Final

from telemetry.compat.importers.result_file import ResultFile, ns_of
from telemetry.compat.importers.results import UNKNOWN, Results

TOOL: Final = "vLLM"
LOOKS_FOR: Final = "vLLM: the JSON of `vllm bench serve --save-result`, best with --save-detailed"

_SETTINGS: Final = (
    *("endpoint_type", "backend", "label", "model_id", "tokenizer_id", "num_prompts", "request_rate", "burstiness"),
    "max_concurrency",
)
_UNIT_BY_END: Final = {"_ms": "ms", "duration": "s", "throughput": "/s", "goodput": "/s", "per_s": "/s"}


def recognizes(file: ResultFile) -> bool:
    """Return whether a file is one of vLLM."""
    return file.has_keys("endpoint_type", "model_id", "tokenizer_id", "num_prompts", "burstiness")


def read(file: ResultFile, results: Results) -> None:
    """Read the newest result of the file: with `--append-result`, there are several, one per line."""
    *_, result = file.json_lines()
    results.name = str(result["model_id"])
    results.measured_s = float(result["duration"])
    for name in _SETTINGS:
        results.param(name, result.get(name))
    for name, value in result.items():
        if name not in _SETTINGS:
            results.state(name, value, next((unit for end, unit in _UNIT_BY_END.items() if name.endswith(end)), ""))
    began_ns = _date_ns(result["date"]) - ns_of(result["duration"])
    if "ttfts" not in result:
        results.started_ns = began_ns
        results.lacks("single requests: the file was made without --save-detailed")
        results.mark(0, "benchmark began")
        results.mark(ns_of(result["duration"]), "benchmark ended")
        return
    starts = _starts(result, results)
    results.started_ns = began_ns - min(starts, default=0)
    _read_requests(result, starts, results)


def _date_ns(text: str) -> int:
    """Return the end of the benchmark, which has no time zone: it is read as UTC."""
    return int(datetime.strptime(text, "%Y%m%d-%H%M%S").replace(tzinfo=UTC).timestamp()) * 10**9


def _starts(result: Mapping[str, Any], results: Results) -> Sequence[int]:
    starts = result.get("start_times")
    if starts:
        return [ns_of(start) for start in starts]
    results.lacks(
        "when requests began: all are shown from the beginning, so rates over time are those of their ends"
    )
    return [0] * len(result["ttfts"])


def _read_requests(result: Mapping[str, Any], starts: Sequence[int], results: Results) -> None:
    requests = results.requests_of("llm")
    columns = [result[name] for name in ("ttfts", "itls", "input_lens", "output_lens", "errors")]
    latencies = result.get("latencies") or [None] * len(starts)
    for start_ns, latency, ttft, gaps, given, produced, error in zip(starts, latencies, *columns, strict=True):
        first_ns = start_ns + ns_of(ttft)
        *chunks_ns, end_ns = accumulate((ns_of(gap) for gap in gaps), initial=first_ns)
        chunks_ns.append(end_ns)
        failed = bool(error) or not produced
        if failed and not latency:
            results.lacks("how long failed requests took")
            end_ns = UNKNOWN
        requests.add(
            start_ns,
            end_ns if not latency else max(end_ns, start_ns + ns_of(latency)),
            failure=(str(error).strip().splitlines() or ["failed"])[-1] if failed else "",
            first_ns=UNKNOWN if failed else first_ns,
            chunks_ns=() if failed else chunks_ns[1:],
            input_tokens=int(given),
            output_tokens=UNKNOWN if failed else int(produced),
        )
