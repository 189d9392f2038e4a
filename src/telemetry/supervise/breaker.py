"""Wait times between retries: longer after each failure in a row, with a pause after several failures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from telemetry import limits
from telemetry.common.clock import backoff_s

State = Literal["closed", "open", "half-open"]

LAST_WAIT_S: Final = 2.0
"""Maximum wait between retries after the run has ended, because little time may be left."""


@dataclass(frozen=True)
class RetryWaits:
    """Wait times between attempts: the first one, how each next one grows, and the longest."""

    first_s: float = limits.BACKEND_RETRY_S
    factor: float = 2.0
    most_s: float = limits.BACKEND_RETRY_MOST_S


USUAL: Final = RetryWaits()


class Breaker:
    """A circuit breaker. Pure: callers report each attempt and ask for the wait. It uses the given clock.

    closed     → open        after `limits.BACKEND_BREAKER_FAILURES` failures in a row
    open       → half-open   when the wait is over and the next attempt begins
    half-open  → closed      if that attempt succeeds; otherwise open again
    """

    def __init__(self, clock: Callable[[], float], chance: Callable[[], float], waits: RetryWaits = USUAL) -> None:
        """Create a closed breaker. `clock` returns seconds; `chance` returns numbers from 0 to 1."""
        self.state: State = "closed"
        self.failures = 0
        """Failures in a row."""
        self._clock = clock
        self._chance = chance
        self._waits = waits
        self._failed_s = 0.0
        self._asked_s = 0.0
        self._wait_s = 0.0

    def wait_s(self, *, last: bool = False) -> float:
        """Return the seconds until the next attempt, 0 for now.

        With `last`, the wait is short unless the server asked for a longer one.
        """
        wait_s = min(self._wait_s, max(LAST_WAIT_S, self._asked_s)) if last else self._wait_s
        return max(0.0, self._failed_s + wait_s - self._clock()) if self.failures else 0.0

    def begin(self) -> None:
        """Report the start of an attempt."""
        if self.state == "open":
            self.state = "half-open"

    def failed(self, after_s: float = 0.0) -> None:
        """Report a failed attempt. `after_s`: wait that the server asked for, honoured up to a bound."""
        after_s = min(max(0.0, after_s), limits.BACKEND_ASKED_MOST_S)
        self.failures += 1
        if self.state == "half-open" or self.failures >= limits.BACKEND_BREAKER_FAILURES:
            self.state = "open"
        waits = self._waits
        grown_s = backoff_s(self.failures, waits.first_s, waits.most_s, waits.factor)
        self._wait_s = max(grown_s * (1.0 + self._chance()), after_s)
        self._asked_s = after_s
        self._failed_s = self._clock()

    def worked(self) -> None:
        self.state = "closed"
        self.failures = 0
