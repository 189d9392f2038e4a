"""Counters of requests that ended alike, as one."""

from __future__ import annotations

import math
from typing import Any

from telemetry.tui.model.request_flow import summed
from telemetry.wire.snapshot import CounterStat


def counter(name: str, value: float, **labels: str) -> CounterStat:
    known: Any = {"value": value, "events": 1, "rate": 0.5}
    return CounterStat(name=name, unit="requests", labels=labels, **known)


def test_counters_of_one_outcome_are_one() -> None:
    """Failures of a place for whatever reason, the bare counter among them, and completions however they finished;
    what they are sums of stands beside them."""
    stats = [
        counter("llm.issued", 9, window="m"),
        counter("llm.failed", 0, window="m"),
        counter("llm.failed", 3, window="m", reason="timeout"),
        counter("llm.failed", 4, window="m", reason="http_503"),
        counter("llm.completed", 5, window="m", finish="stop"),
        counter("llm.failed", 2, reason="timeout"),
    ]
    sums = summed(stats)
    assert [(stat.name, stat.labels, stat.value) for stat, _ in sums] == [
        ("llm.issued", {"window": "m"}, 9),
        ("llm.failed", {"window": "m"}, 7),
        ("llm.completed", {"window": "m"}, 5),
        ("llm.failed", {}, 2),
    ]
    assert (sums[1][0].events, sums[1][0].rate) == (3, 1.5)
    assert [part for _, parts in sums for part in parts] == stats


def test_counters_of_nothing_that_was_issued_stay_apart() -> None:
    """A reason is a label like any other there."""
    stats = [counter("llm.failed", 1, reason="a"), counter("llm.failed", 2, reason="b")]
    assert summed(stats) == [(stat, [stat]) for stat in stats]


def test_sums_that_no_float_can_say_are_infinite() -> None:
    """A sum of counters that no float can say is infinite, whoever counted that."""
    stats = [counter("llm.issued", 1), counter("llm.failed", 10**400), counter("llm.failed", 0.5, reason="a")]
    assert summed(stats)[1][0].value == math.inf
