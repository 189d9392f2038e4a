"""Backends, plugins, collectors and frameworks that users wrote for Tracelet, in both of its documented forms."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.unit.compat.conftest import Joined

from telemetry.compat import tracelet
from telemetry.compat.tracelet.backends import MLflowBackend, aim, clearml, mlflow, wandb
from telemetry.compat.tracelet.collectors.git import GitCollector
from telemetry.compat.tracelet.collectors.system import SystemMetricsCollector
from telemetry.compat.tracelet.core.interfaces import (
    BackendInterface,
    CollectorInterface,
    FrameworkInterface,
    MetricSink,
    MetricSource,
)
from telemetry.compat.tracelet.core.orchestrator import (
    DataFlowOrchestrator,
    Metric,
    MetricData,
    MetricType,
    Orchestrator,
    Retry,
    RoutingRule,
)
from telemetry.compat.tracelet.core.plugins import (
    BackendPlugin,
    CollectorPlugin,
    FrameworkPlugin,
    PluginBase,
    PluginManager,
    PluginMetadata,
    PluginState,
    PluginType,
)
from telemetry.compat.tracelet.frameworks.pytorch import PyTorchFramework

Told = Callable[[], str]
Eventually = Callable[[Callable[[], object]], None]


class Kept:
    """A record of the calls of a user's class, in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def of(self, name: str) -> list[tuple[Any, ...]]:
        return [call[1:] for call in self.calls if call[0] == name]


# --- backends --------------------------------------------------------------------------------------


class DocumentBackend(Kept):
    """A backend in the form of the architecture document. It inherits nothing."""

    def log_metric(self, name: str, value: float, step: int) -> None:
        self.calls.append(("metric", name, value, step))

    def log_params(self, params: dict[str, Any]) -> None:
        self.calls.append(("params", params))

    def log_artifact(self, artifact_path: str, artifact_name: str | None = None) -> None:
        self.calls.append(("artifact", artifact_path, artifact_name))

    def start_experiment(self, name: str, project: str) -> str:
        self.calls.append(("start", name, project))
        return "id"

    def end_experiment(self) -> None:
        self.calls.append(("end",))


class CodeBackend(Kept, BackendInterface):
    """A backend in the form of the code: `initialize` without arguments, and `save_experiment`."""

    def initialize(self) -> None:
        self.calls.append(("initialize",))

    def log_metric(self, name: str, value: float, iteration: int) -> None:
        self.calls.append(("metric", name, value, iteration))

    def save_experiment(self, experiment_data: dict[str, Any]) -> None:
        self.calls.append(("save", experiment_data["experiment_name"]))


class Factory(BackendPlugin):
    """A plugin of the architecture document, which makes a backend."""

    made: DocumentBackend

    @classmethod
    def get_metadata(cls) -> PluginMetadata:
        return PluginMetadata("factory", "1", PluginType.BACKEND)

    def create_backend(self, config: dict[str, Any]) -> DocumentBackend:
        self.made = DocumentBackend()
        self.made.calls.append(("config", config["project"], config["depth"]))
        return self.made


class Handler(Kept, BackendPlugin):
    """A plugin of the guide, with `handle_metric` alone. `get_metadata` is a plain method, as one page has it."""

    def get_metadata(self) -> PluginMetadata:  # type: ignore[override]
        return PluginMetadata(name="handler", version="1", plugin_type="backend", entry_point="a.b")

    def initialize(self, config: dict[str, Any]) -> None:
        self.calls.append(("initialize", config["project"]))

    def start(self) -> None:
        self.calls.append(("start",))

    def stop(self) -> None:
        self.calls.append(("stop",))

    def cleanup(self) -> None:
        self.calls.append(("cleanup",))

    def handle_metric(self, metric: MetricData) -> None:
        self.calls.append(("handle", metric.name, metric.value, metric.type, metric.iteration))


class Number:
    """A scalar of an array library."""

    shape = (1,)

    def __init__(self, value: float) -> None:
        self.value = value

    def item(self) -> float:
        return self.value


def log_some(experiment: tracelet.Experiment) -> None:
    experiment.log_metric("loss", Number(0.5), 0)
    experiment.log_metric("loss", 0.25, step=1)
    experiment.log_params({"lr": 0.1})
    experiment.log_artifact("m.pt", "models/")


