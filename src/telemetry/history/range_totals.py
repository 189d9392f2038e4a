"""Figures of all series between two moments, from the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from telemetry.history.instrument_ids import SeriesId
from telemetry.history.interval_sums import Added, SumRows
from telemetry.history.intervals.figures import Figures
from telemetry.wire.report import Bounds


@dataclass(frozen=True, kw_only=True)
class RangeTotals:
    """The figures of a time range, in seconds since the run's start. Its edges are edges of intervals."""

    start_s: float
    end_s: float
    seconds: float
    """Seconds covered by the history; less than `end_s - start_s` if there is a gap."""
    counters: Mapping[SeriesId, float] = field(default_factory=dict)
    """Increases in the time range, without zeros."""
    gauges: Mapping[SeriesId, float] = field(default_factory=dict)
    """Last values of gauges that were set in the time range."""
    percentiles: Sequence[str] = ()
    """Percentiles of the figures in `series`."""
    rows: SumRows = field(default_factory=lambda: SumRows([]), repr=False)
    """Series that were read."""
    added: Added | None = field(default=None, repr=False)
    """Sums of their values."""

    @cached_property
    def series(self) -> Mapping[SeriesId, Figures]:
        """Figures of series with values in the time range. Computed on first use."""
        return self.figures(self.added) if self.added is not None else {}

    def figures(self, of: Added) -> dict[SeriesId, Figures]:
        """Return the figures of a subset of `added`."""
        ids = (self.rows.ids[row] for row in of.rows.tolist())
        return dict(zip(ids, of.histograms(self.rows).figures(self.percentiles), strict=True))

    def bounds(self, series: SeriesId, percentiles: Sequence[str], confidence: float = 0.95) -> dict[str, Bounds]:
        """Return confidence bounds of percentiles of a series; empty without values.

        Raises UsageError for a percentile outside (0, 100].
        """
        if self.added is None or series not in self.rows.place:
            return {}
        return self.added.only(self.rows.place[series], self.rows).bounds(percentiles, confidence)[0]
