"""Figures by the definitions of LLM benchmarks that have no layout here, under the names in their results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from telemetry.report.other_tools import aiperf, sglang
from telemetry.report.other_tools.answers import Answers, Integers, Numbers
from telemetry.report.other_tools.statistics import linear, per_s
from telemetry.statistics.early_stopping import bound_rank
from telemetry.statistics.hdr.percentiles import parse_percentile
from telemetry.wire.feeds import ENDPOINTS_PERCENTILES

Figures = dict[str, Any]


def inference_perf(answers: Answers, limits: Mapping[str, int]) -> Figures:
    """Return the figures of inference-perf, in seconds. Each token of a chunk has the time of the chunk."""
    done, failed = answers.chosen(answers.completed), answers.chosen(~answers.completed)
    latency, tokens = _seconds(done.ended_ns - done.issued_ns), done.output_tokens
    counted, several = tokens > 0, done.streamed & (tokens > 1)
    streamed = done.chosen(several)
    span_ns = answers.span_ns
    inputs, outputs = float(done.input_tokens.sum()), float(tokens.sum())
    at_once = max(0, int(streamed.output_tokens.sum() - streamed.chunks.sum()))
    spreads = {
        "successes.latency.request_latency": latency,
        "successes.latency.normalized_time_per_output_token": np.where(
            counted, latency / np.maximum(tokens, 1), 0.0
        ),
        "successes.latency.time_per_output_token": _seconds(streamed.last_ns - streamed.first_ns)
        / (streamed.output_tokens - 1),
        "successes.latency.time_to_first_token": _seconds(streamed.first_ns - streamed.issued_ns),
        "successes.latency.inter_token_latency": np.concatenate([streamed.gaps_ms() / 1e3, np.zeros(at_once)]),
        "successes.prompt_tokens": done.input_tokens.copy(),
        "successes.prompt_len": done.input_tokens.copy(),
        "successes.output_len": tokens.copy(),
        "failures.request_latency": _seconds(failed.ended_ns - failed.issued_ns),
        "failures.prompt_tokens": np.zeros(len(failed)),
        "failures.prompt_len": np.zeros(len(failed)),
    }
    return {
        "benchmark_time_seconds": span_ns / 1e9,
        "load_summary.count": len(answers),
        "successes.count": len(done),
        "failures.count": len(failed),
        "successes.prompt_tokens.total": inputs,
        "failures.prompt_tokens.total": 0.0,
        "successes.throughput.input_tokens_per_sec": per_s(inputs, span_ns),
        "successes.throughput.output_tokens_per_sec": per_s(outputs, span_ns),
        "successes.throughput.total_tokens_per_sec": per_s(inputs + outputs, span_ns),
        "successes.throughput.requests_per_sec": per_s(len(done), span_ns),
        **{f"{name}.{key}": value for name, values in spreads.items() for key, value in _linear_spread(values)},
    }


def _seconds(values_ns: Integers) -> Numbers:
    return values_ns / 1e9


def _linear_spread(values: Numbers) -> Iterator[tuple[str, float]]:
    """Yield mean, extremes and percentiles between two values. Changes the order of the values."""
    if not values.size:
        return
    yield "mean", float(values.mean())
    yield "min", float(values.min())
    yield "max", float(values.max())
    for percentile in (0.1, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9):
        yield "median" if percentile == _MEDIAN else f"p{percentile:g}", linear(values, percentile)


_MEDIAN: Final = 50


def loadgen(answers: Answers, limits: Mapping[str, int]) -> Figures:
    """Return the figures of MLPerf LoadGen's detailed log. A query is all samples of one scheduled time."""
    count = len(answers)
    latency = np.sort(answers.ended_ns - answers.issued_ns)
    first_token = np.sort((answers.first_ns - answers.issued_ns)[answers.streamed])
    last = int(np.lexsort((answers.ended_ns, answers.issued_ns))[-1])
    begun_ns = int(answers.issued_ns.min())
    done_ns, scheduled_ns = int(answers.ended_ns[last]) - begun_ns, int(answers.issued_ns[last]) - begun_ns
    figures = {
        "result_query_count": int(np.unique(answers.issued_ns).size),
        "result_completed_samples_per_sec": _six_digits(per_s(count - 1, done_ns)),
        "result_scheduled_samples_per_sec": _six_digits(per_s(count - 1, scheduled_ns)),
        "result_samples_per_second": _six_digits(per_s(count, int(latency[-1]))),
    }
    for name, values in (("", latency), ("first_token_", first_token)):
        if values.size:
            figures |= {
                f"result_{name}min_latency_ns": int(values[0]),
                f"result_{name}max_latency_ns": int(values[-1]),
                f"result_{name}mean_latency_ns": int(values.sum()) // values.size,
            }
        for percentile in (50.0, 90.0, 95.0, 97.0, 99.0, 99.9):
            if values.size:
                place = int(values.size * (percentile / 100))
                figures[f"result_{name}{percentile:.2f}_percentile_latency_ns"] = int(values[place])
    return figures


