"""All names of the interface, under the module name that programs also import: `.api`."""

from __future__ import annotations

from telemetry.compat.torchelastic.configuration import (
    MetricsConfig,
    MetricStream,
    configure,
    getStream,
    initialize_metrics,
    publish_metric,
    put_metric,
    unconfigure,
)
from telemetry.compat.torchelastic.handlers import (
    ConsoleMetricHandler,
    ConsoleMetricsHandler,
    MetricData,
    MetricHandler,
    NullMetricHandler,
    NullMetricsHandler,
)
from telemetry.compat.torchelastic.profiling import get_elapsed_time_ms, prof, profile

__all__ = [
    "ConsoleMetricHandler",
    "ConsoleMetricsHandler",
    "MetricData",
    "MetricHandler",
    "MetricStream",
    "MetricsConfig",
    "NullMetricHandler",
    "NullMetricsHandler",
    "configure",
    "getStream",
    "get_elapsed_time_ms",
    "initialize_metrics",
    "prof",
    "profile",
    "publish_metric",
    "put_metric",
    "unconfigure",
]
