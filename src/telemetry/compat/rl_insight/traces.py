"""Traces of RL-Insight's interface. Each becomes a span, whose track is the lane."""

from __future__ import annotations

import functools
import inspect
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from telemetry.compat.rl_insight.api import MONITOR, process_id
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
