"""Every documented option of Tracelet: its effect, or the message that refuses it."""

from __future__ import annotations

import copy
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import pytest
from tests.unit.compat.conftest import Joined

from telemetry.compat import tracelet
from telemetry.compat.tracelet.core.orchestrator import Retry
from telemetry.compat.tracelet.core.run_backends import RunBackends, run_backends
from telemetry.compat.tracelet.frameworks.lightning import hold_integration
from telemetry.compat.tracelet.settings import TraceletSettings, configure
from telemetry.errors import UsageError
from telemetry.integrations import lightning
from telemetry.integrations.capture.boot_module import BOOT

pytestmark = pytest.mark.sdk

_WORDS = """
    PROJECT EXPERIMENT_NAME BACKEND API_KEY BACKEND_URL TRACK_TENSORBOARD TRACK_LIGHTNING TRACK_SYSTEM TRACK_GIT
    TRACK_ENV METRICS_INTERVAL ENABLE_AUTOMAGIC AUTOMAGIC_FRAMEWORKS ENABLE_ARTIFACTS AUTOMAGIC_ARTIFACTS
    WATCH_FILESYSTEM ARTIFACT_WATCH_DIRS TRACK_ARGS TRACK_STDOUT TRACK_CHECKPOINTS MAX_QUEUE_SIZE NUM_WORKERS
    MAX_RETRIES BACKOFF_FACTOR MAX_BACKOFF
    DETECT_FUNCTION_ARGS DETECT_CLASS_ATTRIBUTES TRACK_MODEL_ARCHITECTURE MLFLOW_TRACKING_URI
    MLFLOW_EXPERIMENT_NAME WANDB_PROJECT WANDB_ENTITY WANDB_API_KEY CLEARML_PROJECT CLEARML_TASK_NAME AIM_REPO
    AIM_EXPERIMENT TRACK_METRICS TRACK_GPU TRACK_DISK TRACK_NETWORK
"""
DOCUMENTED = _WORDS.split()
"""Variables of Tracelet's documents, and options that they give to TraceletSettings."""
OURS = {"LOCAL_ONLY"}

Told = Callable[[], str]


def needs(kind: str, **settings: Any) -> RunBackends:
    """Return the needs of one backend of the experiment `run`."""
    made = TraceletSettings(backend=[kind], **settings)
    return run_backends([kind], made, name="run", tags=[], config={}, plugins={})


# --- options of backends ---------------------------------------------------------------------------

BACKENDS: Mapping[str, tuple[str, str, str]] = {
    "PROJECT": ("wandb", "vision", "wandb:project=vision,name=run"),
    "EXPERIMENT_NAME": ("", "digits", ""),
    "BACKEND": ("", "tensorboard,jsonl", ""),
    "BACKEND_URL": ("mlflow", "http://host:5000", "mlflow:uri=http://host:5000,run_name=run"),
    "MLFLOW_TRACKING_URI": ("mlflow", "http://host:5000", "mlflow:uri=http://host:5000,run_name=run"),
    "MLFLOW_EXPERIMENT_NAME": ("mlflow", "a, b", "mlflow:experiment=a\\, b,run_name=run"),
    "WANDB_PROJECT": ("wandb", "w", "wandb:project=w,name=run"),
    "WANDB_ENTITY": ("wandb", "team", "wandb:entity=team,name=run"),
    "CLEARML_PROJECT": ("clearml", "c", "clearml:project=c,name=run"),
    "CLEARML_TASK_NAME": ("clearml", "task", "clearml:name=task"),
    "AIM_REPO": ("aim", "./aim", "aim:repo=./aim,run_name=run"),
    "AIM_EXPERIMENT": ("aim", "e", "aim:experiment=e,run_name=run"),
}