def _six_digits(number: float | None) -> float | None:
    """Return a number with the digits that the log has."""
    return None if number is None else float(f"{number:.6g}")


def endpoints(answers: Answers, limits: Mapping[str, int]) -> Figures:
    """Return the figures of an MLCommons endpoints benchmark, in ns. Most of them include failed requests."""
    count, span_ns = len(answers), answers.span_ns
    legacy_ns = int(answers.ended_ns[answers.issued_ns.argmax()] - answers.issued_ns.min())
    figures: Figures = {
        "n_samples_issued": count,
        "n_samples_completed": count,
        "n_samples_failed": int((~answers.completed).sum()),
        "legacy_loadgen_window_duration_ns": legacy_ns,
        # where the tool divides by LoadGen's time, it counts as LoadGen does
        "qps": per_s(count - (span_ns == legacy_ns), span_ns),
    }
    first = (answers.first_ns - answers.issued_ns)[answers.streamed]
    for name, values in (("latency", answers.ended_ns - answers.issued_ns), ("ttft", first)):
        if values.size:
            figures |= {f"{name}.{key}": value for key, value in _lower_spread(np.sort(values))}
    if (inputs := answers.input_tokens).any():
        spread = _lower_spread(np.sort(inputs.astype(np.int64)))
        figures |= {f"input_sequence_lengths.{key}": value for key, value in spread}
    return figures


def _lower_spread(values: Integers) -> Iterator[tuple[str, float]]:
    """Yield the figures of sorted values. A percentile has the rank floor(p · (n − 1)), counted from 0."""
    yield "total", int(values.sum())
    yield "min", int(values[0])
    yield "max", int(values[-1])
    yield "avg", float(values.mean())
    yield "std_dev", float(values.std(ddof=1)) if values.size > 1 else 0.0
    yield "median", float(np.percentile(values, 50, method="lower"))
    for percentile in ENDPOINTS_PERCENTILES:
        key = str(float(percentile))
        yield f"percentiles.{key}", float(np.percentile(values, float(percentile), method="lower"))
        if (rank := bound_rank(parse_percentile(percentile), values.size)) is not None:
            yield f"early_stopping_percentiles.{key}", float(values[rank - 1])


def sglang_figures(answers: Answers, limits: Mapping[str, int]) -> Figures:
    """Return the figures of SGLang without those of facts that its file lacks, such as the start of a request."""
    figures = sglang.figures(answers, limits)
    by_limit = figures.get("slo_attainment_by_metric", {})
    lacking = ("max_output_tokens_per_s", "max_concurrent_requests", "total_input_vision_tokens")
    return {
        **{name: value for name, value in figures.items() if name not in lacking},
        **{f"slo_attainment_by_metric {key}": share for key, share in by_limit.items()},
    }


def aiperf_figures(answers: Answers, limits: Mapping[str, int]) -> Figures:
    """Return the figures of AIPerf by tag and field. Its rates divide by the time that the tool measured.

    That time follows from its `request_throughput`, which is left out then.
    """
    figures = {
        f"{tag} {field}": value
        for tag, metric in aiperf.figures(answers, limits).items()
        for field, value in metric.items()
        if field != "unit"
    }
    if answers.measured_ns and "benchmark_duration avg" in figures:
        share = figures["benchmark_duration avg"] * 1e9 / answers.measured_ns
        del figures["request_throughput avg"]
        for tag in ("output_token_throughput", "input_token_throughput", "total_token_throughput", "goodput"):
            if f"{tag} avg" in figures:
                figures[f"{tag} avg"] *= share
    return figures


