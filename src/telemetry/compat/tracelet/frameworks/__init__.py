"""Integrations of frameworks: TensorBoard's SummaryWriter and Lightning."""

from telemetry.compat.tracelet.frameworks.lightning import LightningFramework
from telemetry.compat.tracelet.frameworks.pytorch import PyTorchFramework

__all__ = ["LightningFramework", "PyTorchFramework"]
