"""The functions of gates, and the kinds of instruments that each accepts."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from telemetry.gates.tree import Number, Term
from telemetry.wire.requests import GOOD, OUTPUT_TOKENS

FUNCTIONS: Final[dict[str, tuple[str, ...]]] = {
    "count": ("series", "counter"),
    "rate": ("series", "counter"),
    "mean": ("series",),
    "min": ("series", "gauge", "step"),
    "max": ("series", "gauge", "step"),
    "total": ("series",),
    "value": ("counter", "gauge"),
    "sum": ("counter",),
    "share": ("series",),
    "first": ("step",),
    "last": ("step",),
    "best": ("step",),
    "steps": ("axis",),
    "attainment": ("counter",),
}
"""Function → kinds of instruments that it accepts. Percentiles of series and rates of requests are separate."""
PERCENTILE_KINDS: Final = ("series",)

SHARE: Final = "share"
"""Share of the values of a series on one side of a limit."""
BEST: Final = "best"
STEPS: Final = "steps"
OF_STEPS: Final = frozenset({"first", "last", BEST, STEPS})
"""Functions of steps. They are known for the whole run only."""

OVERALL: Final = "throughput.overall"
THROUGHPUTS: Final = {"throughput": "while_issuing", "throughput.loadgen": "loadgen", OVERALL: "overall"}
"""Function → the definition of a rate, as a name in `Rates`. Only for latencies and output tokens of requests."""
GOODPUTS: Final = {"goodput": "overall", "goodput.issuing": "while_issuing", "goodput.loadgen": "loadgen"}
"""The same for requests within their limits."""
ATTAINMENT: Final = "attainment"
OF_LIMITS: Final = frozenset({ATTAINMENT, *GOODPUTS})
"""Functions of requests with limits. Their metric is a kind of request, or a limit of one such as `chat.ttft`."""
RATES: Final = {**THROUGHPUTS, **GOODPUTS}


def kinds_of(function: str) -> tuple[str, ...]:
    """Return the kinds of instruments that a function accepts, percentiles and rates included."""
    return ("counter",) if function in GOODPUTS else FUNCTIONS.get(function, PERCENTILE_KINDS)


def not_in_windows(term: Term, every: Number | None) -> str:
    """Explain why windows don't have a figure, and suggest a replacement; empty if they have it."""
    if term.function in OF_STEPS:
        return f"`{term.function}` is only known for the whole run, not for each window: remove `in every`"
    if term.function not in RATES:
        return ""
    metric, which = term.metric, "completions"
    if term.function in GOODPUTS:
        metric, which = replace(metric, name=f"{metric.name}.{GOOD}"), "good requests"
    tokens = term.function in THROUGHPUTS and metric.name.endswith(f".{OUTPUT_TOKENS}")
    instead = f"`total({metric}) / {every}`" if tokens else f"`rate({metric})`"
    why = "counts from the first issue of all requests, so it is only known for the whole run, not for each window"
    return f"`{term.function}` {why}: remove `in every`, or write {instead}, the {which} in each window"
