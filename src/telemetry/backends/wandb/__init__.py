"""The Weights & Biases backend: a run as rows of its history, with an x-axis for each axis of steps."""

from telemetry.backends.wandb.backend import WandbBackend

__all__ = ["WandbBackend"]
