"""Write all that the SummaryWriters of torch and of tensorboardX take. The program knows nothing of telemetry."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorboardX
import torch
from torch.utils import tensorboard

FOUND: dict[str, Any] = {"begun": time.time(), "errors": {}, "returned": []}


def write_numbers(writer: Any) -> None:
    """Scalars by position and by keyword, of all kinds that the writers take."""
    for step in range(300):
        FOUND["returned"].append(writer.add_scalar("train/loss", 1 / (step + 1), step))
        writer.add_scalar(tag="train/lr", scalar_value=0.1 * step, global_step=step)
        if step % 100 == 99:
            writer.add_scalar("val/loss", step / 100, step // 100)
    writer.add_scalar("kinds/tensor", torch.tensor(1.5, requires_grad=True), 300)
    writer.add_scalar("kinds/tensor of one", torch.tensor([[2.5]]), 300)
    writer.add_scalar("kinds/half", torch.tensor(0.5).half(), 300)
    writer.add_scalar("kinds/numpy", np.float32(3.5), np.int64(300))
    writer.add_scalar("kinds/array of one", np.array([4.5]), np.array(300))
    writer.add_scalar("kinds/bool", True, 300)
    writer.add_scalar("kinds/text step", 3, "300")
    writer.add_scalar("kinds/nan", float("nan"), 300)
    writer.add_scalar("kinds/infinite", torch.tensor(float("inf")), 300)
    writer.add_scalar("kinds/float step", 5.5, 300.9)
    writer.add_scalar("earlier", 1.0, 301, FOUND["begun"] - 30)
    writer.add_scalar("earlier", 2.0, global_step=302, walltime=FOUND["begun"] - 20)
    writer.add_scalar("without step", np.float64(1), walltime=FOUND["begun"] - 10)
    writer.add_scalar("without step", 7.25)
    writer.add_scalar("without step, nan", float("nan"))
    writer.add_scalars("both", {"a": 1, "b": torch.tensor(2.0)}, 303)
    writer.add_scalars("without step, both", {"a": np.float32(3)})


def write_more(writer: Any) -> None:
    values = np.arange(100.0)
    writer.add_histogram("histogram", values, 304)
    values[:] = 0
    tensor = torch.arange(8.0, requires_grad=True)
    writer.add_histogram("histogram of tensor", tensor, bins="auto")
    writer.add_histogram_raw("raw", 0.5, 3, 6, 14, 40, [0, 1, 2, 3, 1e20], [0, 1, 0, 5, 0], 305)
    writer.add_text("text", "some words", 306)
    writer.add_text(tag="text without step", text_string="more words")
    picture = np.zeros((3, 4, 4), np.uint8)
    for step in (307, 308):
        writer.add_image("picture", picture, step)
    writer.add_images("pictures", picture[None], 307)
    writer.add_image_with_boxes("boxes", picture, np.array([[0, 0, 2, 2]]), 307)
    writer.add_embedding(torch.zeros(3, 2), global_step=307, tag="embedding")
    writer.add_pr_curve("curve", np.array([0, 1]), np.array([0.2, 0.9]), 307)
    writer.add_mesh("mesh", torch.zeros(1, 3, 3), global_step=307)
    writer.add_custom_scalars_multilinechart(["train/loss"])
    writer.add_custom_scalars_marginchart(["train/loss", "train/lr", "val/loss"])
    writer.add_custom_scalars({"a": {"b": ["Multiline", ["train/loss"]]}})


def fail(name: str, call: Callable[[], object]) -> None:
    try:
        call()
    except Exception as error:  # noqa: BLE001 – all of them are compared
        FOUND["errors"][name] = f"{type(error).__name__}: {error}"
    else:
        FOUND["errors"][name] = None


def fail_all(writer: Any, library: str) -> None:
    """Calls that the writer refuses, or whose packages are not installed."""
    fail(f"{library} none", lambda: writer.add_scalar("refused/none", None, 1))
    fail(f"{library} two", lambda: writer.add_scalar("refused/two", torch.zeros(2), 1))
    fail(f"{library} no number", lambda: writer.add_scalar("refused/text", "three", 1))
    fail(f"{library} step", lambda: writer.add_scalar("refused/step", 1.0, "noon"))
    fail(f"{library} argument", lambda: writer.add_scalar("refused/argument", 1.0, 1, wall_time=3))
    fail(f"{library} missing", lambda: writer.add_scalar("refused/missing"))
    fail(f"{library} scalars", lambda: writer.add_scalars("refused", {"x": None}, 1))
    fail(f"{library} hparams", lambda: writer.add_hparams(["refused"], {}))
    fail(f"{library} histogram", lambda: writer.add_histogram("refused/empty", np.array([]), 1))
    fail(f"{library} raw", lambda: writer.add_histogram_raw("refused/raw", 0, 1, 1, 1, 1, [1], [1, 2], 1))
    fail(f"{library} figure", lambda: writer.add_figure("refused/figure", None, 1))
    fail(f"{library} onnx", lambda: writer.add_onnx_graph("nowhere.onnx"))


class OwnWriter(tensorboard.SummaryWriter):
    """A writer as some frameworks make it."""

    def add_scalar(self, tag: str, *args: Any, **kwargs: Any) -> None:
        super().add_scalar(f"own/{tag}", *args, **kwargs)

    def add_note(self, note: str) -> None:
        self.add_text("note", note)


def from_two_threads(writer: Any) -> None:
    def work(name: str) -> None:
        for step in range(500):
            writer.add_scalar(f"threads/{name}", step * 0.5, step)

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def unobserved(made: type) -> list[str]:
    names = [name for name in dir(made) if name.startswith("add_")]
    return [name for name in names if not hasattr(getattr(made, name), "__wrapped__")]


def main() -> None:
    with tensorboard.SummaryWriter("logs/torch") as writer:
        write_numbers(writer)
        write_more(writer)
        writer.add_scalar("text", "3.5", 309)
        writer.add_scalar("bfloat16", torch.tensor(0.25, dtype=torch.bfloat16), 309)
        writer.add_tensor("tensor", torch.zeros(2), 307)
        writer.add_audio("sound", torch.zeros(1, 8), 307)
        writer.add_graph(torch.nn.Linear(2, 1), torch.zeros(1, 2))
        writer.add_scalar("double", 0.1, 309, new_style=True, double_precision=True)
        writer.add_hparams({"lr": 0.1, "opt": "adam", "deep": True}, {"hparam/accuracy": 0.5}, run_name="set")
        writer.add_hparams({"lr": 0.2}, {"hparam/accuracy": 0.75}, None, "second set", 3)
        fail_all(writer, "torch")
    writer.add_scalar("after close", 1.0, 310)
    writer.close()

    with tensorboardX.SummaryWriter(logdir="logs/x") as writer:
        write_numbers(writer)
        write_more(writer)
        writer.add_scalar("shown", 1.0, 309, display_name="Shown", summary_description="with words")
        writer.add_hparams({"lr": 0.3}, {"hparam/accuracy": 0.9}, name="set of x", global_step=4)
        fail_all(writer, "x")
        fail("x audio", lambda: writer.add_audio("refused/sound", torch.zeros(8), 1))
        with writer.use_metadata(global_step=311, walltime=FOUND["begun"] - 40):
            writer.add_scalar("metadata", 1.0)
            writer.add_text("metadata text", "words")
            writer.add_scalar("metadata", 2.0, 312)
    with tensorboardX.SummaryWriter("logs/unwritten", write_to_disk=False) as writer:
        writer.add_scalar("unwritten", 1.0, 1)

    with tensorboard.SummaryWriter(Path("logs/threads")) as writer:
        from_two_threads(writer)
    with OwnWriter("logs/elsewhere/x", purge_step=2) as writer:
        writer.add_scalar("loss", 1.0, 2)
        writer.add_note("by a method of its own")
    makers = (tensorboard.SummaryWriter, tensorboardX.SummaryWriter)
    FOUND["unobserved"] = {made.__module__: unobserved(made) for made in makers}
    Path("result.json").write_text(json.dumps(FOUND))


if __name__ == "__main__":
    main()
