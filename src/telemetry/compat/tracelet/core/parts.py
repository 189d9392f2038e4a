"""The parts of a running experiment: captures, collectors, frameworks and plugins."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from telemetry.client import notice
from telemetry.compat.tracelet.collectors.git import GitCollector
from telemetry.compat.tracelet.collectors.system import SystemMetricsCollector
from telemetry.compat.tracelet.core import automatic
from telemetry.compat.tracelet.core.collecting import CollectorThread
from telemetry.compat.tracelet.core.plugins import PluginInfo, PluginType
from telemetry.compat.tracelet.core.run_backends import RunBackends
from telemetry.compat.tracelet.core.sinks import call, name_of
from telemetry.compat.tracelet.frameworks import LightningFramework, PyTorchFramework

if TYPE_CHECKING:
    from telemetry.compat.tracelet.automagic import AutomagicInstrumentor
    from telemetry.compat.tracelet.core.experiment import Experiment


class Parts:
    """A starter of the parts. What it starts ends with the stack it is given, in reverse order."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._collectors: list[tuple[Any, float | None]] = []
        self._plugins: list[Any] = []
        self._begun: set[str] = set()
        """Names of the backend plugins that the orchestrator has."""
        self._stack: ExitStack | None = None

    def start(self, stack: ExitStack, backends: RunBackends) -> None:
        """Start all parts of an experiment."""
        experiment = self._experiment
        orchestrator = experiment._orchestrator
        stack.callback(self._forget)
        stack.callback(orchestrator.stop)
        self._stack = stack
        self._begin_plugins(backends)
        orchestrator.start()
        self._record_facts(backends)
        self._begin_captures(stack)
        self._begin_collectors(stack)
        for collector, interval_s in self._collectors:
            self._begin_collector(collector, interval_s)
        for plugin in self._plugins:
            self._begin_framework(plugin)

    def add_collector(self, collector: Any, interval_s: float | None) -> None:
        """Add a collector, and start it if the experiment runs."""
        self._collectors.append((collector, interval_s))
        if self._stack is not None:
            self._begin_collector(collector, interval_s)

    def add_framework(self, framework: Any) -> None:
        """Add a framework plugin, and start it if the experiment runs."""
        self._plugins.append(framework)
        if self._stack is not None:
            self._begin_framework(framework)

    def instrumentor(self) -> AutomagicInstrumentor:
        """Return the object of automagic with the configuration of the experiment."""
        from telemetry.compat.tracelet.automagic import AutomagicConfig, AutomagicInstrumentor

        experiment = self._experiment
        config = experiment.automagic_config
        if config is None:
            settings, frameworks = experiment.settings, experiment.config.automagic_frameworks
            config = AutomagicConfig(
                detect_function_args=settings.detect_function_args,
                detect_class_attributes=settings.detect_class_attributes,
                track_model_architecture=settings.track_model_architecture,
            )
            if frameworks is not None:
                config.frameworks = set(frameworks)
        return AutomagicInstrumentor.get_instance(config)

    def _forget(self) -> None:
        self._stack = None

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
            notice.warn("watch_filesystem is refused: call log_artifact when a file is complete")
        if config.track_stdout and "track_stdout" in settings.explicit:
            notice.warn(
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
            stack.callback(automatic.in_background(self._record_git, "git"))
        if config.track_system_metrics:
            collector = SystemMetricsCollector(
                settings.metrics_interval,
                cpu=magic is None or magic.monitor_cpu_usage,
                gpu=settings.track_gpu and (magic is None or magic.monitor_gpu_memory),
                disk=settings.track_disk,
                network=settings.track_network,
                emit=experiment._orchestrator.emit_metric,
            )
            collector.initialize()
            collector.start()
            stack.callback(collector.stop)

    def _record_git(self) -> None:
        collector = GitCollector()
        collector.initialize()
        if facts := collector.shared():
            self._experiment.log_params(facts)

    def _begin_plugins(self, backends: RunBackends) -> None:
        manager, experiment = self._experiment._plugin_manager, self._experiment
        for info in manager.plugins.values():
            is_registered = manager.get_plugin_instance(info.name) is not None
            if info.metadata.type is PluginType.BACKEND and (info.name in backends.plugins or is_registered):
                if info.name not in self._begun:
                    self._begun.add(info.name)
                    own = experiment.backend_settings().get(info.name)
                    experiment.add_backend(manager.instance(info), own if isinstance(own, dict) else None)
            elif info.metadata.type is PluginType.COLLECTOR:
                self._begin_plugin(partial(self._begin_found, info, self._begin_collector), info.name)
            elif info.metadata.type is PluginType.FRAMEWORK:
                self._begin_plugin(partial(self._begin_found, info, self._begin_framework), info.name)

    def _begin_found(self, info: PluginInfo, begin: Callable[[Any], None]) -> None:
        begin(self._experiment._plugin_manager.instance(info))

    def _begin_collector(self, collector: Any, interval_s: float | None = None) -> None:
        stack, experiment = self._stack, self._experiment
        assert stack is not None
        own: float | None = getattr(collector, "_collection_interval", None)
        interval = interval_s or own or experiment.settings.metrics_interval
        if isinstance(collector, SystemMetricsCollector):
            collector.emit = experiment._orchestrator.emit_metric
            collector.initialize()
            collector.start()
            stack.callback(collector.stop)
            return
        emit = experiment._orchestrator.emit_metric
        thread = CollectorThread(collector.collect, emit, interval, name_of(collector), owned=collector)
        thread.start()
        stack.callback(thread.stop)

    def _begin_framework(self, plugin: Any) -> None:
        def begin() -> None:
            experiment = self._experiment
            is_interface = callable(getattr(plugin, "start_tracking", None))
            if callable(getattr(plugin, "initialize", None)):
                call(plugin.initialize, experiment if is_interface else experiment.backend_settings())
            if callable(getattr(plugin, "set_experiment", None)):
                plugin.set_experiment(experiment)
            if callable(getattr(plugin, "patch_framework", None)):
                plugin.patch_framework(experiment._orchestrator)
            for name in ("start_tracking", "start"):
                if callable(getattr(plugin, name, None)):
                    getattr(plugin, name)()

        assert self._stack is not None
        self._stack.callback(self._begin_plugin, lambda: _end_framework(plugin), name_of(plugin))
        self._begin_plugin(begin, name_of(plugin))

    def _begin_plugin(self, act: Callable[[], None], name: str) -> None:
        """Run code of a plugin. Report its error and go on."""
        try:
            act()
        except Exception as error:  # noqa: BLE001 – code of the user
            notice.warn(f"the plugin {name} raised {type(error).__name__}: {error}. The experiment goes on")


def _end_framework(plugin: Any) -> None:
    for name in ("stop_tracking", "stop", "cleanup"):
        if callable(getattr(plugin, name, None)):
            getattr(plugin, name)()