def guidellm(answers: Answers, limits: Mapping[str, int]) -> Figures:
    """Return the figures of guidellm that don't need the last token of a request.

    Without the time that the tool measured, the run has a sample of the requests, or several benchmarks.
    """
    span_ns = answers.measured_ns
    if span_ns is None:
        return {}
    done = answers.chosen(answers.completed)
    streamed = done.chosen(done.streamed)
    latency, all_latency = (_clock_seconds(some.ended_ns - some.issued_ns) for some in (done, answers))
    inputs, outputs = done.input_tokens, done.output_tokens
    amounts = {
        "request_concurrency successful mean": latency.sum(),
        "request_concurrency total mean": all_latency.sum(),
        "requests_per_second successful mean": len(done),
        "requests_per_second total mean": len(answers),
        "prompt_tokens_per_second successful mean": inputs.sum(),
        "prompt_tokens_per_second total mean": answers.input_tokens.sum(),
        "output_tokens_per_second successful mean": outputs.sum(),
        "output_tokens_per_second total mean": outputs.sum(),
        "tokens_per_second successful mean": inputs.sum() + outputs.sum(),
        "tokens_per_second total mean": answers.input_tokens.sum() + outputs.sum(),
    }
    spreads = {
        "request_latency": latency,
        "time_to_first_token_ms": _clock_seconds(streamed.first_ns - streamed.issued_ns) * 1000,
        "prompt_token_count": inputs,
        "output_token_count": outputs,
        "total_token_count": inputs + outputs,
    }
    return {
        "request_totals successful": len(done),
        "request_totals total": len(answers),
        **{name: per_s(float(amount), span_ns) for name, amount in amounts.items()},
        **{
            f"{name} successful {key}": value
            for name, values in spreads.items()
            for key, value in _reached_spread(values)
        },
    }


def _clock_seconds(durations_ns: Integers) -> Numbers:
    """Return durations in seconds as differences of guidellm's times, which are floats of seconds since 1970.

    Until 2038, such floats are multiples of 2⁻²² s, which is 238 ns.
    """
    return np.rint(durations_ns / 1e9 * 2**22) / 2**22


def _reached_spread(values: Numbers) -> Iterator[tuple[str, float]]:
    """Yield the figures of guidellm. A percentile is the first value at which the sum of shares reaches it."""
    if not values.size:
        return
    different, counts = np.unique(values, return_counts=True)
    shares = np.cumsum(counts / values.size)
    yield "mean", float(values.mean())
    yield "std_dev", float(values.std())
    yield "min", float(different[0])
    yield "max", float(different[-1])
    for digits in ("001", "01", "05", "10", "25", "50", "75", "90", "95", "99", "999"):
        value = float(different[np.searchsorted(shares, float(f"0.{digits}"))])
        yield f"p{digits}", value
        if digits == "50":
            yield "median", value


