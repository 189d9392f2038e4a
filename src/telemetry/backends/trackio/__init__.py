"""The Trackio backend: a run as rows in its database, in a folder or on a server."""

from telemetry.backends.trackio.backend import TrackioBackend

__all__ = ["TrackioBackend"]
