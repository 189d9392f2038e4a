"""Results of SGLang's `bench_serving`: `--output-file`, and `--output-details`, which has each request.

The file has the time from the start of a request to its first chunk, and from each chunk to the next; neither when
requests started, nor when they ended. So a request ends at its last chunk here. Its output tokens are those that
the server counted; if the server did not, those that were requested.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Final

from telemetry.common.formatting import number_of
from telemetry.compat.importers.result_file import ResultFile, ns_of
from telemetry.compat.importers.results import UNKNOWN, Results

TOOL: Final = "SGLang"
LOOKS_FOR: Final = "SGLang: the JSON lines of `bench_serving --output-file`, best with --output-details"

_SETTINGS: Final = (
    *("tag", "backend", "dataset_name", "request_rate", "max_concurrency", "sharegpt_output_len"),
    *("random_input_len", "random_output_len", "random_range_ratio"),
)
_UNIT_BY_END: Final = {"_ms": "ms", "duration": "s", "throughput": "/s", "goodput": "/s", "per_s": "/s"}


def recognizes(file: ResultFile) -> bool:
    """Return whether a file is one of SGLang."""
    return file.has_keys("backend", "sharegpt_output_len", "random_input_len", "total_output_tokens_retokenized")


def read(file: ResultFile, results: Results) -> None:
    """Read the newest result of the file: each run of the tool appends a line to it."""
    newest, number = b"", 0
    for line in file.lines():
        if line.strip():
            newest, number = line, number + 1
    if number > 1:
        results.lacks(
            f"{number_of(number - 1, 'older result')} of the file: only that of its last line is imported"
        )
    result = json.loads(newest)  # it may have Infinity, which strict JSON has not
    server = result.get("server_info")
    results.name = str(result["tag"] or (server.get("model_path", "") if isinstance(server, dict) else ""))
    results.is_dated = False
    results.measured_s = float(result["duration"])
    for name in _SETTINGS:
        value = result[name]
        results.param(name, "inf" if value == float("inf") else value)
    _state(result, results)
    results.mark(0, "benchmark began")
    results.mark(ns_of(result["duration"]), "benchmark ended")
    if "ttfts" in result:
        _read_requests(result, results)
    else:
        results.lacks("single requests: the file was made without --output-details")


def _state(result: Mapping[str, Any], results: Results) -> None:
    for name, value in result.items():
        if isinstance(value, dict) and name != "server_info":
            unit = "ms" if name.endswith("_ms") else ""
            for key, part in value.items():
                results.state(f"{name} {key}", part, unit)
        elif name not in _SETTINGS:
            results.state(name, value, next((unit for end, unit in _UNIT_BY_END.items() if name.endswith(end)), ""))


def _read_requests(result: Mapping[str, Any], results: Results) -> None:
    results.lacks(
        "when requests began: all are shown from the beginning, so rates over time are those of their ends"
    )
    results.lacks("how long requests took after their last chunk")
    requests = results.requests_of("llm")
    columns = [result[name] for name in ("ttfts", "itls", "input_lens", "output_lens", "errors")]
    for ttft, gaps, given, produced, error in zip(*columns, strict=True):
        failure = (str(error).strip().splitlines() or [""])[-1].partition(": {")[0]  # without the body
        if not failure and not ttft:
            failure = "no output"
            results.lacks("how long requests without output took: they are shown as failed")
        elif failure:
            results.lacks("how long failed requests took")
        first_ns = ns_of(ttft)
        chunks_ns = list(accumulate((ns_of(gap) for gap in gaps), initial=first_ns))
        requests.add(
            0,
            UNKNOWN if failure else chunks_ns[-1],
            failure=failure,
            first_ns=UNKNOWN if failure else first_ns,
            chunks_ns=() if failure else chunks_ns[1:],
            input_tokens=int(given),
            output_tokens=UNKNOWN if failure else int(produced),
        )
    if goodput := result.get("goodput_slos_ms"):
        results.limit("llm", goodput)
