"""Capture of torchrun: metrics and events of its agent, and the metrics of its workers with their rank.

Values are taken below `configure`, so a program may configure any handler, which still gets everything.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, Final

from telemetry.client.process import PROCESS
from telemetry.integrations.capture.captures import Capture
from telemetry.integrations.capture.patching import Observers, Patch
from telemetry.integrations.torchrun.metrics import Agent, MetricRecorders

_LIBRARY: Final = "torch.distributed.elastic"
_METRICS: Final = f"{_LIBRARY}.metrics"
_EVENTS: Final = f"{_LIBRARY}.events"
_AGENT: Final = f"{_LIBRARY}.agent.server"

_agent: Final = Agent()
_metrics: Final = MetricRecorders(_agent)
_observers: Final = Observers(_LIBRARY)


def install() -> None:
    """Capture from now on. A second call has no effect."""
    _capture.install()
    PROCESS.is_told = _is_of_workers


def _is_of_workers(error: BaseException) -> bool:
    """Check for the exception of an agent whose workers have failed. It only repeats what their marks say."""
    return type(error).__name__ == "ChildFailedError"


def uninstall() -> None:
    """Restore torch's functions. A second call has no effect."""
    _capture.uninstall()


def _metric_patches(module: ModuleType) -> Iterable[Patch]:
    yield Patch(module.api.MetricStream, "add_value", _recorded)


def _recorded(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `MetricStream.add_value`. A handler may put metrics, too, so calls within calls are recorded."""
    put, run = _metrics.put, _observers.run

    def add_value(self: Any, metric_name: str, metric_value: Any) -> Any:
        result = original(self, metric_name, metric_value)
        run("MetricStream.add_value", put, self.group_name, metric_name, metric_value)
        return result

    return add_value


def _event_patches(module: ModuleType) -> Iterable[Patch]:
    yield _event_patch(module)
    name = "construct_and_record_rdzv_event"
    if hasattr(module, name):  # not in early versions of torch 2
        yield Patch(module, name, _observers.after(_on_rendezvous_event, f"events.{name}"))


def _agent_patches(module: ModuleType) -> Iterable[Patch]:
    """Yield a patch for an agent that imported `record` before the capture was installed."""
    if module.record is not getattr(sys.modules.get(_EVENTS), "record", None):
        yield _event_patch(module)


def _monitor_patches(module: ModuleType) -> Iterable[Patch]:
    """Yield a patch of the agent's check of its workers: only its result says which worker made them restart."""
    name = "_monitor_workers"
    if hasattr(module.LocalElasticAgent, name):
        yield Patch(module.LocalElasticAgent, name, _observers.after(_on_check, f"LocalElasticAgent.{name}"))


def _event_patch(module: ModuleType) -> Patch:
    return Patch(module, "record", _observers.after(_on_event, "events.record"))


def _on_event(result: object, event: Any, *args: object, **kwargs: object) -> None:
    _agent.take_event(event)


def _on_rendezvous_event(
    result: object, run_id: object, message: object, node_state: Any, *args: object, **kwargs: object
) -> None:
    _agent.take_rendezvous_event(run_id, message, node_state)


def _on_check(result: Any, agent: Any, worker_group: Any) -> None:
    if result.failures:
        _agent.take_failures(result.failures, worker_group.spec.max_restarts - agent._remaining_restarts)


_capture: Final = Capture(
    {
        _METRICS: _metric_patches,
        _EVENTS: _event_patches,
        f"{_AGENT}.api": _agent_patches,
        f"{_AGENT}.local_elastic_agent": _monitor_patches,
    },
    "torchrun",
)
