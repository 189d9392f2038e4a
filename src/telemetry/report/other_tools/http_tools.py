"""Figures by the definitions of HTTP load testing tools, under the names in their summaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from telemetry.report.other_tools.answers import Answers
from telemetry.report.other_tools.statistics import in_ms, linear, per_s

Figures = dict[str, Any]


def k6(answers: Answers, limits: Mapping[str, int]) -> Figures:
    """Return the figures of k6: those of all requests, failed ones too, interpolated between two values."""
    durations = in_ms(answers.ended_ns - answers.issued_ns)
    return {
        "http_req_duration avg": float(durations.mean()),
        "http_req_duration min": float(durations.min()),
        "http_req_duration med": float(np.median(durations)),
        "http_req_duration max": float(durations.max()),
        "http_req_duration p(90)": linear(durations, 90),
        "http_req_duration p(95)": linear(durations, 95),
        "http_reqs count": len(answers),
        "http_reqs rate": per_s(len(answers), answers.span_ns),
    }


def vegeta(answers: Answers, limits: Mapping[str, int]) -> Figures:
    """Return the figures of vegeta in ns: those of all requests, failed ones too. Rates divide by their starts."""
    latency = answers.ended_ns - answers.issued_ns
    count, total, successes = len(answers), int(latency.sum()), int(answers.completed.sum())
    duration_ns = int(answers.issued_ns.max() - answers.issued_ns.min())
    whole_ns = int(answers.ended_ns.max() - answers.issued_ns.min())
    return {
        "latencies.total": total,
        "latencies.mean": int(total / count),
        **{f"latencies.{p}th": int(np.percentile(latency, p, method="hazen")) for p in (50, 90, 95, 99)},
        "latencies.max": int(latency.max()),
        "latencies.min": int(latency.min()),
        "duration": duration_ns,
        "wait": whole_ns - duration_ns,
        "requests": count,
        "rate": per_s(count, duration_ns) or count,
        "throughput": successes if duration_ns == 0 else per_s(successes, whole_ns),
        "success": successes / count,
    }


def hey(answers: Answers, limits: Mapping[str, int]) -> Figures:
    """Return the figures of hey in s, as it prints them. A percentile has the rank ceil(p · n), counted from 0."""
    seconds = np.sort(answers.ended_ns - answers.issued_ns) / 1e9
    figures = {
        "Slowest": float(seconds[-1]),
        "Fastest": float(seconds[0]),
        "Average": round(float(seconds.mean()), 4),
        "Requests/sec": per_s(len(answers), answers.span_ns),
    }
    place = -1
    for percentile in (10, 25, 50, 75, 90, 95, 99):
        place = max(place + 1, -(-percentile * seconds.size // 100))  # hey takes no value twice
        if place < seconds.size:
            figures[f"{percentile}%"] = float(seconds[place])
    return figures


def oha(answers: Answers, limits: Mapping[str, int]) -> Figures:
    """Return the figures of oha. A percentile has the rank floor(p · n), counted from 0. It needs all responses."""
    durations_ns = answers.ended_ns - answers.issued_ns
    spreads = {
        "latencyPercentiles": durations_ns,
        "latencyPercentilesSuccessful": durations_ns[answers.completed],
        "latencyPercentilesNotSuccessful": durations_ns[~answers.completed],
    }
    figures: Figures = {
        "summary.slowest": float(durations_ns.max()) / 1e9,
        "summary.fastest": float(durations_ns.min()) / 1e9,
        "summary.average": float(durations_ns.mean()) / 1e9,
    }
    for name, values in spreads.items():
        seconds = np.sort(values) / 1e9
        for percentile in (10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99):
            if (place := int(percentile / 100.0 * seconds.size)) < seconds.size:
                figures[f"{name}.p{percentile:g}"] = float(seconds[place])
    in_whole_us = {"min": "summary.fastest", "mean": "summary.average", "max": "summary.slowest"}
    in_whole_us |= {name: f"latencyPercentiles.{name}" for name in ("p50", "p95", "p99")}
    for name, of in in_whole_us.items():
        figures[f"metrics.latency_ms.{name}"] = float(np.floor(figures[of] * 1e6 + 0.5)) / 1e3
    return figures


_T_DIGEST: Final = "vegeta estimates percentiles by a t-digest: ours are exact"
DEFINITIONS: Final[dict[str, Callable[[Answers, Mapping[str, int]], Figures]]] = {
    "k6": k6,
    "vegeta": vegeta,
    "hey": hey,
    "oha": oha,
}
"""Name of the tool → figures of requests; each key is a name that its importer states."""
WHY: Final[dict[str, dict[str, str]]] = {
    "vegeta": {
        "latencies.50th": _T_DIGEST,
        "latencies.9": _T_DIGEST,
        "bytes_": "sizes are series of the run, and not in its requests",
        "status_codes.": "statuses of answers are not in the requests, only the reasons of failures",
    },
}
"""Name of the tool → beginning of a figure's name → why it differs from ours, or can't be recomputed."""
