"""Signatures that other systems document: each call works by keyword and by position."""

from __future__ import annotations

import inspect
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.unit.compat.conftest import Joined

from telemetry.compat import relax, rl_insight
from telemetry.compat.relax import client as relax_client
from telemetry.compat.relax import metrics_service_adapter
from telemetry.compat.tracelet import core
from telemetry.compat.tracelet.backends import clearml, mlflow, wandb
from telemetry.compat.tracelet.core.plugins import PluginInterface
from telemetry.wire.events import Span


@dataclass(frozen=True)
class Call:
    """A documented call: its function, and its arguments in the documented order."""

    name: str
    function: Callable[[], Callable[..., Any]]
    arguments: dict[str, Any]

    def __str__(self) -> str:
        return self.name


def called(name: str, function: Callable[[], Callable[..., Any]], /, **arguments: Any) -> Call:
    return Call(name, function, arguments)


CONF = {"prometheus": {"prometheus_port": 9090, "reload": {"mode": "none"}}}
RL_INSIGHT = [
    called("metric_count", lambda: rl_insight.metric_count, name="signature.count", amount=1.0, documentation="d"),
    called("metric_value", lambda: rl_insight.metric_value, name="signature.value", value=1.0, documentation="d"),
    called(
        "metric_distribution",
        lambda: rl_insight.metric_distribution,
        name="signature.distribution",
        value=1.0,
        documentation="d",
    ),
    called("trace_state", lambda: rl_insight.trace_state, state_name="s", state_lane_id="lane"),
    called("trace_op", lambda: rl_insight.trace_op, name="n", extra_labels={"stage": "optimizer"}),
    called(
        "update_prometheus_config",
        lambda: rl_insight.update_prometheus_config,
        conf=CONF,
        server_addresses=["127.0.0.1:9092"],
        job_name="job",
        reload_mode="none",
    ),
    called(
        "update_prometheus_config of 0.3",
        lambda: rl_insight.update_prometheus_config,
        server_addresses=["127.0.0.1:9092"],
        job_name="job",
        labels=[{"replica": "0"}],
        project="p",
        experiment_name="e",
    ),
    called("close", lambda: rl_insight.close),
]


ARGS = Namespace(use_metrics_service=True, use_tensorboard=False, use_wandb=False, use_clearml=False)
URL = "http://127.0.0.1:9/metrics"
RELAX = [
    called("MetricsClient", lambda: relax.MetricsClient, service_url=URL),
    called("get_metrics_client", lambda: relax.get_metrics_client, service_url=URL),
    called(
        "log_metric",
        lambda: relax.MetricsClient().log_metric,
        step=1,
        metric_name="loss",
        metric_value=0.5,
        tags={"rank": "0"},
        immediate=False,
    ),
    called(
        "log_metrics_batch",
        lambda: relax.MetricsClient().log_metrics_batch,
        step=1,
        metrics={"loss": 0.5},
        tags=None,
        immediate=True,
    ),
    called("report_step", lambda: relax.MetricsClient().report_step, step=1),
    called("health_check", lambda: relax.MetricsClient().health_check),
    called("clear_buffer", lambda: relax.MetricsClient().clear_buffer, step=None),
    called("get_buffered_metrics_count", lambda: relax.MetricsClient().get_buffered_metrics_count, step=1),
    called("MetricsServiceAdapter", lambda: relax.MetricsServiceAdapter, args=ARGS),
    called("log", lambda: relax.MetricsServiceAdapter(ARGS).log, metrics={"step": 1, "loss": 0.5}, step_key="step"),
    called("flush", lambda: relax.MetricsServiceAdapter(ARGS).flush),
    called("direct_log", lambda: relax.MetricsServiceAdapter(ARGS).direct_log, step=1, metrics={"loss": 0.5}),
    called("init_tracking", lambda: relax.tracking_utils.init_tracking, args=ARGS),
    called(
        "tracking_utils.log",
        lambda: relax.tracking_utils.log,
        args=ARGS,
        metrics={"step": 1, "loss": 0.5},
        step_key="step",
    ),
    called("flush_metrics", lambda: relax.tracking_utils.flush_metrics, args=ARGS, step=1),
    called("get_serve_url", lambda: relax.get_serve_url, route_prefix="/metrics"),
]
TRACELET = [
    called("Experiment", lambda: core.Experiment, name="e", project="p"),
    called("log_metric", lambda: core.Experiment("e", "p").log_metric, name="loss", value=0.5, step=1),
    called("log_params", lambda: core.Experiment("e", "p").log_params, params={"lr": 0.1}),
    called("log_artifact", lambda: core.Experiment("e", "p").log_artifact, artifact_path=__file__),
    called("Metric", lambda: core.Metric, name="loss", value=0.5, step=1),
    called("Orchestrator", lambda: core.Orchestrator),
    called("route_metric", lambda: core.Orchestrator().route_metric, metric=core.Metric("loss", 0.5, 1)),
    called("start", lambda: core.Orchestrator().start),
    called("stop", lambda: core.Orchestrator().stop),
    called("BackendInterface.log_metric", lambda: core.BackendInterface().log_metric, name="a", value=0.5, step=1),
    called("BackendInterface.log_params", lambda: core.BackendInterface().log_params, params={}),
    called(
        "BackendInterface.log_artifact",
        lambda: core.BackendInterface().log_artifact,
        artifact_path="f",
        artifact_name="n",
    ),
    called("start_experiment", lambda: core.BackendInterface().start_experiment, name="e", project="p"),
    called("end_experiment", lambda: core.BackendInterface().end_experiment),
    called("get_metadata", lambda: PluginInterface.get_metadata),
    called("initialize", lambda: PluginInterface().initialize, config={}),
    called("cleanup", lambda: PluginInterface().cleanup),
    called("patch_framework", lambda: core.FrameworkPlugin().patch_framework, orchestrator=core.Orchestrator()),
    called("MLflowBackend", lambda: mlflow.MLflowBackend, config={"tracking_uri": "file:./mlruns"}),
    called("WandbBackend", lambda: wandb.WandbBackend, config={}),
    called("ClearMLBackend", lambda: clearml.ClearMLBackend, config={}),
]


