"""Experiments: the run of this process under Tracelet's calls."""

from __future__ import annotations

import atexit
import os
import platform
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Self

from telemetry import limits
from telemetry.client import module_level as client
from telemetry.client import user_warnings
from telemetry.client.process import ENDPOINT_VARIABLE, PROCESS
from telemetry.client.redaction import REDACTION
from telemetry.client.run import Run, start
from telemetry.compat.tracelet.collectors.git import GitCollector
from telemetry.compat.tracelet.collectors.system import CollectorThread, SystemMetricsCollector
from telemetry.compat.tracelet.core.artifacts import ArtifactResult, ArtifactType, TraceletArtifact, kind_of
from telemetry.compat.tracelet.core.interfaces import MetricData, MetricSource, MetricType, call, name_of, plain
from telemetry.compat.tracelet.core.orchestrator import DataFlowOrchestrator, Recorder, Retry, file_name
from telemetry.compat.tracelet.core.plugins import PluginManager, PluginType
from telemetry.compat.tracelet.core.run_backends import RunBackends, run_backends
from telemetry.compat.tracelet.exceptions import BackendError
from telemetry.compat.tracelet.frameworks import LightningFramework, PyTorchFramework
from telemetry.compat.tracelet.frameworks.lightning import hold
from telemetry.compat.tracelet.frameworks.pytorch import CHECKPOINTS
from telemetry.compat.tracelet.settings import ALIASES, TraceletSettings, current
from telemetry.compat.variables import variables
from telemetry.errors import error_text
from telemetry.redaction import mask_secrets

if TYPE_CHECKING:
    from telemetry.compat.tracelet.automagic import AutomagicConfig, AutomagicInstrumentor

__all__ = ["Experiment", "ExperimentConfig"]
_RUN: Final = "telemetry"
"""Name of the run itself among the backends of artifacts."""
_GIT_S: Final = 5.0
"""Longest wait for git at the end."""


@dataclass
class ExperimentConfig:
    """Switches of one experiment. Each has the effect that docs/migrating/TRACELET.md describes."""

    track_metrics: bool = True
    track_environment: bool = True
    track_args: bool = True
    track_stdout: bool = True
    track_checkpoints: bool = True
    track_system_metrics: bool = True
    track_git: bool = True
    enable_automagic: bool = False
    automagic_frameworks: set[str] | None = None
    enable_artifacts: bool = False
    automagic_artifacts: bool = False
    artifact_watch_dirs: list[str] | None = None
    watch_filesystem: bool = False


