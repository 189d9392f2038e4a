"""The MLflow backend: a run in a tracking store, on a server or in a database."""

from telemetry.backends.mlflow.backend import MLflowBackend

__all__ = ["MLflowBackend"]
