"""Figures by the definitions of SGLang's `bench_serving`, under the names in its JSON, and its console layout."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from telemetry.history.second_sums import SecondSums
from telemetry.report.other_tools.answers import Answers, Booleans, Integers, Numbers
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
_SECTIONS: Final = (
    ("e2e_latency", "E2E Latency", "End-to-End Latency"),
    ("ttft", "TTFT", "Time to First Token"),
    ("tpot", "TPOT", "Time per Output Token (excl. 1st token)"),
    ("itl", "ITL", "Inter-Token Latency"),
)
_PERCENTILES: Final = (90, 95, 99)


def figures(answers: Answers, limits: Mapping[str, int], *, native: bool = False) -> Figures:
    """Return the figures of its JSON, and `max_itl_ms`, which only its console has.

    With `native` gaps are per token, as on its own backend; else per chunk, as on backends with OpenAI's interface.
    A request without output has a first token after 0 ms. Limits with other keys than its own have no effect.
    """
    done = answers.chosen(answers.completed)
    span_ns = answers.span_ns
    latency = done.ended_ns - done.issued_ns
    to_first = np.where(done.has_output, done.first_ns - done.issued_ns, 0)
    tokens, several = done.output_tokens, done.output_tokens > 1
    begin_ns = int(done.issued_ns.min()) if len(done) else 0
    if native:
        gaps, best = _per_token(done, begin_ns)
    else:
        gaps, best = done.gaps_ms(), best_second(_with_empty(done), begin_ns)
    durations: dict[str, Numbers] = {
        "e2e_latency": in_ms(latency),
        "ttft": in_ms(to_first),
        "tpot": in_ms(per_token_ns((latency - to_first)[several], tokens[several])),
        "itl": gaps,
    }
    inputs, outputs = float(done.input_tokens.sum()), float(tokens.sum())
    metrics: Figures = {
        "duration": span_ns / 1e9,
        "completed": len(done),
        "total_input_tokens": number(inputs),
        "total_input_text_tokens": number(inputs),
        "total_input_vision_tokens": 0,
        "total_output_tokens": number(outputs),
        "total_output_tokens_retokenized": None,
        "request_throughput": per_s(len(done), span_ns),
        "input_throughput": per_s(inputs, span_ns),
        "output_throughput": per_s(outputs, span_ns),
        "total_throughput": per_s(inputs + outputs, span_ns),
    }
    for key, values in durations.items():
        metrics |= _spread(key, values)
    metrics["max_itl_ms"] = float(gaps.max()) if gaps.size else 0.0
    metrics |= {
        "concurrency": per_s(float(latency.sum()) / 1e9, span_ns),
        "accept_length": None,
        "max_output_tokens_per_s": best,
        "max_concurrent_requests": most_in_a_second(done, done.ended_ns),
    }
    applicable = {key: limit for key, limit in limits.items() if key in LIMITS}
    if applicable and len(answers):
        spans = {"ttft": to_first, "tpot": latency - to_first, "e2el": latency}
        metrics |= _goodput(applicable, within(applicable, spans, tokens), len(answers), span_ns)
    return metrics


def document(selection: Selection, *, native: bool) -> Figures:
    """Return its JSON: facts of the benchmark, of which most are unknown here, then the figures."""
    return {
        "tag": selection.run or None,
        "backend": "sglang" if native else "sglang-oai-chat",
        "dataset_name": None,
        "request_rate": None,
        "max_concurrency": None,
        "sharegpt_output_len": None,
        "random_input_len": None,
        "random_output_len": None,
        "random_range_ratio": None,
        "server_info": None,
        **figures(selection.answers, selection.limits, native=native),
    }


def console(metrics: Figures, *, native: bool) -> Iterator[str]:
    """Yield the lines of its console report."""
    yield title(" Serving Benchmark Result ", "=")
    yield line("Backend:", "sglang" if native else "sglang-oai-chat")
    yield line("Traffic request rate:", None)
    yield line("Max request concurrency:", None)
    yield line("Successful requests:", metrics["completed"])
    yield line("Benchmark duration (s):", metrics["duration"], 2)
    yield line("Total input tokens:", metrics["total_input_tokens"])
    yield line("Total input text tokens:", metrics["total_input_text_tokens"])
    yield line("Total generated tokens:", metrics["total_output_tokens"])
    yield line("Total generated tokens (retokenized):", None)
    yield line("Request throughput (req/s):", metrics["request_throughput"], 2)
    yield line("Input token throughput (tok/s):", metrics["input_throughput"], 2)
    yield line("Output token throughput (tok/s):", metrics["output_throughput"], 2)
    yield line("Peak output token throughput (tok/s):", metrics["max_output_tokens_per_s"], 2)
    yield line("Peak concurrent requests:", metrics["max_concurrent_requests"])
    yield line("Total token throughput (tok/s):", metrics["total_throughput"], 2)
    yield line("Concurrency:", metrics["concurrency"], 2)
    if "request_goodput" in metrics:
        yield title("Goodput", "-")
        limits = " ".join(f"{key}:{limit:g}" for key, limit in metrics["goodput_slos_ms"].items())
        yield line("SLOs (ms):", limits)
        yield line("Request goodput (req/s):", metrics["request_goodput"], 2)
        yield line("SLO attainment (%):", metrics["slo_attainment"] * 100, 2)
        for key, share in metrics["slo_attainment_by_metric"].items():
            yield line(f"{key.upper()} SLO attainment (%):", share * 100, 2)
    for key, short, name in _SECTIONS:
        yield title(name, "-")
        yield line(f"Mean {short} (ms):", metrics[f"mean_{key}_ms"], 2)
        yield line(f"Median {short} (ms):", metrics[f"median_{key}_ms"], 2)
        for percentile in _PERCENTILES:
            yield line(f"P{percentile} {short} (ms):", metrics[f"p{percentile}_{key}_ms"], 2)
        if key == "itl":
            yield line("Max ITL (ms):", metrics["max_itl_ms"], 2)
    yield "=" * WIDTH


def _spread(key: str, values: Numbers) -> Figures:
    """Return mean, median, deviation and percentiles.

    Without values they are 0, as in the tool; for the whole latency they are unknown.
    """
    names = ("mean", "median", "std", *(f"p{percentile}" for percentile in _PERCENTILES))
    if not values.size and key == "e2e_latency":
        return {f"{name}_{key}_ms": None for name in names}
    values = values if values.size else np.zeros(1)
    mean, std = float(values.mean()), deviation(values)
    numbers = (mean, median(values), std)
    percentiles = (linear(values, percentile) for percentile in _PERCENTILES)
    return {f"{name}_{key}_ms": value for name, value in zip(names, (*numbers, *percentiles), strict=True)}


def _goodput(limits: Mapping[str, int], met: Mapping[str, Booleans], sent: int, span_ns: int) -> Figures:
    good = int(np.logical_and.reduce(list(met.values())).sum())
    return {
        "goodput_slos_ms": {key: limit / 1e6 for key, limit in limits.items()},
        "request_goodput": per_s(good, span_ns),
        "slo_attainment": good / sent,
        "slo_attainment_by_metric": {key: int(which.sum()) / sent for key, which in met.items()},
    }


def _with_empty(done: Answers) -> Iterator[tuple[Integers, None]]:
    """Yield the times of all chunks. A request without output has one, at its issue."""
    for piece in done.pieces():
        yield piece.times_ns, None
    yield done.issued_ns[~done.has_output], None


def _per_token(done: Answers, begin_ns: int) -> tuple[Numbers, float]:
    """Return the gap of each token in ms, and the most tokens in a second: first chunks and each later token.

    The gap before a chunk is divided evenly among its tokens. A chunk without tokens belongs to the next one.
    """
    gaps, sums = array("d"), SecondSums(begin_ns)
    for piece in done.pieces():
        kept = piece.is_first | (piece.tokens > 0)
        times, counts, is_first = piece.times_ns[kept], piece.tokens[kept].astype(np.int64), piece.is_first[kept]
        after_cut = done.is_cut[piece.owner[kept]] & np.r_[False, is_first[:-1]] if kept.size else kept
        later = np.flatnonzero(~is_first & ~after_cut)
        distances, repeated = times[later] - times[later - 1], counts[later]
        per_token = np.repeat(distances / np.maximum(repeated, 1), repeated)
        index = np.arange(per_token.size) - np.repeat(np.cumsum(repeated) - repeated, repeated)
        reached = np.repeat(times[later - 1], repeated) + np.rint(per_token * (index + 1)).astype(np.int64)
        gaps.frombytes(in_ms(per_token).tobytes())
        sums.add(times[is_first])
        sums.add(reached)
    sums.add(done.issued_ns[~done.has_output])
    return np.frombuffer(gaps, np.float64), sums.most
