"""A worker of torchrun that puts metrics through torch's interface and ours. Rank 1 fails at its first starts.

If it fails only once, the other rank ends in order when the agent ends it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed.elastic.metrics as theirs

import telemetry.compat.torchelastic.metrics as ours

RANK = int(os.environ["RANK"])
RESTART = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
FAILING_STARTS = int(sys.argv[1])


class Writer(theirs.MetricHandler):
    """A handler of the program's own."""

    def emit(self, metric_data: Any) -> None:
        with Path(f"handler-{RANK}-{RESTART}").open("a") as file:
            file.write(f"{metric_data.group_name} {metric_data.name} {metric_data.value}\n")


@theirs.prof(group="train")
def step() -> None:
    time.sleep(0.01)


if FAILING_STARTS == 1:
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(4))

theirs.put_metric("before", 1)
theirs.configure(Writer())
stream = theirs.getStream("train")
for number in range(5):
    step()
    stream.add_value("examples", 100 * RANK + number)
    ours.put_metric("both_ranks", 100 * RANK + number, "train")
theirs.put_metric("delta", -0.5 - RANK, "train")
theirs.put_metric("tensor", torch.tensor([RANK + 1.0]), "train")
Path(f"done-{RANK}-{RESTART}").touch()
while not Path(f"done-{1 - RANK}-{RESTART}").exists():
    time.sleep(0.01)
for _ in range(40):  # the agent checks its workers every tenth of a second
    time.sleep(0.01)
if RESTART < FAILING_STARTS:
    if RANK == 1:
        sys.exit(3)
    signal.pause()  # until the agent ends this worker, because the other one failed
