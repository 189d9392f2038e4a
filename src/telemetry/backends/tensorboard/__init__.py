"""The TensorBoard backend: event files for TensorBoard and compatible tools."""

from telemetry.backends.tensorboard.backend import TensorBoardBackend

__all__ = ["TensorBoardBackend"]
