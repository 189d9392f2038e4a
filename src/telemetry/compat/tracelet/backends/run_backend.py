"""A tracker as a class with a configuration: the name of a writer of the run, or an experiment of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from telemetry.compat.tracelet.core.interfaces import MetricData
from telemetry.compat.tracelet.core.plugins import BackendPlugin, PluginMetadata, PluginType
from telemetry.compat.tracelet.exceptions import BackendError
from telemetry.compat.tracelet.settings import current

if TYPE_CHECKING:
    from telemetry.compat.tracelet.core.experiment import Experiment

_AUTOMATIC: Final = ("system", "git", "env", "args", "stdout", "checkpoints", "tensorboard", "lightning")


class RunBackend(BackendPlugin):
    """A tracker. `experiment.add_backend(MLflowBackend(config))` adds it to an experiment.

    Without one, `start_experiment` starts an experiment that has this tracker alone.
    """

    kind = ""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        """`config` has options of the tracker, such as `tracking_uri`, `entity` or `tags`."""
        super().__init__()
        self.config = dict(config or {})
        self._experiment: Experiment | None = None

    @classmethod
    def get_metadata(cls) -> PluginMetadata:
        return PluginMetadata(cls.kind, "1", PluginType.BACKEND, f"the tracker {cls.kind}")

    def start_experiment(self, name: str, project: str) -> str:
        """Start an experiment with this tracker alone, and return the id of its run. End one that is open."""
        from telemetry.compat.tracelet.core.experiment import Experiment

        self.end_experiment()
        settings = current().copy(project=project, **{f"track_{feature}": False for feature in _AUTOMATIC})
        experiment = Experiment(
            name, backend=[self.kind], settings=settings, backend_config={self.kind: self.config}
        )
        experiment.start()
        self._experiment = experiment
        return experiment.run.run_id if experiment.run is not None else experiment.id

    def end_experiment(self) -> None:
        """Deliver everything and end the experiment. Without one it has no effect."""
        experiment, self._experiment = self._experiment, None
        if experiment is not None:
            experiment.stop()

    def log_metric(self, name: str, value: Any, step: int | None = None) -> None:
        """Record a value of a step. Raise BackendError without an experiment."""
        self._open().log_metric(name, value, step)

    def log_params(self, params: dict[str, Any]) -> None:
        """Record parameters. Raise BackendError without an experiment."""
        self._open().log_params(params)

    def log_artifact(self, artifact_path: str, artifact_name: str | None = None) -> None:
        """Record a file by reference. Raise BackendError without an experiment."""
        self._open().log_artifact(artifact_path, artifact_name)

    def receive_metric(self, metric: MetricData) -> None:
        """Record a metric. Raise BackendError without an experiment."""
        self._open().emit_metric(metric)

    def _open(self) -> Experiment:
        if self._experiment is None:
            raise BackendError(
                f"{self.kind} has no experiment",
                hint=f"call start_experiment(name, project), or name it: Experiment(…, backend=['{self.kind}'])",
            )
        return self._experiment
