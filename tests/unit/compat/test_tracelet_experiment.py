"""Experiments of the Tracelet interface: every form of its calls, and what becomes of each value."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.compat.conftest import Joined

import telemetry
from telemetry.client import run as run_module
from telemetry.client.process import ENDPOINT_VARIABLE, PROCESS
from telemetry.compat import tracelet
from telemetry.compat.tracelet import AutomagicConfig, automagic, capture_hyperparams
from telemetry.compat.tracelet.core.artifacts import ArtifactType, TraceletArtifact
from telemetry.compat.tracelet.core.orchestrator import MetricData, MetricType
from telemetry.compat.tracelet.frameworks.pytorch import PyTorchFramework
from telemetry.compat.tracelet.utils.imports import is_available, require, try_import
from telemetry.wire.events import Bins, Mark

pytestmark = pytest.mark.sdk

Told = Callable[[], str]


# --- forms of the calls ----------------------------------------------------------------------------


def test_the_calls_of_the_architecture_document(joined: Joined) -> None:
    """The first call that records starts the experiment if `start` was not called."""
    experiment = tracelet.Experiment("digits", "vision")
    assert (experiment.name, experiment.project) == ("digits", "vision")
    experiment.log_metric("accuracy", 0.95, step=100)
    experiment.log_params({"lr": 0.1})
    experiment.log_artifact("out/model.pt")
    experiment.end()
    assert joined.values == [("accuracy", 100, 0.95)]
    assert (joined.params["lr"], joined.params["project"], joined.params["experiment"]) == (0.1, "vision", "digits")
    assert joined.artifacts["model.pt"].uri == str(Path("out/model.pt").absolute())
    assert joined.artifacts["model.pt"].kind == "model"


def test_the_module_level_calls(joined: Joined) -> None:
    """The second start stops the first experiment. The active one is None once it has ended."""
    assert tracelet.get_active_experiment() is None
    first = tracelet.start_logging("a", project="p", config={"track_git": False, "notes": "n", "lr": 0.1})
    second = tracelet.start_logging(exp_name="b", backend=["tensorboard"])
    assert (first.is_running, second.is_running) == (False, True)
    assert tracelet.get_active_experiment() is second
    assert tracelet.get_active_backends() == second.active_backends == ["tensorboard"]
    assert [backend.name for backend in second.backends] == ["tensorboard"]
    assert isinstance(second.created_at, datetime)
    assert second.id == second.experiment_id
    tracelet.stop_logging()
    tracelet.stop_logging()
    assert tracelet.get_active_experiment() is None
    assert (joined.params["notes"], joined.params["lr"]) == ("n", 0.1)


def test_a_with_block_ends_the_experiment_and_marks_an_error(joined: Joined) -> None:
    """The error leaves the block as it is."""
    with pytest.raises(KeyError), tracelet.start_logging("a") as experiment:  # noqa: PT012 – the block is the subject
        experiment.log_metric("loss", 0.5)
        raise KeyError("lost")
    assert tracelet.get_active_experiment() is None
    assert [mark.text for mark in joined.of(Mark)] == ["KeyError: 'lost'"]


def test_the_settings_of_a_call(joined: Joined) -> None:
    """An argument wins over `config`, and `config` over `settings`."""
    settings = tracelet.TraceletSettings(project="p", backend=["tensorboard"], track_args=False)
    experiment = tracelet.start_logging(exp_name="a", settings=settings)
    assert (experiment.project, experiment.active_backends) == ("p", ["tensorboard"])
    experiment = tracelet.start_logging("a", "q", "jsonl", None, None, {"track_env": True}, settings)
    assert (experiment.project, experiment.active_backends) == ("q", ["jsonl"])
    assert experiment.config.track_environment is True


def test_the_default_backend_is_used_if_it_is_installed(
    joined: Joined, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    """Only `start_logging` has a default backend, as in Tracelet."""
    assert tracelet.start_logging("a").active_backends == ["mlflow"]
    assert tracelet.Experiment("a").active_backends == []
    monkeypatch.setattr("telemetry.compat.tracelet.interface.installed", lambda name: False)
    assert tracelet.start_logging("a").active_backends == []
    assert "no backend is named and mlflow is not installed" in told()


def test_backends_can_be_added_by_name_before_the_start(joined: Joined, told: Told) -> None:
    """Backends for a run that is open already are named in a message."""
    experiment = tracelet.Experiment("a", backend="tensorboard")
    experiment.add_backend("jsonl:path=x.jsonl")
    experiment.add_backend(tracelet.backends.MLflowBackend())
    assert experiment.active_backends == ["tensorboard", "jsonl", "mlflow"]
    experiment.start()
    assert "its backends are chosen where it is started" in told()
    assert "telemetry run --to 'tensorboard' --to 'jsonl:path=x.jsonl' --to 'mlflow:run_name=a'" in told()
    with pytest.raises(tracelet.BackendError, match="add it before start"):
        experiment.add_backend("wandb")


def test_paths_of_modules_are_those_of_tracelet() -> None:
    """A program changes the prefix of its imports and nothing else."""
    for path, names in {
        "settings": "TraceletSettings",
        "core": "Experiment ExperimentConfig DataFlowOrchestrator MetricSink PluginInfo",
        "core.experiment": "Experiment ExperimentConfig",
        "core.orchestrator": "DataFlowOrchestrator Orchestrator Metric MetricData MetricType RoutingRule",
        "core.interfaces": "BackendInterface CollectorInterface FrameworkInterface",
        "core.plugins": "PluginBase BackendPlugin CollectorPlugin PluginManager PluginMetadata PluginType",
        "core.artifacts": "ArtifactType TraceletArtifact ArtifactResult ArtifactFile ArtifactReference ModelInfo",
        "artifacts": "ArtifactType TraceletArtifact",
        "plugins": "BackendPlugin PluginMetadata",
        "collectors": "GitCollector SystemMetricsCollector",
        "collectors.git": "GitCollector",
        "collectors.system": "SystemMetricsCollector",
        "frameworks.pytorch": "PyTorchFramework",
        "frameworks.lightning": "LightningFramework",
        "automagic": "AutomagicConfig AutomagicInstrumentor automagic capture_hyperparams",
        "backends": "get_backend available_backends MLflowBackend WandbBackend ClearMLBackend AimBackend",
        "utils.imports": "require is_available",
        "interface": "start_logging stop_logging get_active_experiment",
    }.items():
        module = import_module(f"telemetry.compat.tracelet.{path}")
        for name in names.split():
            assert hasattr(module, name), f"{path}.{name}"
    assert all(hasattr(tracelet, name) for name in tracelet.__all__)


def test_optional_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names what needs the package."""
    assert is_available("numpy")
    assert require("numpy") is np
    assert try_import("no_such_package", 5) == 5
    with pytest.raises(ImportError, match="Neptune backend needs the package no_such_package"):
        require("no_such_package", "Neptune backend")
    monkeypatch.setenv("TRACELET_STRICT_IMPORTS", "true")
    with pytest.raises(ImportError, match="no_such_package"):
        try_import("no_such_package")


