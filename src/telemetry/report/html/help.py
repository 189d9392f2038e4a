"""A `?` behind a title that explains a term without scripts, and the explanations of all terms."""

from __future__ import annotations

import re
from html import escape
from typing import Final


def question(title: str) -> str:
    """Return a `?` with the explanation of the terms in a title; empty if it has none."""
    text = escape(explanation(title))
    if not text:
        return ""
    return (
        f'<span class="help"><button type="button" aria-label="{text}">?</button>'
        f'<span aria-hidden="true">{text}</span></span>'
    )


_TERMS: Final = (
    (r"ttft", "TTFT: the time from the start of a request to its first output token."),
    (r"tpot", "TPOT: the mean time for each output token of a request after the first one."),
    (r"itl", "ITL: the time between two pieces of output of a request that follow each other."),
    (r"corrected", "Corrected: the time from the planned start of a request, so that late starts count."),
    (r"queue[_ ]delay", "Queue delay: the time from the planned start of a request to its real start."),
    (r"goodput|within limits", "Goodput: requests per second that stay within all their limits."),
    (r"attainment", "Attainment: the share of ended requests that stay within their limits."),
    (r"in flight|concurrency", "Concurrency: the number of requests that are under way at the same time."),
    (r"percentiles?|p\d\d[\d.]*", "Percentile: p99 is the value that 99 % of the values do not exceed."),
    (
        r"bounds",
        "Bounds: with this confidence, the percentile that endless measuring would find lies between them.",
    ),
    (
        r"mean request",
        "Mean request: how long a completed request takes on average, and where. Means add up, percentiles do not.",
    ),
    (r"values spread", "Each column is a time step. The darker a cell, the more values lie in it."),
)
"""Pattern of a term in a title → its explanation, in the order of reading."""
_WORDS: Final = tuple((re.compile(rf"(?<![a-z0-9])(?:{term})(?![a-z0-9])"), text) for term, text in _TERMS)


def explanation(title: str) -> str:
    """Return the explanations of all terms in a title; empty without any."""
    lowered = title.lower()
    return " ".join(text for pattern, text in _WORDS if pattern.search(lowered))
