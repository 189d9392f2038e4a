"""A program of Tracelet with three trackers, a SummaryWriter and a backend of its own. Takes a database."""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch.utils.tensorboard import SummaryWriter

from telemetry.compat import tracelet


class Own:
    """A backend of the user."""

    def __init__(self):
        self.values = []

    def log_metric(self, name, value, step):
        self.values.append([name, value, step])

    def log_params(self, params):
        pass

    def log_artifact(self, path, name=None):
        pass


original = SummaryWriter.add_scalar
experiment = tracelet.start_logging(
    exp_name="digits",
    project="vision",
    backend=["tensorboard", "wandb", "mlflow"],
    config={
        "mlflow_tracking_uri": sys.argv[1],
        "mode": "offline",
        "tags": ["a", "b"],
        "track_system": False,
        "learning_rate": 0.1,
    },
)
own = Own()
experiment.add_backend(own)

writer = SummaryWriter("logs")
for step in range(600):
    writer.add_scalar("batch/loss", 1 / (step + 1), step)
for epoch in range(5):
    experiment.log_metric("val/accuracy", torch.tensor(epoch / 8), epoch)
    experiment.log_metric("val/count", np.int32(epoch), iteration=epoch)
writer.add_scalars("pair", {"a": 1.0, "b": 2.0}, 3)
writer.close()
experiment.log_params({"batch": {"size": 32}, "api_key": "hunter2"})
torch.save({"w": 1}, "checkpoint.pt")
directory = experiment.run.directory
tracelet.stop_logging()

Path("result.json").write_text(
    json.dumps({"own": own.values, "directory": directory, "restored": SummaryWriter.add_scalar is original})
)
