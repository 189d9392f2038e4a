"""The dashboard of requests: how many, how fast, how many failed, how many were good?"""

from __future__ import annotations

from typing import Final

from telemetry.stack.dashboards.model import Dashboard, Heatmap, Row, Stat, Table, Target, TimeSeries, Variable

_OUTCOMES: Final = ("issued", "completed", "failed", "expired")
QUANTILES: Final = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))


def rate(name: str, by: str = "", run: str = "RUN") -> str:
    """Return the rate per second of a counter of the chosen kind."""
    head = f"sum by ({by}) " if by else "sum"
    return f"{head}(rate(${{kind}}_{name}{{{run}}}[$__rate_interval]))"


def quantile(name: str, ratio: float) -> str:
    """Return the quantile of a series of the chosen kind."""
    return f"histogram_quantile({ratio:g}, {rate(f'{name}_bucket', 'le')})"


def quantiles(title: str, question: str, name: str, width: int = 8) -> TimeSeries:
    """Return a panel with the usual quantiles of a series of durations."""
    targets = tuple(Target(quantile(name, ratio), word) for word, ratio in QUANTILES)
    return TimeSeries(title=title, question=question, targets=targets, unit="s", width=width)


def _total(name: str) -> str:
    return f"(sum(${{kind}}_{name}_requests_total{{RUN}}) or vector(0))"


def _percentile(name: str) -> str:
    return f"max by (percentile) (last_over_time(${{kind}}_{name}_percentile{{RUN}}[$__range]))"


_IN_FLIGHT: Final = " - ".join(map(_total, _OUTCOMES))
_FAILED: Final = (
    f"{rate('failed_requests_total')} / ({rate('failed_requests_total')} + {rate('completed_requests_total')})"
)
_GOOD: Final = f"{rate('good_requests_total')} / {rate('completed_requests_total')}"

_OVERVIEW: Final = Row(
    "Now",
    (
        Stat(
            title="Completed",
            question="How many requests complete each second?",
            targets=(Target(rate("completed_requests_total"), "completed"),),
            unit="reqps",
            over_time=True,
        ),
        Stat(
            title="p50 latency",
            question="How long does a usual request take?",
            targets=(Target(quantile("latency_seconds", 0.5), "p50"),),
            unit="s",
            over_time=True,
        ),
        Stat(
            title="p99 latency",
            question="How long does one request in a hundred take at least?",
            targets=(Target(quantile("latency_seconds", 0.99), "p99"),),
            unit="s",
            over_time=True,
        ),
        Stat(
            title="p99 TTFT",
            question="When does the first piece of an answer come?",
            targets=(Target(quantile("ttft_seconds", 0.99), "p99"),),
            unit="s",
            over_time=True,
        ),
        Stat(
            title="Failed",
            question="Which share of the requests fails?",
            targets=(Target(_FAILED, "failed"),),
            unit="percentunit",
            thresholds=((0.001, "orange"), (0.01, "red")),
            over_time=True,
        ),
        Stat(
            title="In flight",
            question="How many requests have no outcome yet?",
            targets=(Target(_IN_FLIGHT, "in flight"),),
            over_time=True,
        ),
    ),
)

_LOAD: Final = Row(
    "Load",
    (
        TimeSeries(
            title="Requests per second",
            question="Does the server complete what is issued?",
            targets=tuple(Target(rate(f"{word}_requests_total"), word) for word in _OUTCOMES),
            unit="reqps",
        ),
        TimeSeries(
            title="Concurrency",
            question="How many requests are in flight at a time?",
            targets=(Target(_IN_FLIGHT, "in flight"),),
        ),
        TimeSeries(
            title="Failures by reason",
            question="Why do requests fail?",
            targets=(Target(rate("failed_requests_total", "reason", 'RUN,reason!=""'), "{{reason}}"),),
            unit="reqps",
            stacked=True,
            width=8,
        ),
        TimeSeries(
            title="Completions by finish reason",
            question="Why do answers end?",
            targets=(Target(rate("completed_requests_total", "finish"), "{{finish}}"),),
            unit="reqps",
            stacked=True,
            width=8,
        ),
        TimeSeries(
            title="Tokens per second",
            question="How many tokens go in and come out, in requests that complete?",
            targets=(
                Target(rate("input_tokens_sum"), "input"),
                Target(rate("output_tokens_sum"), "output"),
            ),
            width=8,
        ),
    ),
)

_LATENCY: Final = Row(
    "Latency",
    (
        quantiles("Latency", "How long do requests take from issue to the end?", "latency_seconds"),
        quantiles("Time to the first token", "When does the first piece come?", "ttft_seconds"),
        quantiles("Inter-token latency", "How much time is between two pieces of an answer?", "itl_seconds"),
        quantiles("Time per token", "How long does a token take after the first piece?", "tpot_seconds"),
        quantiles(
            "Latency from the planned time",
            "How long do requests take if they count from the time for which they were planned?",
            "latency_corrected_seconds",
        ),
        quantiles("Queue delay", "How much later than planned do requests go out?", "queue_delay_seconds"),
        Heatmap(
            title="Distribution of latency",
            question="Are there groups of fast and slow requests, and do they move?",
            targets=(Target("sum by (le) (increase(${kind}_latency_seconds_bucket{RUN}[$__rate_interval]))"),),
            unit="s",
        ),
        Table(
            title="Percentiles of the whole run",
            question="What will the report say? Of several windows or labels, the largest value counts.",
            targets=(
                Target(_percentile("latency_seconds"), "Latency"),
                Target(_percentile("ttft_seconds"), "TTFT"),
                Target(_percentile("itl_seconds"), "ITL"),
                Target(_percentile("tpot_seconds"), "TPOT"),
            ),
            labels={"percentile": "Percentile"},
            unit="s",
            units={"Percentile": "none"},
        ),
    ),
)

_GOODPUT: Final = Row(
    "Goodput",
    (
        TimeSeries(
            title="Goodput",
            question="How many requests complete within all their limits?",
            targets=(
                Target(rate("good_requests_total"), "good"),
                Target(rate("completed_requests_total"), "completed"),
            ),
            unit="reqps",
        ),
        TimeSeries(
            title="Share within limits",
            question="Which limit do requests miss?",
            targets=(
                Target(_GOOD, "all limits"),
                Target(
                    f"{rate('met_requests_total', 'slo')} / on () group_left () {rate('completed_requests_total')}",
                    "{{slo}}",
                ),
            ),
            unit="percentunit",
            most=1.0,
        ),
    ),
)

REQUESTS: Final = Dashboard(
    name="requests",
    title="telemetry / Requests",
    question="How many requests complete, how fast are they, how many fail, and how many are good?",
    variables=(
        Variable(
            name="kind",
            label="Kind of request",
            query='label_values({__name__=~".+_issued_requests_total",RUN}, __name__)',
            regex="/^(.+)_issued_requests_total$/",
        ),
    ),
    rows=(_OVERVIEW, _LOAD, _LATENCY, _GOODPUT),
)
