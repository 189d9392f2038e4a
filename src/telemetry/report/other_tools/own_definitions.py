"""The same requests by the definitions of this program, so that they can be compared. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from telemetry.report.other_tools.answers import Answers, Integers, Numbers
from telemetry.report.other_tools.statistics import best_second, deviation, in_ms, per_s

Ours = dict[str, float | None]

_PERCENTILES: Final = (50, 90, 95, 99)


def figures(answers: Answers, limits: Mapping[str, int]) -> Ours:
    """Return the figures of `docs/REQUESTS.md` under short names; durations are in ms.

    A figure that does not exist is None.
    """
    done, timed = answers.chosen(answers.completed), answers.chosen(~answers.expired)
    span_ns = done.span_ns
    later = done.output_tokens - done.first_tokens
    has_tpot = done.streamed & (later > 0)
    after_first = done.ended_ns - done.first_ns
    inputs, outputs = float(done.input_tokens.sum()), float(done.output_tokens.sum())
    metrics: Ours = {
        "completed": len(done),
        "failed": len(answers) - len(done),
        "duration": answers.span_ns / 1e9,
        "input_tokens": inputs,
        "output_tokens": outputs,
        "requests_per_s": per_s(len(done), span_ns),
        "input_tokens_per_s": per_s(inputs, span_ns),
        "output_tokens_per_s": per_s(outputs, span_ns),
        "total_tokens_per_s": per_s(inputs + outputs, span_ns),
        "best_second": best_second(_tokens_of_chunks(done), int(answers.issued_ns.min())),
        "concurrency_mean": per_s(float((timed.ended_ns - timed.issued_ns).sum()) / 1e9, span_ns),
        "concurrency_peak": _peak(answers),
        "error_rate": 100.0 * (len(answers) - len(done)) / len(answers) if len(answers) else None,
    }
    tpot = after_first[has_tpot] / later[has_tpot]
    for name, values_ns in (
        ("ttft", (done.first_ns - done.issued_ns)[done.streamed]),
        ("tpot", tpot),
        ("latency", done.ended_ns - done.issued_ns),
    ):
        metrics |= _spread(name, in_ms(values_ns))
    metrics |= _spread("itl", done.gaps_ms())
    user = 1e9 / tpot[tpot > 0]
    metrics |= _spread("tokens_per_s_per_user", user)
    return metrics | _goodput(answers, limits, span_ns)


def _tokens_of_chunks(done: Answers) -> Iterator[tuple[Integers, Numbers]]:
    """Yield times and tokens of chunks. Tokens that do not add up to the output are spread evenly over it."""
    for piece in done.pieces():
        own = piece.owner - piece.requests.start
        outputs = done.output_tokens[piece.requests]
        totals = np.bincount(own, piece.tokens, minlength=outputs.size)
        even = outputs / np.maximum(done.chunks[piece.requests], 1)
        yield piece.times_ns, np.where((totals == outputs)[own], piece.tokens, even[own])


def _peak(answers: Answers) -> int:
    """Return the largest number of requests in flight at one time."""
    begun = np.arange(1, len(answers) + 1)
    over = np.searchsorted(np.sort(answers.ended_ns), np.sort(answers.issued_ns), side="right")
    return max(int((begun - over).max()), 1) if len(answers) else 0


def _spread(name: str, values: Numbers) -> Ours:
    """Return mean, extremes and percentiles. A percentile p is the value of rank ceil(p · n). Sorts the values."""
    keys = ("mean", "min", "max", "std", *(f"p{percentile}" for percentile in _PERCENTILES))
    if not values.size:
        return dict.fromkeys(f"{name}_{key}" for key in keys)
    mean, std = values.mean(), deviation(values)
    values.sort()
    ranks = [values[math.ceil(percentile * values.size / 100) - 1] for percentile in _PERCENTILES]
    numbers = (mean, values[0], values[-1], std, *ranks)
    return {f"{name}_{key}": float(value) for key, value in zip(keys, numbers, strict=True)}


def _goodput(answers: Answers, limits: Mapping[str, int], span_ns: int) -> Ours:
    if not limits:
        return {"goodput": None, "attainment": None}
    good = int(answers.good.sum())
    return {"goodput": per_s(good, span_ns), "attainment": 100.0 * good / len(answers)}
