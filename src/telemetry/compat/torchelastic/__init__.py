"""The metrics interface of torchelastic, `torch.distributed.elastic.metrics`.

Change only the import:

    import telemetry.compat.torchelastic as metrics

    metrics.put_metric("examples", 512, "train")

Handlers work as documented there. Besides, each metric is a series of the run, with the group as its label.
"""

from __future__ import annotations

from telemetry.compat.torchelastic.api import (
    ConsoleMetricHandler,
    ConsoleMetricsHandler,
    MetricData,
    MetricHandler,
    MetricsConfig,
    MetricStream,
    NullMetricHandler,
    NullMetricsHandler,
    configure,
    get_elapsed_time_ms,
    getStream,
    initialize_metrics,
    prof,
    profile,
    publish_metric,
    put_metric,
    unconfigure,
)

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
