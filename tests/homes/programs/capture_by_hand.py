"""Fits of one rank with the capture of torch.distributed installed by hand, removed, and with a fault in it."""

import json
import multiprocessing
import sys

import torch
import torch.distributed as dist
import torch.testing._internal.distributed.fake_pg
from torch.distributed import distributed_c10d as c10d
from torch.optim import optimizer as optimizers
from torch.utils.data import DataLoader

import telemetry
from telemetry.integrations import distributed as capture


def replaced():
    iterator = torch.utils.data.dataloader._BaseDataLoaderIter
    return [torch.autograd.backward, c10d.ProcessGroup.allreduce, c10d.Work.wait, iterator.__next__]


def hooks():
    return len(optimizers._global_optimizer_pre_hooks) + len(optimizers._global_optimizer_post_hooks)


def fit(steps):
    for batch in DataLoader(torch.ones(steps, 2)):
        (weight * batch).sum().backward()
        dist.all_reduce(weight.grad)
        optimizer.step()


def fork_worker():
    """Do nothing, as a worker of a DataLoader that records nothing."""
    assert not capture._LOOP.events


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
weight = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([weight], lr=0.1)
before = replaced()
with telemetry.start("by hand") as run:
    capture.install()
    capture.install()
    installed = [after is not own for after, own in zip(replaced(), before, strict=True)]
    assert hooks() == 2
    fit(5)
    child = multiprocessing.get_context("fork").Process(target=fork_worker)
    child.start()
    child.join()
    assert child.exitcode == 0
    capture.uninstall()
    restored = replaced() == before and hooks() == 0
    fit(5)
    capture.install()
    capture._LOOP.ends_step = None  # a fault
    fit(5)
    del capture._LOOP.ends_step
    run.stragglers(wait="distributed/*", axis="own")  # the program counts steps itself
    for step in range(3):
        fit(1)
        run.end_step(step, axis="own")
    device = dist.new_group(backend="fake")  # a tensor that is not on the CPU
    for _ in range(2):
        dist.all_reduce(torch.ones(2, device="meta"), group=device)
    fit(2)
    try:
        torch.ones(1).backward()
        raised = ""
    except RuntimeError as error:
        raised = str(error)
found = {"installed": installed, "restored": restored, "raised": raised, "weight": weight.tolist()}
with open(sys.argv[1], "w") as file:
    json.dump(found, file)
