"""Extents of the nodes of a root, joined by follower."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from telemetry.aggregator.nodes.columns import ExtentArrays
from telemetry.aggregator.snapshot_numbers import bounded, grown, plain
from telemetry.wire.snapshot import Extent

_NEVER: Final = np.iinfo(np.int64).max
_TIMES: Final = ("first", "last", "last_done", "end")


class NodeExtents:
    """Columns by follower.

    Each node decides which of its rows are inside, by the beginnings on that node. So these extents stay apart from
    those of the root's own producers.
    """

    STATE: ClassVar[Mapping[str, Any]] = {
        "first": NDArray[np.int64],
        "last": NDArray[np.int64],
        "last_done": NDArray[np.int64],
        "end": NDArray[np.int64],
        "_inside": NDArray[np.int64],
        "_total": NDArray[np.float64],
        "_rest": NDArray[np.float64],
    }
    DERIVED: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self.first = np.zeros(0, np.int64)
        self.last = np.zeros(0, np.int64)
        self.last_done = np.zeros(0, np.int64)
        self.end = np.zeros(0, np.int64)
        self._inside = np.zeros(0, np.int64)
        self._total = np.zeros(0)
        self._rest = np.zeros(0)

    def restored(self) -> None:
        columns = [getattr(self, name) for name in self.STATE]
        used = self.last >= 0
        ordered = (self.first <= self.last) & (self.last <= self.last_done) & (self.last_done <= self.end)
        fits = len({len(column) for column in columns}) == 1
        if not fits or not ordered[used].all() or self.first.min(initial=0) < 0:
            raise ValueError("an invalid extent of nodes")

    def __len__(self) -> int:
        return len(self.last)

    def add(self, places: NDArray[np.intp], sums: ExtentArrays) -> None:
        """Join extents of some followers, each of which appears once, on this run's clock."""
        self._grow(int(places.max(initial=-1)) + 1)
        first, last, last_done = self.first[places], self.last[places], self.last_done[places]
        self.first[places] = np.minimum(first, sums.first_ns)
        self.end[places] = np.maximum(self.end[places], sums.end_ns)
        latest = np.where(sums.last_ns > last, sums.last_done_ns, last_done)
        same = sums.last_ns == last  # if several began last, the latest end counts
        self.last_done[places] = np.where(same, np.maximum(last_done, sums.last_done_ns), latest)
        self.last[places] = np.maximum(last, sums.last_ns)
        self._inside[places] += sums.inside
        total, term = self._total[places], sums.inside_total
        with np.errstate(over="ignore", invalid="ignore"):
            added = total + term
            rest = np.where(total >= term, (total - added) + term, (term - added) + total)
        self._total[places] = added
        self._rest[places] += np.where(np.isfinite(rest), rest, 0.0)

    def join(self, number: int, own: Extent | None) -> Extent | None:
        """Return the extent of a follower over all nodes and this process."""
        if number >= len(self) or self.last[number] < 0:
            return own
        first, last = int(self.first[number]), int(self.last[number])
        done, end = int(self.last_done[number]), int(self.end[number])
        inside, total = int(self._inside[number]), _sum(float(self._total[number]), float(self._rest[number]))
        if own is None:
            own = Extent(first_ns=first, last_ns=last, last_done_ns=done, end_ns=end)
        newest = max(last, own.last_ns)
        ends = [at for began, at in ((last, done), (own.last_ns, own.last_done_ns)) if began == newest]
        return Extent(
            first_ns=min(first, own.first_ns),
            last_ns=newest,
            last_done_ns=max(ends),
            end_ns=max(end, own.end_ns),
            inside=inside + own.inside,
            inside_total=bounded(total + own.inside_total),
        )

    def _grow(self, size: int) -> None:
        before = len(self)
        if size <= before:
            return
        for name in self.STATE:
            setattr(self, name, grown(getattr(self, name), size))
        self.first[before:] = _NEVER
        for name in _TIMES[1:]:
            getattr(self, name)[before:] = -1


def _sum(total: float, rest: float) -> int | float:
    """Return the sum, as an exact int if both are integers."""
    if total.is_integer() and rest.is_integer():
        return int(total) + int(rest)
    return plain(total + rest) if np.isfinite(total) else total
