"""A backend, a collector and a framework of the user in Tracelet, in the forms of its architecture document."""

import json
from pathlib import Path

from telemetry.compat.tracelet.core.experiment import Experiment
from telemetry.compat.tracelet.core.interfaces import BackendInterface, CollectorInterface
from telemetry.compat.tracelet.core.orchestrator import Metric, Orchestrator
from telemetry.compat.tracelet.core.plugins import BackendPlugin, FrameworkPlugin, PluginInterface, PluginMetadata
from telemetry.compat.tracelet.settings import TraceletSettings


class FileBackend(BackendInterface):
    def __init__(self, config: dict):
        self.path = config["path"]

    def write(self, *words) -> None:
        with open(self.path, "a") as file:
            print(json.dumps(words), file=file)

    def log_metric(self, name: str, value: float, step: int) -> None:
        self.write("metric", name, value, step)

    def log_params(self, params: dict) -> None:
        self.write("params", params)

    def log_artifact(self, artifact_path: str, artifact_name: str | None = None) -> None:
        self.write("artifact", artifact_path, artifact_name)

    def start_experiment(self, name: str, project: str) -> str:
        self.write("start", name, project)
        return "1"

    def end_experiment(self) -> None:
        self.write("end")


class FilePlugin(BackendPlugin):
    @classmethod
    def get_metadata(cls) -> PluginMetadata:
        return PluginMetadata(name="file", version="1", plugin_type="backend")

    def initialize(self, config: dict) -> None:
        self.path = "parts.jsonl"

    def create_backend(self, config: dict) -> BackendInterface:
        return FileBackend({**config, "path": self.path})

    def cleanup(self) -> None:
        Path("cleaned").touch()


class LoopFramework(FrameworkPlugin):
    def patch_framework(self, orchestrator: Orchestrator) -> None:
        orchestrator.route_metric(Metric("accuracy", 0.95, 100))


class ClockCollector(CollectorInterface):
    def collect(self):
        return [Metric(name="clock", value=1.5, step=0)]


assert issubclass(FilePlugin, PluginInterface)
settings = TraceletSettings()
assert (settings.project, settings.backend, settings.metrics_interval) == ("default", ["mlflow"], 30.0)
assert settings.track_system
assert settings.track_git
assert settings.track_env

experiment = Experiment(name="digits", project="vision")
experiment.add_backend(FilePlugin())
experiment.add_framework(LoopFramework())
experiment.add_collector(ClockCollector())
experiment.start()
metric = Metric(name="accuracy", value=0.97, step=101)
experiment._orchestrator.route_metric(metric)
assert (metric.name, metric.value, metric.step) == ("accuracy", 0.97, 101)
experiment.log_metric(name="loss", value=0.5, step=1)
experiment.log_params({"lr": 0.1})
Path("model.pt").write_text("weights")
experiment.log_artifact(artifact_path="model.pt")
experiment.stop()
