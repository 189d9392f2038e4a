"""Tracelet's trackers by name. Each is a writer of the run, in a process of its own."""

from telemetry.compat.tracelet.backends.aim import AimBackend
from telemetry.compat.tracelet.backends.clearml import ClearMLBackend
from telemetry.compat.tracelet.backends.mlflow import MLflowBackend
from telemetry.compat.tracelet.backends.wandb import WandbBackend
from telemetry.compat.tracelet.core.run_backends import RunBackend, installed

__all__ = ["AimBackend", "ClearMLBackend", "MLflowBackend", "WandbBackend", "available_backends", "get_backend"]
_CLASSES: dict[str, type[RunBackend]] = {
    cls.kind: cls for cls in (MLflowBackend, WandbBackend, ClearMLBackend, AimBackend)
}


def classes() -> dict[str, type[RunBackend]]:
    """Return the trackers that can be used here."""
    return {kind: cls for kind, cls in _CLASSES.items() if installed(kind)}


def get_backend(backend_name: str) -> type | None:
    """Return the class of a tracker, or None if it can't be used here."""
    return classes().get(backend_name)


def available_backends() -> dict[str, bool]:
    """Return whether each tracker can be used here."""
    return {kind: installed(kind) for kind in _CLASSES}
