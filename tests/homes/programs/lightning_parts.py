"""A module that logs in every form that Lightning has, and its data."""

from __future__ import annotations

from typing import Any

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset


class Net(L.LightningModule):
    """A linear layer."""

    def __init__(self, width: int = 4, rate: float = 0.01, api_key: str = "swordfish") -> None:
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(width, 1)

    def training_step(self, batch: Any, number: int) -> Any:
        loss = self.layer(batch[0]).mean()
        self.log("train/loss", loss, on_step=True, on_epoch=True, prog_bar=True)
        self.log("plain", 1.5)
        self.log("count", torch.tensor(float(self.global_step)))
        self.log_dict({"a": 1, "b": loss.detach() * 2})
        self.log("hidden", 3.0, logger=False)
        return loss

    def on_train_epoch_end(self) -> None:
        if self.logger is not None:
            self.logger.log_metrics({"by hand": 7.0 + self.current_epoch}, step=1000 + self.current_epoch)

    def validation_step(self, batch: Any, number: int) -> None:
        self.log("val/loss", self.layer(batch[0]).mean())
        self.log("val/each", float(number), on_step=True, on_epoch=True)

    def test_step(self, batch: Any, number: int) -> None:
        """Log the loss of the test set."""
        self.log("test/loss", self.layer(batch[0]).mean())

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), self.hparams["rate"])
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)}


def make_data() -> Any:
    """Return eight batches, the same ones each time."""
    torch.manual_seed(0)
    return DataLoader(TensorDataset(torch.randn(32, 4)), batch_size=4)
