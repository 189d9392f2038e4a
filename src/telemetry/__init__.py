"""Telemetry next to a benchmark or a training job: live percentiles, an exact final result, every loss counted.

    import telemetry

    with telemetry.start("load-test") as run:
        latency = run.series("latency", unit="ms")
        with latency.time():
            ...

The names below load on first use; importing the package alone costs a few milliseconds.

A capture imports it before pytest does: PYTEST_DONT_REWRITE
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from telemetry.common.lazy import lazy_names
from telemetry.wire.upper_modules import provide

if TYPE_CHECKING:
    from telemetry.client import Counter, Gauge, PercentileStatus, Request, Requests, Run, Series, start
    from telemetry.client.module_level import (
        artifact,
        axis,
        clear_step,
        counter,
        end_step,
        expect,
        gauge,
        headline,
        histogram,
        image,
        log,
        mark,
        params,
        request,
        requests,
        series,
        span,
        span_at,
        stragglers,
        table,
        text,
        tracking,
    )
    from telemetry.errors import (
        ConfigError,
        EndpointError,
        InstrumentError,
        KeysError,
        NoRoomError,
        ProtocolError,
        RunDirectoryError,
        RunNotFoundError,
        TelemetryError,
        UsageError,
    )
    from telemetry.history.result import final_report, load_report
    from telemetry.report import render
    from telemetry.transport import subscribe
    from telemetry.wire.report import EarlyRule, Report
    from telemetry.wire.snapshot import MetricsSnapshot

    __version__: str

_HOME = {
    "Counter": "telemetry.client",
    "EarlyRule": "telemetry.wire.report",
    "Gauge": "telemetry.client",
    "PercentileStatus": "telemetry.client",
    "MetricsSnapshot": "telemetry.wire.snapshot",
    "Report": "telemetry.wire.report",
    "Request": "telemetry.client",
    "Requests": "telemetry.client",
    "Run": "telemetry.client",
    "Series": "telemetry.client",
    "TelemetryError": "telemetry.errors",
    "UsageError": "telemetry.errors",
    "RunNotFoundError": "telemetry.errors",
    "RunDirectoryError": "telemetry.errors",
    "ProtocolError": "telemetry.errors",
    "InstrumentError": "telemetry.errors",
    "KeysError": "telemetry.errors",
    "NoRoomError": "telemetry.errors",
    "EndpointError": "telemetry.errors",
    "ConfigError": "telemetry.errors",
    "artifact": "telemetry.client.module_level",
    "axis": "telemetry.client.module_level",
    "clear_step": "telemetry.client.module_level",
    "counter": "telemetry.client.module_level",
    "end_step": "telemetry.client.module_level",
    "expect": "telemetry.client.module_level",
    "final_report": "telemetry.history.result",
    "gauge": "telemetry.client.module_level",
    "headline": "telemetry.client.module_level",
    "histogram": "telemetry.client.module_level",
    "image": "telemetry.client.module_level",
    "load_report": "telemetry.history.result",
    "log": "telemetry.client.module_level",
    "mark": "telemetry.client.module_level",
    "params": "telemetry.client.module_level",
    "render": "telemetry.report",
    "request": "telemetry.client.module_level",
    "requests": "telemetry.client.module_level",
    "series": "telemetry.client.module_level",
    "span": "telemetry.client.module_level",
    "span_at": "telemetry.client.module_level",
    "start": "telemetry.client",
    "stragglers": "telemetry.client.module_level",
    "subscribe": "telemetry.transport",
    "table": "telemetry.client.module_level",
    "text": "telemetry.client.module_level",
    "tracking": "telemetry.client.module_level",
}

_load = lazy_names(__name__, _HOME)
provide(reports="telemetry.report.facade")

__all__ = [
    "ConfigError",
    "Counter",
    "EarlyRule",
    "EndpointError",
    "Gauge",
    "InstrumentError",
    "KeysError",
    "MetricsSnapshot",
    "NoRoomError",
    "PercentileStatus",
    "ProtocolError",
    "Report",
    "Request",
    "Requests",
    "Run",
    "RunDirectoryError",
    "RunNotFoundError",
    "Series",
    "TelemetryError",
    "UsageError",
    "__version__",
    "artifact",
    "axis",
    "clear_step",
    "counter",
    "end_step",
    "expect",
    "final_report",
    "gauge",
    "headline",
    "histogram",
    "image",
    "load_report",
    "log",
    "mark",
    "params",
    "render",
    "request",
    "requests",
    "series",
    "span",
    "span_at",
    "start",
    "stragglers",
    "subscribe",
    "table",
    "text",
    "tracking",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("telemetry.common.distribution").version()
    return _load(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
