"""The metrics service, the timers and the timeline of Relax, recorded into a run.

Change only the import:

    from telemetry.compat.relax import MetricsClient, Timer, timer

    client = MetricsClient()
    with timer("rollout"):
        ...
    client.log_metric(step, "rollout/reward", reward)
    Timer().log_record_and_clear(step)
    client.report_step(step)

Values belong to steps of the axis `step`, which close when they are reported. Each timed block is a span of the
run, with its step as the label `step`.
"""

from __future__ import annotations

from telemetry.compat.relax.client import MetricsClient, get_metrics_client
from telemetry.compat.relax.metrics_service_adapter import (
    MetricsServiceAdapter,
    get_metrics_service_adapter,
    init_metrics_service_adapter,
)
from telemetry.compat.relax.serve_url import get_serve_url
from telemetry.compat.relax.timeline import (
    TimelineEvent,
    TimelineTraceAdapter,
    Timer,
    inverse_timer,
    record_timeline,
    timer,
    with_defer,
)
from telemetry.compat.relax.tracking_utils import (
    backends_of,
    flush_metrics,
    get_service_metrics,
    init_tracking,
    log,
    log_direct,
)
from telemetry.compat.relax.values import TIMELINE_EVENTS_KEY

__all__ = [
    "TIMELINE_EVENTS_KEY",
    "MetricsClient",
    "MetricsServiceAdapter",
    "TimelineEvent",
    "TimelineTraceAdapter",
    "Timer",
    "backends_of",
    "flush_metrics",
    "get_metrics_client",
    "get_metrics_service_adapter",
    "get_serve_url",
    "get_service_metrics",
    "init_metrics_service_adapter",
    "init_tracking",
    "inverse_timer",
    "log",
    "log_direct",
    "record_timeline",
    "timer",
    "with_defer",
]
