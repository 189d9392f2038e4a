"""Meaning of the figures of each tool: the reasons why two tools differ about the same load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

FIGURES: Final = {
    "completed": "requests",
    "failed": "failed",
    "duration": "duration s",
    "requests_per_s": "requests/s",
    "latency_mean": "latency mean ms",
    "latency_p50": "latency p50 ms",
    "latency_p90": "latency p90 ms",
    "latency_p95": "latency p95 ms",
    "latency_p99": "latency p99 ms",
    "latency_max": "latency max ms",
    "ttft_mean": "ttft mean ms",
    "ttft_p50": "ttft p50 ms",
    "ttft_p99": "ttft p99 ms",
    "tpot_mean": "tpot mean ms",
    "itl_mean": "itl mean ms",
    "output_tokens": "output tokens",
    "output_tokens_per_s": "output tokens/s",
}
"""Key of our figure → its title, for figures that several tools have."""
ASPECTS: Final = {
    "latency": "latency is",
    "percentile": "a percentile is",
    "failures": "failed requests are",
    "rate": "rates divide by",
    "first_output": "the first token is",
    "tokens": "tokens are counted by",
    "warm_up": "warm-up",
}
"""Field of a definition → its title."""
NOUNS: Final = {
    "latency": "begin or end of a latency",
    "percentile": "percentiles",
    "failures": "failed requests",
    "rate": "time of rates",
    "first_output": "first token",
    "tokens": "counting of tokens",
    "warm_up": "warm-up",
}
"""Field of a definition → what differs, in a list of reasons."""
OF_ASPECT: Final = {
    "latency": ("latency", "ttft", "tpot", "itl"),
    "percentile": ("latency_p", "ttft_p"),
    "failures": ("completed", "failed", "latency", "requests_per_s", "duration"),
    "rate": ("requests_per_s", "output_tokens_per_s", "duration"),
    "first_output": ("ttft", "tpot", "itl"),
    "tokens": ("output_tokens", "tpot"),
    "warm_up": ("completed", "failed"),
}
"""Field of a definition → beginnings of the keys of figures that it changes."""


@dataclass(frozen=True, kw_only=True)
class Definition:
    """The definitions of a tool. An empty text: it has no such figure."""

    latency: str
    percentile: str
    failures: str
    rate: str
    first_output: str = ""
    tokens: str = ""
    warm_up: str = ""
    names: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    """Key of our figure → name of the tool's figure, and the factor from its unit to ours."""


def _names(pattern: str, keys: Mapping[str, str], factor: float = 1) -> dict[str, tuple[str, float]]:
    """Return the names of figures by a pattern such as `latency {}`, where `keys` has our key → its part."""
    return {ours: (pattern.format(part), factor) for ours, part in keys.items()}


def _spread(figure: str, mean: str, median: str, percentile: str, largest: str = "max") -> dict[str, str]:
    """Return our keys of a spread → what the tool calls them. `percentile` is a pattern of numbers."""
    percentiles = {f"{figure}_p{number}": percentile.format(number) for number in (90, 95, 99)}
    return {f"{figure}_mean": mean, f"{figure}_p50": median, **percentiles, f"{figure}_max": largest}