class SharedRun:
    """The open run, the experiments that use it, and their recorders. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.run: Run | None = None
        self._ends_run = False
        self._users = 0
        self._recorders: dict[str, Recorder] = {}
        self._run_id = ""

    def join(self, name: str, to: Sequence[str], environment: Mapping[str, str]) -> tuple[Run, Recorder]:
        """Start a run for an experiment, or join the run that is open. Raise TelemetryError if there is none.

        `to` and `environment` are for the writers of backends. They are used only where this call starts the run.
        Names of a second experiment in a run begin with its name.
        """
        with self._lock:
            starts_run = False
            if self.run is None or self.run.finished:
                is_open = PROCESS.state == "live"
                starts_run = not is_open and not os.environ.get(ENDPOINT_VARIABLE)
                run_name = name.encode(errors="replace").decode()[: limits.NAME_CHARS] or "experiment"
                with variables(environment if starts_run else {}):
                    self.run = start(None if is_open else run_name, to=list(to) if starts_run else [])
                self._ends_run, self._users = starts_run and self.run.owner, 0
            run = self.run
            if to and not starts_run:
                options = " ".join(f"--to '{text}'" for text in mask_secrets(to))
                user_warnings.warn(
                    f"this experiment records into the run {run.name!r}, which is open already; its backends "
                    f"are chosen where it is started, as in: telemetry run {options} -- COMMAND"
                )
            self._users += 1
            if self._run_id != run.run_id:
                self._run_id, self._recorders = run.run_id, {}
            if name not in self._recorders:
                prefix = f"{name}/" if self._recorders else ""
                if prefix:
                    user_warnings.warn(
                        f"the run has several experiments: names of values of {name!r} begin with {prefix!r}"
                    )
                self._recorders[name] = Recorder(prefix, run.directory)
            return run, self._recorders[name]

    def leave(self, run: Run | None) -> None:
        """End the part of an experiment in a run. The last one ends the run, if these experiments started it."""
        with self._lock:
            if run is None or run is not self.run:
                return
            self._users -= 1
            if not self._users:
                self.run = None
                if self._ends_run:
                    run.finish()


SHARED_RUN: Final = SharedRun()
"""The run of this process."""


class Experiment(MetricSource):
    """An experiment. It starts a run, or joins the one of `telemetry run`. Any thread may use it.

    Example:
        with Experiment("digits", project="vision", backend=["mlflow"]) as experiment:
            experiment.log_metric("loss", 0.5, 0)

    The first call that records starts it, if `start` was not called.
    """

    def __init__(  # noqa: PLR0917 – Tracelet's order
        self,
        name: str,
        config: ExperimentConfig | str | None = None,
        backend: str | list[str] | None = None,
        tags: list[str] | None = None,
        automagic: bool = False,
        automagic_config: AutomagicConfig | None = None,
        artifacts: bool = False,
        automagic_artifacts: bool = False,
        *,
        project: str | None = None,
        settings: TraceletSettings | None = None,
        backend_config: Mapping[str, Any] | None = None,
    ) -> None:
        """Check the backends. A text as the second argument is the project. Raises ConfigurationError."""
        if isinstance(config, str):
            config, project = None, config
        settings = settings or current()
        self.settings = settings if project is None else settings.copy(project=project)
        self.name = name
        self.project = self.settings.project
        self.id = self.experiment_id = str(uuid.uuid4())
        self.created_at = datetime.now(UTC)
        self.config = config or ExperimentConfig(
            **{name: getattr(self.settings, ALIASES.get(name, name)) for name in ExperimentConfig.__annotations__}
        )
        self.tags = list(tags or [])
        self.automagic_config = automagic_config
        self.frameworks: dict[str, Any] = {}
        self.recorder = Recorder()
        self.run: Run | None = None
        self._automagic_enabled = automagic or self.config.enable_automagic
        self._artifacts_enabled = artifacts or self.config.enable_artifacts
        self._automagic_artifacts_enabled = automagic_artifacts or self.config.automagic_artifacts
        self._iteration: int | None = None
        retry = Retry(self.settings.max_retries, self.settings.backoff_factor, self.settings.max_backoff)
        self._orchestrator = DataFlowOrchestrator(self.settings.max_queue_size, self.settings.num_workers, retry)
        self._orchestrator.register_source(self)
        self._sinks = self._orchestrator.threads
        self._plugin_manager = PluginManager()
        self._plugin_manager.discover_plugins()
        self._added: list[Callable[[], None]] = []
        """Starters of the user's collectors and frameworks, called at each start."""
        self._artifacts: list[TraceletArtifact] = []
        self._lock = threading.RLock()
        self._stack: ExitStack | None = None
        """The parts of the experiment that runs. They end in reverse order."""
        self._log: Callable[[str, Any, int], object] = self._log_first
        self._backend_config = dict(backend_config or {})
        if backend is None:
            backend = self.settings.backend if "backend" in self.settings.explicit else []
        self._backends = [backend] if isinstance(backend, str) else list(backend)
        self._run_backends()

    # --- the course of an experiment -------------------------------------------------------------

    def start(self) -> None:
        """Start or join the run, and all that records by itself. A second call has no effect."""
        with self._lock:
            if self._stack is not None:
                return
            backends = self._run_backends()
            self.run, self.recorder = SHARED_RUN.join(self.name, backends.to, backends.environment)
            self._orchestrator.recorder = self.recorder
            self._log = self.recorder.log if self.config.track_metrics else _ignore
            self._stack = ExitStack()
            self._stack.callback(self._orchestrator.stop)
            self._begin_plugins(backends)
            self._orchestrator.start()
            self._record_facts(backends)
            self._begin_captures(self._stack)
            self._begin_collectors(self._stack)
            for begin in self._added:
                begin()
            atexit.register(self.stop)

    def stop(self) -> None:
        """Deliver everything, say what is lost, and end the run if this experiment started it."""
        with self._lock:
            stack, self._stack = self._stack, None
            if stack is None:
                return
            atexit.unregister(self.stop)
            try:
                stack.close()
            finally:
                self._log = self._log_late
                SHARED_RUN.leave(self.run)

    end = stop

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            client.mark(error_text(error))
        self.stop()

    @property
    def is_running(self) -> bool:
        return self._stack is not None

    # --- values ----------------------------------------------------------------------------------

    def log_metric(self, name: str, value: Any, iteration: int | None = None, step: int | None = None) -> None:
        """Record a value of a step: `iteration`, or `step`, or else the one of `set_iteration`.

        Without any of them the run has the value at step 0, and backends of the user get None as its step.
        """
        if iteration is None:
            iteration = self._iteration if step is None else step
        self._log(name, value, 0 if iteration is None else iteration)
        if self._sinks:
            number = plain(value)
            kind = MetricType.SCALAR if number is not None else MetricType.CUSTOM
            self.route(name, value if number is None else number, kind, iteration)

    def log_params(self, params: Mapping[str, Any]) -> None:
        """Record parameters. Values whose names sound secret are masked."""
        self._begin()
        self.recorder.params(params)
        for name, value in params.items() if self._sinks else ():
            self.route(name, value, MetricType.PARAMETER)

    def log_hyperparameter(self, name: str, value: Any) -> None:
        """Record one parameter."""
        self.log_params({name: value})

    log_param = log_hyperparameter

    def emit_metric(self, metric: MetricData) -> None:
        """Record a metric of any type."""
        self._begin()
        if self.config.track_metrics or metric.type is MetricType.PARAMETER:
            self._orchestrator.emit_metric(metric)

    def route(self, name: str, value: Any, kind: MetricType, step: int | None = None, metadata: Any = None) -> None:
        """Pass a value to backends of the user alone."""
        if self._sinks:
            self._orchestrator.route(MetricData(name, value, kind, step, None, self.get_source_id(), metadata))

    def set_iteration(self, iteration: int) -> None:
        """Set the step of values that are logged without one."""
        self._iteration = iteration

    @property
    def iteration(self) -> int:
        return self._iteration or 0

    def add_tag(self, tag: str) -> None:
        """Add a tag. Backends get it as the parameter `tags`."""
        self.tags.append(tag)
        self.log_params({"tags": ", ".join(self.tags)})

    def get_source_id(self) -> str:
        return f"experiment_{self.id}"

    # --- parts of the user -----------------------------------------------------------------------

    def add_backend(self, backend: Any, config: Mapping[str, Any] | None = None) -> None:
        """Add a backend: an object of the user, or a name. Raise BackendError for a name after `start`."""
        name = getattr(backend, "kind", backend)
        if own := getattr(backend, "config", None) if name is not backend else None:
            before = self._backend_config.get(name)
            self._backend_config[name] = {**(before if isinstance(before, Mapping) else {}), **own}
        if not isinstance(name, str):
            self._orchestrator.add_backend(backend, {**self.backend_settings(), **(config or {})})
        elif self.is_running:
            raise BackendError(
                f"the experiment has started, so {name!r} can't be added", hint="add it before start()"
            )
        else:
            self._backends.append(name)
            self._run_backends()

    def add_collector(self, collector: Any, interval_s: float | None = None) -> None:
        """Add a collector that is read every `metrics_interval` or `interval_s` seconds."""
        self._add(partial(self._begin_collector, collector, interval_s))

    def add_framework(self, framework: Any) -> None:
        """Add a framework plugin."""
        self._add(partial(self._begin_framework, framework))

    @property
    def active_backends(self) -> list[str]:
        """Names of the backends, without their options."""
        return [text.partition(":")[0] for text in self._backends]

    @property
    def backends(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(name=name) for name in self.active_backends]

    def backend_settings(self) -> dict[str, Any]:
        """Return the configuration that plugins of the user get."""
        settings = self.settings
        return {
            "experiment_id": self.id,
            "experiment_name": self.name,
            "run_name": self.name,
            "project": self.project,
            "tags": list(self.tags),
            **{name: value for name in ("api_key", "backend_url") if (value := getattr(settings, name))},
            **self._backend_config,
        }

    # --- artifacts -------------------------------------------------------------------------------

    def create_artifact(
        self, name: str, artifact_type: ArtifactType, description: str | None = None
    ) -> TraceletArtifact:
        """Return an artifact to fill. Raise RuntimeError if artifacts are switched off."""
        if not self._artifacts_enabled:
            raise RuntimeError(
                "artifacts are switched off: pass artifacts=True to Experiment, or set TRACELET_ENABLE_ARTIFACTS"
            )
        return TraceletArtifact(name, artifact_type, description)

    def log_artifact(
        self,
        artifact: TraceletArtifact | str | os.PathLike[str] | None = None,
        artifact_path: str | os.PathLike[str] | None = None,
    ) -> dict[str, ArtifactResult]:
        """Record a file, or an artifact of `create_artifact`, by reference. Return where it goes, by backend.

        `artifact_path` alone is the path of the file, as in Tracelet's architecture document.
        """
        if artifact is None:
            artifact, artifact_path = artifact_path, None
        if artifact is None:
            raise TypeError("log_artifact needs a file or an artifact")
        self._begin()
        if isinstance(artifact, TraceletArtifact):
            folder = Path(self.recorder.directory or ".", "artifacts", file_name(artifact.name, "-_."))
            parts = artifact.parts(str(folder))
            uri = parts[0][1] if parts else ""
            parts = [(f"{artifact.name}/{name}", path) for name, path in parts]
            if facts := artifact.facts():
                self.log_params({f"artifacts.{artifact.name}": facts})
        else:
            path = Path(artifact)
            name = os.fspath(artifact_path or path.name)
            parts, uri = [(f"{name}{path.name}" if name.endswith("/") else name, str(path))], str(path.absolute())
            artifact = TraceletArtifact(parts[0][0], kind_of(path.name))
            artifact.size_bytes = path.stat().st_size if path.is_file() else 0
        for name, file_path in parts:
            self.recorder.artifact(name, file_path, artifact.type.value)
            self.route(name, file_path, MetricType.ARTIFACT, metadata={"artifact_path": name})
        artifact.version = version = f"v{1 + sum(each.name == artifact.name for each in self._artifacts)}"
        self._artifacts.append(artifact)
        backends = self.active_backends or [_RUN]
        return {name: ArtifactResult(version, uri, artifact.size_bytes, name) for name in backends}

    def log_file_artifact(self, local_path: str, artifact_path: str | None = None) -> None:
        """Record a file by reference."""
        self.log_artifact(local_path, artifact_path)

    def get_artifact(
        self, name: str, version: str = "latest", backend: str | None = None
    ) -> TraceletArtifact | None:
        """Return an artifact that this experiment has logged, or None."""
        artifacts = [each for each in self.list_artifacts(backend=backend) if each.name == name]
        return next((each for each in reversed(artifacts) if version in ("latest", each.version)), None)

    def list_artifacts(
        self, type_filter: ArtifactType | None = None, backend: str | None = None
    ) -> list[TraceletArtifact]:
        """Return the artifacts that this experiment has logged, the oldest first."""
        if backend not in (None, _RUN, *self.active_backends):
            return []
        return [each for each in self._artifacts if type_filter in (None, each.type)]

    # --- automagic -------------------------------------------------------------------------------

    def capture_hyperparams(self) -> dict[str, Any]:
        """Report that variables of the program are never read. Return an empty dictionary."""
        return self._instrumentor().capture_hyperparameters(self)

    def capture_model(self, model: Any) -> dict[str, Any]:
        """Record facts about a model and return them."""
        return self._instrumentor().capture_model_info(model, self)

    def capture_dataset(self, dataset: Any) -> dict[str, Any]:
        """Record facts about a dataset and return them."""
        return self._instrumentor().capture_dataset_info(dataset, self)

    def _instrumentor(self) -> AutomagicInstrumentor:
        """Return the object of automagic with the configuration of the experiment."""
        from telemetry.compat.tracelet.automagic import AutomagicConfig, AutomagicInstrumentor

        config = self.automagic_config
        if config is None:
            names = ("detect_function_args", "detect_class_attributes", "track_model_architecture")
            config = AutomagicConfig(**{name: getattr(self.settings, name) for name in names})
            if self.config.automagic_frameworks is not None:
                config.frameworks = set(self.config.automagic_frameworks)
        return AutomagicInstrumentor.get_instance(config)

    # --- parts of a running experiment -----------------------------------------------------------

    def _record_facts(self, backends: RunBackends) -> None:
        facts = {"project": self.project, "experiment": self.name, **backends.settings}
        if self.tags:
            facts["tags"] = ", ".join(self.tags)
        if self.config.track_environment:
            facts |= {
                "environment.python": platform.python_version(),
                "environment.platform": platform.platform(),
                "environment.hostname": platform.node(),
                "environment.cpus": os.cpu_count(),
            }
        if self.config.track_args:
            facts["args"] = " ".join(REDACTION.redactor.arguments(sys.argv))
        self.log_params(facts)

    def _begin_captures(self, stack: ExitStack) -> None:
        config, settings = self.config, self.settings
        if config.track_checkpoints or self._automagic_artifacts_enabled:
            stack.callback(hold(CHECKPOINTS))
        if config.watch_filesystem or config.artifact_watch_dirs:
            user_warnings.warn("watch_filesystem is refused: call log_artifact when a file is complete")
        if config.track_stdout and "track_stdout" in settings.explicit:
            user_warnings.warn(
                "track_stdout is refused: start the program with `telemetry run --tui`, which keeps its output"
            )
        for framework in (PyTorchFramework(), LightningFramework()):
            if getattr(settings, f"track_{framework.capture}"):
                framework.initialize(self)
                self.frameworks[framework.name] = framework
                stack.callback(framework.stop_tracking)
        if self._automagic_enabled:
            instrumentor = self._instrumentor()
            instrumentor.attach_experiment(self)
            stack.callback(instrumentor.detach_experiment, self.id)

    def _begin_collectors(self, stack: ExitStack) -> None:
        settings = self.settings
        magic = self._instrumentor().config if self._automagic_enabled else None
        if self.config.track_git and (magic is None or magic.track_git_info):
            thread = threading.Thread(target=self._record_git, name="tracelet-git", daemon=True)
            thread.start()
            stack.callback(thread.join, _GIT_S)
        if self.config.track_system_metrics:
            collector = SystemMetricsCollector(
                settings.metrics_interval,
                cpu=magic is None or magic.monitor_cpu_usage,
                gpu=settings.track_gpu and (magic is None or magic.monitor_gpu_memory),
                disk=settings.track_disk,
                network=settings.track_network,
            )
            self._begin_collector(collector)

    def _record_git(self) -> None:
        collector = GitCollector()
        collector.initialize()
        if facts := collector.shared():
            self.log_params(facts)

    def _begin_plugins(self, backends: RunBackends) -> None:
        manager = self._plugin_manager
        for name, info in manager.plugins.items():
            kind, is_registered = info.metadata.type, manager.get_plugin_instance(name) is not None
            if kind is PluginType.BACKEND and (name in backends.plugins or is_registered):
                plugin, own = manager.instance(info), self._backend_config.get(name)
                if plugin not in self._orchestrator.sinks.values():
                    self.add_backend(plugin, own if isinstance(own, dict) else None)
            elif kind in (PluginType.COLLECTOR, PluginType.FRAMEWORK):
                begin = self._begin_collector if kind is PluginType.COLLECTOR else self._begin_framework
                with _reported(name):
                    begin(manager.instance(info))

    def _add(self, begin: Callable[[], None]) -> None:
        self._added.append(begin)
        if self.is_running:
            begin()

    def _begin_collector(self, collector: Any, interval_s: float | None = None) -> None:
        assert self._stack is not None
        emit = self._orchestrator.emit_metric
        if isinstance(collector, SystemMetricsCollector):
            collector.emit = emit
            collector.initialize()
            collector.start()
            self._stack.callback(collector.stop)
        else:
            own_s = getattr(collector, "_collection_interval", None)
            interval_s = interval_s or own_s or self.settings.metrics_interval
            thread = CollectorThread(collector.collect, emit, interval_s, name_of(collector), collector)
            self._stack.callback(thread.stop)

    def _begin_framework(self, plugin: Any) -> None:
        assert self._stack is not None
        self._stack.callback(_end_framework, plugin)
        with _reported(name_of(plugin)):
            is_interface = callable(getattr(plugin, "start_tracking", None))
            call(plugin, "initialize", self if is_interface else self.backend_settings())
            call(plugin, "set_experiment", self)
            call(plugin, "patch_framework", self._orchestrator)
            call(plugin, "start_tracking")
            call(plugin, "start")

    # --- helpers ---------------------------------------------------------------------------------

    def _run_backends(self) -> RunBackends:
        return run_backends(
            self._backends,
            self.settings,
            name=self.name,
            tags=self.tags,
            config=self._backend_config,
            plugins={name: info.metadata for name, info in self._plugin_manager.plugins.items()},
        )

    def _begin(self) -> None:
        """Start an experiment that has never been started."""
        if self.run is None:
            self.start()

    def _log_first(self, name: str, value: Any, iteration: int) -> None:
        self.start()
        self._log(name, value, iteration)

    def _log_late(self, name: str, value: Any, iteration: int) -> None:
        self.recorder.leave_out(name, f"the experiment {self.name!r} has ended; call start() again")


def _ignore(name: str, value: Any, iteration: int) -> None:
    """Ignore a value, as metrics are switched off."""


@contextmanager
def _reported(name: str) -> Iterator[None]:
    """Return a `with` block for code of a plugin. Its error is reported, and the experiment goes on."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 – code of the user
        user_warnings.warn(f"the plugin {name} raised {error_text(error)}. The experiment goes on")


def _end_framework(plugin: Any) -> None:
    with _reported(name_of(plugin)):
        for name in ("stop_tracking", "stop", "cleanup"):
            call(plugin, name)