def test_a_backend_of_the_document_runs_unchanged(joined: Joined) -> None:
    """The backend is opened first, gets all values in order, and is closed last."""
    backend = DocumentBackend()
    experiment = tracelet.Experiment("e", "vision")
    experiment.add_backend(backend)
    with experiment:
        log_some(experiment)
    assert backend.calls[0] == ("start", "e", "vision")
    assert backend.calls[-1] == ("end",)
    assert backend.of("metric") == [("loss", 0.5, 0), ("loss", 0.25, 1)]
    assert ("artifact", "m.pt", "models/m.pt") in backend.calls
    assert ({"lr": 0.1},) in backend.of("params")
    assert joined.values == [("loss", 0, 0.5), ("loss", 1, 0.25)]


def test_a_backend_gets_nested_parameters_under_the_names_of_the_run(joined: Joined) -> None:
    """Names are joined with dots, so equal keys do not collide. Values stay as they are."""
    backend, sizes = DocumentBackend(), [9, 10]
    with tracelet.Experiment("e") as experiment:
        experiment.add_backend(backend)
        experiment.log_params(
            {"model": {"size": 3, "optimizer": {"lr": 0.1}}, "data": {"size": sizes}, "empty": {}}
        )
        experiment.emit_metric(MetricData("all", {"head": {"size": 4}}, MetricType.HPARAMS))
    names = {name: value for (params,) in backend.of("params") for name, value in params.items()}
    expected = {"model.size": 3, "model.optimizer.lr": 0.1, "data.size": sizes, "empty": {}, "head.size": 4}
    assert names == expected
    assert set(expected) <= set(joined.params)


def test_a_value_without_a_step_has_none_at_a_backend(joined: Joined) -> None:
    """The run puts it at step 0. After `set_iteration` it has that step at both."""
    backend = DocumentBackend()
    with tracelet.Experiment("e") as experiment:
        experiment.add_backend(backend)
        experiment.log_metric("loss", 0.5)
        assert experiment.iteration == 0
        experiment.set_iteration(7)
        experiment.log_metric("loss", 0.25)
    assert backend.of("metric") == [("loss", 0.5, None), ("loss", 0.25, 7)]
    assert joined.values == [("loss", 0, 0.5), ("loss", 7, 0.25)]


def test_a_backend_of_the_code_runs_unchanged(joined: Joined) -> None:
    """Methods that it does not implement have no effect."""
    backend = CodeBackend()
    with tracelet.Experiment("e") as experiment:
        experiment.add_backend(backend)
        log_some(experiment)
    assert backend.calls == [
        ("initialize",),
        ("metric", "loss", 0.5, 0),
        ("metric", "loss", 0.25, 1),
        ("save", "e"),
    ]


def test_plugins_of_all_forms_run_unchanged(joined: Joined) -> None:
    """One makes a backend, one has `handle_metric` alone."""
    factory, handler = Factory(), Handler()
    experiment = tracelet.Experiment("e", "vision", settings=None, backend_config={"depth": 3})
    experiment._plugin_manager.register_plugin(factory)
    experiment._plugin_manager.register_plugin(handler)
    with experiment:
        log_some(experiment)
    assert factory.made.calls[:2] == [("config", "vision", 3), ("start", "e", "vision")]
    assert factory.made.of("metric") == [("loss", 0.5, 0), ("loss", 0.25, 1)]
    assert handler.calls[:2] == [("initialize", "vision"), ("start",)]
    assert handler.calls[-2:] == [("stop",), ("cleanup",)]
    handled = handler.of("handle")
    assert ("loss", 0.5, MetricType.SCALAR, 0) in handled
    assert ("lr", 0.1, MetricType.PARAMETER, None) in handled
    assert ("models/m.pt", "m.pt", MetricType.ARTIFACT, None) in handled


def test_a_slow_or_broken_backend_hurts_only_itself(joined: Joined, told: Told) -> None:
    """Values stay in order, and the call never waits."""
    release = threading.Event()

    class Slow(DocumentBackend):
        def log_metric(self, name: str, value: float, step: int) -> None:
            release.wait(20.0)
            super().log_metric(name, value, step)

    class Broken(DocumentBackend):
        name = "broken"

        def log_metric(self, name: str, value: float, step: int) -> None:
            raise OSError("no space")

    class Unready(DocumentBackend):
        name = "unready"

        def start_experiment(self, name: str, project: str) -> str:
            raise ConnectionError("no server")

    good, slow = DocumentBackend(), Slow()
    experiment = tracelet.Experiment("e")
    for backend in (slow, Broken(), Unready(), good):
        experiment.add_backend(backend)
    with experiment:
        for step in range(100):
            experiment.log_metric("loss", step / 4, step)
        assert not slow.of("metric")
        release.set()
    expected = [("loss", step / 4, step) for step in range(100)]
    assert good.of("metric") == slow.of("metric") == expected
    assert "the backend broken: it raised OSError: no space" in told()
    assert "the backend unready: it can't start: ConnectionError: no server" in told()
    assert told().count("the backend broken did not get 100 values; the last error was OSError: no space") == 1
    unready = "the backend unready did not get 102 values; the last error was ConnectionError: no server"
    assert told().count(unready) == 1
    stats = experiment._orchestrator.get_stats()
    sinks = stats["sinks"]
    assert (sinks["broken"]["errors"], sinks["broken"]["dropped"], sinks["unready"]["dropped"]) == (100, 100, 102)
    assert stats["metrics_dropped"] == 202


