"""The `notify` backend: messages to people through Apprise."""

from telemetry.backends.notify.backend import NotifyBackend

__all__ = ["NotifyBackend"]
