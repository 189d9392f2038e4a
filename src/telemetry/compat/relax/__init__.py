"""The timers and the timeline of Relax, `relax.utils.timer` and `relax.utils.metrics.timeline_trace`.

Change only the import:

    from telemetry.compat.relax import Timer, timer

    with timer("rollout"):
        ...
    Timer().log_record_and_clear(step)

Each timed block is a span of the run, with its step as the label `step`.
"""

from __future__ import annotations

from telemetry.compat.relax.events import TimelineEvent
from telemetry.compat.relax.timeline import TimelineTraceAdapter, record_timeline
from telemetry.compat.relax.timers import Timer, inverse_timer, timer, with_defer

__all__ = [
    "TimelineEvent",
    "TimelineTraceAdapter",
    "Timer",
    "inverse_timer",
    "record_timeline",
    "timer",
    "with_defer",
]
