"""Ranks of a group of the PyTorch backend as threads, on the twin of a communicator."""

from datetime import timedelta

import torch.distributed as dist
from torch_world import Twin, run_ranks

from fanfold.topo.lab_fabric import leaf_spine
from fanfold.torch.group import FanfoldGroup
from fanfold.torch.placement import FanfoldOptions

FABRIC = leaf_spine(2, 1, 4)
N = 3


def in_group(action, n=N, seconds=20):
    """Outcomes of an action a rank, which gets its group and rank."""
    store = dist.HashStore()

    def rank_action(rank):
        own = FanfoldOptions(FABRIC, f"h{rank + 1}")
        timeout = timedelta(seconds=seconds)
        group = FanfoldGroup(lambda: store, rank, range(n), timeout, "test", own, Twin.build)
        try:
            return action(group, rank)
        finally:
            group.shutdown()

    return run_ranks(n, rank_action)


def options(kind, **fields):
    made = getattr(dist, kind)()
    for name, value in fields.items():
        setattr(made, name, value)
    return made
