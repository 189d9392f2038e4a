"""The exception of changed settings."""

from __future__ import annotations

from telemetry.compat.wandb.errors import Error


class ConfigError(Error):
    """A setting was given another value without `allow_val_change`."""
