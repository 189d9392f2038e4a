"""The smallest fit."""

from __future__ import annotations

import sys
from typing import Any

print("booted", "_telemetry_boot" in sys.modules)

import lightning as L  # noqa: E402
import torch  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402


class Net(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch: Any, number: int) -> Any:
        self.log("small", 4.5)
        return self.layer(batch[0]).mean()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.01)


data = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=4)
trainer = L.Trainer(
    accelerator="cpu",
    devices=1,
    max_epochs=1,
    log_every_n_steps=1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Net(), data)
print("callbacks", [type(each).__module__ for each in trainer.callbacks if "telemetry" in type(each).__module__])
