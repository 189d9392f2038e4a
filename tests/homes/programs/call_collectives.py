"""Collective calls of every kind, by four ranks in a mesh of two by two. Nothing in it knows telemetry."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

KIB = 256  # floats

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "tp"))
plain = [dist.new_group([0, 1, 2]), dist.new_group([0, 3])]
value, large = torch.ones(KIB), torch.ones(KIB * size)

dist.all_reduce(value)
dist.all_reduce(value, async_op=True).wait()
dist.all_reduce(value, group=mesh.get_group("tp"))
if rank < 3:
    dist.all_reduce(value, group=plain[0])
dist.broadcast(value, 0)
dist.reduce(value, 0)
dist.all_gather([torch.empty(KIB) for _ in range(size)], value)
dist.all_gather_into_tensor(large, value)
dist.gather(value, [torch.empty(KIB) for _ in range(size)] if rank == 0 else None)
dist.scatter(value, [torch.ones(KIB) for _ in range(size)] if rank == 0 else None)
dist.reduce_scatter(value, list(large.chunk(size)))
dist.reduce_scatter_tensor(value, large)
dist.all_to_all_single(torch.empty(KIB * size), large)
objects = [None] * size
dist.all_gather_object(objects, rank)
assert objects == list(range(size))
dist.barrier()
dist.monitored_barrier()

stage, other = mesh.get_group("pp"), mesh.get_local_rank("pp")
if other == 0:
    dist.send(value, group=stage, group_dst=1)
    dist.recv(value, group=stage, group_src=1)
else:
    dist.recv(value, group=stage, group_src=0)
    dist.send(value, group=stage, group_dst=0)
peer = dist.get_global_rank(stage, 1 - other)
transfers = [
    dist.P2POp(dist.isend, value, peer, group=stage),
    dist.P2POp(dist.irecv, torch.empty(KIB), peer, group=stage),
]
for work in dist.batch_isend_irecv(transfers):
    work.wait()

spread = distribute_tensor(torch.ones(KIB), mesh, [Replicate(), Shard(0)])
assert spread.redistribute(mesh, [Replicate(), Replicate()]).to_local().sum() == KIB

weight = torch.nn.Parameter(torch.ones(2))
first, second = torch.optim.SGD([weight], lr=0.1), torch.optim.SGD([weight], lr=0.1)
for _ in range(3):
    for optimizer in (first, second):  # two optimizers of one step
        weight.sum().backward()
        dist.all_reduce(weight.grad, group=mesh.get_group("tp"))
        optimizer.step()
dist.barrier()
dist.destroy_process_group()
