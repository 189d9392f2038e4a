"""`relax.utils.metrics.metrics_service_adapter`: dictionaries that carry their step, to the metrics service."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from telemetry.client.process import ENDPOINT_VARIABLE, PROCESS
from telemetry.client.signal_safe import Locked
from telemetry.client.user_warnings import warn_once
from telemetry.compat.relax.client import MetricsClient, get_metrics_client
from telemetry.compat.relax.serve_url import get_serve_url
from telemetry.compat.relax.step_buffer import OPEN_STEPS
from telemetry.compat.relax.timers import Timer
from telemetry.compat.relax.values import STEP, TIMELINE_EVENTS_KEY, shown, step_of


class MetricsServiceAdapter(Locked):
    """The metrics of one process, with their step among them.

    They go into the run of this process if it has one, else to the service at `get_serve_url()`. Each step key has
    an axis: "step" the axis `step`, "train/step" the axis `train`.
    """

    def __init__(self, args: Any) -> None:
        super().__init__()
        self.args = args
        self.client = _client()
        self._has_timeline = getattr(args, "timeline_dump_dir", None) is not None
        self._open: dict[int, set[str]] = {}
        """Axes with values of a step that is not reported, by step."""
        self._newest: int | None = None
        self._newest_of: dict[str, int] = {}
        health = self.client.health_check()
        if health.get("status") != "healthy":
            warn_once("adapter", f"the metrics service is not ready: {health.get('message', health)}")

    def renew_lock(self) -> None:
        """Replace the lock, and forget the steps of the parent."""
        super().renew_lock()
        self._open, self._newest, self._newest_of = {}, None, {}

    def log(self, metrics: Mapping[str, Any], step_key: str = STEP) -> bool:
        """Record metrics without their step key. Return False if it is missing, is no step, or no value is taken.

        A newer step of an axis other than `step` reports the step before it, because each role logs its own axis.
        """
        step, values = split(metrics, step_key)
        if step is None:
            return False
        axis = axis_of(step_key)
        self._add_timers(step, values)
        if not values:
            return True
        self._report_before(axis, step)
        if not self.client.log_metrics_batch(step, values, immediate=True, **_keyword(axis)):
            return False
        self._begin(axis, step)
        return True

    def flush(self, step: int | None = None) -> bool:
        """Report a step on each axis where this adapter logged it. Without `step`, report the newest one.

        Return False if a report fails. A report that a service has not answered yet is no failure.
        """
        try:
            number = self._newest if step is None else step_of(step)
        except Exception as error:  # noqa: BLE001 – as above
            warn_once("flush", f"{shown(step)} is not reported: {error}")
            return False
        if number is None:
            return True
        with self._lock:
            axes = self._open.pop(number, None) or {STEP}
        results = [self.client.report_step(number, **_keyword(axis)) for axis in sorted(axes)]
        problems = [str(each.get("message", each)) for each in results if each.get("status") == "error"]
        for problem in problems:
            warn_once(f"report {problem[:60]}", f"step {number} is not reported: {problem}")
        return not problems

    def direct_log(self, step: int, metrics: Mapping[str, Any]) -> dict[str, Any]:
        """Record metrics of a step, and report it."""
        if self._has_timeline:
            metrics = dict(metrics)
            self._add_timers(step, metrics)
        if not self.client.log_metrics_batch(step, metrics, immediate=False):
            return {"status": "error", "message": f"no metric of step {shown(step)} can be recorded"}
        return self.client.report_step(step)

    def _add_timers(self, step: int, metrics: dict[str, Any]) -> None:
        """Add the events of the timers, if the program wants a timeline."""
        if self._has_timeline:
            records = Timer().log_record_and_clear(step)
            if records:
                metrics[TIMELINE_EVENTS_KEY] = [record.to_trace_event() for record in records]

    def _begin(self, axis: str, step: int) -> None:
        with self._lock:
            self._open.setdefault(step, set()).add(axis)
            self._newest = step if self._newest is None else max(self._newest, step)
            self._newest_of[axis] = max(step, self._newest_of.get(axis, step))
            if len(self._open) > OPEN_STEPS:
                del self._open[next(iter(self._open))]

    def _report_before(self, axis: str, step: int) -> None:
        with self._lock:
            before = self._newest_of.get(axis)
            axes = self._open.get(before) if before is not None else None
            if axis == STEP or before is None or before >= step or not axes or axis not in axes:
                return
            axes.discard(axis)
            if not axes:
                del self._open[before]
        self.client.end_step(before, axis=axis)


def split(metrics: Mapping[str, Any], step_key: str) -> tuple[int | None, dict[str, Any]]:
    """Return the step among metrics, and the others. The step is None, after a message, if there is none."""
    try:
        return step_of(metrics[step_key]), {key: value for key, value in metrics.items() if key != step_key}
    except KeyError:
        warn_once(f"no {step_key}", f"metrics without {step_key!r} are not recorded. This warning appears once")
    except Exception as error:  # noqa: BLE001 – metrics may hold anything, which must not reach the program
        warn_once(f"bad {step_key}", f"metrics are not recorded: {step_key!r} of {shown(metrics)}: {error}")
    return None, {}


def axis_of(step_key: str) -> str:
    """Return the axis of a step key: the part before its last slash, else the key itself."""
    return str(step_key).rpartition("/")[0] or str(step_key)


def _keyword(axis: str) -> dict[str, Any]:
    return {} if axis == STEP else {"axis": axis}


def _client() -> MetricsClient:
    if os.environ.get(ENDPOINT_VARIABLE) or PROCESS.state in ("live", "inherited"):
        return get_metrics_client()
    return get_metrics_client(get_serve_url(route_prefix="/metrics"))


_ADAPTER: Final[list[MetricsServiceAdapter]] = []


def init_metrics_service_adapter(args: Any) -> MetricsServiceAdapter:
    """Return the adapter of this process. The first call makes it."""
    if not _ADAPTER:
        _ADAPTER.append(MetricsServiceAdapter(args))
    return _ADAPTER[0]


def get_metrics_service_adapter() -> MetricsServiceAdapter | None:
    """Return the adapter of this process, or None before `init_metrics_service_adapter`."""
    return _ADAPTER[0] if _ADAPTER else None
