"""A program that logs steps through verl's `Tracking`, to RL-Insight, to the console and to a file."""

import sys

import numpy as np
import torch
from verl.utils.tracking import Tracking

tracking = Tracking("p", "e", ["rl_insight"], config={"trainer": {"total_epochs": 2}})
for step in range(1, 4):
    values = {
        "actor/loss": 1 / step,
        "critic/score": np.float32(step / 2),
        "perf/tokens": torch.tensor(100 * step),
        "training/global_step": step,
        "note": f"step {step}",
        "nothing": None,
    }
    tracking.log(values, step)
tracking.log(data={"val/acc": 0.25}, step=3)
tracking.finish()

console = Tracking("p", "two", ["console", "file"])
for step in (10, 11):
    console.log({"actor/kl": step / 100}, step=step)
console.finish()

if "--remove" in sys.argv:
    import telemetry.integrations.verl

    telemetry.integrations.verl.uninstall()
    alone = Tracking("p", "three", ["rl_insight"])
    alone.log({"actor/entropy": 0.5, "note": "no number"}, step=20)
    alone.finish()
