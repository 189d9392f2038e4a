"""A fit of two processes that exchange gradients. Half of the metrics are reduced over both, the others are not."""

from __future__ import annotations

import os
from typing import Any

import lightning as L
import torch
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset


class Net(L.LightningModule):
    """A linear layer whose ranks log different values."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(width, 1)

    def training_step(self, batch: Any, number: int) -> Any:
        loss = self.layer(batch[0]).mean()
        self.log("reduced", float(self.global_rank), sync_dist=True)
        self.log("of each rank", float(self.global_rank))
        if self.trainer.is_global_zero:
            self.log("first rank only", 5.0, rank_zero_only=True)
        return loss

    def validation_step(self, batch: Any, number: int) -> None:
        self.log("val/reduced", 2.0 + self.global_rank, on_step=True, on_epoch=True, sync_dist=True)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.01)


if __name__ == "__main__":
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    data = DataLoader(TensorDataset(torch.randn(32, 4)), batch_size=4)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=2,
        log_every_n_steps=2,
        logger=CSVLogger("ranks", name="", version=""),
        default_root_dir="ranks",
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Net(), data, data)
