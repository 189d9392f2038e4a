"""What the capture `distributed` adds to a step of about 50 ms of two ranks with gloo.

A run of torchrun fits a model of four layers, with a DataLoader that sleeps for the largest part of a step. Both
ranks install and remove the capture in turns, for ten steps each. So all figures come from the same processes and
the same minute. The aggregator runs on the same machine.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from math import sqrt
from pathlib import Path
from typing import Any, Final

_BATCH_S: Final = {"ddp": 0.045, "fsdp": 0.035}
"""What loading a batch takes, so that a step takes about 50 ms on two cores."""
_BLOCKS: Final = 120
_BLOCK: Final = 10  # steps
_UNCOUNTED: Final = 2  # first steps of a block
_LAYERS: Final = 4
_WIDTH: Final = 64
_BIN: Final = Path(sys.executable).parent


def measure(blocks: int = _BLOCKS) -> dict[str, float]:
    """Return microseconds a step by name, of rank 0.

    `step` is its duration, and `thread` the CPU time of the thread that trains. `without` is the median. `added` is
    the median of the differences between neighbouring blocks, and `error` the standard error of their mean.
    """
    figures: dict[str, float] = {}
    for kind in _BATCH_S:
        for what, plain, captured in _fit(kind, blocks):
            added = [after - before for before, after in zip(plain, captured, strict=True)]
            figures[f"{kind}, {what} without us"] = statistics.median(plain)
            figures[f"{kind}, {what} added us"] = statistics.median(added)
            figures[f"{kind}, {what} added, error us"] = statistics.stdev(added) / sqrt(len(added))
    return figures


def _fit(kind: str, blocks: int) -> list[tuple[str, list[float], list[float]]]:
    """Return the medians of blocks without and with the capture, for each figure."""
    with tempfile.TemporaryDirectory(prefix="tm") as folder:
        result = Path(folder) / "result.json"
        run = [sys.executable, "-m", "telemetry", "run", "--quiet", "--dir", folder, "--"]
        torchrun = [
            str(_BIN / "torchrun"),
            "--standalone",
            "--nproc-per-node=2",
            "-m",
            "benchmarks.homes.distributed",
        ]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TELEMETRY_")}
        environment |= {"OMP_NUM_THREADS": "1", "TELEMETRY_COLLECT__NAMES": "none"}
        command = [*run, *torchrun, kind, str(blocks), str(result)]
        subprocess.run(command, env=environment, check=True, timeout=600, stderr=subprocess.DEVNULL)
        return [(what, plain, captured) for what, plain, captured in json.loads(result.read_text())]


def _train(kind: str, blocks: int, result: Path) -> None:
    """Fit, in one rank."""
    capture: Any = import_module("telemetry.integrations.distributed")
    torch, dist = import_module("torch"), import_module("torch.distributed")
    nn = torch.nn

    class Data(torch.utils.data.Dataset):  # type: ignore[misc,name-defined]  # the base is of another library
        def __len__(self) -> int:
            return (blocks + 2) * _BLOCK

        def __getitem__(self, number: int) -> Any:
            time.sleep(_BATCH_S[kind])
            return torch.ones(_WIDTH)

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    capture.install()
    layers = nn.Sequential(*(nn.Linear(_WIDTH, _WIDTH) for _ in range(_LAYERS)))
    if kind == "ddp":
        model = nn.parallel.DistributedDataParallel(layers)
    else:
        fully_shard = import_module("torch.distributed.fsdp").fully_shard
        mesh = import_module("torch.distributed.device_mesh").init_device_mesh("cpu", (2,))
        for layer in layers:
            fully_shard(layer, mesh=mesh)
        model = fully_shard(layers, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batches = iter(torch.utils.data.DataLoader(Data(), batch_size=1))
    medians: tuple[list[list[float]], list[list[float]]] = ([[], []], [[], []])
    for number in range(-2, blocks):
        (capture.install if number % 2 else capture.uninstall)()
        dist.barrier()
        steps = [_step(model, optimizer, batches) for _ in range(_BLOCK)]
        for figures, values in zip(medians, zip(*steps[_UNCOUNTED:], strict=True), strict=True):
            if number >= 0:
                figures[number % 2].append(statistics.median(values))
    if dist.get_rank() == 0:
        result.write_text(
            json.dumps([(what, *each) for what, each in zip(("step", "thread"), medians, strict=True)])
        )
    dist.destroy_process_group()


def _step(model: Any, optimizer: Any, batches: Any) -> tuple[float, float]:
    """Take a step. Return its duration and the CPU time of this thread, in microseconds."""
    begun = time.monotonic_ns(), time.thread_time_ns()
    model(next(batches)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    return (time.monotonic_ns() - begun[0]) / 1e3, (time.thread_time_ns() - begun[1]) / 1e3


if __name__ == "__main__":
    _train(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
