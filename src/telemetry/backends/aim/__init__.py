"""Aim: a run in a repository on a disk."""

from telemetry.backends.aim.backend import AimBackend

__all__ = ["AimBackend"]
