"""Requests for which other tools and this program compute figures. Standard library only.

A case is a list of requests and limits. Times are in nanoseconds. Chunks are pairs of time and tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

MS: Final = 10**6
S: Final = 10**9


@dataclass(frozen=True)
class Sent:
    """A request with its answer."""

    issued: int
    ended: int
    chunks: tuple[tuple[int, int], ...] = ()
    completed: bool = True
    input_tokens: int = 0

    @property
    def output_tokens(self) -> int:
        """Sum of the tokens of all chunks."""
        return sum(tokens for _, tokens in self.chunks)


@dataclass(frozen=True)
class Case:
    """Requests, and limits in ms by key."""

    sent: tuple[Sent, ...]
    limits: dict[str, float] = field(default_factory=dict)


def _at(*chunks: tuple[float, int]) -> tuple[tuple[int, int], ...]:
    """Return chunks whose times are given in seconds."""
    return tuple((round(at_s * S), tokens) for at_s, tokens in chunks)


def _sent(
    issued_s: float,
    ended_s: float,
    *chunks: tuple[float, int],
    tokens: int = 10,
    completed: bool = True,
) -> Sent:
    return Sent(round(issued_s * S), round(ended_s * S), _at(*chunks), completed, tokens)


_A: Final = _sent(0.0, 0.4, (0.1, 1), (0.2, 1), (0.3, 1), (0.4, 1))
_B: Final = _sent(0.5, 1.35, (0.9, 3), (1.1, 3), (1.3, 2), tokens=20)
_C: Final = _sent(1.0, 1.25, (1.2, 1), tokens=5)
_D: Final = _sent(1.0, 1.5, (1.1, 1), tokens=7, completed=False)
_E: Final = _sent(2.0, 4.65, (2.05, 1), (2.15, 5), (4.6, 4), tokens=30)


def _many(number: int, seed: int) -> tuple[Sent, ...]:
    """Return requests with random times, some of which fail or have one token."""
    random = Random(seed)
    issued, found = 0, []
    for _ in range(number):
        issued += 1 + int(random.random() * 40 * MS)
        at = issued + 1 + int(random.random() * 300 * MS)
        chunks = [(at, 1 + int(random.random() * 4))]
        for _ in range(int(random.random() * 40)):
            at += 1 + int(random.random() ** 3 * 90 * MS)
            chunks.append((at, 1 + int(random.random() * 3)))
        ended = at + int(random.random() * 20 * MS)
        fails = random.random() < 0.05
        found.append(Sent(issued, ended, tuple(chunks), not fails, 1 + int(random.random() * 2000)))
    return tuple(found)


CASES: Final[dict[str, Case]] = {
    "five requests": Case((_A, _B, _C, _D, _E), {"ttft": 200.5, "tpot": 101, "e2el": 900}),
    "without limits": Case((_A, _B, _C, _D, _E)),
    "one request": Case((_B,), {"ttft": 450}),
    "two requests": Case((_B, _E), {"tpot": 200}),
    "one token": Case((_C, _A), {"ttft": 300, "tpot": 90}),
    "no token": Case((_A, _sent(0.1, 0.7), _B), {"ttft": 200.5, "e2el": 700}),
    "failure after tokens": Case((_D, _A, _B), {"ttft": 150}),
    "chunks of many tokens": Case(
        (_sent(0.0, 2.02, (0.3, 8), (0.95, 16), (2.01, 5)), _sent(0.05, 1.1, (0.2, 2), (0.7, 1), (1.05, 9))),
        {"tpot": 65, "e2el": 1500},
    ),
    "a straggler": Case((*_many(20, 1), _sent(0.2, 61.5, (0.3, 1), (61.4, 2))), {"e2el": 5000}),
    "equal times": Case(tuple(_sent(0.0, 0.75, (0.25, 1), (0.5, 1), (0.75, 1)) for _ in range(7)), {"ttft": 251}),
    "equal to a limit": Case((_A, _E), {"tpot": 100}),
    "a thousand requests": Case(_many(1000, 2), {"ttft": 200.5, "tpot": 28.3, "e2el": 900.1}),
}
EQUAL: Final = "equal to a limit"
"""Case in which rounding decides in the tools: (0.4 − 0.1) / 3 is more than 0.1 there."""
