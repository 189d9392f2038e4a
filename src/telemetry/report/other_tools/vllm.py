"""Figures by the definitions of `vllm bench serve`, under the names in its JSON, and its console layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from telemetry.report.other_tools.answers import Answers, Numbers
from telemetry.report.other_tools.console import WIDTH, line, number, title
from telemetry.report.other_tools.selection import Selection
from telemetry.report.other_tools.statistics import (
    best_second,
    deviation,
    in_ms,
    linear,
    median,
    most_in_a_second,
    per_s,
    per_token_ns,
    within,
)

Figures = dict[str, Any]

LIMITS: Final = ("ttft", "tpot", "e2el")
"""Keys of limits that this tool knows."""
PERCENTILES: Final = (25, 50, 75, 90, 95, 99, 99.9)
"""Percentiles that users ask it for with --metric-percentiles."""
_SECTIONS: Final = (
    ("ttft", "TTFT", "Time to First Token"),
    ("tpot", "TPOT", "Time per Output Token (excl. 1st token)"),
    ("itl", "ITL", "Inter-token Latency"),
    ("e2el", "E2EL", "End-to-end Latency"),
)


def figures(answers: Answers, limits: Mapping[str, int], percentiles: Sequence[float] = (99,)) -> Figures:
    """Return the figures of its JSON. Limits with other keys than its own have no effect."""
    done = answers.chosen(answers.completed & answers.has_output)
    tokens = np.where(done.output_tokens > 0, done.output_tokens, 1.0)
    span_ns = answers.span_ns
    to_first, to_last = done.first_ns - done.issued_ns, done.last_ns - done.issued_ns
    after_first = to_last - to_first
    several = tokens > 1
    durations: dict[str, Numbers] = {
        "ttft": in_ms(to_first),
        "tpot": in_ms(per_token_ns(after_first[several], tokens[several])),
        "itl": done.gaps_ms(),
        "e2el": in_ms(to_last),
    }
    applicable = {key: limit for key, limit in limits.items() if key in LIMITS}
    met = within(applicable, {"ttft": to_first, "tpot": after_first, "e2el": to_last}, tokens)
    good = int(np.logical_and.reduce(list(met.values())).sum()) if applicable else None
    inputs, outputs = float(done.input_tokens.sum()), float(tokens.sum())
    metrics: Figures = {
        "duration": span_ns / 1e9,
        "completed": len(done),
        "failed": len(answers) - len(done),
        "total_input_tokens": number(inputs),
        "total_output_tokens": number(outputs),
        "request_throughput": per_s(len(done), span_ns),
        "request_goodput": None if good is None else per_s(good, span_ns),
        "output_throughput": per_s(outputs, span_ns),
        "total_token_throughput": per_s(inputs + outputs, span_ns),
        "max_output_tokens_per_s": best_second(
            ((piece.times_ns, None) for piece in done.pieces()), done.issued_ns.min() if len(done) else 0
        ),
        "max_concurrent_requests": most_in_a_second(done, done.last_ns),
        "rtfx": 0.0,
    }
    for key, values in durations.items():
        if not values.size:
            values = np.zeros(1)  # noqa: PLW2901 – as the tool does
        mean, std = float(values.mean()), deviation(values)  # before the others change the order of the values
        metrics |= {
            f"mean_{key}_ms": mean,
            f"median_{key}_ms": median(values),
            f"std_{key}_ms": std,
            **{f"p{percentile:g}_{key}_ms": linear(values, percentile) for percentile in percentiles},
        }
    return metrics


def document(selection: Selection) -> Figures:
    """Return its JSON: facts of the benchmark, of which most are unknown here, then the figures."""
    begun = datetime.fromtimestamp(selection.started_ns / 1e9, UTC)
    return {
        "date": begun.strftime("%Y%m%d-%H%M%S"),
        "endpoint_type": None,
        "backend": None,
        "label": selection.run or None,
        "model_id": None,
        "tokenizer_id": None,
        "num_prompts": len(selection.answers),
        "request_rate": None,
        "burstiness": None,
        "max_concurrency": None,
        **figures(selection.answers, selection.limits),
    }


def console(metrics: Figures) -> Iterator[str]:
    """Yield the lines of its console report, with the optional section of the whole latency."""
    yield title(" Serving Benchmark Result ", "=")
    yield line("Successful requests:", metrics["completed"])
    yield line("Failed requests:", metrics["failed"])
    yield line("Benchmark duration (s):", metrics["duration"], 2)
    yield line("Total input tokens:", metrics["total_input_tokens"])
    yield line("Total generated tokens:", metrics["total_output_tokens"])
    yield line("Request throughput (req/s):", metrics["request_throughput"], 2)
    if metrics["request_goodput"] is not None:
        yield line("Request goodput (req/s):", metrics["request_goodput"], 2)
    yield line("Output token throughput (tok/s):", metrics["output_throughput"], 2)
    yield line("Peak output token throughput (tok/s):", metrics["max_output_tokens_per_s"], 2)
    yield line("Peak concurrent requests:", metrics["max_concurrent_requests"], 2)
    yield line("Total token throughput (tok/s):", metrics["total_token_throughput"], 2)
    for key, short, name in _SECTIONS:
        yield title(name, "-")
        yield line(f"Mean {short} (ms):", metrics[f"mean_{key}_ms"], 2)
        yield line(f"Median {short} (ms):", metrics[f"median_{key}_ms"], 2)
        yield line(f"P99 {short} (ms):", metrics[f"p99_{key}_ms"], 2)
    yield "=" * WIDTH
