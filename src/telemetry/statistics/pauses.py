"""Pauses: is one rank alone the reason of unusually long steps more often than chance explains?

A step counts for the unit, a rank or a node, that lags most in it. Its cost is how much sooner the step would end
if the unit lagged as in the steps around it. So a rank that is always slow causes no such step. Without a pausing
unit, each of N units causes the costliest steps with the chance 1/N. Steps of a unit that are near each other count
once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from telemetry.statistics.recurrence import Floats, tail
from telemetry.statistics.replay import Family, Layout
from telemetry.statistics.step_windows import Places, Window, medians, wider

STEPS: Final = 4_096
"""Number of newest steps in which pauses are looked for."""
PREFIXES: Final = (8, 16, 32, 64, 128)
"""Numbers of costliest steps that are tested."""
LEAST: Final = 0.05
"""Smallest cost of a pause, as a share of a step."""
_BESIDE: Final = 2
"""Number of steps on each side with which a step is compared."""
_BLOCK: Final = 16
"""Number of steps in which those of one unit count once: a hang of a dozen steps is one event."""
_SORTED: Final = 2_048
_REGULAR: Final = 0.8
"""Share of the distances between pauses that must be multiples of one number of steps."""
_OVERDUE: Final = 3
"""A unit pauses no more once this many usual distances, and its longest one, have passed since its last pause."""


class Pauses(NamedTuple):
    """The pauses of a unit in the newest steps."""

    unit: int
    cost_s: float
    """Mean cost of a step."""
    pause_s: float
    """Median length of a pause."""
    number: int
    every: int | None
    """Number of steps between two pauses; None if they are irregular."""
    step_s: float
    """Mean duration of a step."""
    first_step: int
    last_step: int
    steps: int
    goes_on: bool


class Detectable(NamedTuple):
    """The smallest pauses that would be named."""

    pauses: int
    pause_s: float


class PauseFinder:
    """A bounded memory of the newest steps with the unit that lags most in each."""

    def __init__(self) -> None:
        self._number = np.zeros(STEPS, np.int64)
        self._unit = np.full(STEPS, -1, np.intp)
        self._cost = np.zeros(STEPS)
        self._length = np.zeros(STEPS)
        self._duration = np.zeros(STEPS)
        self._count = 0
        self._busy = np.zeros((0, 0))
        self._numbers = np.zeros(0, np.int64)
        self._durations = np.zeros(0)

    def add(self, window: Window, layout: Layout, family: Family, share: float) -> None:
        """Add the steps of a window. A step is judged once the two steps behind it are there."""
        columns = len(layout.columns)
        before = [wider(row, columns)[None, :] for row in self._busy]
        busy = np.concatenate([*before, window.busy_of(columns)])
        self._numbers = np.concatenate([self._numbers, window.numbers])
        self._durations = np.concatenate([self._durations, window.durations])
        rows = np.arange(_BESIDE, len(busy) - _BESIDE)
        if rows.size:
            self._judge(rows, busy, layout, family, share)
        kept = max(len(busy) - 2 * _BESIDE, 0)
        self._busy, self._numbers, self._durations = busy[kept:], self._numbers[kept:], self._durations[kept:]

    def _judge(self, rows: Places, busy: Floats, layout: Layout, family: Family, share: float) -> None:
        columns = family.columns
        lags = layout.beside_stage(busy - medians(busy)[:, None])
        padded = np.concatenate([lags, np.full((len(lags), 1), np.nan)], axis=1)
        shown = np.where(np.isnan(padded), -np.inf, padded)
        of_units = shown[:, columns[:, 0]] if columns.shape[1] == 1 else shown[:, columns].max(axis=2)
        latest = of_units[rows].argmax(axis=1)
        own = of_units[rows, latest]
        beside = np.stack([of_units[rows + at, latest] for at in range(-_BESIDE, _BESIDE + 1) if at], axis=1)
        usual = np.median(beside, axis=1)
        lengths = np.where(np.isfinite(own) & np.isfinite(usual), np.maximum(own - usual, 0.0), 0.0)
        each = rows[:, None], columns[latest]
        later = np.nan_to_num(np.maximum(padded[each] - (own - lengths)[:, None], 0.0), nan=0.0)
        changed = np.concatenate([busy, np.full((len(busy), 1), np.nan)], axis=1)
        changed[each] -= later
        costs = layout.ends(busy[rows], share) - layout.ends(changed[rows, :-1], share)
        self._put(rows, latest, np.minimum(costs, lengths), lengths)

    def _put(self, rows: Places, units: Places, costs: Floats, lengths: Floats) -> None:
        places = (self._count + np.arange(len(rows))) % STEPS
        self._number[places], self._unit[places] = self._numbers[rows], units
        self._cost[places], self._length[places] = np.maximum(costs, 0.0), lengths
        self._duration[places] = self._durations[rows]
        self._count += len(rows)

    def named(self, units: int, away: Sequence[int], limit: float) -> Iterator[Pauses]:
        """Yield the units that pause more often than chance explains, without those in `away`."""
        owners, costs = self._events(away)
        chance = 1.0 / max(units - len(away), 1)
        for unit in np.unique(owners).tolist():
            hits = np.cumsum(owners == unit)
            for prefix in _prefixes(len(owners)):
                count = int(hits[prefix - 1])
                if count > prefix * chance and tail(float(count), float(prefix), chance) <= limit:
                    yield self._pauses(unit, units, away, float(np.median(costs[:prefix][owners[:prefix] == unit])))
                    break

    def detectable(self, units: int, away: Sequence[int], limit: float) -> Detectable | None:
        """Return how many pauses of which length would be named; None if there are too few steps for any."""
        costs = self._events(away)[1]
        chance = 1.0 / max(units - len(away), 1)
        blocks = min(self._count, STEPS) // _BLOCK
        least: Detectable | None = None
        for prefix in PREFIXES:
            hits = next((hits for hits in range(1, prefix + 1) if tail(hits, prefix, chance) <= limit), None)
            if hits is None or hits > blocks:
                continue
            rest = prefix - hits
            pause_s = max(float(costs[rest]) if rest < len(costs) else 0.0, LEAST * self._step_s())
            if least is None or hits * pause_s < least.pauses * least.pause_s:
                least = Detectable(hits, pause_s)
        return least

    def _step_s(self) -> float:
        return float(np.median(self._duration[: min(self._count, STEPS)])) if self._count else 0.0

    def _events(self, away: Sequence[int]) -> tuple[Places, Floats]:
        """Return units and costs of the costliest steps in order, each unit once in a block of steps."""
        used = min(self._count, STEPS)
        if not used:
            return np.zeros(0, np.intp), np.zeros(0)
        oldest = self._count - used
        places = np.flatnonzero(self._cost[:used] >= max(LEAST * self._step_s(), 1e-12))
        places = places[~np.isin(self._unit[places], list(away))]
        places = places[np.argsort(-self._cost[places], kind="stable")][:_SORTED]
        sequence = oldest + (places - oldest) % STEPS
        keys = sequence // _BLOCK * (1 << 32) + self._unit[places]
        _, firsts = np.unique(keys, return_index=True)
        kept = places[np.sort(firsts)][: PREFIXES[-1]]
        return self._unit[kept], self._cost[kept]

    def _pauses(self, unit: int, units: int, away: Sequence[int], usual_s: float) -> Pauses:
        used = min(self._count, STEPS)
        oldest = self._count - used
        order = (oldest + np.arange(used)) % STEPS
        unit_of, cost, length = self._unit[order], self._cost[order], self._length[order]
        hits = np.flatnonzero((unit_of == unit) & (length >= usual_s / 2.0))
        distances = np.diff(self._number[order][hits])
        every, usual_distance = _rhythm(distances)
        span = int(hits[-1] - hits[0])
        distance = float(every) if every is not None else span / max(len(hits) - 1, 1)
        begin, end = max(int(hits[0] - distance) + 1, 0), int(hits[-1]) + 1
        shown, others = unit_of[begin:end], ~np.isin(unit_of[begin:end], [unit, *away])
        total = float(cost[begin:end][shown == unit].sum())
        usual = float(cost[begin:end][others].sum()) / max(units - 1 - len(away), 1)
        steps = max(span + distance, 1.0)
        overdue = max(_OVERDUE * usual_distance, float(distances.max(initial=0)))
        return Pauses(
            unit=unit,
            cost_s=max(total - usual, 0.0) / steps,
            pause_s=float(np.median(length[hits])),
            number=len(hits),
            every=every,
            step_s=float(self._duration[order][begin:end].mean()),
            first_step=int(self._number[order][hits[0]]),
            last_step=int(self._number[order][hits[-1]]),
            steps=round(steps),
            goes_on=used - int(hits[-1]) <= overdue,
        )


def _rhythm(distances: Places) -> tuple[int | None, float]:
    """Return the number of steps between pauses if they are regular, and their usual distance."""
    positive = distances[distances > 0]
    if not positive.size:
        return None, 1.0
    usual = float(np.median(positive))
    period = int(np.median(positive[positive <= usual]))
    slack = max(period // 20, 1 if period > 4 else 0)
    off = np.abs(positive - np.maximum(np.rint(positive / period), 1.0) * period)
    regular = float((off <= slack).mean()) >= _REGULAR and len(positive) >= 2
    return (period if regular else None), usual


def _prefixes(events: int) -> Iterator[int]:
    for prefix in PREFIXES:
        if prefix < events:
            yield prefix
    if events:
        yield min(events, PREFIXES[-1])