class Flaky(DocumentBackend):
    """A backend whose calls fail as often as it is told, with one error each."""

    def __init__(self, *errors: Exception, at_start: int = 0) -> None:
        super().__init__()
        self.errors = list(errors)
        self.starts_that_fail = at_start

    def start_experiment(self, name: str, project: str) -> str:
        if self.starts_that_fail:
            self.starts_that_fail -= 1
            raise ConnectionError("no server")
        return super().start_experiment(name, project)

    def log_metric(self, name: str, value: float, step: int) -> None:
        if self.errors:
            raise self.errors.pop(0)
        super().log_metric(name, value, step)


def flaky(backend: Flaky, **settings: Any) -> tracelet.Experiment:
    """Return an experiment with a backend whose waits are short."""
    chosen = tracelet.TraceletSettings(max_backoff=0.01, **settings)
    experiment = tracelet.Experiment("e", settings=chosen)
    experiment.add_backend(backend)
    return experiment


def sink_of(experiment: tracelet.Experiment) -> dict[str, Any]:
    (sink,) = experiment._orchestrator.get_stats()["sinks"].values()
    return dict(sink)


def test_a_value_that_fails_is_tried_again_in_order(joined: Joined, eventually: Eventually) -> None:
    """A backend whose start or value fails is tried again. No value is lost, and no value overtakes another one."""
    backend = Flaky(OSError("away"), ConnectionError("away"), RuntimeError("503"), at_start=2)
    with flaky(backend) as experiment:
        for step in range(3):
            experiment.log_metric("loss", step, step)
        eventually(lambda: len(backend.of("metric")) == 3)
        assert backend.of("metric") == [("loss", step, step) for step in range(3)]
        sink = sink_of(experiment)
    assert (sink["retries"], sink["errors"], sink["dropped"], sink["state"]) == (5, 0, 0, "closed")


def test_a_value_is_given_up_after_max_retries(joined: Joined, eventually: Eventually, told: Told) -> None:
    """The breaker opens after five failures in a row, and closes with the next value that works."""
    backend = Flaky(*[OSError("away")] * 6)
    experiment = flaky(backend, max_retries=2)
    with experiment:
        experiment.log_metric("lost", 1.0, 0)
        experiment.log_metric("lost too", 1.0, 0)
        eventually(lambda: sink_of(experiment)["errors"] == 2)
        assert sink_of(experiment)["state"] == "open"
        experiment.log_metric("kept", 1.0, 1)
        eventually(lambda: backend.of("metric") == [("kept", 1.0, 1)])
        eventually(lambda: sink_of(experiment)["state"] == "closed")
    assert (sink_of(experiment)["retries"], sink_of(experiment)["dropped"]) == (4, 2)
    assert told().count("it raised OSError: away") == 1
    experiment.stop()
    experiment._orchestrator.start()
    experiment._orchestrator.stop()
    assert (
        told().count("did not get 2 values; the last error was OSError: away") == told().count("did not get") == 1
    )


@pytest.mark.parametrize("error", [TypeError("no"), ValueError("no"), KeyError("no")])
def test_an_error_of_the_value_is_not_tried_again(error: Exception, joined: Joined, eventually: Eventually) -> None:
    """A value whose error is its own is dropped: it would fail again and hold up all others."""
    backend = Flaky(error)
    experiment = flaky(backend)
    with experiment:
        experiment.log_metric("bad", 1.0, 0)
        experiment.log_metric("good", 1.0, 1)
        eventually(lambda: backend.of("metric") == [("good", 1.0, 1)])
    sink = sink_of(experiment)
    assert (sink["retries"], sink["errors"], sink["dropped"]) == (0, 1, 1)


