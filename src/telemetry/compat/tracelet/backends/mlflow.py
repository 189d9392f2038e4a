"""The tracker MLflow as a class."""

from telemetry.compat.tracelet.core.run_backends import RunBackend


class MLflowBackend(RunBackend):
    kind = "mlflow"