# --- values ----------------------------------------------------------------------------------------


def test_steps_are_the_ones_that_are_given(joined: Joined) -> None:
    """Step 0 is 0, also while another one is the current one."""
    with tracelet.Experiment("a") as experiment:
        experiment.log_metric("x", 1.0)
        experiment.set_iteration(77)
        assert experiment.iteration == 77
        experiment.log_metric("x", 2.0, 0)
        experiment.log_metric("x", 3.0)
        experiment.log_metric("x", 4.0, iteration=np.int64(78))
        experiment.log_metric("x", 5.0, step=79)
    assert joined.values == [("x", 0, 1.0), ("x", 0, 2.0), ("x", 77, 3.0), ("x", 78, 4.0), ("x", 79, 5.0)]


def test_all_kinds_of_numbers_are_numbers(joined: Joined) -> None:
    """Numbers of numpy and arrays of one element are recorded as numbers, too."""
    values = [1, True, np.float32(0.5), np.int8(3), np.array([0.25]), math.nan, math.inf]
    with tracelet.Experiment("a") as experiment:
        for step, value in enumerate(values):
            experiment.log_metric("x", value, step)
    assert [value for _, _, value in joined.values] == [1.0, 1.0, 0.5, 3.0, 0.25, None, None]


def test_values_that_are_not_numbers(joined: Joined, told: Told) -> None:
    """A text and an array have records of their own; the rest is counted and reported."""
    with tracelet.Experiment("a") as experiment:
        experiment.log_metric("phase", "warm-up", 0)
        experiment.log_metric("weights", np.arange(10.0), 1)
        experiment.log_metric("odd", object(), 2)
        experiment.log_metric("x", 1.0, "three")  # type: ignore[arg-type]
    assert joined.texts == {"phase": "warm-up"}
    [bins] = joined.of(Bins)
    assert (bins.name, bins.step, sum(bins.counts)) == ("weights", 1, 10)
    assert joined.values == []
    assert "'odd' is ignored: object is not a number" in told()


