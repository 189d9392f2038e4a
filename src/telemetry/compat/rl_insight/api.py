"""Beginning, end and metrics of RL-Insight's interface."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, overload

from telemetry import limits
from telemetry.client import Run, module_level, start, user_warnings
from telemetry.client.process import ENDPOINT_VARIABLE, PROCESS
from telemetry.client.records import clean
from telemetry.compat.rl_insight.prometheus_file import write_targets
from telemetry.compat.variables import variables
from telemetry.config import load
from telemetry.config.plugins.choice import Choice
from telemetry.errors import TelemetryError
from telemetry.integrations.ray.names import is_on_ray
from telemetry.integrations.rl_insight.events import (
    COUNTER,
    EVENTS,
    GAUGE,
    HISTOGRAM,
)
from telemetry.integrations.rl_insight.targets import forget_targets, record_targets
from telemetry.redaction import mask_secrets
from telemetry.store.stack_state import live_stack
from telemetry.supervise.writers import kind_of
from telemetry.transport.client import ControlClient
from telemetry.wire.control import GetStatus, Status

if TYPE_CHECKING:
    from telemetry.integrations.ray import RayRun

TRACES_VARIABLE: Final = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_NAMESPACE: Final = "rl_insight_monitor"
_PORT: Final = 9092
_TRACES_PATH: Final = "/v1/traces"
_ASK_S: Final = 1.0
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
        user_warnings.warn(f"nothing is recorded: {error}")
        return None


# RL-Insight has both without a word of the program: its hub listens at port 9092, and spans go to
# OTEL_EXPORTER_OTLP_TRACES_ENDPOINT.


@dataclass
class Exporters:
    """The texts for `to`, and the environment variables of their writers."""

    to: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    is_asked_for: bool = False
    """True if the program or its environment names one of them."""


def exporters_of(config: Mapping[str, Any] | None) -> Exporters:
    """Return the exporters that a configuration of RL-Insight and the environment name.

    Backends of the setting `backends.to` stay, and replace the exporter of their kind.
    """
    prometheus, traces = _table(config, "prometheus"), _table(config, "otel").get("traces_endpoint")
    stack = live_stack()
    of_stack = f"{stack.otlp}{_TRACES_PATH}" if stack is not None and stack.otlp else ""
    endpoint = str(os.environ.get(TRACES_VARIABLE, "") or traces or of_stack)
    namespace = namespace_of(config) or _NAMESPACE
    chosen = []
    if prometheus.get("enable", True):
        port = prometheus.get("metrics_report_port")
        options = {"port": str(_PORT if port is None else port), "namespace": namespace}
        if port is None:
            options["auto_port"] = "true"
        if not prometheus and stack is None:  # nobody is known who would scrape the last values
            options["linger"] = "0"
        chosen.append(Choice("prometheus", "prometheus", options))
    if endpoint:
        options = {"metrics": "false", "roots": "true", "integers": "global_steps+turn"}
        if not os.environ.get("OTEL_SERVICE_NAME"):
            options["service"] = namespace
        chosen.append(Choice("otlp", "otlp", options))
    own = list(load().config.backends.to)
    to = [*own, *(str(choice) for choice in chosen if choice.kind not in map(kind_of, own))]
    is_asked_for = bool(prometheus or traces or os.environ.get(TRACES_VARIABLE))
    return Exporters(to, {TRACES_VARIABLE: endpoint} if endpoint else {}, is_asked_for)


def namespace_of(config: Mapping[str, Any] | None) -> str:
    """Return the namespace that a configuration of any release names, or an empty text."""
    server = _table(config, "server").get("namespace")
    return str(server or (config.get("namespace") if isinstance(config, Mapping) else "") or "")


def warn_of_missing(endpoint: str, exporters: Exporters) -> None:
    """Say which backends a run that is joined lacks, if the program asks for them. Wait at most a second."""
    if not exporters.is_asked_for:
        return
    try:
        with ControlClient(endpoint) as client:
            answer = client.request(GetStatus(), _ASK_S)
    except TelemetryError:
        return
    kinds = {stat.kind or stat.name for stat in answer.snapshot.backends} if isinstance(answer, Status) else set()
    missing = [text for text in exporters.to if kind_of(text) not in kinds]
    if missing and isinstance(answer, Status):
        options = " ".join(f"--to '{text}'" for text in mask_secrets(missing))
        user_warnings.warn(
            "this process joins a run that is open already; its exporters are chosen where it is started, as in: "
            f"telemetry run {options} -- CMD"
        )


def _table(config: Mapping[str, Any] | None, name: str) -> Mapping[str, Any]:
    table = config.get(name) if isinstance(config, Mapping) else None
    return table if isinstance(table, Mapping) else {}
