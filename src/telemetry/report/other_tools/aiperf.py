"""Figures by the definitions of aiperf, under the tags in its JSON, and its console table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from telemetry.report.other_tools.answers import Answers, Booleans, Numbers
from telemetry.report.other_tools.console import UNKNOWN, number
from telemetry.report.other_tools.selection import Selection
from telemetry.report.other_tools.statistics import deviation, in_ms, linear, nearest, per_s

Figures = dict[str, Any]

TAGS_OF_LIMITS: Final = {"ttft": "time_to_first_token", "tpot": "inter_token_latency", "e2el": "request_latency"}
"""Map of key of a limit to the tag of this tool."""
LIMITS: Final = tuple(TAGS_OF_LIMITS)
SCHEMA_VERSION: Final = "1.4"
PERCENTILES: Final = (1, 5, 10, 25, 50, 75, 90, 95, 99)
_COLUMNS: Final = ("avg", "min", "max", "p99", "p90", "p50", "std")
_TOKENS: Final = "tokens"
_PER_USER: Final = "tokens/sec/user"
_HEADERS: Final = {
    "time_to_first_token": "Time to First Token",
    "time_to_second_token": "Time to Second Token",
    "time_to_first_output_token": "Time to First Output Token",
    "request_latency": "Request Latency",
    "decode_duration": "Decode Duration",
    "inter_token_latency": "Inter Token Latency",
    "output_token_throughput_per_user": "Output Token Throughput Per User",
    "e2e_output_token_throughput": "E2E Output Token Throughput",
    "output_sequence_length": "Output Sequence Length",
    "input_sequence_length": "Input Sequence Length",
    "output_token_throughput": "Output Token Throughput",
    "input_token_throughput": "Input Token Throughput",
    "request_throughput": "Request Throughput",
    "goodput": "Goodput",
    "completed_request_count": "Completed Requests (Success + Error)",
    "request_error_rate": "Request Error Rate",
    "request_count": "Request Count",
    "adj_time_to_first_token": "Time to First Token (error-adjusted)",
    "adj_request_latency": "Request Latency (error-adjusted)",
    "adj_decode_duration": "Decode Duration (error-adjusted)",
    "adj_inter_token_latency": "Inter Token Latency (error-adjusted)",
}
"""Rows of its console table, in order."""
_ADJUSTED: Final = ("time_to_first_token", "request_latency", "decode_duration", "inter_token_latency")


@dataclass(frozen=True, slots=True)
class _Records:
    """Values of valid requests, one for each request. Durations are in nanoseconds."""

    ttft: Numbers
    latency: Numbers
    decode: Numbers
    per_token: Numbers
    """Time per output token after the first one; for requests with two tokens or more."""
    has_per_token: Booleans


def figures(answers: Answers, limits: Mapping[str, int]) -> Figures:
    """Return the figures of its JSON by tag. Limits with other keys than its own have no effect.

    A tag without values is absent, as in the tool. Infinite values are infinite here.
    """
    done = answers.chosen(answers.completed & answers.has_output)
    failed = answers.chosen(~(answers.completed & answers.has_output))
    records = _records(done)
    metrics = dict(_distributions(done, records))
    errors = len(failed)
    if errors:
        for tag, values in zip(
            _ADJUSTED, (records.ttft, records.latency, records.decode, records.per_token), strict=True
        ):
            if values.size:
                metrics[f"adj_{tag}"] = _adjusted(values, errors)
        inputs = failed.input_tokens
        metrics["error_isl"] = _spread(inputs.copy(), _TOKENS)
        metrics["total_error_isl"] = _scalar(inputs.sum(), _TOKENS)
    return metrics | dict(_scalars(done, errors, records, limits))


def document(selection: Selection, version: str) -> Figures:
    """Return its JSON. An infinite value is null."""
    begun = datetime.fromtimestamp(selection.started_ns / 1e9, UTC)
    metrics = figures(selection.answers, selection.limits)
    return {
        "schema_version": SCHEMA_VERSION,
        "aiperf_version": version,
        "benchmark_id": selection.run_id,
        "start_time": begun.replace(tzinfo=None).isoformat(),
        **{tag: {key: _finite(value) for key, value in metric.items()} for tag, metric in metrics.items()},
    }


def console(metrics: Figures) -> Iterator[str]:
    """Yield the lines of its console table."""
    rows = [["Metric", *_COLUMNS]]
    for tag, header in _HEADERS.items():
        if tag in metrics:
            metric = metrics[tag]
            rows.append([f"{header} ({metric['unit']})", *(_cell(metric.get(column)) for column in _COLUMNS)])
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    yield f"{'NVIDIA AIPerf | LLM Metrics':^{sum(widths) + 3 * len(widths) + 1}}".rstrip()
    yield "┏" + "┳".join("━" * (width + 2) for width in widths) + "┓"
    yield "┃" + "┃".join(f" {cell:>{width}} " for cell, width in zip(rows[0], widths, strict=True)) + "┃"
    yield "┡" + "╇".join("━" * (width + 2) for width in widths) + "┩"
    for row in rows[1:]:
        yield "│" + "│".join(f" {cell:>{width}} " for cell, width in zip(row, widths, strict=True)) + "│"
    yield "└" + "┴".join("─" * (width + 2) for width in widths) + "┘"


def _records(done: Answers) -> _Records:
    ttft = (done.first_ns - done.issued_ns).astype(np.float64)
    latency = (done.last_ns - done.issued_ns).astype(np.float64)
    several = done.output_tokens >= 2
    return _Records(
        ttft=ttft,
        latency=latency,
        decode=latency - ttft,
        per_token=(latency - ttft)[several] / (done.output_tokens[several] - 1),
        has_per_token=several,
    )


def _distributions(done: Answers, records: _Records) -> Iterator[tuple[str, Figures]]:
    """Yield the figures that have a value for each request or chunk."""
    second = done.steps_ns[done.offsets[:-1][done.has_gap] + 1]
    output, moving, begun = done.output_tokens, records.per_token > 0, records.ttft > 0
    for tag, values, unit in (
        ("time_to_first_token", in_ms(records.ttft), "ms"),
        ("time_to_second_token", in_ms(second), "ms"),
        ("time_to_first_output_token", in_ms(records.ttft), "ms"),
        ("request_latency", in_ms(records.latency), "ms"),
        ("decode_duration", in_ms(records.decode), "ms"),
        ("inter_token_latency", in_ms(records.per_token), "ms"),
        ("inter_chunk_latency", done.gaps_ms(), "ms"),
        ("output_token_throughput_per_user", 1e9 / records.per_token[moving], _PER_USER),
        ("e2e_output_token_throughput", _per_s(output, records.latency), _PER_USER),
        ("prefill_throughput_per_user", done.input_tokens[begun] / (records.ttft[begun] / 1e9), _PER_USER),
        ("output_sequence_length", output.copy(), _TOKENS),
        ("input_sequence_length", done.input_tokens.copy(), _TOKENS),
        ("output_token_count", output[output > 0], _TOKENS),
    ):
        if values.size:
            yield tag, _spread(values, unit)


def _scalars(
    done: Answers, errors: int, records: _Records, limits: Mapping[str, int]
) -> Iterator[tuple[str, Figures]]:
    """Yield the figures that are a single number."""
    valid = len(done)
    if not valid + errors:
        return
    span_ns = int(done.last_ns.max() - done.issued_ns.min()) if valid else 0
    inputs, outputs = float(done.input_tokens.sum()), float(done.output_tokens.sum())
    yield "completed_request_count", _scalar(valid + errors, "requests")
    yield "request_error_rate", _scalar(100.0 * errors / (valid + errors), "%")
    if errors:
        yield "error_request_count", _scalar(errors, "requests")
    if valid:
        yield "request_count", _scalar(valid, "requests")
        yield "total_isl", _scalar(inputs, _TOKENS)
        yield "total_osl", _scalar(outputs, _TOKENS)
        yield "total_output_tokens", _scalar(outputs, _TOKENS)
    good = _good(records, limits)
    if good is not None:
        yield "good_request_count", _scalar(good, "requests")
        yield "good_request_fraction", _scalar(good / (valid + errors), "ratio")
    if span_ns <= 0:
        return
    yield "benchmark_duration", _scalar(span_ns / 1e9, "sec")
    for tag, amount, unit in (
        ("request_throughput", valid, "requests/sec"),
        ("output_token_throughput", outputs, "tokens/sec"),
        ("input_token_throughput", inputs, "tokens/sec"),
        ("total_token_throughput", inputs + outputs, "tokens/sec"),
        ("goodput", good, "requests/sec"),
    ):
        if amount is not None:
            yield tag, _scalar(per_s(amount, span_ns), unit)


def _good(records: _Records, limits: Mapping[str, int]) -> int | None:
    """Return the number of good requests; None without limits. A request without a value is not good."""
    applicable = {key: limit for key, limit in limits.items() if key in LIMITS}
    if not applicable:
        return None
    good = np.ones(records.ttft.size, bool)
    if "ttft" in applicable:
        good &= records.ttft <= applicable["ttft"]
    if "e2el" in applicable:
        good &= records.latency <= applicable["e2el"]
    if "tpot" in applicable:
        good &= records.has_per_token
        good[records.has_per_token] &= records.per_token <= applicable["tpot"]
    return int(good.sum())


def _spread(values: Numbers, unit: str) -> Figures:
    """Return the figures of values. Changes their order."""
    total, std = float(values.sum()), deviation(values)
    return {
        "unit": unit,
        "avg": total / values.size,
        **{f"p{percentile}": linear(values, percentile) for percentile in PERCENTILES},
        "min": float(values.min()),
        "max": float(values.max()),
        "std": std,
        "count": int(values.size),
        "sum": total,
    }


def _adjusted(values_ns: Numbers, errors: int) -> Figures:
    """Return the figures of durations with an infinite one for each failed request."""
    values = np.concatenate([in_ms(values_ns), np.full(errors, np.inf)])
    return {
        "unit": "ms",
        "avg": np.inf,
        **{f"p{percentile}": nearest(values, percentile) for percentile in PERCENTILES},
        "min": float(values.min()),
        "max": np.inf,
        "count": int(values.size),
        "sum": np.inf,
    }


def _scalar(value: float | None, unit: str) -> Figures:
    return {"unit": unit, "avg": value if value is None else number(float(value))}


def _per_s(amounts: Numbers, durations_ns: Numbers) -> Numbers:
    """Return the rates of requests that took any time."""
    taken = durations_ns > 0
    return amounts[taken] / (durations_ns[taken] / 1e9)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _cell(value: float | None) -> str:
    return UNKNOWN.upper() if value is None else f"{value:,.2f}"
