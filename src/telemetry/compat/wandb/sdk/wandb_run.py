"""The class `Run` under the name of W&B's own module."""

from __future__ import annotations

from telemetry.compat.wandb.wandb_run import Run

__all__ = ["Run"]
