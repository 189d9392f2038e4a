"""A recorded run: its result, and figures of any time range of its history.

The names below load on first use, so that reading a result alone does not import numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry.history.instrument_ids import SeriesId, series_id
    from telemetry.history.range_totals import RangeTotals
    from telemetry.history.result import load_report
    from telemetry.history.run import RecordedRun, open_run
    from telemetry.history.time_range import TimeRangeChoice, parse_time

_HOME = {
    "TimeRangeChoice": "telemetry.history.time_range",
    "RecordedRun": "telemetry.history.run",
    "SeriesId": "telemetry.history.instrument_ids",
    "RangeTotals": "telemetry.history.range_totals",
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


def __getattr__(name: str) -> Any:
    try:
        home = _HOME[name]
    except KeyError:
        raise AttributeError(f"module 'telemetry.history' has no attribute {name!r}") from None
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
