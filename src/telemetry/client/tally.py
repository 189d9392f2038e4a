"""A counter that any thread, and a signal handler, may raise without a lock."""

from __future__ import annotations

import itertools
from collections import deque


class Tally:
    """`hit()`, `hit_many(n)` from anywhere: one C call, atomic. `take` and `total` from one thread at a time."""

    __slots__ = ("_count", "_looks", "_taken", "hit")

    def __init__(self) -> None:
        self._count = itertools.count()
        self._looks = 0
        self._taken = 0
        self.hit = self._count.__next__

    def hit_many(self, times: int) -> None:
        """As many hits at once."""
        deque(itertools.islice(self._count, times), maxlen=0)

    @property
    def total(self) -> int:
        """Hits so far. Looking is itself a step of the counter, which is subtracted."""
        seen = next(self._count) - self._looks
        self._looks += 1
        return seen

    def take(self) -> int:
        """Hits since the last `take`."""
        total = self.total
        new = total - self._taken
        self._taken = total
        return new
