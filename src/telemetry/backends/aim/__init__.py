"""The Aim backend: a run in a repository on disk."""

from telemetry.backends.aim.backend import AimBackend

__all__ = ["AimBackend"]
