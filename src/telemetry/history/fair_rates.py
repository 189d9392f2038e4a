"""Rates in steps of time, as all charts draw them: a steady load is level from its first step to its last. Pure.

* The first step of an instrument begins with its first event, and the last one ends with its last event.
* Before the first event no rate is drawn. After the last one none is drawn for three seconds, in which a program
  usually ends; a longer silence is a rate of zero.
* Events that arrive after the end, such as those salvaged from a killed program, count in the last step.
* A step that is shorter than half of the usual, or too short for a few events, shares a rate with its neighbour.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from telemetry.history.rates import Paces, Stat, is_trouble
from telemetry.history.request_model import number_of_events

_ENDING_S: Final = 3.0
"""Time after the last event in which a program usually ends."""
_FEW: Final = 4.0
"""Events that a step should hold. With fewer, a regular event would look like a comb."""
_ROUNDING_S: Final = 1e-6
_LONGEST_S: Final = 1.0
"""Longest step that is made for that. Longer ones are only what was asked for."""


@dataclass(frozen=True, slots=True)
class Activity:
    """When instruments had events, in seconds since the run's start, and how many. Infinite: unknown."""

    begin_s: float = -math.inf
    end_s: float = math.inf
    per_s: float = math.inf

    @staticmethod
    def of(paces: Paces, stats: Sequence[Stat], started_ns: int, *, is_over: bool = True) -> Activity:
        """Return the activity of some instruments together. While a run goes on, their end is not known."""
        time_range = paces.time_range(stats)
        if time_range is None:
            return Activity()
        begin_s, end_s = ((at_ns - started_ns) / 1e9 for at_ns in time_range)
        events = float(sum(map(number_of_events, stats)))
        is_even = end_s > begin_s and not any(map(is_trouble, stats))  # a failure is drawn when it happened
        per_s = events / (end_s - begin_s) if is_even else math.inf
        return Activity(begin_s, end_s if is_over else math.inf, per_s)


@dataclass(frozen=True, slots=True)
class RateSteps:
    """Consecutive steps of time, in seconds since the run's start."""

    starts_s: Sequence[float]
    ends_s: Sequence[float]
    seconds: Sequence[float]
    """Seconds that the history covers in each; 0 in a gap."""

    def rates(self, increases: Sequence[float], activity: Activity) -> list[float | None]:
        """Return the rate in each step; None where no rate is drawn."""
        increases = self._in_time(increases, activity)
        rates: list[float | None] = [None] * len(self.seconds)
        for places, length in self._groups(increases, activity):
            if length > 0.0:
                rate = sum(increases[index] for index in places) / length
                for index in places:
                    rates[index] = rate
        return rates

    def _in_time(self, increases: Sequence[float], activity: Activity) -> Sequence[float]:
        """Return the increases with those of later steps in the step of the last event."""
        active = [
            index for index, start in enumerate(self.starts_s) if start < activity.end_s and self.seconds[index]
        ]
        if not active:
            return increases
        last = active[-1]
        late = sum(increases[last + 1 :])
        return [*increases[:last], increases[last] + late, *[0.0] * (len(increases) - last - 1)]

    def _groups(self, increases: Sequence[float], activity: Activity) -> Iterator[tuple[list[int], float]]:
        """Yield steps that share a rate, and the length of their time with activity."""
        lengths = self._lengths(activity)
        usual = median([length for length in self.seconds if length > 0.0] or [0.0])
        least = max(usual / 2, min(_LONGEST_S, _FEW / activity.per_s)) - _ROUNDING_S
        before: tuple[list[int], float] | None = None
        places: list[int] = []
        total = 0.0
        for index, length in enumerate(lengths):
            if index and self.starts_s[index - 1] < activity.end_s <= self.starts_s[index] and length > 0.0:
                yield from _ended(before, places, total)
                before, places, total = None, [], 0.0
            if self.seconds[index] > 0.0 and (length > 0.0 or increases[index]):
                places, total = [*places, index], total + length
                if total < least:
                    continue
                if before is not None:
                    yield before
                before, places, total = (places, total), [], 0.0
            elif places or before is not None:
                yield from _ended(before, places, total)
                before, places, total = None, [], 0.0
        yield from _ended(before, places, total)

    def _lengths(self, activity: Activity) -> list[float]:
        """Return the part of each step in which events were possible."""
        begin_s, end_s = activity.begin_s, activity.end_s
        is_silent = max(self.ends_s, default=0.0) - end_s > _ENDING_S
        lengths = (
            seconds
            if is_silent and start >= end_s
            else seconds - max(0.0, min(begin_s, end) - start) - max(0.0, end - max(end_s, start))
            for start, end, seconds in zip(self.starts_s, self.ends_s, self.seconds, strict=True)
        )
        return [length if length > _ROUNDING_S else 0.0 for length in lengths]


def _ended(
    before: tuple[list[int], float] | None, places: list[int], total: float
) -> Iterator[tuple[list[int], float]]:
    """Yield the last groups before a gap. A rest that is too short belongs to the group before it."""
    if before is not None:
        yield [*before[0], *places], before[1] + total
    elif places:
        yield places, total
