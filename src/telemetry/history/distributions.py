"""Histograms that another program has counted, such as those of OpenTelemetry: percentiles with certain bounds.

A gateway records the buckets of a histogram as bins, and its totals as the counters `NAME.count` and `NAME.sum`.
The values themselves are unknown. But the value of a rank is at least the start of this rank in the order of all
starts, and at most the end of this rank in the order of all ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from telemetry import limits
from telemetry.common.wording import labelled
from telemetry.errors import RunDirectoryError
from telemetry.statistics.hdr.percentiles import parse_percentile, rank
from telemetry.store.records import FILE_NAME, RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.events import Bins
from telemetry.wire.report import HistogramBounds
from telemetry.wire.snapshot import CounterStat, MetricsSnapshot

COUNT: Final = ".count"
"""End of the name of a counter with the number of values in a histogram."""
SUM: Final = ".sum"
PERCENTILES: Final = ("50", "90", "99", "99.9")
_Ends = tuple[float, float]


@dataclass(frozen=True)
class CountedDistribution:
    """The bins of one histogram over a whole run."""

    name: str
    labels: Mapping[str, str]
    unit: str
    count: int
    """Number of values, in bins or not."""
    total: float | None
    """Sum of the values. None if the sender did not say it."""
    unknown: int
    """Number of values that are in no bin."""
    _starts: tuple[NDArray[np.float64], NDArray[np.int64]]
    """Starts of bins, ascending, and the number of values in bins up to each of them."""
    _ends: tuple[NDArray[np.float64], NDArray[np.int64]]

    def between(self, rank: int) -> _Ends:
        """Return the smallest and the largest value that a rank can have. Ranks are 1 … `count`."""
        return _at(self._starts, rank - self.unknown, -math.inf), _at(self._ends, rank, math.inf)

    def bounds(self) -> HistogramBounds:
        """Return the percentiles for a report."""
        percentiles = {}
        for key in PERCENTILES:
            low, high = self.between(rank(parse_percentile(key), self.count))
            percentiles[key] = (low if math.isfinite(low) else None, high if math.isfinite(high) else None)
        return HistogramBounds(
            name=self.name,
            labels=dict(self.labels),
            unit=self.unit,
            count=self.count,
            unknown=self.unknown,
            percentiles=percentiles,
        )


def read(directory: RunDirectory, snapshot: MetricsSnapshot) -> list[CountedDistribution]:
    """Return the histograms of a run, in the order of their counters. Blocks for the disk.

    Return nothing for a record log that is too large or can't be read. Series of the run are left out.
    """
    series = {labelled(stat.name, stat.labels) for stat in snapshot.series}
    counters = {
        name: stat
        for stat in snapshot.counters
        if stat.name.endswith(COUNT)
        and (name := labelled(stat.name.removesuffix(COUNT), stat.labels)) not in series
    }
    if not counters:
        return []
    cells: dict[str, dict[_Ends, int]] = {}
    try:
        if (directory.records / FILE_NAME).stat().st_size > limits.READ_CURVES_BYTES:
            return []
        for line in RecordLog(directory.records).of_type(_BinsLine):
            if line.name in counters and not line.axis:
                own = cells.setdefault(line.name, {})
                for ends, count in zip(pairwise(line.edges), line.counts, strict=True):
                    if count:
                        own[ends] = own.get(ends, 0) + count
    except (OSError, RunDirectoryError):
        return []
    sums = {labelled(stat.name, stat.labels): stat for stat in snapshot.counters if stat.name.endswith(SUM)}
    distributions = []
    for name, own in cells.items():
        stat, binned = counters[name], sum(own.values())
        if 0 < binned <= stat.value:
            distributions.append(_distribution(stat, own, binned, sums))
    order = list(counters.values())
    return sorted(
        distributions,
        key=lambda distribution: order.index(counters[labelled(distribution.name, distribution.labels)]),
    )


class _BinsLine(Struct, tag_field="type", tag=str(Bins.__struct_config__.tag), gc=False):
    """The fields of bins in the record log."""

    name: str
    edges: list[float]
    counts: list[int]
    axis: str = ""


def _distribution(
    stat: CounterStat, cells: Mapping[_Ends, int], binned: int, sums: Mapping[str, CounterStat]
) -> CountedDistribution:
    name = stat.name.removesuffix(COUNT)
    total = sums.get(labelled(f"{name}{SUM}", stat.labels))
    return CountedDistribution(
        name,
        stat.labels,
        total.unit if total is not None else "",
        int(stat.value),
        float(total.value) if total is not None else None,
        int(stat.value) - binned,
        _reached((start, count) for (start, _), count in cells.items()),
        _reached((end, count) for (_, end), count in cells.items()),
    )


def _reached(ends: Iterable[tuple[float, int]]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    ordered = sorted(ends)
    values = np.array([end for end, _ in ordered], np.float64)
    return values, np.cumsum(np.array([count for _, count in ordered], np.int64))


def _at(ends: tuple[NDArray[np.float64], NDArray[np.int64]], rank: int, beyond: float) -> float:
    """Return the end of the bin of a rank, or `beyond` if the bins have no such rank."""
    values, reached = ends
    return float(values[np.searchsorted(reached, rank)]) if 1 <= rank <= reached[-1] else beyond
