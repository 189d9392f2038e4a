"""Modules under the names that libraries import them by."""

from __future__ import annotations

from telemetry.compat.wandb.sdk.lib import config_util

__all__ = ["RunDisabled", "config_util"]


class RunDisabled:
    """The type of disabled runs in older versions. Here they are a `Run`."""
