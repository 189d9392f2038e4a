"""A recorded run: its result, and figures of any time range of its history.

The names below load on first use, so that reading a result alone does not import numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from telemetry.common.lazy import lazy_names

if TYPE_CHECKING:
    from telemetry.history.instrument_ids import SeriesId, series_id
    from telemetry.history.interval_sums import RangeTotals
    from telemetry.history.result import load_report
    from telemetry.history.run import RecordedRun, open_run
    from telemetry.history.time_range import TimeRangeChoice, parse_time

_HOME = {
    "TimeRangeChoice": "telemetry.history.time_range",
    "RecordedRun": "telemetry.history.run",
    "SeriesId": "telemetry.history.instrument_ids",
    "RangeTotals": "telemetry.history.interval_sums",
    "load_report": "telemetry.history.result",
    "open_run": "telemetry.history.run",
    "parse_time": "telemetry.history.time_range",
    "series_id": "telemetry.history.instrument_ids",
}

__all__ = [
    "RangeTotals",
    "RecordedRun",
    "SeriesId",
    "TimeRangeChoice",
    "load_report",
    "open_run",
    "parse_time",
    "series_id",
]


__getattr__ = lazy_names(__name__, _HOME)
