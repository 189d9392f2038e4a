"""Exceptions of the Tracelet interface."""

from __future__ import annotations

from telemetry.errors import UsageError


class TraceletException(UsageError):
    """The base of the exceptions below."""


class ConfigurationError(TraceletException, ValueError):
    """A setting has an impossible value, or names a backend that does not exist or is not installed."""


class BackendError(TraceletException):
    """A backend can't do what it is asked for."""
