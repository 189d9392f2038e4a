"""A run as it was recorded: all of it, or any stretch of its history.

The names below load on first use: who only wants a result pays for no arrays.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry.recorded.choice import Choice, parse_time
    from telemetry.recorded.ids import SeriesId, series_id
    from telemetry.recorded.run import RecordedRun, open_run
    from telemetry.recorded.source import load_report
    from telemetry.recorded.window import Window

_HOME = {
    "Choice": "telemetry.recorded.choice",
    "RecordedRun": "telemetry.recorded.run",
    "SeriesId": "telemetry.recorded.ids",
    "Window": "telemetry.recorded.window",
    "load_report": "telemetry.recorded.source",
    "open_run": "telemetry.recorded.run",
    "parse_time": "telemetry.recorded.choice",
    "series_id": "telemetry.recorded.ids",
}

__all__ = [
    "Choice",
    "RecordedRun",
    "SeriesId",
    "Window",
    "load_report",
    "open_run",
    "parse_time",
    "series_id",
]


def __getattr__(name: str) -> Any:
    try:
        home = _HOME[name]
    except KeyError:
        raise AttributeError(f"module 'telemetry.recorded' has no attribute {name!r}") from None
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
