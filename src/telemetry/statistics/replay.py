"""Replay of steps without a cause: how much sooner would a step end if some ranks worked like their peers?

Ranks without groups all wait for each other, so a step ends with the rank that is busy longest. The pipelines of
a job wait for each other, too. In a pipeline, one stage counts in full, and of the others the share that is not
hidden behind it: one part in the number of microbatches, fitted to the durations of the steps. The order of
the microbatches, and how much their times vary, is not known, so there are two bounds:

* high: the longest stage hides what it can of the others, as if all forward passes came first.
* low: with one forward and one backward pass at a time, an early stage is idle while its first microbatch is in the
  later ones, and hides a part of its own work there. Changes between microbatches make stages nearly equal in
  length hinder each other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from telemetry.statistics.recurrence import Floats
from telemetry.statistics.step_windows import Places, Window, medians

Coordinates = Mapping[str, int | str]
"""Groups of a rank: the name of a dimension → its value."""

STAGE: Final = "pp"
"""Dimension of the stages of a pipeline. Ranks of one stage do the same work."""
NODE: Final = "node"
_PIPELINE: Final = "dp"
"""Begin of the names of dimensions that number the pipelines."""
_PEERS: Final = 256
"""Number of peers that stand for all of them."""
_HALVINGS: Final = 20
_CHANGES: Final = 0.015
"""Spread of the time that stages need for the same work, as a share of it, in the low bound."""
_CUT: Final = 0.95
"""Quantile of the deviations of a rank that bounds its cost in a step, so that one slow step does not make it."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Ranks that may be slow together: one rank, the ranks of a node, or those of a stage."""

    dimension: str
    """Empty for a rank."""
    value: Hashable
    """Value of the dimension, or the rank."""
    columns: Places

    @property
    def key(self) -> tuple[str, Hashable]:
        return self.dimension, self.value


class Family:
    """Units of one kind."""

    def __init__(self, dimension: str, units: Sequence[Unit], absent: int) -> None:
        self.dimension = dimension
        self.units = units
        self.index = {unit.value: index for index, unit in enumerate(units)}
        self.columns = np.full((len(units), max((len(unit.columns) for unit in units), default=1)), absent)
        """Columns of each unit in a row of its own, filled up with an absent one."""
        for row, unit in enumerate(units):
            self.columns[row, : len(unit.columns)] = unit.columns

    def __bool__(self) -> bool:
        return bool(self.units)


