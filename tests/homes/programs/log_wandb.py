"""Five libraries that log to W&B, in one process. Writes what the libraries themselves remember to `found.json`."""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import accelerate.utils
import lightning as L
import torch
import transformers.utils
import wandb
from accelerate import Accelerator
from datasets import Dataset
from lightning.pytorch.loggers import WandbLogger
from lightning.pytorch.loggers.wandb import _WANDB_AVAILABLE
from lightning_parts import Net, make_data
from tiny_model import make_model, make_tokenizer
from transformers import Trainer, TrainingArguments
from trl import GRPOConfig, GRPOTrainer
from verl.utils.tracking import Tracking, ValidationGenerationsLogger

COMMON: dict[str, Any] = {
    "per_device_train_batch_size": 4,
    "use_cpu": True,
    "bf16": False,
    "disable_tqdm": True,
    "seed": 1,
    "report_to": ["wandb"],
}

found: dict[str, Any] = {
    "version": version("wandb"),
    "accelerate": bool(accelerate.utils.is_wandb_available()),
    "transformers": bool(transformers.integrations.is_wandb_available()),
    "lightning": bool(_WANDB_AVAILABLE),
    "module": wandb.__name__,
    "runs": {},
}


def remember(name: str) -> None:
    """Keep the id of the current run, and end it."""
    found["runs"][name] = wandb.run.id
    wandb.finish()
    assert wandb.run is None


def with_accelerate() -> None:
    accelerator = Accelerator(log_with=["wandb"], cpu=True)
    accelerator.init_trackers("accelerated", config={"lr": 0.1}, init_kwargs={"wandb": {"tags": ["x"]}})
    accelerator.log({"loss": 1.0}, step=1)
    accelerator.log({"tensor": torch.tensor(2.0)}, step=4)
    accelerator.get_tracker("wandb").log_table("table", columns=["a"], data=[[1]], step=4)
    accelerator.get_tracker("wandb").log_images({"images": [torch.zeros(3, 4, 4).numpy().T]}, step=5)
    found["runs"]["accelerate"] = wandb.run.id
    accelerator.end_training()


def with_transformers() -> None:
    tokenizer = make_tokenizer()
    tokens = tokenizer("what is the sum of two")["input_ids"]
    rows = [{"input_ids": tokens, "attention_mask": [1] * len(tokens), "labels": tokens}] * 32
    arguments = TrainingArguments(
        output_dir="hf",
        max_steps=6,
        logging_steps=2,
        eval_strategy="steps",
        eval_steps=3,
        save_strategy="no",
        run_name="trainer",
        **COMMON,
    )
    trainer = Trainer(model=make_model(tokenizer), args=arguments, train_dataset=rows, eval_dataset=rows[:8])
    trainer.train()
    trainer.evaluate()
    found["history"] = trainer.state.log_history
    remember("transformers")


def short(completions: list[str], **more: Any) -> list[float]:
    return [-float(len(each)) for each in completions]


def with_trl() -> None:
    tokenizer = make_tokenizer()
    arguments = GRPOConfig(
        output_dir="grpo",
        max_steps=2,
        logging_steps=1,
        save_strategy="no",
        num_generations=2,
        max_completion_length=8,
        log_completions=True,
        gradient_checkpointing=False,
        **COMMON,
    )
    trainer = GRPOTrainer(
        model=make_model(tokenizer),
        reward_funcs=short,
        args=arguments,
        train_dataset=Dataset.from_list([{"prompt": "what is the sum of two"}] * 16),
        processing_class=tokenizer,
    )
    trainer.train()
    found["grpo history"] = trainer.state.log_history
    remember("trl")


def with_lightning() -> None:
    logger = WandbLogger(project="lit", name="fit", offline=True)
    trainer = L.Trainer(
        logger=logger,
        accelerator="cpu",
        devices=1,
        max_epochs=2,
        log_every_n_steps=4,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    trainer.fit(Net(), make_data(), make_data())
    logger.log_text("words", columns=["text"], data=[["hello"]], step=3)
    found["experiment"] = isinstance(logger.experiment, wandb.Run)
    found["logger"] = [logger.name, logger.version == wandb.run.id]
    remember("lightning")


def with_verl() -> None:
    tracking = Tracking("verl", "exp", ["wandb", "console"], config={"trainer": {"total_epochs": 2}})
    for step in (1, 2):
        tracking.log(data={"actor/loss": 1 / step, "training/global_step": step}, step=step)
    ValidationGenerationsLogger(project_name="verl", experiment_name="exp").log(["wandb"], [["in", "out", 0.5]], 2)
    found["runs"]["verl"] = wandb.run.id
    tracking.finish()


with_accelerate()
with_transformers()
with_trl()
with_lightning()
with_verl()
found["processes"] = sys.executable
found["left"] = sorted(os.listdir("."))
Path("found.json").write_text(json.dumps(found))
