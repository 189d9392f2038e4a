"""Traces of RL-Insight's interface as spans, and sessions of agents as its dashboard of trajectories reads them."""

from __future__ import annotations

import functools
import inspect
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from telemetry.compat.rl_insight.api import MONITOR, metric_gauge, process_id
from telemetry.integrations.rl_insight.events import EVENTS, LANE, SEGMENT

_OPEN_LOCK: Final = threading.Lock()


@dataclass
class _LaneState:
    """A state that a lane is in, at least once."""

    start_ns: int
    attributes: dict[str, Any]
    entered: int = 1


_OPEN: Final[dict[tuple[str, str], _LaneState]] = {}
"""(lane, name) → state."""


@contextmanager
def trace_state(state_name: str, state_lane_id: str | int | None = None, **labels: Any) -> Iterator[None]:
    """Record a span of the block on a lane, by default that of this process.

    Blocks of one name that overlap on a lane become one span. Blocks of different names keep a span each.
    """
    if not MONITOR.is_on:
        yield
        return
    lane = process_id() if state_lane_id is None else str(state_lane_id)
    key = (lane, str(state_name))
    with _OPEN_LOCK:
        state = _OPEN.get(key)
        if state is None:
            attributes = {**labels, SEGMENT: "state_interval", "state_name": state_name, LANE: lane}
            _OPEN[key] = _LaneState(time.time_ns(), attributes)
        else:
            state.entered += 1
    try:
        yield
    finally:
        with _OPEN_LOCK:
            state = _OPEN[key]
            state.entered -= 1
            if not state.entered:
                del _OPEN[key]
        if not state.entered:
            _emit(state_name, state.start_ns, time.time_ns(), state.attributes)


def trace_span(*, name: str, start_time_ns: int, end_time_ns: int, attributes: Mapping[str, Any]) -> None:
    """Record a span that is over, by its times in nanoseconds since 1970."""
    _emit(name, start_time_ns, end_time_ns, attributes)


def trace_op(
    name: str | None = None,
    extra_labels: Callable[[Any], Mapping[str, Any]] | Mapping[str, Any] | None = None,
    **static_labels: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that records a span of each call, also of one that raises or is cancelled.

    `extra_labels` are labels, or a function of the first positional argument that returns labels. They replace
    static ones of the same name. If the function raises, there is a warning, and the span has the static labels.
    """

    if isinstance(extra_labels, Mapping):
        static_labels, extra_labels = {**static_labels, **extra_labels}, None
    labels_of_call = extra_labels

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        span_name = name or function.__qualname__

        @contextmanager
        def span(args: tuple[Any, ...]) -> Iterator[None]:
            labels = _labels_of(args, labels_of_call, static_labels) if MONITOR.is_on else None
            start_ns = time.time_ns()
            try:
                yield
            finally:
                if labels is not None:
                    _emit(span_name, start_ns, time.time_ns(), {**labels, SEGMENT: "duration"})

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def call_later(*args: Any, **kwargs: Any) -> Any:
                with span(args):
                    return await function(*args, **kwargs)

            return call_later

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with span(args):
                return function(*args, **kwargs)

        return call

    return decorate


def _labels_of(
    args: tuple[Any, ...],
    extra_labels: Callable[[Any], Mapping[str, Any]] | None,
    static_labels: Mapping[str, Any],
) -> dict[str, Any]:
    if extra_labels is not None and args:
        try:
            return {**static_labels, **extra_labels(args[0])}
        except Exception:  # noqa: BLE001 – labels must not change what the call does
            warnings.warn(
                "extra_labels of trace_op raised; the span has the static labels", RuntimeWarning, stacklevel=5
            )
    return dict(static_labels)


def _emit(name: str, start_ns: int, end_ns: int, attributes: Mapping[str, Any]) -> None:
    if MONITOR.is_on:
        EVENTS.span(name, start_ns, end_ns, {"process_id": process_id(), **MONITOR.labels, **attributes})


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