_COUNTED: Final = "counted, and in no duration"
_ALL: Final = "in all durations and counts"
_BETWEEN: Final = "between two requests"
_RANKS: Final = (50, 90, 95, 99)
OURS: Final = Definition(
    latency="issue to completion",
    percentile="the value of one request, of rank ceil(p · n)",
    failures=_COUNTED,
    rate="first issue to last end of completed requests",
    first_output="the first output that the program reports",
    tokens="the program",
    warm_up="is a tracking window, and left out if there is one",
)
DEFINITIONS: Final[dict[str, Definition]] = {
    "k6": Definition(
        latency="sending to the last byte, without getting a connection",
        percentile=_BETWEEN,
        failures=_ALL,
        rate="the whole test, with set-up and tear-down",
        names={
            "completed": ("http_reqs count", 1),
            "requests_per_s": ("http_reqs rate", 1),
            **_names("http_req_duration {}", _spread("latency", "avg", "med", "p({})")),
        },
    ),
    "Locust": Definition(
        latency="sending to the last byte, with connecting",
        percentile="rounded: to 1 ms below 100 ms, to 10 ms below 1 s",
        failures=_ALL,
        rate="first to last request",
        names={
            "completed": ("Request Count", 1),
            "failed": ("Failure Count", 1),
            "requests_per_s": ("Requests/s", 1),
            **_names("{}", _spread("latency", "Average Response Time", "50%", "{}%", "Max Response Time")),
        },
    ),
    "JMeter": Definition(
        latency="sending to the last byte, with connecting",
        percentile="the first value that reaches round(p · n), in whole ms",
        failures=_ALL,
        rate="the time that its summary measured",
    ),
    "Gatling": Definition(
        latency="sending to the last byte, with connecting, in whole ms",
        percentile="estimated by a t-digest",
        failures="in the figures of all requests, and apart",
        rate="the whole simulation",
    ),
    "hey": Definition(
        latency="sending to the last byte, with connecting, in steps of 0.1 ms",
        percentile="the value of one request, one rank higher than the nearest",
        failures="answers with a wrong status are in all figures; requests without an answer are in none",
        rate="the whole run",
        names={
            "requests_per_s": ("Requests/sec", 1),
            "duration": ("Total", 1),
            **_names("{}", _spread("latency", "Average", "50%", "{}%", "Slowest"), 1e3),
        },
    ),
    "oha": Definition(
        latency="sending to the last byte, with connecting",
        percentile="the value of one request, of rank int(p · n)",
        failures="answers with a wrong status count as successful; requests without an answer are in no duration",
        rate="the whole run",
        names={
            "requests_per_s": ("summary.requestsPerSec", 1),
            "duration": ("summary.total", 1),
            **_names(
                "{}", _spread("latency", "summary.average", "latencyPercentiles.p50", "latencyPercentiles.p{}"), 1e3
            ),
        },
    ),
    "vegeta": Definition(
        latency="sending to the last byte, with connecting",
        percentile="estimated by a t-digest",
        failures=_ALL,
        rate="first issue to last issue; throughput to the last end, of successful requests",
        names={
            "completed": ("requests", 1),
            "requests_per_s": ("rate", 1),
            "duration": ("duration", 1e-9),
            **_names("latencies.{}", _spread("latency", "mean", "50th", "{}th"), 1e-6),
        },
    ),
    "wrk": Definition(
        latency="sending to the last byte, without getting a connection",
        percentile="the value of one request, of rank round(p · n + 0.5)",
        failures="in all durations",
        rate="the whole run",
        names={
            **_names("{}", {"completed": "requests", "requests_per_s": "Requests/sec"}),
            **_names("latency {}", _spread("latency", "Mean", "50%", "{}%", "Max")),
        },
    ),
    "wrk2": Definition(
        latency="planned to the last byte",
        percentile="upper end of a histogram's bucket",
        failures="in all durations",
        rate="the whole run, warm-up included",
        warm_up="after 10 s of a longer run, the latencies before are left out",
        names={
            **_names("{}", {"completed": "requests", "requests_per_s": "Requests/sec"}),
            **_names("latency {}", _spread("latency", "Mean", "50.000%", "{}.000%", "Max")),
        },
    ),
    "vLLM": Definition(
        latency="sending to the last chunk",
        percentile=_BETWEEN,
        failures=_COUNTED,
        rate="before the first request to after the last",
        first_output="the first chunk with text (before 0.33: any chunk, also an empty one)",
        tokens="the server's usage, else its own tokenizer",
        warm_up="requests before the benchmark are left out",
        names={
            **_names("{}", {"completed": "completed", "failed": "failed", "duration": "duration"}),
            **_names("{}", {"requests_per_s": "request_throughput", "output_tokens_per_s": "output_throughput"}),
            **_names("{}_e2el_ms", _spread("latency", "mean", "median", "p{}")),
            **_names("{}_ttft_ms", _spread("ttft", "mean", "median", "p{}")),
            **_names("{}", {"tpot_mean": "mean_tpot_ms", "itl_mean": "mean_itl_ms"}),
            "output_tokens": ("total_output_tokens", 1),
        },
    ),
    "SGLang": Definition(
        latency="sending to the end of the stream",
        percentile=_BETWEEN,
        failures=_COUNTED,
        rate="before the first request to after the last",
        first_output="the first chunk with text",
        tokens="the server's usage, else the length that was asked for; input: the dataset",
        warm_up="requests before the benchmark are left out",
        names={
            **_names("{}", {"completed": "completed", "duration": "duration"}),
            **_names("{}", {"requests_per_s": "request_throughput", "output_tokens_per_s": "output_throughput"}),
            **_names("{}_e2e_latency_ms", _spread("latency", "mean", "median", "p{}")),
            **_names("{}_ttft_ms", _spread("ttft", "mean", "median", "p{}")),
            **_names("{}", {"tpot_mean": "mean_tpot_ms", "itl_mean": "mean_itl_ms"}),
            "output_tokens": ("total_output_tokens", 1),
        },
    ),
    "guidellm": Definition(
        latency="sending to the end of the stream",
        percentile="the value of one request",
        failures="apart, as errored and incomplete",
        rate="mean over the time of the benchmark, weighted by time",
        first_output="the first chunk with text",
        tokens="the server's usage, else its own tokenizer",
        warm_up="is left out of the figures",
        names={
            **_names("request_totals {}", {"completed": "successful", "failed": "errored"}),
            "duration": ("duration", 1),
            "requests_per_s": ("requests_per_second successful mean", 1),
            **_names("request_latency successful {}", _spread("latency", "mean", "median", "p{}"), 1e3),
            **_names("time_to_first_token_ms successful {}", _spread("ttft", "mean", "median", "p{}")),
            "tpot_mean": ("inter_token_latency_ms successful mean", 1),
        },
    ),
    "AIPerf": Definition(
        latency="sending to the last chunk",
        percentile=_BETWEEN,
        failures=_COUNTED,
        rate="start to end of the profiling phase",
        first_output="the first chunk with text",
        tokens="its own tokenizer",
        warm_up="requests of that phase are left out",
        names={
            **_names("{} avg", {"completed": "request_count", "failed": "error_request_count"}),
            **_names("{} avg", {"requests_per_s": "request_throughput", "duration": "benchmark_duration"}),
            **_names("request_latency {}", _spread("latency", "avg", "p50", "p{}")),
            **_names("time_to_first_token {}", _spread("ttft", "avg", "p50", "p{}")),
            **_names("{} avg", {"tpot_mean": "inter_token_latency", "itl_mean": "inter_chunk_latency"}),
            **_names("{} avg", {"output_tokens": "total_osl", "output_tokens_per_s": "output_token_throughput"}),
        },
    ),
    "inference-perf": Definition(
        latency="sending to the end of the response",
        percentile=_BETWEEN,
        failures="counted, with latencies of their own",
        rate="first start to last end of all requests, with pauses between stages",
        first_output="the first chunk with tokens",
        tokens="its own tokenizer",
        names={
            **_names("{}.count", {"completed": "successes", "failed": "failures"}),
            "duration": ("benchmark_time_seconds", 1),
            "requests_per_s": ("successes.throughput.requests_per_sec", 1),
            "output_tokens_per_s": ("successes.throughput.output_tokens_per_sec", 1),
            **_names("successes.latency.request_latency.{}", _spread("latency", "mean", "median", "p{}"), 1e3),
            **_names("successes.latency.time_to_first_token.{}", _spread("ttft", "mean", "median", "p{}"), 1e3),
            "tpot_mean": ("successes.latency.time_per_output_token.mean", 1e3),
            "output_tokens": ("successes.output_tokens.total", 1),
        },
    ),
    "MLPerf LoadGen": Definition(
        latency="planned to completion",
        percentile="the value of one request, of rank int(p · n)",
        failures="has none",
        rate="all requests but one, to the completion of the one issued last",
        first_output="the time that the system under test reports",
        tokens="the system under test",
        names={
            "completed": ("result_query_count", 1),
            "requests_per_s": ("result_completed_samples_per_sec", 1),
            **_names("result_{}_latency_ns", {"latency_mean": "mean", "latency_max": "max"}, 1e-6),
            **_names(
                "result_{}.00_percentile_latency_ns", {f"latency_p{number}": f"{number}" for number in _RANKS}, 1e-6
            ),
            "ttft_mean": ("result_first_token_mean_latency_ns", 1e-6),
            **_names(
                "result_first_token_{}.00_percentile_latency_ns",
                {f"ttft_p{number}": f"{number}" for number in _RANKS},
                1e-6,
            ),
            "output_tokens_per_s": ("result_completed_tokens_per_second", 1),
        },
    ),
    "MLCommons endpoints": Definition(
        latency="issue to completion",
        percentile="the value of one request, of the lower rank",
        failures=_ALL,
        rate="beginning of tracking to last completion",
        first_output="the first chunk with content",
        tokens="its own tokenizer",
        warm_up="requests outside of tracking are left out",
        names={
            **_names("n_samples_{}", {"completed": "completed", "failed": "failed"}),
            "duration": ("duration_ns", 1e-9),
            "requests_per_s": ("qps", 1),
            **_names("latency.{}", _spread("latency", "avg", "median", "percentiles.{}.0"), 1e-6),
            **_names("ttft.{}", _spread("ttft", "avg", "median", "percentiles.{}.0"), 1e-6),
            "tpot_mean": ("tpot.avg", 1e-6),
        },
    ),
}
"""Name of the tool, as its importer has it → its definitions."""
