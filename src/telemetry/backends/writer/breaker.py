"""When to try again: longer waits after each failure in a row, and after several of them nothing for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from telemetry import limits

State = Literal["closed", "open", "half-open"]

LAST_WAIT_S: Final = 2.0
"""Between tries once the run is over: there may not be time for another."""


class Breaker:
    """Pure: it is told what happened and asked how long to wait. Times are of the clock that it is given.

    closed     → open        after `limits.BACKEND_BREAKER_FAILURES` in a row
    open       → half-open   when its wait is over and the next try begins
    half-open  → closed      if that one works; else open again
    """

    def __init__(self, clock: Callable[[], float], chance: Callable[[], float]) -> None:
        """`clock` in seconds; `chance` gives numbers from 0 to 1."""
        self.state: State = "closed"
        self.failures = 0
        """In a row."""
        self._clock = clock
        self._chance = chance
        self._failed_s = 0.0
        self._asked_s = 0.0
        self._wait_s = 0.0

    def wait_s(self, *, last: bool = False) -> float:
        """How long until the next try; 0: now. With `last` it is soon, unless the other side asked for more."""
        wait_s = min(self._wait_s, max(LAST_WAIT_S, self._asked_s)) if last else self._wait_s
        return max(0.0, self._failed_s + wait_s - self._clock()) if self.failures else 0.0

    def begin(self) -> None:
        """A try begins."""
        if self.state == "open":
            self.state = "half-open"

    def failed(self, after_s: float = 0.0) -> None:
        """It did not work. `after_s`: what the other side asks for; it has that up to a bound."""
        after_s = min(max(0.0, after_s), limits.BACKEND_ASKED_MOST_S)
        self.failures += 1
        if self.state == "half-open" or self.failures >= limits.BACKEND_BREAKER_FAILURES:
            self.state = "open"
        doubled_s = limits.BACKEND_RETRY_S * 2.0 ** min(self.failures - 1, 30)
        self._wait_s = max(min(doubled_s, limits.BACKEND_RETRY_MOST_S) * (1.0 + self._chance()), after_s)
        self._asked_s = after_s
        self._failed_s = self._clock()

    def worked(self) -> None:
        self.state = "closed"
        self.failures = 0
