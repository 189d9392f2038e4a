"""Beginning, end and metrics of RL-Insight's interface."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, overload

from telemetry import limits
from telemetry.client import Run, module_level, notice, start
from telemetry.client.process import ENDPOINT_VARIABLE, PROCESS
from telemetry.client.records import clean
from telemetry.compat.rl_insight.exporters import Exporters, exporters_of, namespace_of, warn_of_missing
from telemetry.compat.rl_insight.prometheus_file import write_targets
from telemetry.compat.variables import variables
from telemetry.errors import TelemetryError
from telemetry.integrations.ray.names import is_on_ray
from telemetry.integrations.rl_insight.events import (
    COUNTER,
    EVENTS,
    GAUGE,
    HISTOGRAM,
)
from telemetry.integrations.rl_insight.targets import forget_targets, record_targets

if TYPE_CHECKING:
    from telemetry.integrations.ray import RayRun

Labels = Mapping[str, Any]


_HUB: Final = "rl-insight"


@dataclass
class _Monitor:
    """State between `init` and `finish`."""

    is_on: bool = False
    labels: dict[str, Any] = field(default_factory=dict)
    """Labels of every metric and trace."""
    run: Run | RayRun | None = None
    """The run, if `init` started it."""


MONITOR: Final = _Monitor()


def init(
    project: str | Labels | None = None, experiment_name: str | None = None, config: Labels | None = None
) -> None:
    """Switch the calls of this module on. Join the run of TELEMETRY_ENDPOINT, or start one.

    In a process that is connected to Ray, that is one run for all processes of the Ray job. The first process that
    calls `init` starts it, and it ends with this process.

    A run that is started here is called `experiment_name`, else `project`, else like the program.

    A run that is started here has a page for Prometheus at port 9092, or the one of
    `prometheus.metrics_report_port` in `config`. Its spans go to OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, else to
    `otel.traces_endpoint` in `config`, else to `telemetry stack` if it is up.

    `project` and `experiment_name` become labels of all metrics and traces. The namespace in `config` stands before
    the names of metrics. The older form `init(config)` works, too. A second call has no effect but a warning.
    """
    if MONITOR.is_on:
        warnings.warn(
            "init() was called again and has no effect; call finish() first", RuntimeWarning, stacklevel=2
        )
        return
    if isinstance(project, Mapping):
        project, config = None, project
    names = {"project": project, "experiment_name": experiment_name}
    labels = {key: name for key, name in names.items() if name is not None}
    MONITOR.run = _begin(experiment_name or project, exporters_of(config))
    MONITOR.labels, MONITOR.is_on = labels, True
    namespace = namespace_of(config)
    module_level.params({"rl_insight": labels | ({"namespace": namespace} if namespace else {})})


def finish() -> None:
    """Switch the calls of this module off. End the run if `init` started it; another run goes on."""
    forget_targets()
    run = MONITOR.run
    MONITOR.run, MONITOR.labels, MONITOR.is_on = None, {}, False
    if run is not None and run.owner:
        run.finish()


def metric_count(name: str, amount: float = 1.0, documentation: str = "", **labels: Any) -> None:
    """Add an amount to a counter. Negative amounts are added up in the counter `NAME.below_zero`."""
    if MONITOR.is_on:
        EVENTS.metric(COUNTER, name, amount, {**MONITOR.labels, **labels}, documentation)


def metric_gauge(name: str, value: float, documentation: str = "", **labels: Any) -> None:
    """Set a gauge."""
    if MONITOR.is_on:
        EVENTS.metric(GAUGE, name, value, {**MONITOR.labels, **labels}, documentation)


def metric_histogram(name: str, value: float, documentation: str = "", **labels: Any) -> None:
    """Record a sample of a series. Negative samples go to the series `NAME.below_zero`, without their sign."""
    if MONITOR.is_on:
        EVENTS.metric(HISTOGRAM, name, value, {**MONITOR.labels, **labels}, documentation)


@overload
def update_prometheus_config(
    server_addresses: Sequence[Any],
    job_name: Any = None,
    labels: Sequence[Labels | None] | None = None,
    project: Any = None,
    experiment_name: Any = None,
) -> None: ...


@overload
def update_prometheus_config(
    conf: Labels,
    server_addresses: Sequence[Any],
    job_name: Any = None,
    reload_mode: str | Sequence[Labels | None] | None = None,
    *,
    labels: Sequence[Labels | None] | None = None,
) -> None: ...


def update_prometheus_config(*given: Any, **named: Any) -> None:
    """Let Prometheus scrape addresses, and record them as parameters of the run.

    Example:
        update_prometheus_config(["10.0.0.1:8000"], "vllm")

    They are in the folder that `telemetry stack` reads, until `finish` or the end of this process. With `conf` they
    are also written into its `prometheus.config_file`, and the Prometheus at its `prometheus.prometheus_port` on
    this machine reads that file again, unless `reload_mode` or `prometheus.reload.mode` is "none".

    Raises TypeError for wrong arguments, and ValueError if there is not one entry of `labels` for each address.
    """
    conf = named.pop("conf", named.pop("config", None))
    if conf is not None or (given and isinstance(given[0], Mapping)):
        _scrape_by_conf(*(given if conf is None else (conf, *given)), **named)
    else:
        _scrape(*given, **named)


def _scrape_by_conf(
    conf: Labels,
    server_addresses: Any,
    job_name: Any = None,
    reload_mode: Any = None,
    *,
    labels: Any = None,
    **names: Any,
) -> None:
    if isinstance(reload_mode, list | tuple):  # a later release has the labels here
        reload_mode, labels = None, reload_mode
    _scrape(server_addresses, job_name, labels, **names)
    if server_addresses:
        write_targets(conf, job_name, reload_mode)


def _scrape(
    server_addresses: Any,
    job_name: Any = None,
    labels: Any = None,
    project: Any = None,
    experiment_name: Any = None,
) -> None:
    addresses: Sequence[Any] = server_addresses or ()
    if labels is not None and len(labels) != len(addresses):
        raise ValueError(f"{len(addresses)} addresses need as many labels, not {len(labels)}")
    if addresses:
        names = {"project": project, "experiment_name": experiment_name}
        own = MONITOR.labels | {key: name for key, name in names.items() if name is not None}
        record_targets(addresses, job_name, labels, own)


close = finish
metric_value = metric_gauge
metric_distribution = metric_histogram


def process_id() -> str:
    """Return the id of this process, as traces have it."""
    return str(os.getpid())


def _begin(name: str | None, exporters: Exporters) -> Run | RayRun | None:
    """Start a run and return it. Return None if there is one to join, or if none can be started: then print why."""
    if PROCESS.state in ("live", "inherited"):
        warn_of_missing(PROCESS.endpoint, exporters)
        return None
    if PROCESS.state == "idle" and (endpoint := os.environ.get(ENDPOINT_VARIABLE)):
        PROCESS.attach_by_itself()  # at once, unlike `start`: the aggregator may be slow or gone
        warn_of_missing(endpoint, exporters)
        return None
    try:
        if is_on_ray():
            from telemetry.integrations.ray.hub import join_job

            return join_job(_HUB, name, exporters.to, exporters.environment)
        with variables(exporters.environment):
            named = clean(name, limits.NAME_CHARS) if name else None
            return start(named, required=False, to=exporters.to)
    except TelemetryError as error:
        notice.warn(f"nothing is recorded: {error}")
        return None
