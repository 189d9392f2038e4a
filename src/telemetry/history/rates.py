"""Rates of counters, series and steps, in total and in steps of time that keep a steady load level. Pure."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Final, Generic, NamedTuple, TypeVar

from telemetry.common.directions import TROUBLE, words_of
from telemetry.history.request_model import number_of_events, time_range_of
from telemetry.wire.collectors import is_of_machine
from telemetry.wire.snapshot import AxisStat, CounterStat, MetricsSnapshot, SeriesStat
from telemetry.wire.units import TIME_NS

FEW: Final = 10
"""Number of events from which an instrument has a time range of its own."""
_MOMENT_NS: Final = 1_000_000
"""Time within which a few events say nothing about how often there are any."""
FIRST_S: Final = 2.0
"""Age of an instrument from which it has a rate of its last seconds."""
LEAST_NS: Final = 500_000_000
"""Shortest time range of a recent rate. In a shorter one, a single batch would make the rate jump."""
_SNAPSHOTS: Final = 10
"""Snapshots kept per window: the measured time range is within a tenth of the window."""
_OWN: Final = "telemetry."
"""Beginning of the names of counters that are about this package."""

Stat = CounterStat | SeriesStat
Timed = CounterStat | SeriesStat | AxisStat
TimeRange = tuple[int, int]
_Facts = TypeVar("_Facts")


class Pace(NamedTuple):
    """How often something happened."""

    number: float
    """The sum of counters, or the number of values."""
    seconds: float | None
    """Time that it is counted over; None if there is none, as for a single event."""
    is_of_run: bool = False
    """True if that is the time of the run, because the result does not say when the events happened."""

    @property
    def per_s(self) -> float | None:
        """The rate; None without a time, or if no float can hold it."""
        return per_second(self.number, self.seconds or 0.0)


class Paces:
    """Rates of the instruments of a run, or of a time range of it."""

    def __init__(self, snapshot: MetricsSnapshot, seconds: float | None = None) -> None:
        """Take the result of a run. `seconds`: length of the time range that its figures are of."""
        self._snapshot = snapshot
        self._run_s = snapshot.elapsed_s if seconds is None else seconds

    def of(self, *stats: Stat) -> Pace:
        """Return how often the events of these counters, or the values of these series, happened together."""
        number = sum(map(_number, stats))
        if not number:
            return Pace(number, self._run_s or None)
        time_range = self.time_range(stats)
        if time_range is None:
            return Pace(number, self._run_s or None, is_of_run=True)
        return Pace(number, max(0, time_range[1] - time_range[0]) / 1e9 or None)

    def steps_per_s(self, axis: str) -> float | None:
        """Return how fast the steps of an axis followed each other; None if that is unknown."""
        stat = next((stat for stat in self._snapshot.axes if stat.name == axis), None)
        time_range = self.time_range([stat]) if stat is not None else None
        if stat is None or time_range is None:
            return None
        return per_second(_steps(stat), (time_range[1] - time_range[0]) / 1e9)

    def time_range(self, stats: Sequence[Timed]) -> TimeRange | None:
        """Return when the events of these instruments are counted, in nanoseconds. None if it is unknown."""
        own = self._since_start(time_range_of(stats))
        if own is None:
            return None
        events, are_troubles = sum(map(number_of_events, stats)), any(map(is_trouble, stats))
        if events >= FEW and not are_troubles:
            return own
        begin_ns, end_ns = self.whole or own
        if (events == 1 and not are_troubles) or (events < FEW and end_ns - begin_ns < _MOMENT_NS):
            return own[1], own[1]
        return begin_ns, end_ns

    @cached_property
    def whole(self) -> TimeRange | None:
        """When the program recorded anything: all instruments but those of the machine and of this package."""
        axes = (axis for axis in self._snapshot.axes if axis.began_ns)  # those in a time range have no times
        every: list[Timed] = [*self._snapshot.counters, *self._snapshot.series, *axes]
        stats = [stat for stat in every if not is_of_machine(stat.name) and not stat.name.startswith(_OWN)]
        began_ns, ended_ns = time_range_of(stats)
        if began_ns:
            busiest = max(stats, key=number_of_events)
            firsts = [_first_ns(stat) for stat in stats if number_of_events(stat)]
            began_ns = min(busiest.began_ns, *firsts)  # the mean gap of a rare event may be longer than the program
        return self._since_start((began_ns, ended_ns))

    def _since_start(self, time_range: TimeRange) -> TimeRange | None:
        """Return a time range without what is before the start of the run, unless all of it is."""
        began_ns, ended_ns = time_range
        if not began_ns:
            return None
        started_ns = self._snapshot.started_ns
        return max(began_ns, started_ns) if ended_ns > started_ns else began_ns, ended_ns


def recent_rate(stat: Stat, snapshot: MetricsSnapshot) -> float:
    """Return the rate of the last seconds, or since the first event of an instrument that is too young for it."""
    rate = stat.rate if isinstance(stat, CounterStat) else stat.window.rate
    if rate:
        return rate
    began_ns = stat.began_ns or snapshot.started_ns
    age_s = (snapshot.started_ns - began_ns) / 1e9 + snapshot.elapsed_s
    if not 0.0 < age_s < FIRST_S or stat.began_ns == stat.ended_ns > 0:
        return 0.0
    return per_second(_number(stat), age_s) or 0.0


class SnapshotWindow(Generic[_Facts]):
    """Facts of the snapshots of the last window. Keeps at most _SNAPSHOTS + 2 of them."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, _Facts]] = deque()

    def learn(self, snapshot: MetricsSnapshot, now_ns: int, facts: _Facts) -> tuple[int, _Facts]:
        """Add the facts of a snapshot. Return time and facts of the snapshot at the start of the window."""
        seen, window_ns = self._seen, round(snapshot.window_s * 1e9)
        if seen and now_ns < seen[-1][0]:
            seen.clear()
        if not seen or now_ns - seen[-1][0] >= window_ns // _SNAPSHOTS:
            seen.append((now_ns, facts))
        while len(seen) > 1 and now_ns - seen[1][0] >= window_ns:
            seen.popleft()
        return seen[0]