DEFINITIONS: Final[dict[str, Callable[[Answers, Mapping[str, int]], Figures]]] = {
    "inference-perf": inference_perf,
    "MLPerf LoadGen": loadgen,
    "MLCommons endpoints": endpoints,
    "SGLang": sglang_figures,
    "AIPerf": aiperf_figures,
    "guidellm": guidellm,
}
"""Name of the tool → figures of requests; each key is a name that its importer states."""
WHY: Final[dict[str, dict[str, str]]] = {
    "inference-perf": {
        "load_summary.schedule_delay": "the requests have no scheduled time",
        "stage_": "of one stage: rates and percentiles are recomputed for all stages together",
        "successes.request_size_bytes": "the texts of requests are not imported",
        "successes.output_tokens": "counted by the server; the requests have the tokens of the tool's tokenizer",
        "successes.token_count_mismatches": "counts of the server and of the tokenizer are not both imported",
        "successes.client_fallback_requests": "who counted the tokens is not imported",
        "successes.prompt_tokens": "up to version 0.6 counted by the server; the requests have the tool's count",
        "successes.prompt_tokens.cached": "cached tokens are not imported",
        "successes.prompt_tokens.uncached": "cached tokens are not imported",
        "failures.prompt_tokens.cached": "cached tokens are not imported",
        "failures.prompt_tokens.uncached": "cached tokens are not imported",
        "failures.request_latency": "the tool subtracts times in seconds, which have fewer digits than nanoseconds",
        "successes.latency": "the tool subtracts times in seconds, which have fewer digits than nanoseconds",
    },
    "MLPerf LoadGen": {
        "result_overlatency_query_count": "the log has the limit in its settings, not in the samples",
        "result_token_throughput": "the trace does not have the tokens of samples",
        "result_completed_tokens": "the trace does not have the tokens of samples",
        "result_time_per_output_token": "the trace does not have the tokens of samples",
        "result_time_to_output_token": "the trace does not have the tokens of samples",
    },
    "MLCommons endpoints": {
        "duration_ns": "measured by the tool, from the beginning of tracking to the last completion",
        "tps": "the tool counts tokens in texts, and the events have no numbers",
        "tpot": "the tool counts tokens in texts, and the events have no numbers",
        "output_sequence_lengths": "the tool counts tokens in texts, and the events have no numbers",
        "input_sequence_lengths": "the tool counts tokens in texts, and the events have no numbers",
        "finish_reason_counts": "finish reasons are not imported",
    },
    "SGLang": {
        **{
            f"{statistic}_{key}": "the tool measures to the end of the stream, the file to the last chunk"
            for statistic in ("mean", "median", "std", "p90", "p95", "p99")
            for key in ("e2e_latency", "tpot")
        },
        "concurrency": "the tool measures to the end of the stream, the file to the last chunk",
        "completed": "requests without output have no end in the file, and are shown as failed",
        "total_input": "the tool counts the tokens of the data set; the requests have the server's count",
        "input_throughput": "the tool counts the tokens of the data set; the requests have the server's count",
        "total_throughput": "the tool counts the tokens of the data set; the requests have the server's count",
        "total_input_vision_tokens": "kinds of tokens are not imported",
        "total_output_tokens_retokenized": "the texts of requests are not imported",
        "accept_length": "counted by the server",
        "max_output_tokens_per_s": "the file does not have the times at which requests began",
        "max_concurrent_requests": "the file does not have the times at which requests began",
        "goodput_slos_ms": "a limit that the user chose",
        "request_goodput": "the tool measures to the end of the stream, the file to the last chunk",
        "slo_attainment": "the tool measures to the end of the stream, the file to the last chunk",
    },
    "AIPerf": {
        "benchmark_duration": "the tool computes it from times of day that are multiples of 256 ns",
        "request_throughput": "the file has the time of rates in microseconds; its nanoseconds follow from this",
        "goodput": "one of its limits can't be a limit of the run",
        "good_request": "one of its limits can't be a limit of the run",
        "usage_": "counted by the server; the requests have the tokens by which the tool computes",
        "total_usage_": "counted by the server; the requests have the tokens by which the tool computes",
        "osl_mismatch": "the lengths that were asked for are not imported",
        "context_overflow": "not imported",
        "http_req_": "times of the connection are not imported",
        "effective_": "an average over time, not over requests",
        "active_": "an average over time, not over requests",
        "tokens_in_flight": "an average over time, not over requests",
        "credit_": "the times at which requests were due are not imported",
        "effective_latency": "the times at which requests were due are not imported",
    },
    "guidellm": {
        **dict.fromkeys(
            ("inter_token_latency_ms", "time_per_output_token_ms"), "the requests have no time of their last token"
        ),
        **dict.fromkeys(
            ("requests_per_second", "prompt_tokens_per_second", "output_tokens_per_second", "tokens_per_second"),
            "rates from each event to the next; only their mean is a rate over the benchmark",
        ),
        "request_concurrency": "levels over time; only their mean follows from the requests",
        "request_concurrency successful mean": "the tool joins times that are less than 0.1 ms apart",
        "request_concurrency total mean": "the tool joins times that are less than 0.1 ms apart",
        "output_tokens_per_second total": "tokens of failed and incomplete requests are not imported",
        "tokens_per_second total": "tokens of failed and incomplete requests are not imported",
        **dict.fromkeys(
            ("request_streaming_iterations", "output_tokens_per_iteration", "iter_tokens_per_iteration"),
            "numbers of chunks are not imported",
        ),
        "time_to_first_output_token_ms": "first tokens after those of reasoning are not imported",
        "request_totals errored": "failed and incomplete requests both count as failed here",
        "request_totals incomplete": "failed and incomplete requests both count as failed here",
        "benchmark ": "of one benchmark: the run has the requests of all together",
    },
}
"""Name of the tool → beginning of a figure's name → why it differs from ours, or can't be recomputed."""
