"""The tracker MLflow as a class."""

from telemetry.compat.tracelet.backends.run_backend import RunBackend


class MLflowBackend(RunBackend):
    """The tracker MLflow."""

    kind = "mlflow"
