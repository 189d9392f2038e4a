"""Telemetry next to a benchmark or a training job: live percentiles, an exact final result, every loss counted.

    import telemetry

    with telemetry.start("load-test") as run:
        latency = run.series("latency", unit="ms")
        with latency.time():
            ...
    print(run.report)

The names below load on first use; importing the package alone costs a few milliseconds.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry.emit import Counter, Gauge, Known, Request, Requests, Run, Series, start
    from telemetry.emit.module_level import (
        artifact,
        axis,
        counter,
        end_step,
        expect,
        gauge,
        image,
        log,
        mark,
        params,
        request,
        requests,
        series,
        span,
        span_at,
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
    from telemetry.report import load_report, render
    from telemetry.transport import subscribe
    from telemetry.wire.report import EarlyRule, Report
    from telemetry.wire.snapshot import MetricsSnapshot

    __version__: str

_HOME = {
    "Counter": "telemetry.emit",
    "EarlyRule": "telemetry.wire.report",
    "Gauge": "telemetry.emit",
    "Known": "telemetry.emit",
    "MetricsSnapshot": "telemetry.wire.snapshot",
    "Report": "telemetry.wire.report",
    "Request": "telemetry.emit",
    "Requests": "telemetry.emit",
    "Run": "telemetry.emit",
    "Series": "telemetry.emit",
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
    "artifact": "telemetry.emit.module_level",
    "axis": "telemetry.emit.module_level",
    "counter": "telemetry.emit.module_level",
    "end_step": "telemetry.emit.module_level",
    "expect": "telemetry.emit.module_level",
    "gauge": "telemetry.emit.module_level",
    "image": "telemetry.emit.module_level",
    "load_report": "telemetry.report",
    "log": "telemetry.emit.module_level",
    "mark": "telemetry.emit.module_level",
    "params": "telemetry.emit.module_level",
    "render": "telemetry.report",
    "request": "telemetry.emit.module_level",
    "requests": "telemetry.emit.module_level",
    "series": "telemetry.emit.module_level",
    "span": "telemetry.emit.module_level",
    "span_at": "telemetry.emit.module_level",
    "start": "telemetry.emit",
    "subscribe": "telemetry.transport",
    "table": "telemetry.emit.module_level",
    "text": "telemetry.emit.module_level",
    "tracking": "telemetry.emit.module_level",
}

__all__ = [
    "ConfigError",
    "Counter",
    "EarlyRule",
    "EndpointError",
    "Gauge",
    "InstrumentError",
    "KeysError",
    "Known",
    "MetricsSnapshot",
    "NoRoomError",
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
    "counter",
    "end_step",
    "expect",
    "gauge",
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
    "subscribe",
    "table",
    "text",
    "tracking",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("telemetry.distribution").version()
    try:
        home = _HOME[name]
    except KeyError:
        raise AttributeError(f"module 'telemetry' has no attribute {name!r}") from None
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
