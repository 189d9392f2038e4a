"""TensorBoard: event files that its own reader, and everything made for them, shows."""

from telemetry.backends.tensorboard.backend import TensorBoardBackend

__all__ = ["TensorBoardBackend"]