def test_waits_grow_by_the_factor_up_to_the_longest() -> None:
    """Waits follow the settings, and no wait has a random part."""
    breaker = Retry(max_retries=9, backoff_factor=3.0, max_backoff=20.0).breaker()
    waits = []
    for _ in range(5):
        breaker.begin()
        breaker.failed()
        waits.append(round(breaker.wait_s()))
    assert waits == [1, 3, 9, 20, 20]


@pytest.mark.sdk
def test_a_tracker_with_a_configuration_is_added_by_name(joined: Joined) -> None:
    """The options of a tracker are those of `config` for this backend."""
    experiment = tracelet.Experiment("e", "vision", backend_config={"mlflow": {"run_name": "r"}})
    experiment.add_backend(MLflowBackend(config={"tracking_uri": "sqlite:///t.db"}))
    assert experiment.active_backends == ["mlflow"]
    assert experiment._run_backends().to == ["mlflow:experiment=vision,run_name=r,uri=sqlite:///t.db"]
    for module in (aim, clearml, mlflow, wandb):
        (cls,) = (
            one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__
        )
        assert cls({"mode": "offline"}).config == cls(config={"mode": "offline"}).config == {"mode": "offline"}


def test_stop_has_a_deadline_and_reports_the_loss(told: Told) -> None:
    """A sink that hangs costs the deadline, and the values count as lost."""
    hangs = threading.Event()

    class Hanging(MetricSink):
        def receive_metric(self, metric: MetricData) -> None:
            hangs.wait(30.0)

    orchestrator = DataFlowOrchestrator()
    orchestrator.register_sink(Hanging())
    orchestrator.add_routing_rule(RoutingRule("*", "Hanging"))
    orchestrator.start()
    for step in range(5):
        orchestrator.emit_metric(Metric("a", step, step))
    started = time.monotonic()
    orchestrator.stop(timeout=0.2)
    assert 0.2 <= time.monotonic() - started < 15.0
    hangs.set()
    assert "the backend Hanging did not get 5 values and did not end in time" in told()
    assert orchestrator.get_stats()["metrics_dropped"] == 5


def test_stop_waits_for_what_is_queued() -> None:
    """A stop within the deadline loses no value and keeps the order. A second start works."""
    got: list[float] = []

    class Slow(MetricSink):
        def receive_metric(self, metric: MetricData) -> None:
            time.sleep(0.001)
            got.append(metric.value)

    orchestrator = DataFlowOrchestrator()
    orchestrator.register_sink(Slow())
    orchestrator.add_routing_rule(RoutingRule("*", "Slow"))
    orchestrator.start()
    for step in range(500):
        orchestrator.emit_metric(Metric("a", step))
    orchestrator.stop(timeout=30.0)
    assert got == list(range(500))
    orchestrator.start()
    orchestrator.emit_metric(Metric("a", 500))
    orchestrator.stop(timeout=30.0)
    assert got[-1] == 500


# --- the orchestrator ------------------------------------------------------------------------------


class Sink(MetricSink):
    def __init__(self, name: str, *types: MetricType) -> None:
        self.name, self.types, self.got = name, types, list[str]()

    def get_sink_id(self) -> str:
        return self.name

    def can_handle_type(self, metric_type: MetricType) -> bool:
        return not self.types or metric_type in self.types

    def receive_metric(self, metric: MetricData) -> None:
        self.got.append(metric.name)


def test_rules_lead_metrics_to_sinks(told: Told) -> None:
    """A metric reaches a sink once. A filter that raises is reported and matches nothing."""
    everything, texts, filtered, some = Sink("all"), Sink("texts", MetricType.TEXT), Sink("filtered"), Sink("some")
    orchestrator = DataFlowOrchestrator(max_queue_size=100, num_workers=2)
    for sink in (everything, texts, filtered, some):
        orchestrator.register_sink(sink)
    for rule in (
        RoutingRule("*", "all"),
        RoutingRule("*", "all"),
        RoutingRule("*", "texts"),
        RoutingRule("train*", "some"),
        RoutingRule("eval", "some", {MetricType.SCALAR}),
        RoutingRule("*", "filtered", filter_func=lambda metric: metric.value > 1),
        RoutingRule("*", "missing"),
    ):
        orchestrator.add_routing_rule(rule)
    orchestrator.start()
    orchestrator.emit_metric(MetricData("a", 1, MetricType.SCALAR, source="train/0"))
    orchestrator.emit_metric(MetricData("b", 2, MetricType.SCALAR, source="eval"))
    orchestrator.emit_metric(MetricData("c", 3, MetricType.HISTOGRAM, source="eval"))
    orchestrator.emit_metric(MetricData("d", "text", MetricType.TEXT, source="other"))
    with orchestrator.batch_emit("training") as emit:
        emit(MetricData("e", 0, MetricType.SCALAR))
        assert "e" not in everything.got
    orchestrator.stop()
    assert everything.got == ["a", "b", "c", "d", "e"]
    assert texts.got == ["d"]
    assert filtered.got == ["b", "c"]
    assert some.got == ["a", "b", "e"]
    assert "a rule for the sink filtered raised TypeError" in told()
    stats = orchestrator.get_stats()
    assert (stats["metrics_processed"], stats["processing_errors"], stats["num_sinks"]) == (11, 1, 4)
    assert (stats["num_routing_rules"], stats["queue_size"], stats["running"]) == (7, 0, False)


