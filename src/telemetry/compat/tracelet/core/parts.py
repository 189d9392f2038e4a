"""The parts of a running experiment: captures, collectors, frameworks and plugins."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from telemetry.client import user_warnings
from telemetry.compat.tracelet.collectors import GitCollector, SystemMetricsCollector
from telemetry.compat.tracelet.core import automatic
from telemetry.compat.tracelet.core.collecting import CollectorThread
from telemetry.compat.tracelet.core.plugins import PluginInfo, PluginType
from telemetry.compat.tracelet.core.run_backends import RunBackends
from telemetry.compat.tracelet.core.sinks import call_if_there, name_of
from telemetry.compat.tracelet.frameworks import LightningFramework, PyTorchFramework
from telemetry.errors import error_text

if TYPE_CHECKING:
    from telemetry.compat.tracelet.automagic import AutomagicInstrumentor
    from telemetry.compat.tracelet.core.experiment import Experiment

_GIT_S: Final = 5.0
"""Longest wait for git at the end."""


class Parts:
    """A starter of the parts. What it starts ends with the stack it is given, in reverse order."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._waiting: list[Callable[[], None]] = []
        """Starters of the user's collectors and frameworks, called at each start."""
        self._begun: set[str] = set()
        """Names of the backend plugins that the orchestrator has."""
        self._stack: ExitStack | None = None

    def start(self, stack: ExitStack, backends: RunBackends) -> None:
        """Start all parts of an experiment."""
        stack.callback(setattr, self, "_stack", None)
        stack.callback(self._experiment._orchestrator.stop)
        self._stack = stack
        self._begin_plugins(backends)
        self._experiment._orchestrator.start()
        self._record_facts(backends)
        self._begin_captures(stack)
        self._begin_collectors(stack)
        for begin in self._waiting:
            begin()

    def add_collector(self, collector: Any, interval_s: float | None) -> None:
        """Add a collector, and start it if the experiment runs."""
        self._add(partial(self._begin_collector, collector, interval_s))

    def add_framework(self, framework: Any) -> None:
        """Add a framework plugin, and start it if the experiment runs."""
        self._add(partial(self._begin_framework, framework))

    def instrumentor(self) -> AutomagicInstrumentor:
        """Return the object of automagic with the configuration of the experiment."""
        from telemetry.compat.tracelet.automagic import AutomagicConfig, AutomagicInstrumentor

        config = self._experiment.automagic_config
        if config is None:
            names = ("detect_function_args", "detect_class_attributes", "track_model_architecture")
            config = AutomagicConfig(**{name: getattr(self._experiment.settings, name) for name in names})
            if (frameworks := self._experiment.config.automagic_frameworks) is not None:
                config.frameworks = set(frameworks)
        return AutomagicInstrumentor.get_instance(config)

    def _add(self, begin: Callable[[], None]) -> None:
        self._waiting.append(begin)
        if self._stack is not None:
            begin()

    def _record_facts(self, backends: RunBackends) -> None:
        experiment = self._experiment
        facts = {"project": experiment.project, "experiment": experiment.name, **backends.settings}
        if experiment.tags:
            facts["tags"] = ", ".join(experiment.tags)
        if experiment.config.track_environment:
            facts |= automatic.environment()
        if experiment.config.track_args:
            facts |= automatic.arguments()
        experiment.log_params(facts)

    def _begin_captures(self, stack: ExitStack) -> None:
        experiment, config, settings = self._experiment, self._experiment.config, self._experiment.settings
        if config.track_checkpoints or experiment._automagic_artifacts_enabled:
            stack.callback(automatic.CHECKPOINTS.hold())
        if config.watch_filesystem or config.artifact_watch_dirs:
            user_warnings.warn("watch_filesystem is refused: call log_artifact when a file is complete")
        if config.track_stdout and "track_stdout" in settings.explicit:
            user_warnings.warn(
                "track_stdout is refused: start the program with `telemetry run --tui`, which keeps its output"
            )
        for wanted, framework in (
            (settings.track_tensorboard, PyTorchFramework()),
            (settings.track_lightning, LightningFramework()),
        ):
            if wanted:
                framework.initialize(experiment)
                experiment.frameworks[framework.name] = framework
                stack.callback(framework.stop_tracking)
        if experiment._automagic_enabled:
            instrumentor = self.instrumentor()
            instrumentor.attach_experiment(experiment)
            stack.callback(instrumentor.detach_experiment, experiment.id)

    def _begin_collectors(self, stack: ExitStack) -> None:
        experiment, config, settings = self._experiment, self._experiment.config, self._experiment.settings
        magic = self.instrumentor().config if experiment._automagic_enabled else None
        if config.track_git and (magic is None or magic.track_git_info):
            thread = threading.Thread(target=self._record_git, name="tracelet-git", daemon=True)
            thread.start()
            stack.callback(thread.join, _GIT_S)
        if config.track_system_metrics:
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
            self._experiment.log_params(facts)

    def _begin_plugins(self, backends: RunBackends) -> None:
        manager, experiment = self._experiment._plugin_manager, self._experiment
        for name, info in manager.plugins.items():
            kind, is_registered = info.metadata.type, manager.get_plugin_instance(name) is not None
            if kind is PluginType.BACKEND and (name in backends.plugins or is_registered):
                if name not in self._begun:
                    self._begun.add(name)
                    own = experiment.backend_settings().get(name)
                    experiment.add_backend(manager.instance(info), own if isinstance(own, dict) else None)
            elif kind in (PluginType.COLLECTOR, PluginType.FRAMEWORK):
                self._guarded(name, partial(self._begin_found, info))

    def _begin_found(self, info: PluginInfo) -> None:
        plugin = self._experiment._plugin_manager.instance(info)
        if info.metadata.type is PluginType.COLLECTOR:
            self._begin_collector(plugin)
        else:
            self._begin_framework(plugin)

    def _begin_collector(self, collector: Any, interval_s: float | None = None) -> None:
        assert self._stack is not None
        emit, settings = self._experiment._orchestrator.emit_metric, self._experiment.settings
        if isinstance(collector, SystemMetricsCollector):
            collector.emit = emit
            collector.initialize()
            collector.start()
            self._stack.callback(collector.stop)
        else:
            own: float | None = getattr(collector, "_collection_interval", None)
            interval = interval_s or own or settings.metrics_interval
            thread = CollectorThread(collector.collect, emit, interval, name_of(collector), collector)
            self._stack.callback(thread.stop)

    def _begin_framework(self, plugin: Any) -> None:
        def begin() -> None:
            experiment = self._experiment
            is_interface = callable(getattr(plugin, "start_tracking", None))
            call_if_there(plugin, "initialize", experiment if is_interface else experiment.backend_settings())
            call_if_there(plugin, "set_experiment", experiment)
            call_if_there(plugin, "patch_framework", experiment._orchestrator)
            for name in ("start_tracking", "start"):
                call_if_there(plugin, name)

        def end() -> None:
            for name in ("stop_tracking", "stop", "cleanup"):
                call_if_there(plugin, name)

        assert self._stack is not None
        self._stack.callback(self._guarded, name_of(plugin), end)
        self._guarded(name_of(plugin), begin)

    def _guarded(self, name: str, act: Callable[[], None]) -> None:
        """Run code of a plugin. Report its error and go on."""
        try:
            act()
        except Exception as error:  # noqa: BLE001 – code of the user
            user_warnings.warn(f"the plugin {name} raised {error_text(error)}. The experiment goes on")
