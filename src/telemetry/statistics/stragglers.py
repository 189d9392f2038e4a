"""Detection of stragglers: ranks for which all others wait again and again.

The input is the work and the wait of each rank in each step. Only durations of one rank's own clock are compared,
so clocks need not agree. The rank that waits least in a step is the one for which the others wait. A single step
says little, so steps are taken together in windows. A rank is named if it comes last in more windows than chance
explains (`telemetry.statistics.recurrence`), and if that matters. So are nodes, and stages of a pipeline. Rare and
periodic pauses are looked for in single steps (`telemetry.statistics.pauses`). Costs come from a replay of the
steps without the cause (`telemetry.statistics.replay`). docs/STRAGGLERS.md has the definitions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from telemetry.statistics.pauses import PREFIXES, Detectable, PauseFinder, Pauses
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
from telemetry.statistics.replay import NODE, STAGE, Coordinates, Cost, Family, Layout, Replay, Unit, lower_medians
from telemetry.statistics.step_windows import Places, StepTimes, Values, Window, WindowMap

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
_SURE: Final = 0.35
"""A cost is told if its two bounds differ by less than this share of their mean."""
_TYPICAL: Final = 64
"""Number of ranks that stand for all in an estimate."""
_TRIES: Final = 40
_PATIENCE: Final = 5
"""Number of windows until a unit that did not matter is looked at again."""
_RECENT: Final = 10
"""Number of newest windows that show how the ranks of a cause, and their peers, work."""

Key = tuple[str, Hashable]
"""Dimension and value of a unit."""


@dataclass(frozen=True, slots=True)
class Slow:
    """A cause: a rank, a node or a stage that is or was slow, or that pauses."""

    rank: Hashable
    """The rank, or the rank of the unit that lags most."""
    dimension: str
    """`node` or `pp` for a cause of several ranks; empty for a rank."""
    value: Hashable
    """Value of the dimension, or the rank."""
    members: tuple[Hashable, ...]
    """Ranks of the unit."""
    cost_s: float
    """Seconds that a step would have ended sooner, had the ranks of this cause worked like their peers."""
    highest_s: float
    """Upper bound of this, which is higher only in pipelines."""
    alone_s: float
    """The same if all other causes were gone: what this one costs once they are repaired."""
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
    """Number of windows in which it was the last one."""
    always: bool
    """True if it was slow from the first steps on."""
    now: bool
    """True if it is slow in the newest steps."""
    pauses: Pauses | None = None
    """For a cause that pauses in single steps."""

    @property
    def share(self) -> float:
        """Cost as a share of a step."""
        return self.cost_s / self.step_s if self.step_s > 0 else 0.0

    @property
    def is_sure(self) -> bool:
        """False if the cost depends on how the stages of a pipeline overlap, which the durations don't tell."""
        return 2.0 * (self.highest_s - self.cost_s) <= max(_SURE * self.cost_s, LEAST_COST * self.step_s)

    @property
    def excess(self) -> float:
        """Longer work than that of the others, as a share of theirs."""
        return self.lag_s / self.others_s if self.others_s > 0 else 0.0

    @property
    def matters(self) -> bool:
        alone = self.alone_s / self.step_s if self.step_s > 0 else 0.0
        if self.pauses is not None:
            return self.share >= LEAST_COST
        return max(self.share, alone) >= LEAST_COST or self.excess >= LEAST_EXCESS


class Sight(NamedTuple):
    """The smallest causes that would be named in the newest steps."""

    lag_s: float | None
    """Longer work of a rank in every step; None if there are too few steps for any."""
    excess: float
    """The same as a share of the work of the others."""
    cost_s: float
    """Cost of such a rank."""
    pauses: Detectable | None


class _SlowWindow(NamedTuple):
    """A window of a slow unit."""

    window: Window
    cost: Cost
    is_last: bool


