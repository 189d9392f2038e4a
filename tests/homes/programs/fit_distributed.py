"""A fit of several ranks on the CPU, which knows nothing of telemetry: `fit_distributed.py KIND SLOW_RANK STEPS`.

Loading a batch takes 50 ms, and twice as long on the slow rank. -1 is no rank.
"""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

KIND, SLOW_RANK, STEPS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
BATCH_S, SLOWER_S = 0.05, 0.05
WIDTH = 64


class Slices(Dataset):
    def __len__(self):
        return STEPS

    def __getitem__(self, number):
        time.sleep(BATCH_S + (SLOWER_S if dist.get_rank() == SLOW_RANK else 0))
        return torch.full((WIDTH,), float(number % 7))


torch.set_num_threads(1)
dist.init_process_group("gloo")
layers = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(3)))
if KIND == "ddp":
    model = DistributedDataParallel(layers)
else:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("fsdp",))
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    model = fully_shard(layers, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for batch in DataLoader(Slices(), batch_size=1):
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(f"loss {loss.item():.6f}")
dist.destroy_process_group()