def test_metrics_of_every_type(joined: Joined, told: Told, tmp_path: Path) -> None:
    """Each type has its record, or a message that says what to do."""

    class Figure:
        def savefig(self, path: Path) -> None:
            path.write_text("picture")

    kinds: dict[MetricType, Any] = {
        MetricType.SCALAR: 1.0,
        MetricType.TENSOR: np.ones(3),
        MetricType.CUSTOM: 2.0,
        MetricType.PARAMETER: 0.1,
        MetricType.HPARAMS: {"lr": 0.5, "depth": 2},
        MetricType.SYSTEM: 55.0,
        MetricType.TEXT: "hello",
        MetricType.HISTOGRAM: [1.0, 2.0],
        MetricType.ARTIFACT: "a.bin",
        MetricType.IMAGE: "a.png",
        MetricType.VIDEO: "a.mp4",
        MetricType.AUDIO: "a.wav",
        MetricType.EMBEDDING: "a.npy",
        MetricType.MESH: np.ones(3),
        MetricType.FIGURE: Figure(),
    }
    assert set(kinds) == set(MetricType)
    with tracelet.Experiment("a") as experiment:
        experiment.recorder.directory = str(tmp_path)
        for kind, value in kinds.items():
            experiment.emit_metric(MetricData(f"my/{kind.value}", value, kind, iteration=3))
        experiment.emit_metric(MetricData("my/bad", object(), MetricType.HISTOGRAM))
    assert joined.values == [("my/scalar", 3, 1.0), ("my/custom", 3, 2.0)]
    assert (joined.params["my/parameter"], joined.params["lr"], joined.params["depth"]) == (0.1, 0.5, 2)
    assert joined.gauge("my/system") == [55.0]
    assert joined.texts == {"my/text": "hello"}
    assert {bins.name for bins in joined.of(Bins)} == {"my/tensor", "my/histogram"}
    found = {name.removeprefix("my/"): one.kind for name, one in joined.artifacts.items()}
    kinds_of_files = {kind: kind for kind in ("image", "video", "audio", "embedding")}
    assert found == {**kinds_of_files, "artifact": "", "figure": "image"}
    assert Path(joined.artifacts["my/figure"].uri).read_text() == "picture"
    assert "'my/mesh' is not recorded: a mesh is recorded as a file; save it and pass the path" in told()


def test_parameters_are_recorded_without_secrets(joined: Joined) -> None:
    """Nested ones, too."""
    with tracelet.Experiment("a", tags=["x"]) as experiment:
        experiment.log_params({"model": {"depth": 3}, "api_key": "hunter2", "db": {"password": "hunter2"}})
        experiment.log_hyperparameter("momentum", 0.9)
        experiment.log_param("lr", 0.1)
        experiment.add_tag("y")
    assert (joined.params["model.depth"], joined.params["momentum"], joined.params["lr"]) == (3, 0.9, 0.1)
    assert joined.params["tags"] == "x, y"
    assert "hunter2" not in str(joined.params)


def test_what_comes_after_the_end_is_reported(joined: Joined, told: Told) -> None:
    """A second start goes on with the same names."""
    experiment = tracelet.Experiment("a")
    experiment.start()
    experiment.start()
    experiment.stop()
    experiment.stop()
    experiment.log_metric("late", 1.0, 0)
    assert "'late' is not recorded: the experiment 'a' has ended; call start() again" in told()
    experiment.start()
    experiment.log_metric("again", 1.0, 0)
    experiment.stop()
    assert joined.values == [("again", 0, 1.0)]


# --- runs ------------------------------------------------------------------------------------------


