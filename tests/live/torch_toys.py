"""What PyTorch's features ask of a backend, run by torchrun: an outcome for each feature.

    torchrun --nproc-per-node 4 torch_toys.py FILE BACKEND...

Backends come one after the other, in the same processes. Rank 0 writes FILE: JSON, for each
backend, toy -> outcome; other ranks must have found the same.
"""

import faulthandler
import gc
import hashlib
import json
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import checkpoint
from torch.distributed._functional_collectives import all_reduce as functional_all_reduce
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    set_model_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

TOYS = {}
HANG_S = 150
"""Then all threads are shown, and the process ends."""


NOT_FOR = {}
"""Backends that cannot do a toy."""


def toy(action, others=()):
    TOYS[action.__name__] = action
    NOT_FOR[action.__name__] = others
    return action


def digest(*tensors):
    """Of bits, so that equal means equal."""
    whole = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        whole.update(tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()


def model():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8), nn.Linear(8, 4)
    )


def steps(net, rank, n=2):
    """Losses of a few steps, joined over all ranks."""
    torch.manual_seed(100 + rank)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for _ in range(n):
        loss = net(torch.randn(6, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        whole = loss.detach().clone()
        dist.all_reduce(whole)
        losses.append(whole.item())
    return losses


@toy
def integers(rank, n):
    """Every collective and operator on integers: exact, so equal bits."""
    found = []
    torch.manual_seed(rank)
    for dtype in (torch.int32, torch.int64, torch.uint8):
        values = torch.randint(1, 5, (1001,), dtype=dtype)
        for op in (
            dist.ReduceOp.SUM,
            dist.ReduceOp.PRODUCT,
            dist.ReduceOp.MIN,
            dist.ReduceOp.MAX,
        ):
            joined = values.clone()
            dist.all_reduce(joined, op)
            found.append(joined)
        flat = torch.zeros(n * 1001, dtype=dtype)
        dist.all_gather_into_tensor(flat, values)
        spread = values.clone()
        dist.broadcast(spread, 1)
        found += [flat, spread]
        parts = [torch.zeros(3, dtype=dtype) for _ in range(n)]
        dist.all_to_all(parts, list(values[: 3 * n].split(3)))
        gathered = [torch.zeros(3 * n, dtype=dtype) for _ in range(n)]
        dist.all_gather(gathered, torch.cat(parts))
        found += gathered
    return digest(*found)


@toy
def ddp(rank, n):
    net = DistributedDataParallel(model())
    return steps(net, rank)


@toy
def fsdp1(rank, n):
    net = FullyShardedDataParallel(model(), device_id=torch.device("cpu"))
    return steps(net, rank)


@toy
def fsdp2(rank, n):
    net = model()
    fully_shard(net)
    return steps(net, rank)


@toy
def dtensor(rank, n):
    mesh = init_device_mesh("cpu", (n,))
    whole = torch.arange(10.0 * n).view(2 * n, 5)
    split = distribute_tensor(whole, mesh, [Shard(0)])
    back = split.redistribute(mesh, [Replicate()]).to_local()
    across = split.redistribute(mesh, [Shard(1)]).full_tensor()
    product = (split @ distribute_tensor(whole.t(), mesh, [Replicate()])).full_tensor()
    return digest(back, across, product)


@toy
def mesh(rank, n):
    """Two dimensions: sums inside each, on sub-groups."""
    square = init_device_mesh("cpu", (2, n // 2), mesh_dim_names=("up", "across"))
    own = torch.tensor([10**rank])
    up, across = own.clone(), own.clone()
    dist.all_reduce(up, group=square["up"].get_group())
    dist.all_reduce(across, group=square["across"].get_group())
    both = torch.zeros(2 * n, dtype=torch.int64)
    dist.all_gather_into_tensor(both, torch.cat([up, across]))
    return both.tolist()


@partial(toy, others=("gloo",))  # its groups of one creation order only
def orders(rank, n):
    """Sub-groups that each rank makes in an order of its own."""
    pairs = [[0, 1], [1, 2], [2, 3], [0, 3]]
    mine = [pair for pair in pairs[rank:] + pairs[:rank] if rank in pair]
    groups = {tuple(p): dist.new_group(p, use_local_synchronization=True) for p in mine}
    tensors = {pair: torch.tensor([rank]) for pair in groups}
    works = [dist.all_reduce(tensors[p], group=groups[p], async_op=True) for p in groups]
    for work in reversed(works):
        work.wait()
    total = torch.tensor([sum(t.item() for t in tensors.values())])
    dist.all_reduce(total)
    return total.item()


@toy
def objects(rank, n):
    found = [None] * n
    dist.all_gather_object(found, {"rank": rank, "words": "x" * rank})
    told = [rank, "from", rank] if rank == 2 else [None] * 3
    dist.broadcast_object_list(told, src=2)
    mine = [None]
    dist.scatter_object_list(mine, [f"for {r}" for r in range(n)] if rank == 0 else None, src=0)
    gathered = [None] * n if rank == 1 else None
    dist.gather_object(mine[0], gathered, dst=1)
    assert mine == [f"for {rank}"]
    assert gathered in (None, [f"for {r}" for r in range(n)])
    return [found, told]


@toy
def checkpoints(rank, n):
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder, src=0)
    device_mesh = init_device_mesh("cpu", (n,))
    split = distribute_tensor(torch.arange(8.0 * n), device_mesh, [Shard(0)])
    state = {"split": split, "same": torch.full((3,), 7.0)}
    checkpoint.save(state, checkpoint_id=folder[0])
    empty = distribute_tensor(torch.zeros(8 * n), device_mesh, [Shard(0)])
    read = {"split": empty, "same": torch.zeros(3)}
    checkpoint.load(read, checkpoint_id=folder[0])
    return digest(read["split"].full_tensor(), read["same"])


@toy
def states(rank, n):
    """A state of rank 0 alone that all are to have; and one that is saved meanwhile."""
    net = model()
    fully_shard(net)
    torch.manual_seed(2)
    whole = {name: torch.randn(p.shape) for name, p in model().state_dict().items()}
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(net, whole if rank == 0 else {}, options=options)
    back = get_model_state_dict(net, options=StateDictOptions(full_state_dict=True))
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder, src=0)
    state = {"same": torch.full((3,), 7.0), "own": torch.full((2,), float(rank))}
    side = dist.new_group(backend=dist.get_backend())
    checkpoint.async_save(state, checkpoint_id=folder[0], process_group=side).result()
    read = {"same": torch.zeros(3)}
    checkpoint.load(read, checkpoint_id=folder[0])
    dist.destroy_process_group(side)
    told = [digest(*[tensor for _, tensor in sorted(back.items())]) if rank == 0 else None]
    dist.broadcast_object_list(told, src=0)
    return [told, read["same"].tolist()]


@toy
def functional(rank, n):
    joined = functional_all_reduce(torch.tensor([rank, 1]), "sum", dist.group.WORLD)
    return (joined + 0).tolist()


@toy
def compiled(rank, n):
    """A collective inside the graph, and one between two graphs."""

    def program(tensor):
        dist.all_reduce(tensor)
        dist.all_reduce(tensor, async_op=True).wait()
        return tensor + 1

    return torch.compile(program, backend="eager")(torch.tensor([rank, 1])).tolist()


@partial(toy, others=("gloo",))
def coalesced(rank, n):
    first, second = torch.tensor([rank]), torch.tensor([[1, rank]])
    with dist._coalescing_manager(device=torch.device("cpu")):
        dist.all_reduce(first)
        dist.all_reduce(second)
    return [first.tolist(), second.tolist()]


@toy
def neighbours(rank, n):
    box, far = torch.zeros(2), torch.zeros(1000)
    to, source = (rank + 1) % n, (rank - 1) % n
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, torch.tensor([rank, 1.0]), to),
            dist.P2POp(dist.irecv, box, source),
            dist.P2POp(dist.isend, torch.full((1000,), float(rank)), source),
            dist.P2POp(dist.irecv, far, to),
        ]
    )
    for work in works:
        work.wait()
    whole = torch.zeros(3 * n)
    dist.all_gather_into_tensor(whole, torch.cat([box, far[-1:]]))
    return whole.tolist()


def main():
    file, *backends = sys.argv[1:]
    warnings.simplefilter("ignore")
    faulthandler.dump_traceback_later(HANG_S, exit=True)
    found = {}
    for backend in backends:
        dist.init_process_group(backend)
        rank, n = dist.get_rank(), dist.get_world_size()
        assert dist.get_backend() == backend
        toys = {name: action for name, action in TOYS.items() if backend not in NOT_FOR[name]}
        found[backend] = {name: action(rank, n) for name, action in toys.items()}
        everywhere = [None] * n
        dist.all_gather_object(everywhere, json.dumps(found))
        assert len(set(everywhere)) == 1, everywhere
        if rank == 0:
            Path(file).write_text(json.dumps(found))
        dist.barrier()
        end_all()


def end_all():
    """End all groups after all models: see ``train`` of examples/train_ddp.py."""
    groups = list(dist.distributed_c10d._world.pg_map)
    gc.collect()
    dist.destroy_process_group()
    groups.clear()


if __name__ == "__main__":
    main()
