"""Exceptions of W&B's interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from telemetry.compat.wandb import term

__all__ = ["AuthenticationError", "CommError", "Error", "UnsupportedError", "UsageError", "term"]


class Error(Exception):
    """Base of all exceptions of this interface."""

    def __init__(self, message: str, context: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.context = dict(context or {})


class CommError(Error):
    """A run that can't be reached or started."""

    def __init__(self, msg: str, exc: Exception | None = None) -> None:
        super().__init__(msg)
        self.exc = exc


class AuthenticationError(CommError):
    """A refused key. Programs may catch it; nothing raises it here."""


class UsageError(Error):
    """A wrong use of the interface."""


class UnsupportedError(UsageError):
    """A part of W&B that needs its server."""