def test_an_id_is_registered_once() -> None:
    """A second sink of one name would get the values of the first."""

    class Source(MetricSource):
        def get_source_id(self) -> str:
            return "s"

    orchestrator = Orchestrator()
    orchestrator.register_source(Source())
    orchestrator.register_sink(Sink("x"))
    with pytest.raises(ValueError, match="the source 's' is already registered"):
        orchestrator.register_source(Source())
    with pytest.raises(ValueError, match="the sink 'x' is already registered"):
        orchestrator.register_sink(Sink("x"))


def test_the_orchestrator_of_the_document(joined: Joined) -> None:
    """`route_metric` records in the run too, and a backend that is removed gets what waits first."""
    backend = DocumentBackend()
    orchestrator = Orchestrator()
    orchestrator.add_backend(backend)
    orchestrator.start()
    metric = Metric(name="accuracy", value=0.95, step=100)
    orchestrator.route_metric(metric)
    orchestrator.remove_backend(backend)
    orchestrator.route_metric(Metric("accuracy", 1.0, 101))
    orchestrator.stop()
    assert (metric.iteration, metric.step, metric.type) == (100, 100, MetricType.SCALAR)
    assert backend.of("metric") == [("accuracy", 0.95, 100)]
    assert joined.values == [("accuracy", 100, 0.95), ("accuracy", 101, 1.0)]


# --- plugins ---------------------------------------------------------------------------------------

PLUGIN = """
from telemetry.compat.tracelet.core.plugins import BackendPlugin, PluginMetadata, PluginType

class Mine(BackendPlugin):
    calls = []

    @classmethod
    def get_metadata(cls):
        return PluginMetadata("mine", "1.0", PluginType.BACKEND, dependencies=["json"], capabilities={CAPABILITIES})

    def receive_metric(self, metric):
        type(self).calls.append((metric.name, metric.value, metric.iteration))
"""