@pytest.mark.parametrize("option", [name for name, (kind, _, _) in BACKENDS.items() if kind])
def test_an_option_reaches_its_backend(option: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An option stands in the text for `to`, under the backend's own name for it."""
    monkeypatch.chdir(tmp_path)
    kind, value, expected = BACKENDS[option]
    monkeypatch.setenv(f"TRACELET_{option}", value)
    assert needs(kind).to == [expected]


def test_keys_reach_the_writer_as_variables() -> None:
    """A key of one backend wins over the common one. ClearML has two keys."""
    assert needs("wandb", api_key="k").environment == {"WANDB_API_KEY": "k"}
    assert needs("wandb", api_key="k", wandb_api_key="own").environment == {"WANDB_API_KEY": "own"}
    assert needs("mlflow", api_key="k").environment == {"MLFLOW_TRACKING_TOKEN": "k"}
    assert needs("clearml", api_key="a:s").environment == {
        "CLEARML_API_ACCESS_KEY": "a",
        "CLEARML_API_SECRET_KEY": "s",
    }
    assert needs("wandb", backend_url="https://own").environment == {"WANDB_BASE_URL": "https://own"}
    with pytest.raises(tracelet.ConfigurationError, match="ACCESS:SECRET"):
        needs("clearml", api_key="one")


def test_one_key_is_never_given_to_two_services() -> None:
    """A key for one service must not be sent to another."""
    with pytest.raises(ValueError, match="can't be shared by mlflow and wandb"):
        run_backends(["mlflow", "wandb"], TraceletSettings(api_key="k"), name="run", tags=[], config={}, plugins={})


def test_config_of_a_call_reaches_the_backends() -> None:
    """Flat keys go to all, a dictionary to one. What no backend takes becomes a parameter."""
    config = {
        "tags": ["a", "b"],
        "run_name": "r",
        "notes": "n",
        "wandb": {"group": "g", "run_name": "own"},
        "clearml": {"task_name": "t"},
    }
    made = run_backends(["wandb", "clearml"], TraceletSettings(), name="run", tags=[], config=config, plugins={})
    assert made.to == ["wandb:name=own,tags=a\\,b,group=g", "clearml:name=t,tags=a\\,b"]
    assert made.settings == {"notes": "n"}


def test_a_whole_text_is_taken_as_it_is() -> None:
    """Texts of `--to` are names of backends, too."""
    assert needs("jsonl:path=out.jsonl").to == ["jsonl:path=out.jsonl"]


@pytest.mark.parametrize("form", ["{0}", "file:{0}", "file://{0}"])
def test_a_file_store_becomes_a_database(form: str, tmp_path: Path, told: Told) -> None:
    """The writer supports databases and servers. A message says where the values are, once."""
    folder = tmp_path / "mlruns"
    for _ in range(2):
        made = needs("mlflow", backend_url=form.format(folder))
        assert made.to == [f"mlflow:uri=sqlite:///{folder}/mlflow.db,run_name=run"]
    assert folder.is_dir()
    assert told().count(f"this run goes to sqlite:///{folder}/mlflow.db") == 1


def test_an_unknown_backend_is_an_error() -> None:
    """The error is a `ValueError`, which the documents catch, and names the nearest backend."""
    with pytest.raises(tracelet.ConfigurationError, match="did you mean mlflow"):
        tracelet.Experiment("e", backend=["mflow"])
    with pytest.raises(ValueError, match="no backend is named 'invalid_backend'"):
        tracelet.start_logging("e", backend="invalid_backend")
    assert issubclass(tracelet.ConfigurationError, UsageError)


def test_a_password_in_a_text_is_never_printed(joined: Joined, told: Told) -> None:
    """A password is masked in errors and in messages about a run that is open already."""
    with pytest.raises(tracelet.ConfigurationError) as raised:
        needs("mflow:uri=https://user:hunter2@host")
    assert "https://user:***@host" in str(raised.value)
    with tracelet.Experiment("e", backend=["mlflow:uri=https://user:hunter2@host"]):
        pass
    assert "telemetry run --to 'mlflow:uri=https://user:***@host' -- COMMAND" in told()
    assert "hunter2" not in told() + str(raised.value)


def test_a_backend_whose_package_is_missing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the command that installs it."""
    monkeypatch.setattr("telemetry.backends.choice.is_installed", lambda module: False)
    with pytest.raises(tracelet.ConfigurationError, match=r"pip install 'telemetryd\[wandb\]'"):
        needs("wandb")


# --- local_only ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("mlflow", {"backend_url": "http://host:5000"}),
        ("wandb", {}),
        ("clearml", {}),
        ("aim", {"aim_repo": "aim://host:53800"}),
        ("otlp", {}),
        ("trackio", {}),
        ("mlflow:uri=https://host", {}),
        ("mlflow:run_name=a,uri=https://host", {}),
        ("mlflow:uri=databricks,run_name=a", {}),
        ("mlflow", {"backend_url": "databricks"}),
        ("mlflow", {"backend_url": "databricks:PROFILE"}),
        ("mlflow", {"backend_url": "postgresql+psycopg2:host"}),
        ("mlflow:uri=sqlite:///m.db,artifacts=s3://bucket", {}),
        ("aim:repo=s3:bucket", {}),
        ("wandb:name=mode=offline", {}),
    ],
)
def test_local_only_refuses_backends_of_other_machines(
    kind: str, more: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address may come from an option or be part of a text."""
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setenv("TRACELET_LOCAL_ONLY", "true")
    with pytest.raises(tracelet.ConfigurationError, match="local_only is set"):
        needs(kind, **more)


def test_local_only_allows_local_backends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An address in the environment of MLflow counts."""
    monkeypatch.setenv("TRACELET_LOCAL_ONLY", "1")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for kind in ("tensorboard", "jsonl", "mlflow", "aim", "wandb", "mlflow:uri=sqlite:///m.db", "aim:repo=/a:b"):
        assert needs(kind).to
    monkeypatch.chdir(tmp_path)
    for uri in ("sqlite:///m.db", "mlruns", "./ml:runs", "~/mlruns", f"file://{tmp_path}/m"):
        assert needs("mlflow", backend_url=uri).to
    monkeypatch.delenv("WANDB_MODE")
    assert needs("wandb:name=a,mode=offline").to
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://host")
    with pytest.raises(tracelet.ConfigurationError, match="local_only"):
        needs("mlflow")


# --- options of an experiment ----------------------------------------------------------------------


def run(option: str, value: str | None, monkeypatch: pytest.MonkeyPatch, **arguments: Any) -> tracelet.Experiment:
    """A short experiment with one variable set."""
    if value is None:
        monkeypatch.delenv(f"TRACELET_{option}", raising=False)
    else:
        monkeypatch.setenv(f"TRACELET_{option}", value)
    experiment = tracelet.Experiment("e", **arguments)
    experiment.start()
    experiment.log_metric("loss", 0.5, 0)
    experiment.stop()
    return experiment


EFFECTS: Mapping[str, tuple[str, Callable[[Joined], object]]] = {
    "TRACK_GIT": ("true", lambda joined: joined.params["git.branch"] == "trunk"),
    "TRACK_ENV": ("true", lambda joined: joined.params["environment.cpus"] == os.cpu_count()),
    "TRACK_ARGS": ("true", lambda joined: joined.params["args"].startswith(sys.argv[0])),
    "TRACK_SYSTEM": ("true", lambda joined: joined.gauge("system/memory_percent")),
    "TRACK_METRICS": ("false", lambda joined: not joined.values),
    "PROJECT": ("vision", lambda joined: joined.params["project"] == "vision"),
}


@pytest.mark.parametrize("option", EFFECTS)
def test_an_option_has_its_effect(option: str, joined: Joined, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run in which only this option is set shows the effect of the option."""
    os.system("git init -q -b trunk . && git -c user.name=n -c user.email=e commit -q --allow-empty -m first")
    value, shows = EFFECTS[option]
    run(option, value, monkeypatch)
    assert shows(joined)
    if option not in ("TRACK_METRICS", "PROJECT"):
        assert joined.values == [("loss", 0, 0.5)]


def test_without_these_options_nothing_of_it_is_recorded(joined: Joined, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with all of these options off records the names alone."""
    run("PROJECT", None, monkeypatch)
    assert joined.params == {"project": "default", "experiment": "e"}
    assert not joined.gauge("system/memory_percent")


def test_the_interval_of_system_metrics(
    joined: Joined, monkeypatch: pytest.MonkeyPatch, eventually: Callable[[Callable[[], object]], None]
) -> None:
    """A short interval gives several readings."""
    monkeypatch.setenv("TRACELET_METRICS_INTERVAL", "0.02")
    monkeypatch.setenv("TRACELET_TRACK_SYSTEM", "true")
    got: list[str] = []
    with tracelet.Experiment("e") as experiment:
        emit = experiment._orchestrator.recorder.record
        monkeypatch.setattr(
            experiment._orchestrator.recorder, "record", lambda one: (got.append(one.name), emit(one))
        )
        eventually(lambda: got.count("system/memory_percent") >= 4)


@pytest.mark.parametrize(("option", "name"), [("TRACK_DISK", "disk_read_mb"), ("TRACK_NETWORK", "network_sent_mb")])
def test_more_system_metrics(option: str, name: str, joined: Joined, monkeypatch: pytest.MonkeyPatch) -> None:
    """Disk and network are off by default."""
    monkeypatch.setenv("TRACELET_TRACK_SYSTEM", "true")
    run(option, "true", monkeypatch)
    assert joined.gauge(f"system/{name}")


def test_gpus_can_be_left_out(joined: Joined, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library of GPUs that fails when it is asked is asked only if the option is on."""
    asked: list[str] = []

    def fail() -> None:
        asked.append("nvmlInit")
        raise OSError("no driver")

    library = ModuleType("pynvml")
    library.nvmlInit = fail  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pynvml", library)
    monkeypatch.setenv("TRACELET_TRACK_SYSTEM", "true")
    run("TRACK_GPU", "false", monkeypatch)
    assert not asked
    run("TRACK_GPU", "true", monkeypatch)
    assert asked == ["nvmlInit"]


@pytest.mark.parametrize(("option", "name"), [("TRACK_TENSORBOARD", "pytorch"), ("TRACK_LIGHTNING", "lightning")])
def test_captures_of_frameworks(option: str, name: str, joined: Joined, monkeypatch: pytest.MonkeyPatch) -> None:
    """Captures of frameworks are installed for the time of the experiment."""
    monkeypatch.setenv(f"TRACELET_{option}", "true")
    with tracelet.Experiment("e") as experiment:
        assert list(experiment.frameworks) == [name]
        assert experiment.frameworks[name]._release is not None
    assert experiment.frameworks[name]._release is None


@pytest.mark.parametrize("option", ["TRACK_CHECKPOINTS", "AUTOMAGIC_ARTIFACTS"])
def test_checkpoints_are_recorded(
    option: str, joined: Joined, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A stand-in of torch saves the checkpoints: its `save` is the function that the capture wraps."""
    (tmp_path / "torch.py").write_text("def save(obj, f, **more):\n    return 'saved'\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(f"TRACELET_{option}", "true")
    with tracelet.Experiment("e"):
        import torch

        assert torch.save({}, "checkpoint-1.pt") == "saved"
        assert torch.save({}, object()) == "saved"
    torch.save({}, "late.pt")
    del sys.modules["torch"]
    assert {name: one.kind for name, one in joined.artifacts.items()} == {"checkpoint-1": "checkpoint"}


_LIGHTNING = """
class Trainer:
    is_global_zero = True

    def save_checkpoint(self, filepath, weights_only=False):
        return "saved"
"""


def test_checkpoints_of_lightning_are_recorded_once(
    joined: Joined, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first rank records a checkpoint of Lightning, unless Lightning's capture records it.

    That capture knows the step.
    """
    (tmp_path / "pytorch_lightning").mkdir()
    (tmp_path / "pytorch_lightning" / "__init__.py").write_text(_LIGHTNING)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TRACELET_TRACK_CHECKPOINTS", "true")
    with tracelet.Experiment("e"):
        from pytorch_lightning import Trainer  # type: ignore[import-not-found]

        trainer = Trainer()
        assert trainer.save_checkpoint("first.ckpt") == "saved"
        release = hold_integration("lightning")
        trainer.save_checkpoint("captured.ckpt")
        release()
        trainer.save_checkpoint(filepath="last.ckpt")
        trainer.is_global_zero = False
        trainer.save_checkpoint("rank-1.ckpt")
    del sys.modules["pytorch_lightning"]
    assert list(joined.artifacts) == ["first", "last"]


def test_a_capture_that_did_not_start_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launcher may keep TELEMETRY_CAPTURE and drop PYTHONPATH, which starts the captures."""
    monkeypatch.setenv("TELEMETRY_CAPTURE", "tensorboard,lightning")
    release = hold_integration("lightning")
    assert lightning.is_installed()
    release()
    assert not lightning.is_installed()
    monkeypatch.setattr(BOOT, "PREPARED", ["lightning"])
    release = hold_integration("lightning")
    assert not lightning.is_installed()
    release()


def test_artifacts_are_switched_on(joined: Joined, monkeypatch: pytest.MonkeyPatch) -> None:
    """`create_artifact` without this option raises, and tells how to switch it on."""
    with pytest.raises(RuntimeError, match="TRACELET_ENABLE_ARTIFACTS"):
        tracelet.Experiment("e").create_artifact("a", tracelet.ArtifactType.MODEL)
    experiment = run("ENABLE_ARTIFACTS", "true", monkeypatch)
    assert experiment.create_artifact("a", tracelet.ArtifactType.MODEL).name == "a"


def test_automagic_is_switched_on_and_reads_no_variables(
    joined: Joined, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    """A password in a variable of the caller stays where it is."""
    password = "hunter2"
    monkeypatch.setattr(sys, "argv", [__file__])
    run("ENABLE_AUTOMAGIC", "true", monkeypatch)
    assert "never reads variables" in told()
    assert joined.params["code.sha256"]
    assert password not in str(joined.params)


REFUSED: Mapping[str, tuple[str, str]] = {
    "WATCH_FILESYSTEM": ("true", "watch_filesystem is refused: call log_artifact"),
    "ARTIFACT_WATCH_DIRS": ("./out", "watch_filesystem is refused: call log_artifact"),
    "TRACK_STDOUT": ("true", "track_stdout is refused: start the program with `telemetry run --tui`"),
    "NUM_WORKERS": ("8", "num_workers has no effect: each backend has one thread"),
    "DETECT_FUNCTION_ARGS": ("true", "never reads variables"),
    "DETECT_CLASS_ATTRIBUTES": ("true", "never reads variables"),
    "AUTOMAGIC_FRAMEWORKS": ("sklearn,pytorch", "automagic has no capture for sklearn: call log_metric"),
}


@pytest.mark.parametrize("option", REFUSED)
def test_an_option_is_refused(option: str, joined: Joined, monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    """The message says what to do instead."""
    value, message = REFUSED[option]
    automagic = option.startswith(("DETECT", "AUTOMAGIC"))
    run(option, value, monkeypatch, automagic=automagic)
    assert message in told()


GUESSES: Mapping[str, Any] = {
    "monitor_training_loop": True,
    "monitor_loss_curves": True,
    "epoch_detection_threshold_seconds": 5.0,
}


@pytest.mark.parametrize("option", GUESSES)
def test_guesses_are_refused_if_the_program_asks_for_them(option: str, joined: Joined, told: Told) -> None:
    """Guesses are refused if they are asked for by argument or later, not by default or if off."""
    silent = tracelet.AutomagicConfig(monitor_loss_curves=False)
    silent.monitor_training_loop = False
    with tracelet.Experiment("a", automagic=True, automagic_config=copy.copy(silent)):
        assert "is refused" not in told()
    asked = tracelet.AutomagicConfig(**{option: GUESSES[option]})
    with tracelet.Experiment("b", automagic=True, automagic_config=asked):
        assert f'{option} is refused: epochs are not guessed; call log_metric("epoch", epoch, step)' in told()
    setattr(silent, option, GUESSES[option])
    with tracelet.Experiment("c", automagic=True, automagic_config=silent):
        assert told().count("is refused") == told().count(f"{option} is refused") == 2
    by_position = tracelet.AutomagicConfig(*[True] * 10)
    assert by_position.is_asked_for("monitor_training_loop")
    assert by_position == tracelet.AutomagicConfig(track_model_gradients=True, track_data_samples=True)


def test_the_message_about_variables_can_be_switched_off(joined: Joined, told: Told) -> None:
    """The message is on by default: a program of Tracelet expects its variables to be recorded."""
    names = ("detect_function_args", "detect_class_attributes", "detect_argparse", "detect_config_files")
    config = tracelet.AutomagicConfig(**dict.fromkeys(names, False))  # type: ignore[arg-type]
    with tracelet.Experiment("a", automagic=True, automagic_config=config):
        assert "never reads variables" not in told()
    with tracelet.Experiment("b", automagic=True):
        assert "never reads variables" in told()


def test_the_architecture_of_a_model_can_be_left_out(joined: Joined, monkeypatch: pytest.MonkeyPatch) -> None:
    """The architecture of a model is recorded as a text unless it is left out."""
    monkeypatch.setenv("TRACELET_TRACK_MODEL_ARCHITECTURE", "false")
    with tracelet.Experiment("e", automagic=True) as experiment:
        assert "architecture" not in experiment.capture_model({"layers": 3})
    monkeypatch.setenv("TRACELET_TRACK_MODEL_ARCHITECTURE", "true")
    with tracelet.Experiment("e", automagic=True) as experiment:
        experiment.capture_model({"layers": 3})
    assert joined.texts == {"model/architecture": "{'layers': 3}"}


def test_the_bound_of_queues(joined: Joined, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values beyond it are dropped and counted."""
    monkeypatch.setenv("TRACELET_MAX_QUEUE_SIZE", "3")
    experiment = tracelet.Experiment("e")
    experiment.add_backend(tracelet.core.interfaces.BackendInterface())
    for step in range(5):
        experiment._orchestrator.route(tracelet.Metric("a", step, step))
    assert experiment._orchestrator.get_stats()["metrics_dropped"] == 2


def test_names_of_experiment_and_backends(joined: Joined, monkeypatch: pytest.MonkeyPatch) -> None:
    """The names come from the environment if the call has none."""
    monkeypatch.setenv("TRACELET_EXPERIMENT_NAME", BACKENDS["EXPERIMENT_NAME"][1])
    monkeypatch.setenv("TRACELET_BACKEND", BACKENDS["BACKEND"][1])
    experiment = tracelet.start_logging()
    assert (experiment.name, tracelet.get_active_backends()) == ("digits", ["tensorboard", "jsonl"])
    tracelet.stop_logging()
    assert tracelet.get_active_backends() == []


def test_attempts_of_backends_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """TRACELET_MAX_RETRIES may be 0; a table `retry` has the same options."""
    for name, value in (("MAX_RETRIES", "0"), ("BACKOFF_FACTOR", "1.5"), ("MAX_BACKOFF", "9")):
        monkeypatch.setenv(f"TRACELET_{name}", value)
    experiment = tracelet.Experiment("e")
    assert experiment._orchestrator.retry == Retry(max_retries=0, backoff_factor=1.5, max_backoff=9.0)
    made = TraceletSettings.from_dict({"retry": {"max_retries": 7, "backoff_factor": 3, "max_backoff": 1}})
    assert (made.max_retries, made.backoff_factor, made.max_backoff) == (7, 3.0, 1.0)


def test_each_documented_option_is_tested_here() -> None:
    """A new option needs a test of its effect."""
    source = Path(__file__).read_text()
    known = {name.upper() for name in get_type_hints(TraceletSettings)}
    assert set(DOCUMENTED) | OURS == known
    for option in known:
        assert source.count(option) + source.count(option.lower()) >= 2, option


# --- where options come from -----------------------------------------------------------------------


def test_the_order_of_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Argument, environment, .env, tracelet.yaml, tracelet.json, default."""
    monkeypatch.chdir(tmp_path)
    expected = ["default"]

    def project(**arguments: Any) -> str:
        return TraceletSettings(**arguments).project

    found = [project()]
    for source, name in (("tracelet.json", "json"), ("tracelet.yaml", "yaml"), (".env", "dotenv")):
        text = {"tracelet.json": json.dumps({"project": name}), "tracelet.yaml": f"project: {name}\n"}
        Path(source).write_text(text.get(source, f"# a comment\nexport TRACELET_PROJECT='{name}'\nOTHER=1\n"))
        found.append(project())
        expected.append(name)
    monkeypatch.setenv("TRACELET_PROJECT", "environment")
    found += [project(), project(project="argument")]
    assert found == [*expected, "environment", "argument"]
    assert TraceletSettings().sources["project"] == "environment"


def test_a_file_has_nested_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The nested tables are those of the documents, in a file and in `from_dict`."""
    monkeypatch.chdir(tmp_path)
    table = {
        "backend": ["mlflow", "wandb"],
        "tracking": {"system": False, "git": False, "environment": False},
        "automagic": {"enabled": True, "frameworks": ["pytorch"]},
        "artifacts": {"enabled": True, "automagic": True, "watch_filesystem": False, "watch_dirs": ["./out"]},
        "mlflow": {"tracking_uri": "http://host"},
    }
    Path("tracelet.json").write_text(json.dumps(table))
    for made in (TraceletSettings(), TraceletSettings.from_dict(table)):
        assert {made.track_system, made.track_git, made.track_env, made.watch_filesystem} == {False}
        assert (made.enable_automagic, made.automagic_frameworks) == (True, {"pytorch"})
        assert (made.enable_artifacts, made.automagic_artifacts) == (True, True)
        assert (made.artifact_watch_dirs, made.mlflow_tracking_uri) == (["./out"], "http://host")


def test_yaml_without_its_package_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    """The default holds, and a line says what to install."""
    monkeypatch.chdir(tmp_path)
    Path("tracelet.yaml").write_text("project: x\n")
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert TraceletSettings().project == "default"
    assert "tracelet.yaml is not read: this needs the package pyyaml" in told()


@pytest.mark.parametrize("text", ["[1]", "{"])
def test_a_broken_file_is_an_error(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the file."""
    monkeypatch.chdir(tmp_path)
    Path("tracelet.json").write_text(text)
    with pytest.raises(tracelet.ConfigurationError, match=r"tracelet\.json"):
        TraceletSettings()


@pytest.mark.parametrize(
    ("option", "value"), [("track_git", "maybe"), ("metrics_interval", -1), ("max_queue_size", "x"), ("backend", 3)]
)
def test_an_impossible_value_is_an_error(option: str, value: object) -> None:
    """The error names the option."""
    with pytest.raises(tracelet.ConfigurationError, match=option):
        TraceletSettings(**{option: value})


def test_an_unknown_option_is_reported_with_the_nearest_one(told: Told) -> None:
    """An unknown option is ignored, as in Tracelet, but a message reports it."""
    TraceletSettings(track_gti=True)
    assert "track_gti (argument) is unknown and has no effect; did you mean track_git?" in told()


def test_settings_of_configure_are_those_of_later_experiments(joined: Joined) -> None:
    """An ExperimentConfig wins over them, and an argument over both."""
    configure(TraceletSettings(project="p", enable_artifacts=True))
    experiment = tracelet.Experiment("e")
    assert (experiment.project, experiment._artifacts_enabled) == ("p", True)
    own = tracelet.ExperimentConfig(enable_artifacts=False)
    assert tracelet.Experiment("e", config=own)._artifacts_enabled is False
    assert tracelet.Experiment("e", config=own, artifacts=True)._artifacts_enabled is True


def test_a_copy_differs_in_what_it_is_given() -> None:
    """The original stays as it is."""
    base = TraceletSettings(project="p", track_git=False)
    made = base.copy(backend=["wandb"], project_name="q")
    assert (made.project, made.track_git, made.backend) == ("q", False, ["wandb"])
    assert base.backend == ["mlflow"]
    assert (made.project_name, made.track_system_metrics) == ("q", True)


def test_keys_are_not_shown() -> None:
    """Settings are printed while somebody looks for a fault."""
    assert "secret" not in repr(TraceletSettings(api_key="secret", wandb_api_key="secret"))


def test_the_sources_can_be_logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each option has a line with its source at the level DEBUG."""
    monkeypatch.setenv("TRACELET_TRACK_GIT", "0")
    with caplog.at_level(logging.DEBUG, "tracelet.settings"):
        TraceletSettings(project="p")
    assert {record.getMessage() for record in caplog.records} >= {
        "project from argument",
        "track_git from environment",
    }
