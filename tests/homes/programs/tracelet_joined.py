"""A program of Tracelet under `telemetry run`: two experiments, and automagic with an optimizer of torch."""

import torch
from torch.utils.tensorboard import SummaryWriter

from telemetry.compat.tracelet import Experiment

for name in ("first", "second"):
    password = "hunter2"
    experiment = Experiment(name, backend=["mlflow"], automagic=True)
    experiment.start()
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(3):
        model(torch.ones(2)).sum().backward()
        optimizer.step()
        experiment.log_metric("loss", torch.tensor([step / 4]), step)
    experiment.capture_model(model)
    experiment.end()

writer = SummaryWriter("logs")
writer.add_scalar("after", 1.0, 0)
writer.close()
