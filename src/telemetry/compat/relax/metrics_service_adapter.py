"""`relax.utils.metrics.metrics_service_adapter`: dictionaries that carry their step, to the metrics service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from telemetry.client.user_warnings import warn_once
from telemetry.compat.relax.client import get_metrics_client
from telemetry.compat.relax.native import is_in_run
from telemetry.compat.relax.serve_url import get_serve_url
from telemetry.compat.relax.timeline import Timer
from telemetry.compat.relax.values import STEP, TIMELINE_EVENTS_KEY, shown, step_of


class MetricsServiceAdapter:
    """The metrics of one process, with their step among them.

    They go into the run of this process if it has one, else to the service at `get_serve_url()`. Each step key has
    an axis: "step" the axis `step`, "train/step" the axis `train`.
    """

    def __init__(self, args: Any) -> None:
        self.args = args
        self.client = get_metrics_client(None if is_in_run() else get_serve_url(route_prefix="/metrics"))
        self._has_timeline = getattr(args, "timeline_dump_dir", None) is not None
        health = self.client.health_check()
        if health.get("status") != "healthy":
            warn_once("adapter", f"the metrics service is not ready: {health.get('message', health)}")

    def log(self, metrics: Mapping[str, Any], step_key: str = STEP) -> bool:
        """Record metrics without their step key. Return False if it is missing, is no step, or no value is taken.

        A newer step of an axis other than `step` reports the step before it, because each role logs its own axis.
        """
        step, values = split(metrics, step_key)
        if step is None:
            return False
        self._add_timers(step, values)
        if not values:
            return True
        axis = axis_of(step_key)
        before = max((each for name, each in self.client.open_steps if name == axis != STEP), default=step)
        if before < step:
            self.client.end_step(before, axis=axis)
        return self.client.log_metrics_batch(step, values, immediate=True, axis=axis)

    def flush(self, step: int | None = None) -> bool:
        """Report a step on each axis where it is open. Without `step`, report the newest one.

        Return False if a report fails. A report that a service has not answered yet is no failure.
        """
        places = self.client.open_steps
        try:
            number = max((each for _, each in places), default=None) if step is None else step_of(step)
        except Exception as error:  # noqa: BLE001 – a step may be anything, which must not reach the program
            warn_once("flush", f"{shown(step)} is not reported: {error}")
            return False
        if number is None:
            return True
        axes = sorted(axis for axis, each in places if each == number) or [STEP]
        results = [self.client.report_step(number, axis=axis) for axis in axes]
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
        if self._has_timeline and (records := Timer().log_record_and_clear(step)):
            metrics[TIMELINE_EVENTS_KEY] = [record.to_trace_event() for record in records]


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


_ADAPTER: Final[list[MetricsServiceAdapter]] = []


def init_metrics_service_adapter(args: Any) -> MetricsServiceAdapter:
    """Return the adapter of this process. The first call makes it."""
    if not _ADAPTER:
        _ADAPTER.append(MetricsServiceAdapter(args))
    return _ADAPTER[0]


def get_metrics_service_adapter() -> MetricsServiceAdapter | None:
    """Return the adapter of this process, or None before `init_metrics_service_adapter`."""
    return _ADAPTER[0] if _ADAPTER else None
