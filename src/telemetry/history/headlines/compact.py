"""Figures in few words, for a line: `24.1 req/s`, `p99 134 ms`, `loss 0.312`."""

from __future__ import annotations

from typing import Final

from telemetry.history.headlines.model import DOT, Figure, Headline, is_failure

_SHORT: Final = {"requests/s": "req/s", "output tokens/s": "tok/s"}
_AFTER: Final = frozenset({"failed", "in flight", "steps/s", "values/s", "goodput/s", *_SHORT})
"""Titles that stand behind their figure: `24.1 req/s`. All others stand before it."""


def compact(figure: Figure, of: Headline, *, median: bool = True) -> str:
    """Return a figure of a headline with its title.

    The share of the expected steps stands behind them: `step 120 of 500 · 24 %`. The median is included if it is
    the note: `TTFT p50 56.1 ms p99 134 ms`, unless `median` is False. Then failures have no share either. What the
    headline is about is left out.
    """
    title, text = figure.title.removeprefix(f"{of.subject} "), figure.text
    if of.flavour == "training" and title == "step" and " of " in text:
        return f"{title} {text}{DOT}{figure.note.partition(DOT)[0]}"
    if not median and is_failure(figure):
        text = text.partition(" (")[0]
    if of.flavour == "load" and of.subject:
        title = title.removeprefix("latency ")
    if title in _AFTER:
        return f"{text} {_SHORT.get(title, title)}"
    middle = figure.note.partition(", ")[0]
    if median and middle.startswith("p50 ") and " " in title:
        name, _, percentile = title.rpartition(" ")
        title = f"{name} {middle} {percentile}"
    return f"{title} {text}"
