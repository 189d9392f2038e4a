"""The table of functions of gates, also of those about the run itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from telemetry.judge.gates.tree import Number, Term
from telemetry.wire.requests import GOOD, OUTPUT_TOKENS

SUM: Final = "sum"
SHARE: Final = "share"
"""Share of the values of a series on one side of a limit."""
BEST: Final = "best"
OVERALL: Final = "throughput.overall"


class Function(NamedTuple):
    """A function of gates, as parser, completion, resolution and the live check see it."""

    kinds: tuple[str, ...]
    """Kinds of instruments that it accepts."""
    suggested_for: tuple[str, ...] = ()
    """Kinds of instruments for which completion suggests it."""
    nearest: str = ""
    """The most similar function of other kinds of instruments."""
    grows: bool = False
    """True if the value only grows during a run."""
    estimates: bool = False
    """True if the value has a confidence interval."""
    of_nothing: bool = False
    """True if the value is 0 for an event that never happened."""
    of_limits: bool = False
    """True for requests with limits. The metric is a kind of request, or a limit of one such as `chat.ttft`."""
    rate: str = ""
    """The definition of a rate of requests, as a name in `Rates`. It is only for latencies and output tokens, or
    with `of_limits` for requests within their limits."""


_THROUGHPUT: Final = Function(("series",), nearest="rate", of_nothing=True)
_GOODPUT: Final = Function(("counter",), of_limits=True)
_PERCENTILE: Final = Function(("series",), estimates=True)

FUNCTIONS: Final[dict[str, Function]] = {
    "count": Function(("series", "counter"), ("series",), grows=True, of_nothing=True),
    "rate": Function(("series", "counter"), ("counter",), of_nothing=True),
    "mean": Function(("series",), ("series",), estimates=True),
    "min": Function(("series", "gauge", "step")),
    "max": Function(("series", "gauge", "step"), ("series", "gauge"), grows=True),
    "total": Function(("series",), nearest=SUM, grows=True),
    "value": Function(("counter", "gauge"), ("counter", "gauge"), nearest="last", of_nothing=True),
    SUM: Function(("counter",), nearest="total", grows=True),
    SHARE: Function(("series",), estimates=True),
    "first": Function(("step",)),
    "last": Function(("step",), ("step",), nearest="value"),
    BEST: Function(("step",), ("step",)),
    "steps": Function(("axis",), grows=True),
    "attainment": Function(("counter",), estimates=True, of_limits=True),
    "throughput": _THROUGHPUT._replace(rate="while_issuing"),
    "throughput.loadgen": _THROUGHPUT._replace(rate="loadgen"),
    OVERALL: _THROUGHPUT._replace(rate="overall"),
    "goodput": _GOODPUT._replace(rate="overall"),
    "goodput.issuing": _GOODPUT._replace(rate="while_issuing"),
    "goodput.loadgen": _GOODPUT._replace(rate="loadgen"),
}
"""Every function except the percentiles. `function_of` has those, too."""


def function_of(name: str) -> Function:
    """Return a function by its name, which may be that of a percentile."""
    return FUNCTIONS.get(name, _PERCENTILE)


def not_in_windows(term: Term, every: Number | None) -> str:
    """Explain why windows don't have a figure, and suggest a replacement; empty if they have it."""
    function = function_of(term.function)
    if {"step", "axis"}.issuperset(function.kinds):
        return f"`{term.function}` is only known for the whole run, not for each window: remove `in every`"
    if not function.rate:
        return ""
    metric, which = term.metric, "completions"
    if function.of_limits:
        metric, which = replace(metric, name=f"{metric.name}.{GOOD}"), "good requests"
    tokens = not function.of_limits and metric.name.endswith(f".{OUTPUT_TOKENS}")
    instead = f"`total({metric}) / {every}`" if tokens else f"`rate({metric})`"
    why = "counts from the first issue of all requests, so it is only known for the whole run, not for each window"
    return f"`{term.function}` {why}: remove `in every`, or write {instead}, the {which} in each window"


FACTS: Final[dict[str, tuple[str, str]]] = {
    "lost": ("", "events that were emitted but are not counted"),
    "missing": ("", "of these, events that were sent but never arrived"),
    "emitted": ("", "events of all producers"),
    "applied": ("", "events that are counted"),
    "repaired": ("", "batches that were missing and arrived later"),
    "salvaged": ("", "events that were read from the memory of killed processes"),
    "producers": ("", "how many there were, on all nodes"),
    "nodes": ("", "how many nodes the run has"),
    "incomplete_nodes": ("", "nodes whose events are not all counted, or not known"),
    "elapsed": ("s", "how long the run took"),
    "straggler": ("", "cost of slow ranks together, as a share of a step; 0 if no rank is named"),
    "straggler.cost": ("s", "the same as a time"),
    "command.exit_code": ("", "exit code of the command; 128 + n if signal n ended it"),
    "command.wall": ("s", "time from its start to its end"),
    "command.cpu": ("s", "CPU time of the command, user and system"),
    "command.max_rss": ("B", "its peak memory"),
}
"""Name → (unit, meaning)."""

WORD_FACTS: Final[dict[str, tuple[str, ...]]] = {
    "completeness": ("complete", "lossy", "incomplete", "interrupted"),
}
"""Facts with words as values → the words."""
