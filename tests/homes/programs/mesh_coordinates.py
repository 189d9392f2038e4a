"""Four ranks in a mesh of two by two: each writes its coordinates."""

import json
import sys

import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from telemetry.integrations.distributed import coordinates

dist.init_process_group("gloo")
alone = coordinates()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp_shard"))
mesh["pp", "dp_shard"]._flatten("loss")
mine = {
    "before": alone,
    "own": [mesh.get_local_rank("pp"), mesh.get_local_rank("dp_shard")],
    "found": coordinates(),
}
everything = [None] * 4
dist.all_gather_object(everything, mine)
if dist.get_rank() == 0:
    with open(sys.argv[1], "w") as file:
        json.dump(everything, file)
dist.destroy_process_group()
