"""A rank that is killed once, and the same training after it, as ``torchrun`` restarts it.

    torchrun --max-restarts 1 --nproc-per-node 4 torch_restart.py FOLDER

In the first attempt the last rank kills itself in the midst; in the second rank 0 writes the
losses to FOLDER/losses.json, found by fanfold, then by gloo.
"""

import faulthandler
import json
import os
import signal
import sys
import warnings
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

HANG_S = 60
N_STEPS = 4


def losses(backend, *, dies_at=-1):
    """Losses of a few steps, the mean of all ranks."""
    dist.init_process_group(backend, timeout=timedelta(seconds=20))
    rank, n = dist.get_rank(), dist.get_world_size()
    pair = [dist.new_group([r, r ^ 1], use_local_synchronization=True) for r in [rank & ~1]]
    torch.manual_seed(1)
    net = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    torch.manual_seed(100 + rank)
    found = []
    for step in range(N_STEPS):
        if step == dies_at and rank == n - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        loss = net(torch.randn(6, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        whole = loss.detach().clone()
        dist.all_reduce(whole)
        dist.all_reduce(whole, group=pair[0])  # twice the same
        found.append(whole.item() / n / 2)
    del net
    dist.destroy_process_group()
    return found


def main():
    warnings.simplefilter("ignore")
    faulthandler.dump_traceback_later(HANG_S, exit=True)
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    ours = losses("fanfold", dies_at=2 if attempt == 0 else -1)
    gloo = losses("gloo")
    if os.environ["RANK"] == "0":
        told = {"attempt": attempt, "fanfold": ours, "gloo": gloo}
        (Path(sys.argv[1]) / "losses.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
