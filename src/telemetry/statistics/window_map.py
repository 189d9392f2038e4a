"""A map of rank and step: how much each rank lags behind the others, over the whole run, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from telemetry.statistics.step_windows import Window

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
