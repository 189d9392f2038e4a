"""Results of inference-perf: the folder of its reports, best with `per_request: true`.

A request lasts from its sending to the end of the whole response. Times are those of a monotonic clock. All tokens
of a chunk have the time of the chunk, which is one output here.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from typing import Any, Final

from telemetry.compat.importers.result_file import ResultFile, ns_of, unix_ns
from telemetry.compat.importers.results import UNKNOWN, Results

TOOL: Final = "inference-perf"
LOOKS_FOR: Final = "inference-perf: the folder of its reports, best with `per_request: true`"

_REQUESTS: Final = "*per_request_lifecycle_metrics.json*"
_SUMMARY: Final = "*summary_lifecycle_metrics.json*"
_STAGE: Final = "*stage_{}_lifecycle_metrics.json*"
_NO_FIGURES: Final = (
    *("image", "video", "audio", "images_per_sec", "videos_per_sec", "audios_per_sec", "by_label"),
)
_OF_STAGE: Final = (
    *("load_summary.requested_rate", "load_summary.achieved_rate", "successes.throughput.requests_per_sec"),
    *("successes.throughput.input_tokens_per_sec", "successes.throughput.output_tokens_per_sec"),
    *("successes.latency.request_latency.mean", "successes.latency.request_latency.median"),
    *("successes.latency.request_latency.p90", "successes.latency.time_to_first_token.mean"),
    *("successes.latency.time_to_first_token.median", "successes.latency.time_to_first_token.p90"),
)
"""Figures of a stage that the tool prints."""
_UNITS: Final = (
    *(("per_sec", "/s"), ("_rate", "/s"), ("latency", "s"), ("schedule_delay", "s"), ("seconds", "s")),
    *(("request_size_bytes", "B"), ("send_duration", "s")),
)
_SETTINGS: Final = re.compile(r"^  (model_name|base_url|streaming|use_server_output_tokens|type): (\S+)$")
_STATUS: Final = re.compile(r"HTTP Error (\d{3})")


def recognizes(file: ResultFile) -> bool:
    """Return whether it is a folder of reports."""
    return file.is_folder and file.member(_REQUESTS, _SUMMARY, _STAGE.format(0)) is not None


def read(file: ResultFile, results: Results) -> None:
    """Read the requests, and the figures of the summary and of each stage."""
    settings = _settings(file)
    for name, value in settings.items():
        results.param(name, value)
    results.name = settings.get("server.model_name", "")
    stages = list(_stages(file))
    summary = file.member(_SUMMARY)
    whole = None if summary is None else summary.json()
    for name, value in () if whole is None else _leaves(whole):
        results.state(name, value, _unit(name))
    for number, stage in enumerate(stages):
        figures = dict(_leaves(stage))
        for name in _OF_STAGE:
            results.state(f"stage_{number}.{name}", figures.get(name), _unit(name))
    if (requests := file.member(_REQUESTS)) is not None:
        entries = requests.json()
        starts = _stage_starts(entries, stages, results)
        is_by_server = settings.get("report.use_server_output_tokens") == "true"
        _read_requests(entries, starts, results, is_by_server=is_by_server)
        _set_date(file, min(map(_start_ns, entries), default=0), results)
    else:
        results.lacks("single requests: the run was made without `per_request: true`")
        _set_date(file, 0, results)
        results.mark(0, "benchmark began")
        results.mark(ns_of((whole or stages[0])["benchmark_time_seconds"]), "benchmark ended")


def _start_ns(entry: Mapping[str, Any]) -> int:
    return ns_of(entry["start_time"])


def _settings(file: ResultFile) -> dict[str, str]:
    """Return some settings from the tool's own copy of its configuration, such as `server.model_name`."""
    config, section, settings = file.member("*config.yaml"), "", {}
    for line in () if config is None else config.text_lines():
        section = line.rstrip(":") if line[:1].strip() else section
        if (match := _SETTINGS.match(line)) is not None:
            settings[f"{section}.{match[1]}"] = match[2]
    return settings


def _stages(file: ResultFile) -> Iterator[Any]:
    number = 0
    while (stage := file.member(_STAGE.format(number))) is not None:
        yield stage.json()
        number += 1


def _set_date(file: ResultFile, first_ns: int, results: Results) -> None:
    """Date the first request by the beginning of its stage, which version 0.7 writes."""
    report = file.member("*partial.stage_0.yaml")
    lines = () if report is None else report.text_lines()
    start = next((line.partition(":")[2] for line in lines if line.startswith("    start:")), None)
    if start is None:
        results.is_dated = False
        results.lacks("the time of day: the reports have the times of a monotonic clock")
    else:
        results.started_ns = unix_ns(start.strip(" '\"")) - first_ns
        if first_ns:
            results.lacks("the exact time of day: the first request is dated by the beginning of its stage")


def _stage_starts(entries: Sequence[Any], stages: Sequence[Any], results: Results) -> list[int]:
    """Return when each stage began, and mark it. Stages follow each other, so their numbers of requests tell."""
    loads = [stage["load_summary"] for stage in stages]
    counts = [int(load["count"]) for load in loads]
    if not counts or sum(counts) != len(entries) or min(counts) < 1:
        return []
    sent = sorted(map(_start_ns, entries))
    starts = [sent[first] for first in accumulate(counts[:-1], initial=0)]
    for number, (start_ns, load) in enumerate(zip(starts, loads, strict=True)):
        at_once = f" at concurrency {load['concurrency']}" if load.get("concurrency") else ""
        results.mark(start_ns, f"stage {number} began: {load['count']} requests{at_once}")
    return starts


def _read_requests(entries: Any, stage_starts: Sequence[int], results: Results, *, is_by_server: bool) -> None:
    requests = results.requests_of("llm")
    for entry in entries:
        start_ns, info = _start_ns(entry), entry.get("info") or {}
        failure = _failure(entry["error"]) if entry.get("error") else ""
        output = info.get("response_metrics") or {}
        times = [ns_of(time) for time, _ in groupby(output.get("output_token_times") or ())]
        tokens = output.get("output_tokens")
        if is_by_server:
            tokens = (output.get("server_usage") or {}).get("completion_tokens", tokens)
        given = (info.get("request_metrics") or {}).get("text", {}).get("input_tokens")
        if not info:
            results.lacks("outputs and tokens: `info` of the requests was switched off")
        elif not times and not failure:
            results.lacks("outputs of requests that were not streamed")
        requests.add(
            start_ns,
            ns_of(entry["end_time"]),
            failure=failure,
            part=f"stage {bisect_right(stage_starts, start_ns) - 1}" if stage_starts else "",
            first_ns=times[0] if times else UNKNOWN,
            chunks_ns=times[1:],
            input_tokens=UNKNOWN if failure or given is None else int(given),
            output_tokens=UNKNOWN if failure or tokens is None else int(tokens),
        )


def _failure(error: Mapping[str, Any]) -> str:
    what = str(error.get("error_type") or "failed")
    match = _STATUS.search(what)
    return what if match is None else f"status {match[1]}"


def _leaves(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all figures with the keys on the way to them, joined by dots."""
    for key, value in tree.items():
        if isinstance(value, dict) and key not in _NO_FIGURES:
            yield from _leaves(value, f"{path}{key}.")
        elif key not in _NO_FIGURES:
            yield f"{path}{key}", value


def _unit(name: str) -> str:
    if "per_output_token" in name or "time_to_first_token" in name:
        return "s"
    return next((unit for text, unit in _UNITS if text in name), "")