class RecentSteps:
    """The speed of each axis over the window, from the snapshots of a run that goes on.

    Steps are dated by their values, not by their arrival: steps that waited for a rank are no burst when it comes.
    """

    def __init__(self) -> None:
        self._window = SnapshotWindow[Mapping[str, AxisStat]]()

    def learn(self, snapshot: MetricsSnapshot) -> dict[str, float]:
        """Return the steps per second of each axis. An axis is missing until its speed is known."""
        now_ns = snapshot.started_ns + round(snapshot.elapsed_s * 1e9)
        axes = {axis.name: axis for axis in snapshot.axes if axis.began_ns}
        since_ns, before = self._window.learn(snapshot, now_ns, axes)
        speeds = {name: _speed(axis, before.get(name), since_ns, now_ns) for name, axis in axes.items()}
        return {name: speed for name, speed in speeds.items() if speed is not None}


def _speed(axis: AxisStat, before: AxisStat | None, since_ns: int, now_ns: int) -> float | None:
    """Return the speed since a snapshot at `since_ns`, or since the first step if the snapshot does not have it."""
    if before is None:
        steps, since_ns, last_ns = _steps(axis), axis.began_ns, axis.began_ns
        if number_of_events(axis) < 2:
            return None
    else:
        steps, last_ns = (axis.highest or 0) - (before.highest or 0), before.ended_ns
    if now_ns - since_ns < LEAST_NS:
        return None
    return per_second(steps, max(axis.ended_ns - last_ns, now_ns - since_ns) / 1e9)


def per_second(number: float, seconds: float) -> float | None:
    """Return the rate over a time range; None if it has no length, or if no float can hold the rate."""
    try:
        return number / seconds if seconds > 0.0 else None
    except OverflowError:
        return None


def is_trouble(stat: Timed) -> bool:
    """Return whether an instrument is about things that should not happen, by its name."""
    return not TROUBLE.isdisjoint(words_of(stat.name))


def _first_ns(stat: Timed) -> int:
    """Return the time of the first event, without the mean time before it that it stands for."""
    if isinstance(stat, SeriesStat) and stat.unit in TIME_NS:
        return stat.began_ns
    return stat.began_ns + round((stat.ended_ns - stat.began_ns) / max(number_of_events(stat), 1))


def _number(stat: Stat) -> float:
    return stat.value if isinstance(stat, CounterStat) else stat.count


def _steps(axis: AxisStat) -> float:
    """Return the number of steps by their numbers: the first one stands for the mean distance of two."""
    events = number_of_events(axis)
    if axis.lowest is None or axis.highest is None or events < 2:
        return events
    return (axis.highest - axis.lowest) * events / (events - 1)


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
