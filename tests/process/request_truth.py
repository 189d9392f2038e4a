"""Figures of a load generator's log, worked out from the definitions of docs/REQUESTS.md alone.

This is plain Python on purpose: nothing here is imported from the package whose figures it is compared with.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

Labels = tuple[tuple[str, str], ...]
Key = tuple[str, Labels]
"""A word such as `ttft`, and labels in order."""
Line = dict[str, Any]


@dataclass
class Truth:
    """Counters, and series with all their values."""

    counters: Counter[Key] = field(default_factory=Counter)
    series: defaultdict[Key, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, line: Line, turns: int) -> None:
        """One request."""
        window = _window(line)
        self._count("issued", window)
        if line["ended"] is None:
            return
        latency = line["ended"] - line["issued"]
        if line["reason"] is not None:
            self._count("failed", window, reason=line["reason"])
            self._value("failed_latency", latency, window)
            return
        self._count("completed", window, **({} if line["finish"] is None else {"finish": line["finish"]}))
        self._value("latency", latency, window)
        if line["planned"] is not None:
            self._value("latency_corrected", line["ended"] - line["planned"], window)
            self._value("queue_delay", max(0, line["issued"] - line["planned"]), window)
        if line["input_tokens"] is not None:
            self._value("input_tokens", line["input_tokens"], window)
        turn = line["turn"] and (str(line["turn"]) if line["turn"] <= turns else f"{turns}+")
        if turn:
            self._value("turn.latency", latency, window, turn=turn)
        self._pieces(line, turn, window)

    def add_conversation(self, talk: list[Line]) -> None:
        """All requests of one conversation, as they were issued. It belongs to the window it began in."""
        self._value("conversation.turns", len(talk), _window(talk[0]))
        ends = [line["ended"] for line in talk if line["ended"] is not None]
        if ends:
            self._value("conversation.duration", max(ends) - talk[0]["issued"], _window(talk[0]))

    def _pieces(self, line: Line, turn: str | None, window: dict[str, str]) -> None:
        times = [time for time, _ in line["pieces"]]
        tokens = sum(count for _, count in line["pieces"]) if line["pieces"] else None
        if line["output_tokens"] is not None:
            tokens = line["output_tokens"]
        if tokens is not None:
            self._value("output_tokens", tokens, window)
        if not times:
            return
        self._value("ttft", times[0] - line["issued"], window)
        if turn:
            self._value("turn.ttft", times[0] - line["issued"], window, turn=turn)
        for before, after in pairwise(times):
            self._value("itl", after - before, window)
        if tokens is not None and (later := tokens - line["pieces"][0][1]) > 0:
            self._value("tpot", (line["ended"] - times[0]) / later, window)

    def _count(self, word: str, window: dict[str, str], **labels: str) -> None:
        self.counters[word, tuple(sorted((window | labels).items()))] += 1

    def _value(self, word: str, value: float, window: dict[str, str], **labels: str) -> None:
        self.series[word, tuple(sorted((window | labels).items()))].append(value)


def log_lines(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def truth(lines: Iterable[Line], turns: int = 32) -> Truth:
    """All instruments of the requests of a log. `turns` of a conversation are told apart, the rest is one."""
    made = Truth()
    talks = defaultdict(list)
    for line in sorted(lines, key=lambda line: int(line["issued"])):
        made.add(line, turns)
        if line["conversation"] is not None:
            talks[line["conversation"]].append(line)
    for talk in talks.values():
        made.add_conversation(talk)
    return made


def percentile(values: list[float], key: str) -> float:
    """The order statistic of rank ceil(p · n)."""
    return sorted(values)[max(math.ceil(Fraction(key) / 100 * len(values)), 1) - 1]


def early_bound(values: list[float], key: str) -> float | None:
    """The t-th largest of n values: as many as a binomial number of n tries with the chance 1 − p is at or below in
    at most 1 of 100 cases. None if t is 0."""
    chance, n = 1 - Fraction(key) / 100, len(values)
    most, sum_ = -1, Fraction()
    while most < n:
        sum_ += math.comb(n, most + 1) * chance ** (most + 1) * (1 - chance) ** (n - most - 1)
        if sum_ > Fraction(1, 100):
            break
        most += 1
    return sorted(values)[n - most] if most > 0 else None


def rates(lines: Iterable[Line]) -> dict[str, tuple[float, float]]:
    """Requests and tokens a second by the three definitions, of the completed requests of one window."""
    done = [line for line in lines if line["ended"] is not None and line["reason"] is None]
    first = min(line["issued"] for line in done)
    newest = max(done, key=lambda line: line["issued"])
    inside = [line for line in done if line["ended"] <= newest["issued"]]
    return {
        "while_issuing": _rate(len(inside), inside, first, newest["issued"]),
        "loadgen": _rate(len(done) - 1, done, first, newest["ended"]),
        "overall": _rate(len(done), done, first, max(line["ended"] for line in done)),
    }


def _rate(requests: int, counted: list[Line], begin: int, end: int) -> tuple[float, float]:
    return requests * 1e9 / (end - begin), sum(map(_tokens, counted)) * 1e9 / (end - begin)


def _tokens(line: Line) -> int:
    told: int | None = line["output_tokens"]
    return sum(count for _, count in line["pieces"]) if told is None else told


def check_instruments(final: Line, expected: Truth, kind: str = "llm") -> None:
    """Every counter and series of the kind is there with exactly these values, and no other has any."""
    counters = {_key(stat, kind): stat["value"] for stat in _of(final["counters"], kind)}
    assert {key: value for key, value in counters.items() if value} == expected.counters
    series = {_key(stat, kind): stat for stat in _of(final["series"], kind) if stat["count"]}
    assert set(series) == set(expected.series)
    for key, stat in series.items():
        check_series(stat, expected.series[key])


def check_series(stat: Line, values: list[float]) -> None:
    """Check a series to the nanosecond: whole values have whole totals, and percentiles are values."""
    name = stat["name"], stat["labels"]
    assert stat["exact"], name
    assert (stat["count"], stat["min"], stat["max"]) == (len(values), min(values), max(values)), name
    exactly = {key: percentile(values, key) for key in stat["percentiles"]}
    assert stat["percentiles"] == exactly, name
    total = math.fsum(values)
    mean = total / len(values)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    if all(value == int(value) for value in values):
        assert stat["total"] == sum(values), name
    assert math.isclose(stat["total"], total, rel_tol=1e-12), name
    assert math.isclose(stat["mean"], mean, rel_tol=1e-12), name
    assert math.isclose(stat["stddev"], spread, rel_tol=1e-6, abs_tol=1e-3), name


def _window(line: Line) -> dict[str, str]:
    return {"window": line["window"]} if line["window"] else {}


def _of(stats: list[Line], kind: str) -> list[Line]:
    return [stat for stat in stats if stat["name"].startswith(f"{kind}.")]


def _key(stat: Line, kind: str) -> Key:
    return stat["name"].removeprefix(f"{kind}."), tuple(sorted(stat["labels"].items()))
