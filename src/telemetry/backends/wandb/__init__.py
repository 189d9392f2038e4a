"""Weights & Biases: a run as rows of its history, each axis of steps an x-axis of its own."""

from telemetry.backends.wandb.backend import WandbBackend

__all__ = ["WandbBackend"]
