"""A rank of a PyTorch program: its connections, its first operation, its normal end.

    RANK=.. WORLD_SIZE=3 MASTER_ADDR=.. MASTER_PORT=.. python torch_ends.py

Each rank prints JSON and ends as a script does, without a word to its groups. Rank 0 has sent
to rank 1, which takes it a while later, and to rank 2, which never does.
"""

import faulthandler
import json
import os
import sys
import time
import warnings
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from fanfold.torch import runner
from fanfold.units import PS_PER_SECOND

DEADLINE_S = 2.0
LATE_S = 0.8 * DEADLINE_S
"""After so long the last rank is there: a deadline that begins then is seen."""
HANG_S = 90
N_GROUPS = 3
runner.CLOSE_PS = 2 * PS_PER_SECOND  # what nobody takes is waited for so long


def store_connections():
    """Connections of this process to the port of the store."""
    fds = list(Path("/proc/self/fd").iterdir())
    mine = {str(fd.readlink()) for fd in fds if fd.is_symlink()}
    port = f":{int(os.environ['MASTER_PORT']):04X}"
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path("/proc/self/net", table).read_text().splitlines()[1:]
    ]
    return sum(row[2].endswith(port) and f"socket:[{row[9]}]" in mine for row in rows)


def first_operation(rank, everyone):
    """Words and seconds of an operation that the last rank does not begin."""
    time.sleep(LATE_S if rank == everyone[-1] else 0)
    group = dist.new_group(
        everyone, timeout=timedelta(seconds=DEADLINE_S), use_local_synchronization=True
    )
    if rank == everyone[-1]:
        return ["", 0.0]
    began = time.monotonic()
    try:
        dist.all_reduce(torch.ones(1), group=group)
    except RuntimeError as error:
        return [str(error), time.monotonic() - began]
    return ["", time.monotonic() - began]


def main():
    warnings.filterwarnings("ignore", category=UserWarning)
    faulthandler.dump_traceback_later(HANG_S, exit=True)
    dist.init_process_group("fanfold", timeout=timedelta(seconds=60))
    rank, n = dist.get_rank(), dist.get_world_size()
    everyone = list(range(n))
    total = torch.tensor([rank])
    dist.all_reduce(total)
    told = {"sum": total.item(), "connections": []}
    for _ in range(N_GROUPS):
        dist.all_reduce(torch.ones(1), group=dist.new_group(everyone))
        told["connections"].append(store_connections())
    told["first"] = first_operation(rank, everyone)
    dist.barrier()
    if rank == 0:
        dist.isend(torch.tensor([7, 8]), 1)
        dist.isend(torch.tensor([9]), 2)
    if rank == 1:
        time.sleep(0.5)  # rank 0 ends meanwhile
        box = torch.zeros(2, dtype=torch.int64)
        dist.recv(box, 0)
        told["box"] = box.tolist()
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