@pytest.fixture
def monitor(joined: Joined, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Joined]:
    """RL-Insight's interface between `init` and `finish`, in a joined run."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    rl_insight.init()
    yield joined
    rl_insight.finish()


def both(call: Call) -> None:
    """Call a function by keyword, by position, and with its first argument by position."""
    arguments = call.arguments
    function = call.function()
    inspect.signature(function).bind(**arguments)
    inspect.signature(function).bind(*arguments.values())
    first = dict(list(arguments.items())[1:])
    for made in (
        function(**arguments),
        function(*arguments.values()),
        function(*list(arguments.values())[:1], **first),
    ):
        use(made)


def use(made: Any) -> None:
    """Enter a block, and call what a decorator returns."""
    if hasattr(made, "__enter__"):
        with made:
            pass
    elif inspect.isfunction(made):
        assert made(lambda: 1)() == 1


@pytest.mark.parametrize("call", RELAX, ids=str)
def test_relax(joined: Joined, monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    """The calls are those of Relax's guide of the metrics service, and run in a run."""
    monkeypatch.setattr(relax_client, "_CLIENT", [])
    monkeypatch.setattr(metrics_service_adapter, "_ADAPTER", [])
    both(call)


@pytest.mark.parametrize("call", TRACELET, ids=str)
def test_tracelet(joined: Joined, call: Call) -> None:
    """The calls are those of Tracelet's architecture document."""
    both(call)


@pytest.mark.parametrize("call", RL_INSIGHT, ids=str)
def test_rl_insight(monitor: Joined, call: Call) -> None:
    """The calls are those of RL-Insight's pull request and its release 0.3."""
    both(call)


def test_rl_insight_init_takes_its_configuration_in_both_places(joined: Joined, tmp_path: Path) -> None:
    """`init(config=None)` of the first version, and `init(project, experiment_name, config)`."""
    for positional, named in (((), {"config": None}), (({"namespace": "n"},), {}), (("p", "e", None), {})):
        rl_insight.init(*positional, **named)  # type: ignore[arg-type]
        rl_insight.close()
    assert joined.params["rl_insight.namespace"] == "n"


def test_labels_and_lanes_by_position_are_recorded(monitor: Joined) -> None:
    """The call is not only accepted."""
    with rl_insight.trace_state("s", "lane"):
        pass
    rl_insight.trace_op("n", {"stage": "optimizer"})(lambda: None)()
    spans = {span.name: span for span in monitor.of(Span)}
    assert (spans["s"].track, spans["n"].labels["stage"]) == ("lane", "optimizer")


def test_the_older_form_takes_labels_or_a_mode_as_its_fourth_argument(monitor: Joined) -> None:
    """Two releases have them at the same place."""
    rl_insight.update_prometheus_config(CONF, ["h:1"], "mode", "none")
    rl_insight.update_prometheus_config(CONF, ["h:2"], "labels", [{"replica": "0"}])
    with pytest.raises(ValueError, match="1 addresses need as many labels"):
        rl_insight.update_prometheus_config(CONF, ["h:3"], "wrong", [])
    with pytest.raises(TypeError):
        rl_insight.update_prometheus_config(CONF, ["h:4"], unknown=1)
    assert monitor.params["rl_insight.scrape.mode.h:1"] == ""
    assert monitor.params["rl_insight.scrape.labels.h:2"] == "replica=0"
