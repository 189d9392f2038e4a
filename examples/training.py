"""A small training loop of several ranks: steps, spans, and what belongs to them, in numpy alone.

    python examples/training.py                    # starts an aggregator of its own
    telemetry run --tui -- python examples/training.py --steps 2000

Each rank learns two spirals from points of its own; they average their gradients at every step. All ranks log into
the same steps of the axis `train`: the loss of a step is their mean, its samples are their sum, and which rank was
highest is kept. The first rank judges the network now and then, on the axis `eval`.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import struct
import zlib
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np

import telemetry

HIDDEN = 24
SIZES = (2 * HIDDEN, HIDDEN, HIDDEN, 1)  # weights, biases, weights, bias
PICTURE = 64  # pixels of each side


@dataclass(frozen=True)
class Settings:
    ranks: int
    steps: int
    batch: int
    rate: float
    eval_every: int
    out: Path


class Network:
    """Two inputs, one hidden layer, the logit of one class. All parameters are one vector."""

    def __init__(self, seed: int) -> None:
        self.parameters = np.random.default_rng(seed).normal(0.0, 0.7, sum(SIZES))

    def forward(self, points: Any) -> tuple[Any, Any]:
        first, bias, second, last = np.split(self.parameters, np.cumsum(SIZES)[:-1])
        hidden = np.tanh(points @ first.reshape(2, HIDDEN) + bias)
        return hidden, hidden @ second + last[0]

    def gradient(self, points: Any, hidden: Any, error: Any) -> Any:
        second = self.parameters[SIZES[0] + SIZES[1] :][:HIDDEN]
        inner = np.outer(error, second) * (1.0 - hidden**2)
        parts = ((points.T @ inner).ravel(), inner.sum(0), hidden.T @ error, error.sum(keepdims=True))
        return np.concatenate(parts) / len(points)


def spirals(count: int, source: np.random.Generator) -> tuple[Any, Any]:
    """Points, and which of the two arms each belongs to."""
    label = source.integers(0, 2, count)
    turn = source.uniform(0.2, 1.0, count)
    angle = 3.0 * math.pi * turn + math.pi * label
    points = np.stack([turn * np.cos(angle), turn * np.sin(angle)], axis=1)
    return 3.0 * (points + source.normal(0.0, 0.02, points.shape)), label


def work(rank: int, settings: Settings, shared: Any, barrier: Barrier) -> None:
    """One rank."""
    os.environ["RANK"] = str(rank)
    run = telemetry.start("training")
    source = np.random.default_rng(100 + rank)
    gradients = np.frombuffer(shared).reshape(settings.ranks, -1)
    network = Network(seed=1)
    track = f"rank {rank}"
    for step in range(settings.steps):
        points, label = spirals(settings.batch, source)
        with run.span("forward", track):
            hidden, logit = network.forward(points)
        with run.span("backward", track):
            error = 1.0 / (1.0 + np.exp(-logit)) - label
            gradients[rank] = network.gradient(points, hidden, error)
        with run.span("average", track):
            barrier.wait()
            mean = gradients.mean(0)
            barrier.wait()
        network.parameters -= settings.rate * mean
        loss = np.logaddexp(0.0, logit) - label * logit
        run.log(
            {
                "loss": loss.mean(),
                "accuracy": ((logit > 0) == label).mean(),
                "gradient/norm": np.linalg.norm(gradients[rank]),
                "samples": settings.batch,
            },
            step=step,
            axis="train",
        )
        run.end_step(step, axis="train")
        if rank == 0 and (step + 1) % settings.eval_every == 0:
            evaluate(run, network, step, settings.out)
    run.finish()


def evaluate(run: telemetry.Run, network: Network, step: int, out: Path) -> None:
    """Figures, a table, a distribution and a picture of what the network has learnt by a step."""
    points, label = spirals(1_000, np.random.default_rng(7))
    guess = network.forward(points)[1] > 0
    run.log({"accuracy": (guess == label).mean()}, step=step, axis="eval")
    rows = [[arm, int((guess[label == arm] == 0).sum()), int(guess[label == arm].sum())] for arm in (0, 1)]
    run.table("confusion", ["arm", "taken for 0", "taken for 1"], rows, step=step, axis="eval")
    run.histogram("parameters", network.parameters, step=step, axis="eval")
    run.image("picture", draw(network, out / f"step-{step}.png"), step=step, axis="eval")
    run.end_step(step, axis="eval")


def draw(network: Network, path: Path) -> Path:
    """A grey PNG of the plane: how sure the network is where."""
    side = np.linspace(-3.0, 3.0, PICTURE)
    plane = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    grey = (255.0 / (1.0 + np.exp(-network.forward(plane)[1]))).astype(np.uint8).reshape(PICTURE, PICTURE)
    lines = b"".join(b"\0" + line.tobytes() for line in grey)
    header = struct.pack(">IIBBBBB", PICTURE, PICTURE, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + b"".join(
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
            for kind, data in chunks
        )
    )
    return path


def train(settings: Settings) -> None:
    """Starts the ranks and waits for them."""
    settings.out.mkdir(parents=True, exist_ok=True)
    run = telemetry.start("training")
    run.params({"ranks": settings.ranks, "steps": settings.steps, "batch": settings.batch, "rate": settings.rate})
    run.axis("train", reductions={"samples": "sum", "gradient/*": "max"})
    run.axis("eval", reduce="last")
    run.text("about", "Two spirals, one hidden layer, averaged gradients.")
    context = multiprocessing.get_context("spawn")
    shared, barrier = context.RawArray("d", settings.ranks * sum(SIZES)), context.Barrier(settings.ranks)
    ranks = [context.Process(target=work, args=(rank, settings, shared, barrier)) for rank in range(settings.ranks)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    run.finish()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument("--eval-every", type=int, default=100, metavar="STEPS")
    parser.add_argument("--out", type=Path, default=Path("pictures"), help="where the pictures go")
    given = parser.parse_args()
    train(Settings(given.ranks, given.steps, given.batch, given.rate, given.eval_every, given.out))


if __name__ == "__main__":
    main()
