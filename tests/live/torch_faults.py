"""What a rank of a PyTorch program sees when another asks for something else, sleeps, or dies.

    RANK=.. WORLD_SIZE=4 MASTER_ADDR=.. MASTER_PORT=.. python torch_faults.py

Each rank prints JSON, what was raised at each step; the last one dies in the midst.
"""

import faulthandler
import json
import os
import sys
import time
import warnings
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

DEADLINE_S = 2.0
HANG_S = 180


def said(action):
    """Words of what an action raises, and how long it took."""
    start = time.monotonic()
    try:
        action()
    except RuntimeError as error:
        return [str(error), time.monotonic() - start]
    return ["", time.monotonic() - start]


def tell(told):
    """Print, and die at once: the default group has lost a rank and would wait for it."""
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    os._exit(0)


def main():
    warnings.simplefilter("ignore")
    faulthandler.dump_traceback_later(HANG_S, exit=True)
    dist.init_process_group("fanfold", timeout=timedelta(seconds=60))
    rank, n = dist.get_rank(), dist.get_world_size()
    told = {}
    told["sizes"] = said(lambda: dist.all_reduce(torch.ones(5 + (rank == 1))))
    told["dtypes"] = said(
        lambda: dist.broadcast(
            torch.ones(4, dtype=torch.int32 if rank == 2 else torch.float32), 0
        )
    )
    total = torch.ones(3)
    dist.all_reduce(total)
    assert total.tolist() == [n] * 3  # refusals touched nothing, the group goes on

    short = timedelta(seconds=DEADLINE_S)
    left, sleepy, doomed = (dist.new_group(list(range(n))) for _ in range(3))
    for group in (left, sleepy, doomed):
        dist.all_reduce(torch.ones(1), group=group)
        group.set_timeout(short)  # it has formed, however slow the machine is
    work = dist.barrier(group=left, async_op=True) if rank != 2 else None
    dist.barrier()
    if work is None:
        dist.destroy_process_group(left)  # in the midst of a barrier, which then is none
    else:
        told["leaves"] = said(work.wait)

    if rank == 1:
        time.sleep(1.5 * DEADLINE_S)
    told["sleep"] = said(lambda: dist.barrier(group=sleepy))
    dist.barrier()  # the default group waits longer

    model = torch.nn.Linear(64, 64)
    model = DistributedDataParallel(model, process_group=doomed)
    model(torch.ones(2, 64)).sum().backward()
    loss = model(torch.ones(2, 64)).sum()
    if rank == n - 1:
        tell(told)
    told["death"] = said(loss.backward)
    rest = dist.new_group(list(range(n - 1)), use_local_synchronization=True)
    dist.all_reduce(total, group=rest)
    told["after"] = total.tolist()
    tell(told)


if __name__ == "__main__":
    main()
