"""A tracker of Tracelet as a class with a configuration, without an experiment around it."""

from telemetry.compat.tracelet.backends.mlflow import MLflowBackend

backend = MLflowBackend(config={"tracking_uri": "file:./mlruns"})
run_id = backend.start_experiment("digits", "vision")
backend.log_params({"lr": 0.1})
backend.log_metric("accuracy", 0.95, step=100)
backend.end_experiment()
print(run_id)
