"""Detection of stragglers: ranks for which all others wait again and again.

The input is the work and the wait of each rank in each step. Only durations of one rank's own clock are compared,
so clocks need not agree. The rank that waits least in a step is the one for which the others wait. A single step
says little, so steps are taken together in windows. A rank is named if it comes last in more windows than chance
explains (`telemetry.statistics.recurrence`), and if that matters. docs/STRAGGLERS.md has the definitions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from telemetry.statistics.recurrence import (
    FEWEST,
    HORIZONS,
    LAST,
    Flags,
    Floats,
    Recurrence,
    last_ones,
    level,
    most_recurrent,
    number_of_tests,
    tail,
)
from telemetry.statistics.step_windows import StepTimes, Values, Window, WindowMap, costs

CONFIDENCE: Final = 0.99
"""Probability that no rank is named in a run without a straggler."""
LEAST_COST: Final = 0.003
"""Smallest share of a step that a rank must cost to be named, unless it works much longer than the others."""
LEAST_EXCESS: Final = 0.05
"""Share of the work of the others that a rank must work longer to be named, if it costs less than that."""
_NAMED: Final = 16
"""Largest number of ranks that are named at a time."""
_RECOVERED: Final = 0.05
"""A named rank has recovered if chance alone makes it last so often in the newest windows with this probability."""
_CUT: Final = 0.95
"""Quantile at which the costs of steps are cut, so that one slow step does not make the cost of a rank."""


@dataclass(frozen=True, slots=True)
class Slow:
    """A rank that is or was slow."""

    rank: Hashable
    cost_s: float
    """Seconds that a step would have ended sooner, had this rank worked like the slowest rank that is not named."""
    step_s: float
    """Duration of a step."""
    lag_s: float
    """Seconds that it waits less than the median of the others, because it works longer."""
    work_s: float
    """Seconds that it works in a step."""
    others_s: float
    """Seconds that the median of the others works in a step."""
    best: float
    """Its smallest lag in this run, as a share of a step."""
    first_step: int
    last_step: int
    steps: int
    windows: int
    last_in: int
    """Number of windows in which it was the last rank."""
    always: bool
    """True if it was slow from the first steps on."""
    now: bool
    """True if it is slow in the newest steps."""

    @property
    def share(self) -> float:
        """Cost as a share of a step."""
        return self.cost_s / self.step_s if self.step_s > 0 else 0.0

    @property
    def excess(self) -> float:
        """Longer work than that of the others, as a share of theirs."""
        return self.lag_s / self.others_s if self.others_s > 0 else 0.0

    @property
    def matters(self) -> bool:
        return self.share >= LEAST_COST or self.excess >= LEAST_EXCESS


class _SlowWindow(NamedTuple):
    """A window of a slow rank."""

    window: Window
    cost_s: float
    """Mean cost of a step."""
    is_last: bool


@dataclass(slots=True)
class _Period:
    """Sums over the windows in which a rank was slow."""

    column: int
    among: int = LAST
    """Ranks among which it recurs."""
    always: bool = False
    now: bool = True
    first_step: int = 0
    last_step: int = 0
    last_number: int = -1
    windows: int = 0
    steps: int = 0
    last_in: int = 0
    cost_s: float = 0.0
    step_s: float = 0.0
    lag_s: float = 0.0
    work_s: float = 0.0
    others_s: float = 0.0
    unsure: list[_SlowWindow] = field(default_factory=list)
    """Windows since it was last among the slow ones. They count once it is so again."""

    @classmethod
    def of(cls, recurrence: Recurrence, entries: Iterable[_SlowWindow]) -> _Period:
        period = cls(recurrence.column, recurrence.among)
        for entry in entries:
            period.add(entry)
        return period

    def add(self, entry: _SlowWindow) -> None:
        """Add a window, unless it is in the sums already or the rank is absent from it."""
        window = entry.window
        if window.number <= self.last_number or not window.has(self.column):
            return
        if not self.windows:
            self.first_step = window.first_step
        self.last_number, self.last_step = window.number, window.last_step
        self.windows += 1
        self.last_in += entry.is_last
        self.steps += window.steps
        self.cost_s += entry.cost_s * window.steps
        self.step_s += window.step_s * window.steps
        lag_s, work_s, others_s = window.beside_others(self.column)
        self.lag_s += lag_s * window.steps
        self.work_s += work_s * window.steps
        self.others_s += others_s * window.steps


class StragglerDetector:
    """A detector that is fed with steps in order. Its memory is bounded by the number of ranks."""

    def __init__(self, confidence: float = CONFIDENCE) -> None:
        self.confidence = confidence
        self.steps = 0
        self.map = WindowMap()
        self._times = StepTimes()
        self._windows: deque[Window] = deque(maxlen=max(HORIZONS))
        self._seen = 0
        """Number of windows of the run."""
        self._periods: dict[int, _Period] = {}

    @property
    def ranks(self) -> Sequence[Hashable]:
        """All ranks, in the order of the columns of the map."""
        return self._times.ranks

    @property
    def step_s(self) -> float:
        """Median duration of a step in the newest windows."""
        return float(np.median([window.step_s for window in self._windows])) if self._windows else 0.0

    def add(self, step: int, work: Values, wait: Values) -> bool:
        """Add a step: seconds of work and of wait by rank. Return True if a window ends with it."""
        if not self._times.add(step, work, wait):
            return False
        self.steps += 1
        window = self._times.window()
        if window is None:
            return False
        self._windows.append(window)
        self._seen += 1
        self.map.add(window)
        if self._seen >= FEWEST:
            self._look(window)
        return True

    def verdict(self) -> list[Slow]:
        """Return the ranks that are or were slow, the most expensive one first."""
        slow = [self._slow(period) for period in self._periods.values() if period.windows]
        return sorted(
            (straggler for straggler in slow if straggler.matters),
            key=lambda straggler: (-straggler.share, -straggler.lag_s),
        )

    def _slow(self, period: _Period) -> Slow:
        steps = period.steps
        return Slow(
            rank=self._times.ranks[period.column],
            cost_s=period.cost_s / steps,
            step_s=period.step_s / steps,
            lag_s=period.lag_s / steps,
            work_s=period.work_s / steps,
            others_s=period.others_s / steps,
            best=self.map.least(period.column),
            first_step=period.first_step,
            last_step=period.last_step,
            steps=steps,
            windows=period.windows,
            last_in=period.last_in,
            always=period.always,
            now=period.now,
        )

    # --- one look at the newest windows ----------------------------------------------------------

    def _look(self, newest: Window) -> None:
        columns = len(self._times.ranks)
        lags = np.array([window.lags_of(columns) for window in self._windows])
        lags = np.where(np.isnan(lags[-1]), np.nan, lags)  # a rank that has left is not judged
        self._go_on(lags, newest)
        named = [column for column, period in self._periods.items() if period.now]
        recurrences = self._found(lags, named)
        while recurrences:
            together = [*named, *(recurrence.column for recurrence in recurrences)]
            entry_lists = [self._newest(lags, recurrence, together) for recurrence in recurrences]
            slow = [
                self._slow(_Period.of(recurrence, entries))
                for recurrence, entries in zip(recurrences, entry_lists, strict=True)
            ]
            least = min(range(len(recurrences)), key=lambda index: (slow[index].matters, slow[index].share))
            if slow[least].matters:
                for recurrence, entries in zip(recurrences, entry_lists, strict=True):
                    self._begin(recurrence, entries)
                return
            del recurrences[least]

    def _found(self, lags: Floats, named: Sequence[int]) -> list[Recurrence]:
        """Return further ranks that recur. Each one is found among those that are left without the others."""
        recurrences: list[Recurrence] = []
        passed: list[int] = list(named)
        windows, columns = lags.shape
        ranks = int(np.isfinite(lags[-1]).sum())
        limit = level(self.confidence, number_of_tests(windows, ranks), self._seen)
        while len(named) + len(recurrences) < min(_NAMED, ranks // 2):
            away = _flags(columns, passed)
            most = most_recurrent(lags, away)
            if most is None or most.chance > limit:
                break
            passed.append(most.column)
            if not _has_recovered(lags, away, most.column, most.among):
                recurrences.append(most)
        return recurrences

    def _newest(self, lags: Floats, recurrence: Recurrence, named: Sequence[int]) -> list[_SlowWindow]:
        """Return the newest windows from the one on since which this rank is last more often than before."""
        others = [name for name in named if name != recurrence.column]
        hits = last_ones(lags, _flags(lags.shape[1], others), recurrence.among).flags[:, recurrence.column]
        rate = max(float(hits[-horizon:].mean()) for horizon in HORIZONS)
        since = int(np.argmax(np.cumsum((hits - rate / 2.0)[::-1])[::-1]))
        windows = list(self._windows)[since:]
        window_costs = [costs(window, recurrence.column, named) for window in windows]
        highest = _highest(np.concatenate(window_costs))
        return [
            _SlowWindow(window, float(np.minimum(each, highest).mean()), window.last(others) == recurrence.column)
            for window, each in zip(windows, window_costs, strict=True)
        ]

    def _begin(self, recurrence: Recurrence, entries: Sequence[_SlowWindow]) -> None:
        """Begin the period of a slow rank, or go on with an earlier one."""
        period = self._periods.setdefault(recurrence.column, _Period(recurrence.column))
        if not period.windows:
            period.always = entries[0].window.number <= 1
        period.now, period.among = True, recurrence.among
        for entry in entries:
            period.add(entry)

    def _go_on(self, lags: Floats, newest: Window) -> None:
        """Add the newest window to the periods of slow ranks, and end the periods of those that have recovered."""
        recent = list(self._windows)[-min(HORIZONS) :]
        named = [column for column, period in self._periods.items() if period.now]
        for column in named:
            period = self._periods[column]
            others = [name for name in named if name != column]
            recent_costs = np.concatenate([costs(window, column, named) for window in recent])
            cost_s = float(np.minimum(costs(newest, column, named), _highest(recent_costs)).mean())
            period.unsure.append(_SlowWindow(newest, cost_s, newest.last(others) == column))
            away = _flags(lags.shape[1], others)
            if last_ones(lags[-1:], away, period.among).flags[0, column]:
                for entry in period.unsure:
                    period.add(entry)
                period.unsure.clear()
            elif _has_recovered(lags, away, column, period.among):
                period.unsure.clear()
                period.now = False


def _has_recovered(lags: Floats, away: Flags, column: int, among: int) -> bool:
    """Return whether chance alone explains how often a rank was among the last in the newest windows."""
    hits = last_ones(lags[-min(HORIZONS) :], away, among)
    own = hits.flags[:, column]
    return tail(float(own.sum()), float(len(own)), hits.chance) > _RECOVERED


def _flags(ranks: int, columns: Sequence[int]) -> Flags:
    flags = np.zeros(ranks, dtype=np.bool_)
    flags[list(columns)] = True
    return flags


def _highest(step_costs: Floats) -> float:
    """Return the cost at which the costs of single steps are cut."""
    return float(np.quantile(step_costs, _CUT, method="higher"))