class Layout:
    """The ranks of a job by column, and which of them wait for each other."""

    def __init__(self, ranks: Sequence[Hashable], groups: Mapping[Hashable, Coordinates]) -> None:
        absent = len(ranks)
        self.ranks = Family("", [Unit("", rank, np.array([at])) for at, rank in enumerate(ranks)], absent)
        coordinates = [groups.get(rank, {}) for rank in ranks]
        stages = _units(STAGE, coordinates)
        everywhere = sum(len(stage.columns) for stage in stages) == len(ranks)
        self.stages = Family(STAGE, stages if everywhere else [], absent)
        """Stages in order; empty if a rank has none, or if all have the same one."""
        self.nodes = Family(NODE, [node for node in _units(NODE, coordinates) if len(node.columns) > 1], absent)
        """Nodes with two ranks or more."""
        self.columns = np.arange(len(ranks))
        if self.stages:
            pipelines = {chain: at for at, chain in enumerate(sorted({_pipeline(each) for each in coordinates}))}
            stage_of = {stage.value: at for at, stage in enumerate(self.stages.units)}
            cells = np.array(
                [pipelines[_pipeline(each)] * len(stage_of) + stage_of[each[STAGE]] for each in coordinates]
            )
            self._order = np.argsort(cells, kind="stable")
            self._cells, self._begins = np.unique(cells[self._order], return_index=True)
            self._grid = len(pipelines), len(stage_of)

    def peers(self, unit: Unit, away: Places) -> list[tuple[Places, Places]]:
        """Return columns of a unit, and the columns of their peers: ranks with the same work that are not `away`.

        The peers of a stage are the ranks of the other stages.
        """
        excluded = np.union1d(unit.columns, away)
        if unit.dimension == STAGE or not self.stages:
            return [(unit.columns, np.setdiff1d(self.columns, excluded))]
        pairs = [(np.intersect1d(unit.columns, stage.columns), stage.columns) for stage in self.stages.units]
        return [(own, np.setdiff1d(stage, excluded)) for own, stage in pairs if own.size]

    def beside_stage(self, lags: Floats) -> Floats:
        """Return lags behind the median of the ranks of the same stage; unchanged without stages."""
        if not self.stages:
            return lags
        own = lags.copy()
        for stage in self.stages.units:
            own[:, stage.columns] -= medians(lags[:, stage.columns])[:, None]
        return own

    def ends(self, busy: Floats, share: float) -> Floats:
        """Return when each step ends, if this share of the shorter stages is not hidden behind the longest."""
        if not self.stages:
            return _longest(busy)
        stages = self._of_stages(busy)
        return np.asarray((stages + share * (stages.sum(axis=2, keepdims=True) - stages)).max(axis=(1, 2)))

    def lowest_ends(self, busy: Floats, share: float) -> Floats:
        """Return ends of steps whose differences are the low bound; without stages those of `ends`."""
        if not self.stages:
            return _longest(busy)
        stages = self._of_stages(busy)
        later = stages[:, :, ::-1].cumsum(axis=2)[:, :, ::-1] - stages
        earlier = stages.sum(axis=2, keepdims=True) - later - stages
        hidden = np.minimum(share * np.arange(stages.shape[2])[::-1], 1.0)
        paths = stages * (1.0 - hidden) + share * (earlier + 2.0 * later)
        spread = _CHANGES * float(np.median(stages)) or 1.0
        longest = paths.max(axis=(1, 2), keepdims=True)
        return np.asarray(longest[:, 0, 0] + spread * np.log(np.exp((paths - longest) / spread).sum(axis=(1, 2))))

    def fitted_share(self, busy: Floats, durations: Floats) -> float:
        """Return the share with which steps end when they did, at most 1; 0 without stages."""
        low, high = 0.0, 1.0
        if not self.stages:
            return low
        for _ in range(_HALVINGS):
            share = (low + high) / 2.0
            late = float(np.median(durations - self.ends(busy, share))) < 0.0
            low, high = (low, share) if late else (share, high)
        return low

    def _of_stages(self, busy: Floats) -> Floats:
        """Return how long each stage of each pipeline is busy in each step: as long as its last rank."""
        shown = np.nan_to_num(busy[:, self._order], nan=0.0)
        stages = np.zeros((len(busy), self._grid[0] * self._grid[1]))
        stages[:, self._cells] = np.maximum.reduceat(shown, self._begins, axis=1)
        return stages.reshape(len(busy), *self._grid)


class Cost(NamedTuple):
    """Cost of a cause, as means over the steps of a window."""

    low_s: float
    high_s: float
    alone_s: float
    """The mean of both bounds if all other causes were gone."""


