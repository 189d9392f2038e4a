"""What a history says of all series between two moments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from telemetry.history.instrument_ids import SeriesId
from telemetry.history.interval_sums import Added, Rows
from telemetry.history.intervals.figures import Figures
from telemetry.wire.report import Bounds


@dataclass(frozen=True, kw_only=True)
class RangeTotals:
    """Seconds since the run's start. Edges are those of the intervals that the history has."""

    start_s: float
    end_s: float
    seconds: float
    """Of these that are in the history; after a gap less than `end_s - start_s`."""
    counters: Mapping[SeriesId, float] = field(default_factory=dict)
    """Increases in the window, of those that have one."""
    gauges: Mapping[SeriesId, float] = field(default_factory=dict)
    """Last values, of those that were set in the window."""
    percentiles: Sequence[str] = ()
    """That the figures of `series` have."""
    rows: Rows = field(default_factory=lambda: Rows([]), repr=False)
    """Series that were looked at."""
    added: Added | None = field(default=None, repr=False)
    """Their values."""

    @cached_property
    def series(self) -> Mapping[SeriesId, Figures]:
        """Those with values in the window. Computed when it is asked for."""
        return self.figures(self.added) if self.added is not None else {}

    def figures(self, of: Added) -> dict[SeriesId, Figures]:
        """Of some of `added`."""
        ids = (self.rows.ids[row] for row in of.rows.tolist())
        return dict(zip(ids, of.histograms(self.rows).figures(self.percentiles), strict=True))

    def bounds(self, series: SeriesId, percentiles: Sequence[str], confidence: float = 0.95) -> dict[str, Bounds]:
        """Confidence bounds of percentiles of a series in this window; empty without values. Raises UsageError for
        a percentile outside (0, 100]."""
        if self.added is None or series not in self.rows.place:
            return {}
        return self.added.only(self.rows.place[series], self.rows).bounds(percentiles, confidence)[0]
