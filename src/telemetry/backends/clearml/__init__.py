"""The ClearML backend: a run as a task, in an offline session on this host or on a server."""

from telemetry.backends.clearml.backend import ClearMLBackend

__all__ = ["ClearMLBackend"]
