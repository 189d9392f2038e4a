"""The interface of RL-Insight: of its release 0.3, and of the version before.

    import telemetry.compat.rl_insight as rl_insight

    rl_insight.init(project="gsm8k", experiment_name="grpo")
    rl_insight.metric_gauge("actor_loss", 0.5)
    with rl_insight.trace_state("rollout", state_lane_id="replica-0"):
        ...

Metrics become instruments of the run, traces become spans. No Ray, server or Prometheus is needed.
"""

from __future__ import annotations

from typing import Final

from telemetry.compat.rl_insight.api import (
    close,
    finish,
    init,
    metric_count,
    metric_distribution,
    metric_gauge,
    metric_histogram,
    metric_value,
    update_prometheus_config,
)
from telemetry.compat.rl_insight.traces import agent_loop_session, trace_op, trace_span, trace_state

__version__: Final = "0.3.0"
"""Release of RL-Insight whose interface this is. Programs such as verl compare it."""

__all__ = [
    "__version__",
    "agent_loop_session",
    "close",
    "finish",
    "init",
    "metric_count",
    "metric_distribution",
    "metric_gauge",
    "metric_histogram",
    "metric_value",
    "trace_op",
    "trace_span",
    "trace_state",
    "update_prometheus_config",
]