def test_two_experiments_of_a_run_keep_apart(joined: Joined, told: Told) -> None:
    """Each counts its steps by itself, also if the second one begins long after the first."""
    with tracelet.Experiment("first") as first:
        for step in range(1_000):
            first.log_metric("loss", 1.0, step)
    with tracelet.Experiment("second") as second:
        second.log_metric("loss", 2.0, 0)
        second.log_params({"lr": 0.1})
        second.log_artifact("m.pt")
    with tracelet.Experiment("first") as first:
        first.log_metric("loss", 3.0, 1_000)
    assert joined.values[-2:] == [("second/loss", 0, 2.0), ("loss", 1_000, 3.0)]
    axes = {name: record.axis for record in joined.of(telemetry.wire.events.Scalars) for name in record.values}
    assert axes == {"loss": "iteration", "second/loss": "second/iteration"}
    assert joined.params["second/lr"] == 0.1
    assert "second/m.pt" in joined.artifacts
    assert "names of values of 'second' begin with 'second/'" in told()


def test_a_run_that_is_open_is_used_and_stays_open(joined: Joined, told: Told) -> None:
    """A run that is open already is ended by the code that started it, not by the experiment."""
    run = telemetry.start("own")
    with tracelet.Experiment("a") as experiment:
        assert experiment.run is run
        experiment.log_metric("x", 1.0, 0)
    assert not run.finished
    run.log({"y": 2.0}, step=0)
    run.finish()
    assert joined.values == [("x", 0, 1.0), ("y", 0, 2.0)]
    assert "start(" not in told()


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and no run to join."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(ENDPOINT_VARIABLE, raising=False)
    run_module._STARTER.run = None
    PROCESS.finish(5.0)
    PROCESS.reopen()
    return tmp_path


@pytest.mark.slow
def test_experiments_without_a_run_have_one_each(alone: Path) -> None:
    """The last of those that overlap ends it. The values, names and axes are in its result."""
    with tracelet.Experiment("first", backend=["jsonl:path=out.jsonl"]) as first:
        first.log_metric("loss", 0.5, 0)
        with tracelet.Experiment("inner") as inner:
            inner.log_metric("loss", 0.25, 0)
        assert first.run is not None
        assert not first.run.finished
    assert first.run.report.snapshot.name == "first"
    assert first.run.report.completeness == "complete"
    steps = [
        (record["axis"], record["step"], record["values"])
        for line in Path("out.jsonl").read_text().splitlines()
        if (record := json.loads(line))["item"] == "step"
    ]
    assert steps == [("iteration", 0, {"loss": 0.5}), ("inner/iteration", 0, {"inner/loss": 0.25})]
    second = tracelet.Experiment("second")
    second.log_metric("loss", 0.5, 0)
    second.stop()
    assert second.run is not None
    assert second.run.report.snapshot.name == "second"


# --- artifacts -------------------------------------------------------------------------------------


def test_artifacts_are_recorded_by_reference(joined: Joined, tmp_path: Path) -> None:
    """Each part has a name below the artifact's."""
    Path("w.pt").write_bytes(b"1234")
    experiment = tracelet.Experiment("a", backend=["tensorboard"], artifacts=True)
    experiment.start()
    experiment.recorder.directory = str(tmp_path / "run")
    artifact = (
        experiment.create_artifact("classifier", ArtifactType.MODEL, "best")
        .add_file("w.pt", "model/w.pt")
        .add_object({"acc": 0.9}, "metrics")
        .add_object([1], "list", "yaml")
        .add_reference("s3://bucket/data", size_bytes=10)
        .add_model(tracelet, framework=None)
    )
    results = experiment.log_artifact(artifact)
    assert list(results) == ["tensorboard"]
    assert (results["tensorboard"].version, results["tensorboard"].size_bytes) == ("v1", 14)
    experiment.log_file_artifact("w.pt", "files/")
    assert experiment.log_artifact("w.pt", artifact_path="files/")["tensorboard"].version == "v2"
    assert experiment.get_artifact("classifier") is artifact
    assert experiment.get_artifact("classifier", "v1", "tensorboard") is artifact
    assert experiment.get_artifact("classifier", "v9") is None
    assert experiment.list_artifacts(ArtifactType.MODEL, "wandb") == []
    assert [one.name for one in experiment.list_artifacts()] == ["classifier", "files/w.pt", "files/w.pt"]
    experiment.stop()
    kinds = {name: one.kind for name, one in joined.artifacts.items()}
    parts = ("model/w.pt", "metrics", "list", "reference-1")
    assert kinds == {**{f"classifier/{part}": "model" for part in parts}, "files/w.pt": "model"}
    assert json.loads(Path(joined.artifacts["classifier/metrics"].uri).read_text()) == {"acc": 0.9}
    assert joined.artifacts["classifier/reference-1"].uri == "s3://bucket/data"
    assert joined.params["artifacts.classifier.description"] == "best"
    assert joined.params["artifacts.classifier.model.class"] == "module"
    assert set(artifact.to_dict()["files"][0]) == {"local_path", "artifact_path", "description", "size_bytes"}


