"""Fits of Lightning in one process: with a CSV logger, without a logger, failing, not captured, with our logger."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import lightning as L
import lightning.pytorch.trainer.trainer as lightning_trainer
import pytorch_lightning
import torch
from lightning.pytorch.callbacks import LearningRateMonitor
from lightning.pytorch.loggers import CSVLogger
from lightning_parts import Net, make_data

import telemetry.integrations.lightning as capture
from telemetry.integrations.lightning import TelemetryLogger

QUIET: dict[str, Any] = {
    "accelerator": "cpu",
    "devices": 1,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "log_every_n_steps": 4,
    "max_epochs": 2,
}
result: dict[str, Any] = {}


def files(folder: str) -> list[str]:
    """Return the files of a fit, below its folder."""
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*.ckpt"))


def wrapped() -> list[bool]:
    """Return which functions of Lightning are not its own."""
    functions = [
        lightning_trainer._LoggerConnector.log_metrics,
        lightning_trainer.Trainer.fit,
        lightning_trainer.Trainer.save_checkpoint,
        CSVLogger.log_metrics,
    ]
    return [function.__code__.co_filename.endswith("patching.py") for function in functions]


def with_csv() -> None:
    logger = CSVLogger("csv", name="", version="")
    trainer = L.Trainer(logger=logger, callbacks=[LearningRateMonitor()], default_root_dir="csv", **QUIET)
    trainer.fit(Net(), make_data(), make_data())
    trainer.test(Net(), make_data(), verbose=False)
    result["csv"] = files("csv")


def without_logger(folder: str) -> None:
    trainer = L.Trainer(logger=False, default_root_dir=folder, **QUIET)
    trainer.fit(Net(rate=0.5), make_data(), make_data())
    result[folder] = files(folder)


class Failing(Net):
    """A module that fails in its second epoch."""

    def on_train_epoch_start(self) -> None:
        if self.current_epoch == 1:
            raise ValueError("no data of postgres://app:hunter2pw@db")


class FailingAtOnce(Net):
    """A module that can't begin."""

    def on_fit_start(self) -> None:
        raise ValueError("no data")


def failing() -> None:
    trainer = L.Trainer(logger=False, default_root_dir="failing", **QUIET)
    try:
        trainer.fit(Failing(), make_data())
    except ValueError as error:
        result["raised"] = str(error)


class OwnStep(L.LightningModule):
    """A module that logs by epoch: a metric named `step` replaces Lightning's own step."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch: Any, number: int) -> Any:
        loss = self.layer(batch[0]).mean()
        self.log_dict({"epoch loss": loss, "step": float(self.current_epoch)}, on_step=False, on_epoch=True)
        return loss

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.01)


def trial() -> None:
    """Run as Lightning does for a first try: it logs nothing then."""
    L.Trainer(fast_dev_run=True, logger=True, default_root_dir="trial", **QUIET).fit(
        Net(), make_data(), make_data()
    )
    trainer = L.Trainer(fast_dev_run=True, logger=False, default_root_dir="trial", **QUIET)
    try:
        trainer.fit(FailingAtOnce(), make_data())
    except ValueError as error:
        result["raised in a trial"] = str(error)


def standalone() -> None:
    """Use the package of the same code under its older name."""

    class Old(pytorch_lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch: Any, number: int) -> Any:
            self.log("old", 2.5)
            return self.layer(batch[0]).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.01)

    pytorch_lightning.Trainer(logger=False, default_root_dir="old", **QUIET).fit(Old(), make_data())


def explicit(folder: str) -> None:
    logger = TelemetryLogger()
    first = CSVLogger(folder, name="", version="")
    trainer = L.Trainer(logger=[first, logger], default_root_dir=folder, **QUIET)
    trainer.fit(Net(width=4), make_data(), make_data())
    logger.experiment.text("note", f"from {folder}")
    result[folder] = files(folder)
    result["unpickled"] = type(pickle.loads(pickle.dumps(logger))) is TelemetryLogger


class TwoLoaders(Net):
    """A module with two validation sets."""

    def validation_step(self, batch: Any, number: int, dataloader_idx: int = 0) -> None:
        self.log("each", float(10 * dataloader_idx + number), on_step=True, on_epoch=False)


def two_loaders() -> None:
    """Validate on two sets, and once more by itself, which counts from 0 again."""
    trainer = L.Trainer(logger=False, default_root_dir="two", **QUIET)
    trainer.fit(TwoLoaders(), make_data(), [make_data(), make_data()])
    trainer.validate(TwoLoaders(), [make_data()], verbose=False)


result["wrapped"] = [wrapped()]
with_csv()
without_logger("bare")
failing()
trial()
L.Trainer(logger=False, default_root_dir="own", **QUIET).fit(OwnStep(), make_data())
standalone()
two_loaders()
explicit("explicit")
capture.uninstall()
result["wrapped"].append(wrapped())
without_logger("uncaptured")
explicit("alone")
capture.install()
capture.install()
result["wrapped"].append(wrapped())
Path("result.json").write_text(json.dumps(result))