def test_a_plugin_of_a_folder_is_a_backend_by_name(
    joined: Joined, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    """A broken file beside it is reported. `local_only` asks for its word."""
    (tmp_path / "mine.py").write_text(PLUGIN.replace("CAPABILITIES", "'metrics'"))
    (tmp_path / "broken.py").write_text("raise OSError('broken')")
    (tmp_path / "_hidden.py").write_text("raise OSError('hidden')")
    monkeypatch.setenv("TRACELET_PLUGIN_PATH", str(tmp_path))
    experiment = tracelet.Experiment("e", backend=["mine"])
    with experiment:
        experiment.log_metric("loss", 0.5, 3)
    cls = experiment._plugin_manager.get_plugin_by_name("mine")
    assert ("loss", 0.5, 3) in cls.calls
    assert "broken.py can't be used: OSError: broken" in told()
    assert "hidden" not in told()
    monkeypatch.setenv("TRACELET_LOCAL_ONLY", "true")
    with pytest.raises(tracelet.ConfigurationError, match="the backend mine does not say that it is local"):
        tracelet.Experiment("e", backend=["mine"])
    (tmp_path / "mine.py").write_text(PLUGIN.replace("CAPABILITIES", "'local'"))
    assert tracelet.Experiment("e", backend=["mine"]).active_backends == ["mine"]


def test_the_life_of_a_plugin(told: Told) -> None:
    """Each stage calls its method once and has its state."""
    manager = PluginManager(use_default_paths=False)
    info = manager.register_plugin(Handler())
    assert info["metadata"].plugin_type == "backend"
    assert manager.load_plugin("handler")
    assert manager.validate_plugin("handler")
    assert info.state is PluginState.VALIDATED
    assert manager.initialize_plugin("handler", {"project": "p"})
    assert manager.start_plugin("handler")
    assert manager.get_status()["plugins"]["handler"]["state"] == "active"
    assert manager.get_status()["active"] == 1
    assert manager.stop_plugin("handler")
    assert info.state is PluginState.STOPPED
    assert manager.get_plugin_instance("handler").calls == [("initialize", "p"), ("start",), ("stop",)]
    assert [one.name for one in manager.list_plugins("backend")] == ["handler"]
    assert manager.get_plugins_by_type(PluginType.COLLECTOR) == []
    assert not manager.load_plugin("unknown")
    assert not manager.start_plugin("unknown")
    assert manager.stop_plugin("unknown")


def test_a_plugin_that_fails_is_reported(told: Told) -> None:
    """A plugin that fails is in the state of an error, with the reason."""

    class Failing(PluginBase):
        @classmethod
        def get_metadata(cls) -> PluginMetadata:
            return PluginMetadata("failing", "1", PluginType.COLLECTOR)

        def initialize(self, config: dict[str, Any]) -> None:
            raise OSError("no device")

    class Needy(PluginBase):
        @classmethod
        def get_metadata(cls) -> PluginMetadata:
            return PluginMetadata("needy", "1", PluginType.COLLECTOR, dependencies=["no-such-package>=2.0"])

    manager = PluginManager(use_default_paths=False)
    manager.register_plugin(Failing)
    manager.register_plugin(Needy)
    assert not manager.initialize_plugin("failing")
    assert not manager.validate_plugin("needy")
    assert "the plugin failing can't be used: OSError: no device" in told()
    assert "it needs no-such-package>=2.0" in told()
    status = manager.get_status()
    assert (status["errors"], status["plugins"]["failing"]["error"]) == (2, "no device")


def test_plugins_are_ordered_by_what_they_need() -> None:
    """A circle is an error."""

    def plugin(name: str, *needs: str) -> type[PluginBase]:
        metadata = PluginMetadata(name, "1", PluginType.COLLECTOR, dependencies=list(needs))
        return type(name, (PluginBase,), {"get_metadata": classmethod(lambda cls: metadata)})

    manager = PluginManager(use_default_paths=False)
    for cls in (plugin("a", "b"), plugin("b", "c"), plugin("c"), plugin("x", "y"), plugin("y", "x")):
        manager.register_plugin(cls)
    assert manager.resolve_dependencies(["a", "b", "c"]) == ["c", "b", "a"]
    with pytest.raises(ValueError, match="in a circle"):
        manager.resolve_dependencies(["x", "y"])


@pytest.mark.sdk
def test_discovery_has_the_trackers_as_list_and_as_dictionary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The documents use it in both ways."""
    monkeypatch.setenv("HOME", str(tmp_path))
    manager = PluginManager()
    found = manager.discover_plugins()
    assert {info.name for info in found} >= {"mlflow", "wandb"}
    assert dict(found.items())["mlflow"]["metadata"].type is PluginType.BACKEND
    assert tracelet.get_backend("mlflow") is manager.get_plugin_by_name("mlflow")
    assert tracelet.get_backend("unknown") is None
    assert "mlflow" in tracelet.available_backends()
    assert tracelet.backends.available_backends()["mlflow"] is True
    assert tracelet.available_frameworks()["numpy"] is True
    with pytest.raises(tracelet.BackendError, match="mlflow has no experiment"):
        tracelet.get_backend("mlflow")().receive_metric(Metric("a", 1))  # type: ignore[misc]


# --- collectors ------------------------------------------------------------------------------------


class Docker(CollectorPlugin):
    """A collector of the guide: it returns metrics."""

    @classmethod
    def get_metadata(cls) -> PluginMetadata:
        return PluginMetadata("docker", "1", PluginType.COLLECTOR)

    def collect(self) -> list[MetricData]:  # type: ignore[override]
        return [MetricData("docker/cpu", 12.5, MetricType.SYSTEM, timestamp=time.time())]


class Weather(Kept, CollectorInterface):
    """A collector of the code: it returns a dictionary."""

    def initialize(self) -> None:
        self.calls.append(("initialize",))

    def start(self) -> None:
        self.calls.append(("start",))

    def stop(self) -> None:
        self.calls.append(("stop",))

    def collect(self) -> dict[str, Any]:
        self.calls.append(("collect",))
        return {
            "celsius": 21,
            "wind": {"speed": 3.5},
            "sky": "grey",
            "rain": False,
            "log": "x" * 2_000,
            "list": [1],
        }


class Failing(CollectorInterface):
    def collect(self) -> dict[str, Any]:
        raise OSError("no sensor")


def test_collectors_of_users_are_read_at_intervals(joined: Joined, told: Told, eventually: Eventually) -> None:
    """Numbers become gauges, short texts become parameters. A broken one hurts only itself."""
    weather, backend = Weather(), DocumentBackend()
    experiment = tracelet.Experiment("e")
    experiment.add_backend(backend)
    experiment._plugin_manager.register_plugin(Docker())
    experiment.add_collector(weather, 0.01)
    with experiment:
        experiment.add_collector(Failing(), 0.01)
        eventually(lambda: len(weather.of("collect")) >= 3)
    assert weather.calls[:2] == [("initialize",), ("start",)]
    assert weather.calls[-1] == ("stop",)
    assert joined.gauge("Weather/celsius")[:3] == [21.0, 21.0, 21.0]
    assert joined.gauge("Weather/wind/speed")
    assert joined.gauge("docker/cpu") == [12.5]
    assert (joined.params["Weather.sky"], joined.params["Weather.rain"]) == ("grey", False)
    assert "Weather.log" not in joined.params
    assert ("Weather/celsius", 21, None) in backend.of("metric")
    assert "the collector Failing raised OSError: no sensor" in told()


def test_the_state_of_a_repository(tmp_path: Path) -> None:
    """A detached head is no error, and a password in a remote is masked."""

    def git(*words: str) -> None:
        author = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
        subprocess.run(["git", *author, *words], cwd=tmp_path, check=True, capture_output=True)

    collector = GitCollector(str(tmp_path))
    collector.initialize()
    assert collector.collect() == {"git_available": False, "error": "not a git repository"}
    git("init", "-q", "-b", "trunk")
    collector.initialize()
    assert collector.collect() == {"git_available": True, "error": "the repository has no commit"}
    (tmp_path / "a.py").write_text("1\n")
    git("add", "a.py")
    git("commit", "-q", "-m", "first")
    git("remote", "add", "origin", "https://ann:hunter2@example.org/r.git")
    (tmp_path / "new.py").write_text("")
    state = collector.collect()
    assert (state["branch"], state["commit_message"], state["is_dirty"]) == ("trunk", "first", False)
    assert (state["commit_author"], state["untracked_files"]) == ("Ann <ann@example.org>", ["new.py"])
    assert len(state["commit_hash"]) == 40
    assert "hunter2" not in str(state)
    (tmp_path / "a.py").write_text("2\n")
    git("checkout", "-q", "--detach")
    state = collector.collect()
    assert (state["branch"], state["is_dirty"]) == ("HEAD", True)
    assert "-1\n+2" in state["diff"]
    assert set(collector.shared()) == {
        f"git.{name}" for name in ("branch", "commit_hash", "commit_datetime", "is_dirty", "remotes")
    }


def test_the_load_of_the_machine(joined: Joined, eventually: Eventually) -> None:
    """`start` really records, `collect` may be overridden, and `stop` does not wait for the interval."""

    class Extended(SystemMetricsCollector):
        def collect(self) -> dict[str, Any]:
            return super().collect() | {"queue": 7}

    assert joined
    tracelet.Experiment("e").start()
    collector = Extended(collect_interval=3_600.0)
    collector.initialize()
    got: list[MetricData] = []
    record = collector.emit
    collector.emit = lambda metric: (got.append(metric), record(metric))
    collector.start()
    eventually(lambda: any(metric.name == "system/queue" for metric in got))
    started = time.monotonic()
    collector.stop()
    assert time.monotonic() - started < 30.0
    facts = collector.collect()
    assert {"platform", "hostname", "cpu_count", "cpu_percent", "memory_percent", "memory_total"} <= set(facts)
    assert joined.gauge("system/queue") == [7.0]
    assert joined.gauge("system/cpu_percent")


def test_gpus_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """GPUs are read through a stand-in of the vendor's library."""

    class Facts:
        total, used, free, gpu = 80, 20, 60, 55

    library = ModuleType("pynvml")
    for name, answer in (
        ("DeviceGetCount", 1),
        ("DeviceGetMemoryInfo", Facts),
        ("DeviceGetUtilizationRates", Facts),
    ):
        setattr(library, f"nvml{name}", lambda *args, answer=answer: answer)
    library.nvmlInit = library.nvmlDeviceGetHandleByIndex = lambda *args: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pynvml", library)
    collector = SystemMetricsCollector()
    collector.initialize()
    gpus = {"gpu_0": {"memory_total": 80, "memory_used": 20, "memory_free": 60, "utilization": 55}}
    assert collector.collect()["gpu"] == gpus


def test_without_psutil_facts_remain(monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    """A line says what to install."""
    monkeypatch.setitem(sys.modules, "psutil", None)
    collector = SystemMetricsCollector(5.0, include_per_cpu=True)
    collector.initialize()
    assert set(collector.collect()) == {"platform", "python_version", "hostname", "cpu_count"}
    assert "need the package psutil" in told()
    assert "include_per_cpu and include_processes are refused" in told()


# --- frameworks ------------------------------------------------------------------------------------


def test_framework_plugins_of_all_forms_run_unchanged(joined: Joined, told: Told) -> None:
    """The plugins are ended with the experiment, and one that raises is reported."""

    class Document(FrameworkPlugin):
        def patch_framework(self, orchestrator: Orchestrator) -> None:
            self.orchestrator = orchestrator

        def train(self) -> None:
            self.orchestrator.route_metric(Metric("document", 1.0, 1))

    class Guide(PluginBase, MetricSource):
        events: list[str] = []  # noqa: RUF012 – of the class

        @classmethod
        def get_metadata(cls) -> PluginMetadata:
            return PluginMetadata("guide", "1", PluginType.FRAMEWORK)

        def set_experiment(self, experiment: tracelet.Experiment) -> None:
            self.experiment = experiment

        def start(self) -> None:
            self.events.append("start")
            self.experiment.emit_metric(MetricData("guide", 2.0, MetricType.SCALAR, iteration=2))

        def stop(self) -> None:
            self.events.append("stop")

    class Code(FrameworkInterface):
        def initialize(self, experiment: Any) -> None:
            experiment.log_metric("code", 3.0, 3)

        def stop_tracking(self) -> None:
            raise OSError("can't restore")

    document = Document()
    experiment = tracelet.Experiment("e")
    experiment._plugin_manager.register_plugin(Guide)
    experiment.add_framework(document)
    with experiment:
        experiment.add_framework(Code())
        document.train()
    assert sorted(joined.values) == [("code", 3, 3.0), ("document", 1, 1.0), ("guide", 2, 2.0)]
    assert Guide.events == ["start", "stop"]
    assert "the plugin Code raised OSError: can't restore" in told()


_WRITER = """
class SummaryWriter:
    logdir = log_dir = "logs"

    def add_scalar(self, tag, scalar_value, global_step=None):
        return "added"

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None):
        self.add_scalar(main_tag, 0.0, global_step)

    def add_mesh(self, tag, vertices, colors=None, faces=None, config_dict=None, global_step=None): ...

    def add_embedding(self, mat, metadata=None, label_img=None, global_step=None, tag="default"): ...

    def add_hparams(self, hparam_dict, metric_dict, global_step=None): ...
"""


def test_a_sink_gets_what_a_summary_writer_gets(
    joined: Joined, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each method has its type of metric, a call from within another one is left out, and the end restores all."""
    folder = tmp_path / "torch" / "utils" / "tensorboard"
    folder.mkdir(parents=True)
    for package in (folder.parent.parent, folder.parent, folder):
        (package / "__init__.py").write_text("")
    (folder / "writer.py").write_text(_WRITER)
    monkeypatch.syspath_prepend(tmp_path)
    metrics: list[MetricData] = []

    class Receiver(MetricSink):
        def receive_metric(self, metric: MetricData) -> None:
            metrics.append(metric)

    with tracelet.Experiment("e") as experiment:
        experiment.add_backend(Receiver())
        framework = PyTorchFramework()
        framework.initialize(experiment)
        from torch.utils.tensorboard.writer import SummaryWriter

        writer = SummaryWriter()
        assert writer.add_scalar("loss", 0.5, 3) == "added"
        writer.add_scalars(main_tag="pair", tag_scalar_dict={"a": 1.0, "b": 2.0}, global_step=4)
        writer.add_mesh("ball", [1], global_step=5)
        writer.add_embedding([2], global_step=6)
        writer.add_hparams({"lr": 0.1}, {"accuracy": 1.0})
        framework.stop_tracking()
        assert not hasattr(SummaryWriter.add_scalar, "__wrapped__")
        writer.add_scalar("late", 0.5, 7)
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        del sys.modules[name]
    assert [(metric.name, metric.value, metric.type, metric.iteration) for metric in metrics][-6:] == [
        ("loss", 0.5, MetricType.SCALAR, 3),
        ("pair/a", 1.0, MetricType.SCALAR, 4),
        ("pair/b", 2.0, MetricType.SCALAR, 4),
        ("ball", [1], MetricType.MESH, 5),
        ("default", [2], MetricType.EMBEDDING, 6),
        ("hparams", {"lr": 0.1}, MetricType.HPARAMS, None),
    ]