class Replay:
    """Steps of some windows, with and without causes."""

    def __init__(self, layout: Layout, windows: Sequence[Window], causes: Sequence[Unit], share: float) -> None:
        self._layout, self._share = layout, share
        self._busy = np.concatenate([window.busy_of(len(layout.columns)) for window in windows])
        self._ends = self._bounds(self._busy)
        self._windows = np.cumsum([len(window.busy) for window in windows])[:-1]
        ranks = [cause.columns for cause in causes if cause.dimension != STAGE]
        away = np.concatenate(ranks) if ranks else np.zeros(0, np.intp)
        self._repaired = {cause.key: self._repair(cause, away) for cause in causes}

    def costs(self, unit: Unit, causes: Iterable[Unit]) -> list[Cost]:
        """Return the costs of a unit in each window. `causes` has all causes, with this one."""
        others = [cause for cause in causes if cause.key != unit.key]
        own = self._saved(self._ends, self._without([unit]), [unit])
        alone = own
        if others:
            rest = self._bounds(self._without(others))
            alone = self._saved(rest, self._without([*others, unit]), [unit])
        parts = (np.split(each, self._windows) for each in (own[0], own[1], (alone[0] + alone[1]) / 2.0))
        return [Cost(*(float(part.mean()) for part in each)) for each in zip(*parts, strict=True)]

    def together_s(self, causes: Sequence[Unit]) -> list[float]:
        """Return what causes cost together in each window."""
        saved = self._saved(self._ends, self._without(causes), causes)
        return [float(part.mean()) for part in np.split((saved[0] + saved[1]) / 2.0, self._windows)]

    def _repair(self, unit: Unit, away: Places) -> tuple[Floats, Floats]:
        """Return the busy times of a unit if it worked like its peers, and the most that a step may change.

        The deviations of a rank from the median of its peers keep their order, and take the values that those of
        the peers have. So the noise of the rank stays, without what makes it slow.
        """
        busy = self._busy
        repaired, highest = busy[:, unit.columns].copy(), np.zeros(len(busy))
        nobody = np.zeros(0, np.intp)
        for columns, peers in self._layout.peers(unit, nobody if unit.dimension == STAGE else away):
            if not peers.size:
                continue
            shown = busy[:, peers[:: -(-len(peers) // _PEERS)]]
            centre = medians(shown)[:, None]
            pool = np.sort((shown - centre).ravel())
            pool = pool[np.isfinite(pool)]
            own = busy[:, columns] - centre
            order = np.argsort(np.argsort(own, axis=0), axis=0)
            places = ((order + 0.5) / len(own) * len(pool)).astype(np.intp)
            repaired[:, np.isin(unit.columns, columns)] = np.where(np.isnan(own), np.nan, centre + pool[places])
            cut = np.quantile(np.where(np.isnan(own), -np.inf, own), _CUT, axis=0, method="lower")
            highest = np.maximum(highest, cut.max())
        return repaired, highest

    def _without(self, units: Iterable[Unit]) -> Floats:
        busy = self._busy.copy()
        for unit in units:
            busy[:, unit.columns] = self._repaired[unit.key][0]
        return busy

    def _bounds(self, busy: Floats) -> tuple[Floats, Floats]:
        high = self._layout.ends(busy, self._share)
        return (self._layout.lowest_ends(busy, self._share) if self._layout.stages else high), high

    def _saved(self, slow: tuple[Floats, Floats], well: Floats, units: Iterable[Unit]) -> tuple[Floats, Floats]:
        """Return how much sooner each step ends, in both bounds."""
        highest = np.max([self._repaired[unit.key][1] for unit in units], axis=0)
        low, high = (
            np.clip(before - after, 0.0, highest) for before, after in zip(slow, self._bounds(well), strict=True)
        )
        return np.minimum(low, high), np.maximum(low, high)


def lower_medians(lags: Floats, family: Family) -> Floats:
    """Return the lags of units: that of the middle rank, or of the earlier one of two."""
    padded = np.concatenate([lags, np.full((len(lags), 1), np.nan)], axis=1)
    ordered = np.sort(padded[:, family.columns], axis=2)  # NaN is last
    middle = np.maximum(np.isfinite(ordered).sum(axis=2) - 1, 0) // 2
    return np.asarray(np.take_along_axis(ordered, middle[:, :, None], axis=2)[:, :, 0])


def _units(dimension: str, coordinates: Sequence[Coordinates]) -> list[Unit]:
    columns: dict[int | str, list[int]] = {}
    for column, of_rank in enumerate(coordinates):
        if dimension in of_rank:
            columns.setdefault(of_rank[dimension], []).append(column)
    if len(columns) < 2:
        return []
    return [Unit(dimension, value, np.array(columns[value])) for value in sorted(columns, key=order_of)]


def order_of(value: int | str) -> tuple[bool, int, str]:
    """Return the key by which values of a dimension are sorted: numbers first."""
    return (False, value, "") if isinstance(value, int) else (True, 0, value)


def _pipeline(coordinates: Coordinates) -> tuple[str, ...]:
    return tuple(f"{name}={coordinates[name]}" for name in sorted(coordinates) if name.startswith(_PIPELINE))


def _longest(busy: Floats) -> Floats:
    if not np.isnan(busy).any():
        return np.asarray(busy.max(axis=1))
    return np.asarray(np.where(np.isnan(busy), -np.inf, busy).max(axis=1))
