"""Windows of steps: the work and the wait of each rank, put together so that single slow steps don't count."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]
Values = Iterable[tuple[Hashable, float]]
"""Values by rank."""

STEPS: Final = 5
"""Smallest number of steps of a window: two of them may be disturbed and don't move its median."""
SECONDS: Final = 1.0
"""Smallest length of a window, so that a disturbance of a second is in one window however short the steps are."""
_MOST_STEPS: Final = 500
_KEPT: Final = 1 << 15
"""Number of values from which a window keeps some of its steps only, at least `_KEPT_STEPS`."""
_KEPT_STEPS: Final = 8
_RANKS: Final = 1 << 16
"""Largest number of ranks; further ones are left out."""


@dataclass(frozen=True, slots=True)
class Window:
    """Some consecutive steps. Columns are ranks; ranks that came later are missing at the end."""

    number: int
    """Number of windows before it. Numbers of steps may begin again, as after a restart from a checkpoint."""
    first_step: int
    last_step: int
    steps: int
    step_s: float
    """Median duration of a step."""
    lags: Floats
    """How much less than the median rank each rank waits: the median over the steps, NaN for an absent rank."""
    work: Floats
    """Median work of each rank."""
    durations: Floats
    """Duration of each step: the median over the ranks."""
    busy: Floats
    """For each step, the seconds from its begin until each rank waits."""
    numbers: Places
    """Numbers of the steps."""

    def lags_of(self, columns: int) -> Floats:
        """Return the lags of that many ranks."""
        return wider(self.lags, columns)

    def busy_of(self, columns: int) -> Floats:
        """Return the busy times of that many ranks."""
        return np.stack([wider(row, columns) for row in self.busy])

    def has(self, columns: Places) -> bool:
        """Return whether one of the ranks was there in most of the steps."""
        there = columns[columns < len(self.lags)]
        return bool(np.isfinite(self.lags[there]).any())

    def beside(self, columns: Places, others: Places) -> tuple[float, float, float]:
        """Return the median lag of some ranks behind the others, their work, and the work of the others."""
        own, rest = (each[each < len(self.lags)] for each in (columns, others))
        lag = medians(self.lags[own][None, :])[0] - medians(self.lags[rest][None, :])[0]
        return float(lag), float(medians(self.work[own][None, :])[0]), float(medians(self.work[rest][None, :])[0])

    def thinned(self) -> Window:
        """Return the window with so few steps that 40 windows of many ranks have room in memory."""
        most = max(_KEPT // max(self.busy.shape[1], 1), _KEPT_STEPS)
        if self.steps <= most:
            return self
        kept = np.linspace(0, self.steps - 1, most).astype(np.intp)
        return replace(self, durations=self.durations[kept], busy=self.busy[kept], numbers=self.numbers[kept])


class StepTimes:
    """A collector of steps that makes windows of them."""

    def __init__(self) -> None:
        self.ranks: list[Hashable] = []
        """Ranks by column."""
        self._order: list[Hashable] = []
        """Ranks of the newest values, in their order. Most values have the same ranks as those before."""
        self._kept = self._places = np.zeros(0, np.intp)
        self._columns: dict[Hashable, int] = {}
        self._steps: list[int] = []
        self._work: list[Floats] = []
        self._wait: list[Floats] = []
        self._elapsed_s = 0.0
        self._windows = 0

    def add(self, step: int, work: Values, wait: Values) -> bool:
        """Add a step. Return False if fewer than two ranks have work and wait in it."""
        waits, works = self._row(wait), self._row(work)
        waits = wider(waits, len(works)) + 0.0 * works  # NaN where the work is unknown
        if np.isfinite(waits).sum() < 2:
            return False
        self._steps.append(step)
        self._work.append(works)
        self._wait.append(waits)
        self._elapsed_s += float(medians((waits + works)[None, :])[0])
        return True

    def window(self) -> Window | None:
        """Return the window that ends with the newest step, if it is long enough."""
        count = len(self._steps)
        if count < STEPS or (self._elapsed_s < SECONDS and count < _MOST_STEPS):
            return None
        columns = len(self.ranks)
        wait = np.array([wider(row, columns) for row in self._wait])
        work = np.array([wider(row, columns) for row in self._work])
        lags = medians(wait)[:, None] - wait
        there = np.isfinite(wait).sum(axis=0) * 2 > count
        durations = medians(wait + work)
        window = Window(
            number=self._windows,
            first_step=self._steps[0],
            last_step=self._steps[-1],
            steps=count,
            step_s=float(np.median(durations)),
            lags=np.where(there, medians(lags.T), np.nan),
            work=np.where(there, medians(work.T), np.nan),
            durations=durations,
            busy=durations[:, None] - wait,
            numbers=np.array(self._steps),
        )
        self._steps, self._work, self._wait, self._elapsed_s = [], [], [], 0.0
        self._windows += 1
        return window

    def _row(self, values: Values) -> Floats:
        pairs = list(values)
        ranks = [pair[0] for pair in pairs]
        if ranks != self._order:
            for rank in ranks:
                if rank not in self._columns and len(self.ranks) < _RANKS:
                    self._columns[rank] = len(self.ranks)
                    self.ranks.append(rank)
            kept = [at for at, rank in enumerate(ranks) if rank in self._columns]
            self._kept, self._places = (
                np.array(kept, np.intp),
                np.array([self._columns[ranks[at]] for at in kept], np.intp),
            )
            self._order = ranks
        row = np.full(len(self.ranks), np.nan)
        row[self._places] = np.array([pair[1] for pair in pairs], np.float64)[self._kept]
        row[np.isinf(row)] = np.nan
        return row


def wider(row: Floats, columns: int) -> Floats:
    if len(row) >= columns:
        return row[:columns]
    return np.concatenate([row, np.full(columns - len(row), np.nan)])


def medians(rows: Floats) -> Floats:
    """Return the median of each row, without NaN; NaN for a row without values."""
    if not np.isnan(rows).any():
        return np.asarray(np.median(rows, axis=1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.nanmedian(rows, axis=1))


Cells = npt.NDArray[np.float32]

_MOST: Final = 240
"""Number of columns from which neighbours are put together."""


@dataclass(slots=True)
class MapColumn:
    """Windows that are shown together."""

    first_step: int
    last_step: int
    windows: int
    lags: Cells
    """Mean lag of each rank, as a share of a step; NaN for a rank that is absent."""


class WindowMap:
    """Columns of about equal numbers of windows, in order of steps."""

    def __init__(self) -> None:
        self.columns: list[MapColumn] = []
        self._windows = 1
        """Number of windows in a full column."""

    def add(self, window: Window) -> None:
        lags = (window.lags / window.step_s if window.step_s > 0 else np.zeros_like(window.lags)).astype(np.float32)
        column = MapColumn(window.first_step, window.last_step, 1, lags)
        newest = self.columns[-1] if self.columns else None
        if newest is not None and newest.windows < self._windows:
            self.columns[-1] = _joined(newest, column)
            return
        if len(self.columns) >= _MOST:
            self.columns = [_joined(*pair) for pair in zip(self.columns[::2], self.columns[1::2], strict=True)]
            self._windows *= 2
        self.columns.append(column)

    def least(self, rank: int) -> float:
        """Return the smallest lag of the rank in this column of the windows, as a share of a step."""
        lags = [column.lags[rank] for column in self.columns if rank < len(column.lags)]
        finite = [float(lag) for lag in lags if np.isfinite(lag)]
        return min(finite, default=float("nan"))


def _joined(earlier: MapColumn, later: MapColumn) -> MapColumn:
    """Join two columns. A rank that is in one of them only has its lag there."""
    ranks = max(len(earlier.lags), len(later.lags))
    lags = np.full((2, ranks), np.nan, dtype=np.float32)
    lags[0, : len(earlier.lags)] = earlier.lags
    lags[1, : len(later.lags)] = later.lags
    weights = np.where(np.isnan(lags), 0.0, [[earlier.windows], [later.windows]])
    total = weights.sum(axis=0)
    sums = (np.nan_to_num(lags) * weights).sum(axis=0)
    mean = np.divide(sums, total, out=np.full(ranks, np.nan), where=total > 0).astype(np.float32)
    return MapColumn(earlier.first_step, later.last_step, earlier.windows + later.windows, mean)