def test_a_pickle_is_refused_with_what_to_do(told: Told) -> None:
    """Other things that an artifact can't hold are refused, too, each with a message."""
    artifact = TraceletArtifact("a", ArtifactType.DATASET)
    with pytest.raises(tracelet.BackendError, match=r'pickled objects are refused.*serializer="json"'):
        artifact.add_object(object(), "o", serializer="pickle")
    with pytest.raises(ValueError, match="MODEL, CHECKPOINT or WEIGHTS"):
        artifact.add_model(object())
    with pytest.raises(FileNotFoundError):
        artifact.add_file("missing.pt")
    TraceletArtifact("m", ArtifactType.MODEL).add_model(object())
    assert "gets facts about the model, not its weights" in told()


# --- automagic and frameworks ----------------------------------------------------------------------


class Parameter:
    requires_grad = True

    def numel(self) -> int:
        return 12


class Model:
    def parameters(self) -> list[Parameter]:
        return [Parameter(), Parameter()]

    def __str__(self) -> str:
        return "Model(2 layers)"


def test_automagic_records_what_it_is_given(joined: Joined, told: Told) -> None:
    """Models and datasets are given; variables are never read."""
    password, learning_rate = "hunter2", 0.1
    config = AutomagicConfig(
        frameworks={"pytorch", "sklearn"},
        track_model_gradients=True,
        track_data_samples=True,
        track_file_hashes=False,
    )
    with tracelet.Experiment("a", automagic=True, automagic_config=config) as experiment:
        assert experiment.capture_hyperparams() == capture_hyperparams(experiment) == {}
        facts = experiment.capture_model(Model())
        assert experiment.capture_dataset(np.ones((3, 2)))["shape"] == "(3, 2)"
        assert automagic(experiment, config).config is config
    assert (facts["parameter_count"], facts["trainable_parameters"], facts["architecture"]) == (
        24,
        24,
        "Model(2 layers)",
    )
    assert (joined.params["model.type"], joined.params["dataset.size"]) == ("Model", 3)
    assert joined.texts == {"model/architecture": "Model(2 layers)"}
    assert password not in str(joined.params)
    assert learning_rate not in joined.params.values()
    for message in (
        "automagic has no capture for sklearn",
        "track_model_gradients is refused",
        "track_data_samples is refused",
        "never reads variables",
    ):
        assert message in told()


def test_enhanced_metrics_of_a_framework(joined: Joined) -> None:
    """A word that is no type means a number."""
    framework = PyTorchFramework(patch_tensorboard=False)
    framework.log_metric("before", 1.0, 0)
    framework.log_enhanced_metric("before", 1.0, MetricType.TEXT, 0)
    with tracelet.Experiment("a") as experiment:
        framework.initialize(experiment)
        framework.start_tracking()
        framework.log_metric("x", 1.0, 1)
        framework.log_enhanced_metric("acc", 0.9, "accuracy", 2, {"split": "val"})
        framework.log_enhanced_metric("note", "hi", MetricType.TEXT, 3)
        framework.log_enhanced_metric("h", [1.0, 2.0], "histogram", 4)
        framework.stop_tracking()
    assert joined.values == [("x", 1, 1.0), ("acc", 2, 0.9)]
    assert joined.params["acc.split"] == "val"
    assert joined.texts == {"note": "hi"}
    assert [bins.step for bins in joined.of(Bins)] == [4]
