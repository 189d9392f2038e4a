"""Trainings in one process: Trainer, SFT, and GRPO twice. Writes what transformers itself remembers of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import transformers.trainer
from datasets import Dataset
from tiny_model import make_model, make_tokenizer
from transformers import Trainer, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

COMMON: dict[str, Any] = {
    "per_device_train_batch_size": 4,
    "use_cpu": True,
    "bf16": False,
    "disable_tqdm": True,
    "seed": 1,
}

tokenizer = make_tokenizer()
histories: dict[str, Any] = {}


def plain_trainer() -> None:
    """Train with evaluations and a checkpoint, and evaluate once more at the end."""
    tokens = tokenizer("what is the sum of two")["input_ids"]
    rows = [{"input_ids": tokens, "attention_mask": [1] * len(tokens), "labels": tokens}] * 32
    arguments = TrainingArguments(
        output_dir="out",
        max_steps=6,
        logging_steps=2,
        eval_strategy="steps",
        eval_steps=3,
        save_strategy="steps",
        save_steps=6,
        report_to=["telemetry"],
        hub_token="hf_abcdefghijklmnopqrstuvwxyz",
        **COMMON,
    )
    trainer = Trainer(model=make_model(tokenizer), args=arguments, train_dataset=rows, eval_dataset=rows[:8])
    trainer.train()
    trainer.evaluate()
    histories["trainer"] = trainer.state.log_history
    trainer.train()  # counts from 0 once more
    histories["again"] = trainer.state.log_history
    histories["seen"] = [type(each).__name__ for each in trainer.callback_handler.callbacks]


def supervised() -> None:
    """Fine-tune with SFT of TRL."""
    rows = Dataset.from_list([{"text": "red is not blue"}, {"text": "what is the sum of two"}] * 16)
    arguments = SFTConfig(
        output_dir="sft",
        max_steps=3,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        max_length=32,
        gradient_checkpointing=False,
        **COMMON,
    )
    trainer = SFTTrainer(
        model=make_model(tokenizer), args=arguments, train_dataset=rows, processing_class=tokenizer
    )
    trainer.train()
    histories["sft"] = trainer.state.log_history


def short(completions: list[Any], log_extra: Any = None, **more: Any) -> list[float]:
    """Reward short completions, and add a column of texts to the table."""
    log_extra("source", ["made up"] * len(completions))
    texts = [each if isinstance(each, str) else each[0]["content"] for each in completions]
    return [-float(len(text)) for text in texts]


def never(completions: list[Any], **more: Any) -> list[None]:
    """Give no reward, which TRL logs as None."""
    return [None for _ in completions]


def reinforced(name: str, prompt: Any) -> None:
    """Train with GRPO of TRL, and log completions."""
    arguments = GRPOConfig(
        output_dir=name,
        max_steps=2,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        num_generations=2,
        max_completion_length=8,
        log_completions=True,
        gradient_checkpointing=False,
        **COMMON,
    )
    trainer = GRPOTrainer(
        model=make_model(tokenizer),
        reward_funcs=[short, never],
        args=arguments,
        train_dataset=Dataset.from_list([{"prompt": prompt}] * 16),
        processing_class=tokenizer,
    )
    trainer.train()
    histories[name] = trainer.state.log_history


def second_process() -> None:
    """Send the events of a process that is not the first of its job."""
    callback = transformers.trainer.DEFAULT_CALLBACKS[-1]()
    state = TrainerState(global_step=1, is_world_process_zero=False)
    arguments = TrainingArguments(output_dir="out", report_to=[], use_cpu=True)
    for event in (callback.on_train_begin, callback.on_log, callback.on_save, callback.on_train_end):
        event(arguments, state, TrainerControl(), logs={"loss": 1.0})


plain_trainer()
supervised()
reinforced("grpo", "what is the sum of two")
os.environ["TELEMETRY_CAPTURE_TEXTS"] = "1"
reinforced("talk", [{"role": "user", "content": "what is the sum of two"}])
second_process()

import telemetry.integrations.transformers as capture  # noqa: E402

before = (len(transformers.trainer.DEFAULT_CALLBACKS), "telemetry" in INTEGRATION_TO_CALLBACK)
capture.install()
again = (len(transformers.trainer.DEFAULT_CALLBACKS), "telemetry" in INTEGRATION_TO_CALLBACK)
capture.uninstall()
capture.uninstall()
after = (len(transformers.trainer.DEFAULT_CALLBACKS), "telemetry" in INTEGRATION_TO_CALLBACK)
log_is_own = Trainer.log.__module__ == "transformers.trainer" and not hasattr(Trainer.log, "__wrapped__")
Path("result.json").write_text(
    json.dumps({"histories": histories, "callbacks": [before, again, after], "log_is_own": log_is_own})
)
