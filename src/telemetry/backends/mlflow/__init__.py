"""MLflow: a run of its tracking store, behind a server or in a database."""

from telemetry.backends.mlflow.backend import MLflowBackend

__all__ = ["MLflowBackend"]
