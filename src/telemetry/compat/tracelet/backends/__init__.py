"""Tracelet's trackers by name. Each is a writer of the run, in a process of its own."""

from __future__ import annotations

from functools import cache

from telemetry.compat.tracelet.core.metrics import MetricData
from telemetry.compat.tracelet.core.plugins import BackendPlugin, PluginMetadata, PluginType
from telemetry.compat.tracelet.core.run_backends import installed
from telemetry.compat.tracelet.exceptions import BackendError

__all__ = ["AimBackend", "ClearMLBackend", "MLflowBackend", "WandbBackend", "available_backends", "get_backend"]


class RunBackend(BackendPlugin):
    """A tracker as a class. It stands for its name: `experiment.add_backend(get_backend("mlflow")())`."""

    kind = ""

    @classmethod
    def get_metadata(cls) -> PluginMetadata:
        return PluginMetadata(cls.kind, "1", PluginType.BACKEND, f"the tracker {cls.kind}")

    def receive_metric(self, metric: MetricData) -> None:
        """Raise BackendError: a tracker gets its values from the run."""
        raise BackendError(
            f"{self.kind} is no sink of metrics", hint=f"name it: Experiment(…, backend=['{self.kind}'])"
        )


class AimBackend(RunBackend):
    """The tracker Aim."""

    kind = "aim"


class ClearMLBackend(RunBackend):
    """The tracker ClearML."""

    kind = "clearml"


class MLflowBackend(RunBackend):
    """The tracker MLflow."""

    kind = "mlflow"


class WandbBackend(RunBackend):
    """The tracker W&B."""

    kind = "wandb"


_CLASSES = {cls.kind: cls for cls in (AimBackend, ClearMLBackend, MLflowBackend, WandbBackend)}


@cache
def classes() -> dict[str, type[RunBackend]]:
    """Return the trackers that can be used here."""
    return {kind: cls for kind, cls in _CLASSES.items() if installed(kind)}


def get_backend(backend_name: str) -> type | None:
    """Return the class of a tracker, or None if it can't be used here."""
    return classes().get(backend_name)


def available_backends() -> dict[str, bool]:
    """Return whether each tracker can be used here."""
    return {kind: kind in classes() for kind in _CLASSES}
