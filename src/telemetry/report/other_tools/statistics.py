"""Statistics as numpy computes them, to the last bit, but without copies of millions of values. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from telemetry.history.second_sums import AT_ONCE, SecondSums
from telemetry.report.other_tools.answers import NS_PER_MS, Answers, Booleans, Integers, Numbers

_SECOND_NS = 10**9


def linear(values: Numbers, percentile: float) -> float:
    """Return a percentile, interpolated between the two nearest values. Changes the order of the values."""
    return float(np.percentile(values, percentile, overwrite_input=True))


def median(values: Numbers) -> float:
    """Return the median. Changes the order of the values."""
    return float(np.median(values, overwrite_input=True))


def deviation(values: Numbers) -> float:
    """Return the standard deviation of a whole population. There must be a value."""
    return float(np.sqrt(_squares(values, values.mean()) / values.size))


def _squares(values: Numbers, mean: np.floating[Any]) -> Any:
    """Return the sum of the squared distances from the mean, added in the order in which numpy adds an array.

    numpy halves an array, at multiples of 8, until the halves are small.
    """
    if values.size <= AT_ONCE:
        distances = values - mean
        distances *= distances
        return distances.sum()
    half = values.size // 2
    half -= half % 8
    return _squares(values[:half], mean) + _squares(values[half:], mean)


def nearest(values: Numbers, percentile: float) -> float:
    """Return a percentile as one of the values, the one whose place is nearest."""
    return float(np.percentile(values, percentile, method="nearest"))


def in_ms(values_ns: NDArray[np.generic]) -> Numbers:
    """Return durations in milliseconds."""
    return values_ns.astype(np.float64) / NS_PER_MS


def per_s(number: float, span_ns: int) -> float | None:
    """Return a rate; None if no time passed."""
    return float(number) / (span_ns / _SECOND_NS) if span_ns > 0 else None


def per_token_ns(span_ns: Integers, tokens: Numbers) -> Numbers:
    """Return the time per token after the first one. There must be more than one."""
    return span_ns / (tokens - 1)


def within(
    limits: Mapping[str, int], durations_ns: Mapping[str, Integers], tokens: Numbers
) -> Mapping[str, Booleans]:
    """Judge requests by each limit as vLLM and SGLang do, in whole nanoseconds and without division.

    `durations_ns` has the time to the first token, from it to the end, and to the end: `ttft`, `tpot` and `e2el`.
    A request of one token meets `tpot`. A request exactly at a limit meets it.
    """
    met = {}
    for key, limit_ns in limits.items():
        if key == "tpot":
            met[key] = (tokens <= 1) | (durations_ns[key] <= limit_ns * (tokens - 1.0))
        else:
            met[key] = durations_ns[key] <= limit_ns
    return met


def best_second(pieces: Iterable[tuple[Integers, Numbers | None]], begin_ns: int) -> float:
    """Return the largest number of things in a whole second, counted from `begin_ns`.

    A piece has the times of things, and for each its weight; without weights it is 1.
    """
    sums = SecondSums(begin_ns)
    for times_ns, weights in pieces:
        sums.add(times_ns, weights)
    return sums.most


def most_in_a_second(answers: Answers, ends_ns: Integers) -> int:
    """Return the largest number of requests that touch the same whole second, counted from the first issue."""
    if not len(answers):
        return 0
    begin_ns = answers.issued_ns.min()
    first, last = ((times - begin_ns) // _SECOND_NS for times in (answers.issued_ns, ends_ns))
    begun = np.arange(1, first.size + 1)
    over = np.searchsorted(np.sort(last), np.sort(first), side="left")
    return int((begun - over).max())
