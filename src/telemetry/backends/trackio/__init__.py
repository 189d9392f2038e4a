"""Trackio: a run as rows of its database, in a folder or behind a server of its."""

from telemetry.backends.trackio.backend import TrackioBackend

__all__ = ["TrackioBackend"]