@dataclass(slots=True)
class _Period:
    """Sums over the windows in which a unit was slow."""

    unit: Unit
    among: int = LAST
    """Units among which it recurs."""
    always: bool = False
    now: bool = True
    first_step: int = 0
    last_step: int = 0
    last_number: int = -1
    windows: int = 0
    steps: int = 0
    last_in: int = 0
    low_s: float = 0.0
    high_s: float = 0.0
    alone_s: float = 0.0
    step_s: float = 0.0
    lag_s: float = 0.0
    work_s: float = 0.0
    others_s: float = 0.0
    unsure: list[_SlowWindow] = field(default_factory=list)
    """Windows since it was last among the slow ones. They count once it is so again."""

    def add(self, entry: _SlowWindow, others: Places) -> None:
        """Add a window, unless it is in the sums already or the unit is absent from it."""
        window = entry.window
        if window.number <= self.last_number or not window.has(self.unit.columns):
            return
        if not self.windows:
            self.first_step = window.first_step
        self.last_number, self.last_step = window.number, window.last_step
        self.windows += 1
        self.last_in += entry.is_last
        self.steps += window.steps
        self.low_s += entry.cost.low_s * window.steps
        self.high_s += entry.cost.high_s * window.steps
        self.alone_s += entry.cost.alone_s * window.steps
        self.step_s += float(window.durations.mean()) * window.steps
        lag_s, work_s, others_s = window.beside(self.unit.columns, others)
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
        self._groups: dict[Hashable, Coordinates] = {}
        self._layout: Layout | None = None
        self._windows: deque[Window] = deque(maxlen=max(HORIZONS))
        self._shares: deque[float] = deque(maxlen=max(HORIZONS))
        self._seen = 0
        """Number of windows of the run."""
        self._periods: dict[Key, _Period] = {}
        self._pauses: dict[str, PauseFinder] = {"": PauseFinder(), NODE: PauseFinder()}
        self._paused: dict[Key, Pauses] = {}
        self._nodes: list[Hashable] = []
        """Nodes by their number in the search for pauses."""
        self._small: dict[Key, int] = {}
        """Units that did not matter → the window in which they are looked at again."""
        self._together = [0.0, 0]
        """Cost of all slow units together, over the steps in which there are several, and number of these steps."""

    @property
    def ranks(self) -> Sequence[Hashable]:
        """All ranks, in the order of the columns of the map."""
        return self._times.ranks

    @property
    def groups(self) -> Mapping[Hashable, Coordinates]:
        """Groups of each rank: the name of a dimension → its value."""
        return self._groups

    @property
    def step_s(self) -> float:
        """Median duration of a step in the newest windows."""
        return float(np.median([window.step_s for window in self._windows])) if self._windows else 0.0

    def group(self, rank: Hashable, coordinates: Coordinates) -> None:
        """Add the groups of a rank."""
        merged = {**self._groups.get(rank, {}), **coordinates}
        if merged != self._groups.get(rank):
            self._groups[rank] = merged
            self._layout = None

    def add(self, step: int, work: Values, wait: Values) -> bool:
        """Add a step: seconds of work and of wait by rank. Return True if a window ends with it."""
        if not self._times.add(step, work, wait):
            return False
        self.steps += 1
        whole = self._times.window()
        if whole is None:
            return False
        layout = self._of_groups()
        window = whole.thinned()
        self._shares.append(layout.fitted_share(window.busy_of(len(layout.columns)), window.durations))
        for dimension, finder in self._pauses.items():
            family = layout.nodes if dimension else layout.ranks
            if family:
                finder.add(whole, layout, family, self._share)
        self._windows.append(window)
        self._seen += 1
        self.map.add(window)
        if self._seen >= FEWEST:
            self._look(layout)
            self._look_for_pauses(layout)
        return True

    def verdict(self) -> list[Slow]:
        """Return the causes that are or were slow, the most expensive one first."""
        layout = self._of_groups()
        slow = [self._slow(period) for period in self._periods.values() if period.windows]
        slow += [self._pausing(key, pauses, layout) for key, pauses in self._paused.items()]
        return sorted(
            (each for each in slow if each.matters),
            key=lambda each: (-each.share, -each.alone_s, -each.lag_s),
        )

    def together_s(self) -> float | None:
        """Return what the causes of the newest steps cost together; None if there are fewer than two."""
        causes = [cause for cause in self.verdict() if cause.now]
        slow = [cause.cost_s for cause in causes if cause.pauses is None]
        if len(causes) < 2:
            return None
        cost_s, steps = self._together
        slow_s = cost_s / steps if len(slow) > 1 and steps else sum(slow)
        return slow_s + sum(cause.cost_s for cause in causes if cause.pauses is not None)

    def sight(self) -> Sight:
        """Return the smallest causes that would be named in the newest steps."""
        layout = self._of_groups()
        if self._seen < FEWEST:
            return Sight(None, 0.0, 0.0, None)
        limit = self._limit(layout)
        lags = self._lags(layout)
        ranks = int(np.isfinite(lags[-1]).sum())
        pauses = self._pauses[""].detectable(ranks, (), limit)
        lag_s = self._least_lag(layout.beside_stage(lags), ranks, limit)
        if lag_s is None:
            return Sight(None, 0.0, 0.0, pauses)
        others_s = float(np.median([np.nanmedian(window.work) for window in self._windows]))
        busy = np.concatenate([window.busy_of(len(layout.columns)) for window in self._windows])
        shown = busy[:, :: -(-busy.shape[1] // _TYPICAL)]
        ends = layout.ends(busy, 0.0)[:, None]
        for _ in range(_TRIES):
            cost_s = float(np.nanmean(np.maximum(shown + lag_s - ends, 0.0)))
            if cost_s >= LEAST_COST * self.step_s or lag_s >= LEAST_EXCESS * others_s:
                break
            lag_s *= 1.1
        return Sight(lag_s, lag_s / others_s if others_s > 0 else 0.0, cost_s, pauses)

    def _least_lag(self, lags: Floats, ranks: int, limit: float) -> float | None:
        """Return the lag with which a rank would be last in windows enough to be named, and that matters."""
        newest = np.nanmax(lags, axis=1)
        needed = next(
            (hits for hits in range(1, len(newest) + 1) if tail(hits, len(newest), 1.0 / ranks) <= limit), None
        )
        if needed is None:
            return None
        return max(float(np.sort(newest)[needed - 1]), LEAST_COST * self.step_s)

    def _of_groups(self) -> Layout:
        if self._layout is None or len(self._layout.columns) != len(self._times.ranks):
            self._layout = Layout(self._times.ranks, self._groups)
            self._follow(self._layout)
        return self._layout

    def _follow(self, layout: Layout) -> None:
        """End what is known of units that a new layout has no more, and of nodes that it numbers otherwise."""
        families = {family.dimension: family for family in (layout.stages, layout.nodes, layout.ranks)}
        for (dimension, value), period in self._periods.items():
            period.now &= value in families[dimension].index
        self._paused = {key: each for key, each in self._paused.items() if key[1] in families[key[0]].index}
        nodes = [node.value for node in layout.nodes.units]
        if nodes != self._nodes:
            self._nodes, self._pauses[NODE] = nodes, PauseFinder()

    @property
    def _share(self) -> float:
        return float(np.median(self._shares)) if self._shares else 0.0

    def _slow(self, period: _Period) -> Slow:
        steps, unit = period.steps, period.unit
        worst = self._worst(unit)
        return Slow(
            rank=self._times.ranks[worst],
            dimension=unit.dimension,
            value=unit.value,
            members=tuple(self._times.ranks[column] for column in unit.columns),
            cost_s=(period.low_s + period.high_s) / 2.0 / steps,
            highest_s=period.high_s / steps,
            alone_s=period.alone_s / steps,
            step_s=period.step_s / steps,
            lag_s=period.lag_s / steps,
            work_s=period.work_s / steps,
            others_s=period.others_s / steps,
            best=self.map.least(worst),
            first_step=period.first_step,
            last_step=period.last_step,
            steps=steps,
            windows=period.windows,
            last_in=period.last_in,
            always=period.always,
            now=period.now,
        )

    def _worst(self, unit: Unit) -> int:
        """Return the column of the rank of a unit that lags most."""
        columns: list[int] = unit.columns.tolist()
        return max(columns, key=self._recent_lag)

    def _recent_lag(self, column: int) -> float:
        lags = [window.lags[column] for window in self._windows if column < len(window.lags)]
        finite = [lag for lag in lags if np.isfinite(lag)]
        return float(np.median(finite)) if finite else -np.inf

    # --- one look at the newest windows ----------------------------------------------------------

    def _lags(self, layout: Layout) -> Floats:
        columns = len(layout.columns)
        lags = np.array([window.lags_of(columns) for window in self._windows])
        return np.where(np.isnan(lags[-1]), np.nan, lags)  # a rank that has left is not judged

    def _limit(self, layout: Layout) -> float:
        """Return the largest chance that counts in one test of this look."""
        windows = len(self._windows)
        families = [family for family in (layout.stages, layout.nodes, layout.ranks) if family]
        tests = sum(number_of_tests(windows, len(family.units)) for family in families)
        tests += len(PREFIXES) * sum(len(family.units) for family in (layout.nodes, layout.ranks))
        return level(self.confidence, tests, self._seen)

    def _look(self, layout: Layout) -> None:
        lags, limit = self._lags(layout), self._limit(layout)
        stage_lags = lower_medians(lags, layout.stages) if layout.stages else lags
        own = layout.beside_stage(lags)
        lags_of = {STAGE: stage_lags, "": own}
        families = [family for family in (layout.stages, layout.nodes, layout.ranks) if family]
        if layout.nodes:
            lags_of[NODE] = lower_medians(own, layout.nodes)
        causes = self._active()
        if causes:
            replay = Replay(layout, list(self._windows)[-_RECENT:], causes, self._share)
            for family in families:
                self._go_on(layout, family, lags_of[family.dimension], replay, causes)
            self._add_together(replay, causes)
        self._small = {key: until for key, until in self._small.items() if until > self._seen}
        for family in families:
            self._find(layout, family, lags_of[family.dimension], limit)

    def _active(self, dimension: str | None = None) -> list[Unit]:
        """Return the units that are slow now, of one kind or of all."""
        units = [period.unit for period in self._periods.values() if period.now]
        return [unit for unit in units if dimension in (None, unit.dimension)]

    def _away(self, family: Family) -> list[int]:
        """Return the units that are not judged: those that are named, and the ranks of nodes that are."""
        named = [family.index[unit.value] for unit in self._active(family.dimension)]
        if not family.dimension:
            named += [column for node in self._active(NODE) for column in node.columns.tolist()]
        return sorted(set(named))

    def _find(self, layout: Layout, family: Family, lags: Floats, limit: float) -> None:
        """Begin the periods of further units that recur and matter."""
        small = [family.index.get(value) for name, value in self._small if name == family.dimension]
        away = sorted({*self._away(family), *(index for index in small if index is not None)})
        recurrences = self._recurrences(lags, away, limit, _NAMED - len(self._active(family.dimension)))
        while recurrences:
            units = [family.units[recurrence.column] for recurrence in recurrences]
            causes = [*self._active(), *units]
            worst = [layout.ranks.units[self._worst(unit)] for unit in units if family.dimension]
            replay = Replay(layout, list(self._windows)[-_RECENT:], [*causes, *worst], self._share)
            matter = [self._matters(layout, unit, replay.costs(unit, [*causes, *worst])) for unit in units]
            if all(matter):
                together = [*away, *(recurrence.column for recurrence in recurrences)]
                for recurrence, unit in zip(recurrences, units, strict=True):
                    self._begin(
                        layout, recurrence, unit, self._newest(layout, lags, recurrence, unit, (together, causes))
                    )
                return
            recurrences = [recurrence for recurrence, keep in zip(recurrences, matter, strict=True) if keep]

    def _matters(self, layout: Layout, unit: Unit, costs: Sequence[Cost]) -> bool:
        """Return whether a unit costs enough in the newest windows, or works much longer than others.

        Of a node or a stage, that counts what its other ranks cost once its worst one is repaired. So one slow rank
        does not make it slow.
        """
        period = _Period(unit)
        if unit.dimension:
            costs = [Cost(cost.alone_s, cost.alone_s, cost.alone_s) for cost in costs]
        windows = list(self._windows)[-len(costs) :]
        self._added(period, layout, [_SlowWindow(*each, False) for each in zip(windows, costs, strict=True)])
        return bool(period.windows) and self._slow(period).matters

    def _recurrences(self, lags: Floats, away: Sequence[int], limit: float, most: int) -> list[Recurrence]:
        """Return so many further units that recur. Each is found among those that are left without the others."""
        recurrences: list[Recurrence] = []
        passed: list[int] = list(away)
        units = int(np.isfinite(lags[-1]).sum())
        while len(passed) < min(len(away) + most, units // 2):
            flags = _flags(lags.shape[1], passed)
            clearest = most_recurrent(lags, flags)
            if clearest is None or clearest.chance > limit:
                break
            passed.append(clearest.column)
            if not _has_recovered(lags, flags, clearest.column, clearest.among):
                recurrences.append(clearest)
        return recurrences

    def _newest(
        self, layout: Layout, lags: Floats, recurrence: Recurrence, unit: Unit, named: tuple[list[int], list[Unit]]
    ) -> list[_SlowWindow]:
        """Return the newest windows from the one on since which this unit is last more often than before."""
        together, causes = named
        others = _flags(lags.shape[1], [name for name in together if name != recurrence.column])
        hits = last_ones(lags, others, recurrence.among).flags[:, recurrence.column]
        rate = max(float(hits[-horizon:].mean()) for horizon in HORIZONS)
        since = int(np.argmax(np.cumsum((hits - rate / 2.0)[::-1])[::-1]))
        is_last = last_ones(lags, others, LAST).flags[since:, recurrence.column].tolist()
        windows = list(self._windows)[since:]
        replay = Replay(layout, windows, causes, self._share)
        return list(map(_SlowWindow, windows, replay.costs(unit, causes), is_last))

    def _begin(self, layout: Layout, recurrence: Recurrence, unit: Unit, entries: Sequence[_SlowWindow]) -> None:
        """Begin the period of a slow unit, or go on with an earlier one."""
        period = self._periods.setdefault(unit.key, _Period(unit))
        if not period.windows:
            period.always = entries[0].window.number <= 1
        period.unit, period.now, period.among = unit, True, recurrence.among
        self._added(period, layout, entries)
        self._paused.pop(unit.key, None)
        if unit.dimension == NODE:  # the node stands for its ranks
            self._together = [0.0, 0]
            for column in unit.columns:
                for ended in (self._periods, self._paused):
                    ended.pop(("", self._times.ranks[column]), None)

    def _added(self, period: _Period, layout: Layout, entries: Iterable[_SlowWindow]) -> _Period:
        others = self._others(layout, period.unit)
        for entry in entries:
            period.add(entry, others)
        return period

    def _go_on(self, layout: Layout, family: Family, lags: Floats, replay: Replay, causes: Sequence[Unit]) -> None:
        """Add the newest window to the periods of slow units, and end the periods of those that have recovered."""
        away = self._away(family)
        for earlier in self._active(family.dimension):
            period, column = self._periods[earlier.key], family.index[earlier.value]
            period.unit = unit = family.units[column]
            flags = _flags(lags.shape[1], [index for index in away if index != column])
            cost = replay.costs(unit, causes)[-1]
            is_last = bool(last_ones(lags[-1:], flags, LAST).flags[0, column])
            period.unsure.append(_SlowWindow(self._windows[-1], cost, is_last))
            if last_ones(lags[-1:], flags, period.among).flags[0, column]:
                self._added(period, layout, period.unsure)
                period.unsure.clear()
            elif _has_recovered(lags, flags, column, period.among):
                period.unsure.clear()
                period.now = False

    def _others(self, layout: Layout, unit: Unit) -> Places:
        return np.concatenate([peers for _, peers in layout.peers(unit, np.zeros(0, np.intp))])

    def _add_together(self, replay: Replay, causes: Sequence[Unit]) -> None:
        """Add what all slow units cost together in the newest window, if there are several."""
        if len(causes) > 1:
            costs, newest = replay.together_s(causes), self._windows[-1]
            cost_s = costs[-1] if self._together[1] else sum(costs) / len(costs)
            self._together[0] += cost_s * newest.steps
            self._together[1] += newest.steps

    # --- pauses ----------------------------------------------------------------------------------

    def _look_for_pauses(self, layout: Layout) -> None:
        limit = self._limit(layout)
        fresh: dict[Key, Pauses] = {}
        slow = [period.unit for period in self._periods.values()]
        away = {column for unit in slow if unit.dimension != STAGE for column in unit.columns.tolist()}
        for pauses in self._pauses[""].named(len(layout.ranks.units), sorted(away), limit):
            fresh["", layout.ranks.units[pauses.unit].value] = pauses
            away.add(pauses.unit)
        if layout.nodes:
            is_away = np.zeros(len(layout.columns) + 1, np.bool_)
            is_away[sorted(away)] = True
            nodes = np.flatnonzero(is_away[layout.nodes.columns].any(axis=1)).tolist()
            for pauses in self._pauses[NODE].named(len(layout.nodes.units), nodes, limit):
                fresh[NODE, layout.nodes.units[pauses.unit].value] = pauses
        slow_keys = {unit.key for unit in slow}
        for key, earlier in self._paused.items():
            if key not in fresh and key not in slow_keys:
                fresh[key] = earlier._replace(goes_on=False)
        self._paused = fresh

    def _pausing(self, key: Key, pauses: Pauses, layout: Layout) -> Slow:
        family = layout.nodes if key[0] else layout.ranks
        unit = family.units[family.index[key[1]]]
        worst = self._worst(unit)
        others = self._others(layout, unit)
        beside = [window.beside(unit.columns, others) for window in self._windows if window.has(unit.columns)]
        lag_s, work_s, others_s = np.median(beside, axis=0).tolist() if beside else (0.0, 0.0, 0.0)
        return Slow(
            rank=self._times.ranks[worst],
            dimension=unit.dimension,
            value=unit.value,
            members=tuple(self._times.ranks[column] for column in unit.columns),
            cost_s=pauses.cost_s,
            highest_s=pauses.cost_s,
            alone_s=pauses.cost_s,
            step_s=pauses.step_s,
            lag_s=lag_s,
            work_s=work_s,
            others_s=others_s,
            best=self.map.least(worst),
            first_step=pauses.first_step,
            last_step=pauses.last_step,
            steps=pauses.steps,
            windows=0,
            last_in=0,
            always=False,
            now=pauses.goes_on,
            pauses=pauses,
        )


def _has_recovered(lags: Floats, away: Flags, column: int, among: int) -> bool:
    """Return whether chance alone explains how often a unit was among the last in the newest windows."""
    hits = last_ones(lags[-min(HORIZONS) :], away, among)
    own = hits.flags[:, column]
    return tail(float(own.sum()), float(len(own)), hits.chance) > _RECOVERED


def _flags(units: int, columns: Sequence[int]) -> Flags:
    flags = np.zeros(units, dtype=np.bool_)
    flags[list(columns)] = True
    return flags
