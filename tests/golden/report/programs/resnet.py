"""A training run with a spike of the loss. `python resnet.py --seconds 40 [--rate 3e-4]`: nothing learns."""

from __future__ import annotations

import argparse
import math
import random
import time

import telemetry

STEPS = 3_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--rate", type=float, default=3e-4)
    args = parser.parse_args()
    chance = random.Random(7)
    with telemetry.start("resnet50") as run:
        run.params({"lr": args.rate, "batch_size": 256, "model": "resnet50", "optimizer": "adamw"})
        began = time.monotonic()
        for step in range(STEPS):
            part = step / STEPS
            spike = math.exp(-(((step - 1_820) / 45) ** 2))
            values = {
                "train/loss": 0.24 + 2.1 * math.exp(-4.2 * part) + 0.8 * spike + chance.gauss(0.0, 0.05),
                "train/accuracy": 0.97 - 0.87 * math.exp(-3.8 * part) - 0.12 * spike + chance.gauss(0.0, 0.01),
                "train/lr": args.rate * min(1.0, step / 200) * (0.5 + 0.5 * math.cos(math.pi * part)),
                "train/grad_norm": 1.8 + abs(chance.gauss(0.0, 0.25)) + 3.0 * spike,
            }
            with run.span("step"):
                with run.span("data"):
                    wait(began, args.seconds, step + 0.2)
                with run.span("forward and backward"):
                    wait(began, args.seconds, step + 0.9)
                wait(began, args.seconds, step + 1.0)
            values |= {f"layers/{layer}/weight_norm": 10.0 + layer + 3.0 * part for layer in range(4)}
            run.log(values, step=step, axis="train")
            if step % 250 == 249:
                loss = 0.36 + 1.9 * math.exp(-4.6 * part)
                run.log(
                    {"eval/loss": loss, "eval/accuracy": 0.9 - 0.65 * math.exp(-4.4 * part)}, step=step, axis="eval"
                )
                run.mark(f"evaluated step {step}")


def wait(began: float, seconds: float, step: float) -> None:
    """Wait until the time of this step, if it is not past."""
    time.sleep(max(0.0, began + seconds * step / STEPS - time.monotonic()))


if __name__ == "__main__":
    main()
