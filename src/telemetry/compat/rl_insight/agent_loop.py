"""Sessions of agents, in the form that RL-Insight's dashboard of trajectories reads."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from telemetry.compat.rl_insight.api import metric_gauge
from telemetry.compat.rl_insight.traces import trace_span


def agent_loop_lane_id(experiment_name: Any, sample: Any, session: Any, traj: Any) -> str:
    """Return the lane of a trajectory."""
    return f"experiment={experiment_name}/sample={sample}/session={session}/traj={traj}"


def agent_loop_session(
    *,
    project: Any = None,
    experiment_name: Any,
    sample: Any,
    session: Any,
    traj: Any = 0,
    uid: Any = None,
    global_steps: Any = None,
    session_id: Any = None,
) -> AgentLoopSession:
    """Begin a session. Its `finish` records a span and the gauges of the dashboard."""
    identity = {
        "project": _text(project),
        "experiment_name": str(experiment_name),
        "sample": str(sample),
        "session": str(session),
        "traj": str(traj),
        "state_lane_id": agent_loop_lane_id(experiment_name, sample, session, traj),
        "uid": _text(uid),
        "global_steps": "" if global_steps is None else global_steps,
        "session_id": _text(session_id),
    }
    return AgentLoopSession(identity, time.time_ns())


@dataclass(frozen=True)
class AgentLoopSession:
    """A session that has begun."""

    identity: dict[str, Any]
    """Attributes of its span."""
    start_ns: int

    def finish(
        self,
        *,
        trajectories: Sequence[Any],
        status: str,
        runner_name: str | None = None,
        reward_source: str | None = None,
        finished: bool | None = None,
    ) -> None:
        """Record the session: its span, and a gauge for each of its trajectories."""
        end_ns = time.time_ns()
        self._set_gauges(trajectories, end_ns)
        trace_span(
            name="agent_session",
            start_time_ns=self.start_ns,
            end_time_ns=end_ns,
            attributes={
                **self.identity,
                "monitor.trace_source": "session",
                "runner_name": _text(runner_name),
                "status": status,
                "num_trajectories": len(trajectories),
                "reward_source": _text(reward_source),
                "finished": "" if finished is None else finished,
            },
        )

    def _set_gauges(self, trajectories: Sequence[Any], end_ns: int) -> None:
        experiment, sample, session = (self.identity[key] for key in ("experiment_name", "sample", "session"))
        labels = {"experiment_name": experiment, "global_steps": str(self.identity["global_steps"])}
        own = f"sample={sample}/session={session}"
        of_session = {**labels, "sample": sample, "session": session}
        _info("run", f"Experiment · {experiment}", labels)
        _info("sample", f"Sample {sample}", {**labels, "sample": sample})
        _info("session", f"Session {session}", {**of_session, "sess_key": own})
        for index, trajectory in enumerate(trajectories):
            chain = getattr(trajectory, "chain_id", None)
            number = index if chain is None else int(chain) - 1
            reward = _reward(getattr(trajectory, "reward_score", 0))
            turns = int(getattr(trajectory, "num_turns", 0) or 0)
            title = f"Trajectory #{number} · reward {reward:g} · {turns} turns"
            _info("traj", title, {**of_session, "traj": str(number), "leaf": f"{own}/traj={number}"})
        metric_gauge("agent_loop_first_turn_unixtime", self.start_ns / 1e9, **labels)
        metric_gauge("agent_loop_last_turn_unixtime", end_ns / 1e9, **labels)


def _info(what: str, title: str, labels: dict[str, str]) -> None:
    metric_gauge(f"agent_loop_{what}_info", 1.0, **labels, title=title)


def _reward(score: Any) -> float:
    try:
        return float(score)
    except (TypeError, ValueError):
        return 0.0


def _text(value: Any) -> str:
    return "" if value is None else str(value)
